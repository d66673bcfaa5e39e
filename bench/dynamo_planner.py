#!/usr/bin/env python3
"""Runs the planner of NVIDIA Dynamo 1.6.1 in Dynamo's own replay, and prints SLO attainment and GPU-hours by optimization
target, which docs/policies.md compares with Penstock's imitations.

    bench/dynamo_planner.py TRACE.jsonl[.xz] [--venv FOLDER] [--runs N] [--record FILE.csv]

Two replicas at the start, at most eight, start-up 120 s, TTFT 2 s and ITL 50 ms per request. --record writes what the planner
saw and decided in the first 25 minutes with both loops and the Kalman predictor: the input of dynamo_sla_test.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from dynamo_replay import BLOCKS, ITL_MS, TTFT_MS, install, unpacked

# What the planner needs in addition to the replay.
DEPENDENCIES = ["filterpy", "pandas", "plotly", "pmdarima", "prometheus-api-client", "prophet", "scikit-learn"]
SLA = {"optimization_target": "sla", "enable_load_scaling": True}
TARGETS = {
    "throughput": {"optimization_target": "throughput"},
    "latency": {"optimization_target": "latency"},
    "load": {"optimization_target": "load", "prefill_scale_up_queue_tokens": 8192, "prefill_scale_down_queue_tokens": 512,
             "decode_scale_up_kv_rate": 80, "decode_scale_down_kv_rate": 40},
    "sla, load loop": {**SLA, "enable_throughput_scaling": False},
    "sla, throughput loop, Kalman": {**SLA, "enable_load_scaling": False, "enable_throughput_scaling": True, "load_predictor": "kalman"},
    "sla, both loops, constant": {**SLA, "enable_throughput_scaling": True, "load_predictor": "constant"},
    "sla, both loops, ARIMA": {**SLA, "enable_throughput_scaling": True, "load_predictor": "arima"},
    "sla, both loops, Kalman": {**SLA, "enable_throughput_scaling": True, "load_predictor": "kalman"},
}
RECORDED_TARGET, RECORDED_TICKS = "sla, both loops, Kalman", 300
COMMON = {"mode": "agg", "backend": "mocker", "max_gpu_budget": 8, "min_endpoint": 1, "live_dashboard_port": 0,
          "report_interval_hours": None, "ttft_ms": TTFT_MS, "itl_ms": ITL_MS, "decode_engine_num_gpu": 1}
CALL = """
import json, sys
from dynamo import replay
trace, planner, blocks = json.loads(sys.argv[1])
report = replay.run_trace_replay(trace, num_workers=2, router_mode="kv_router", trace_block_size=512,
                                 extra_engine_args={**blocks, "startup_time": 120.0}, planner_config=planner,
                                 capture_per_request=True)
requests = [[one["ttft_ms"], one["itl_ms"]] for one in report.per_request]
with open(sys.argv[2], "w") as file:
    json.dump({"requests": requests, "gpu_hours": report.summary["gpu_hours"], "ticks": report.planner.ticks}, file, default=str)
"""


def run(python, trace, target):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "report.json")
        arguments = json.dumps([str(trace), {**COMMON, **TARGETS[target]}, BLOCKS])
        subprocess.run([str(python), "-c", CALL, arguments, str(out)], check=True, cwd=folder, stdout=subprocess.DEVNULL,
                       env={**os.environ, "DYN_LOG": "error"})
        return json.loads(out.read_text())


def record(ticks, path):
    def text(value):
        return "" if value is None else f"{value:.9g}"

    with open(path, "w", encoding="utf-8") as file:
        for tick in ticks[:RECORDED_TICKS]:
            seen, effects = tick["input"], tick["effects"]
            counts, notes, target = seen["worker_counts"], effects["diagnostics"], effects["scale_to"]
            cells = [seen["now_s"], counts["ready_num_decode"], counts["expected_num_decode"],
                     target and target["num_decode"], notes["estimated_ttft_ms"], notes["estimated_itl_ms"],
                     notes["throughput_lower_bound_decode"], notes["engine_rps_decode"]]
            print("tick", *map(text, cells), notes["load_decision_reason"] or "", sep=",", file=file)
            if traffic := seen["traffic"]:
                print("traffic", *(text(traffic[key] or 0) for key in ("duration_s", "num_req", "isl", "osl", "kv_hit_rate")),
                      sep=",", file=file)
            for engine in seen["fpm_observations"]["decode"] or []:
                passed = engine["metrics"]
                scheduled, queued = passed["scheduled_requests"], passed["queued_requests"]
                print("engine", engine["worker_id"], text(passed["wall_time"]),
                      *(scheduled[key] for key in ("num_prefill_requests", "sum_prefill_tokens", "sum_prefill_kv_tokens",
                                                   "num_decode_requests", "sum_decode_kv_tokens")),
                      *(queued[key] for key in ("num_prefill_requests", "sum_prefill_tokens", "num_decode_requests",
                                                "sum_decode_kv_tokens")), sep=",", file=file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--record", type=Path)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("--venv", type=Path, default=cache / "penstock-dynamo-replay" / "planner")
    arguments = parser.parse_args()
    python = install(arguments.venv)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *DEPENDENCIES], check=True)
    with tempfile.TemporaryDirectory() as folder:
        trace = unpacked(arguments.trace, folder)
        for target in [RECORDED_TARGET] if arguments.record else TARGETS:
            for _ in range(arguments.runs):
                report = run(python, trace, target)
                requests = report["requests"]
                met = sum(ttft <= TTFT_MS and (itl or 0.0) <= ITL_MS for ttft, itl in requests)
                print(f"{target}: {100.0 * met / len(requests):.1f} % at {report['gpu_hours']:.2f} GPU-hours", flush=True)
            if arguments.record:
                record(report["ticks"], arguments.record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
