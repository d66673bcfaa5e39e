#!/usr/bin/env python3
"""Runs NVIDIA Dynamo's replay (PyPI, Apache-2.0) on the runs that Penstock is compared on, and writes a CSV of what it
reports: one line a run, in the columns of bench/dynamo-1.6.1.csv, which holds the figures of such a run and stands in
where PyPI cannot be reached.

    bench/dynamo_replay.py TRACE.jsonl[.xz] --out FILE.csv [--venv FOLDER] [--speed]

--speed leaves out the runs of which only the results are compared.
"""

import argparse
import csv
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

VERSION = "1.6.1"
# The replay of 1.6.1 runs on the engine of AISimulate, whose releases on PyPI are nightly builds.
AISIMULATE = "0.13.0.dev202610270000000085"
DEPENDENCIES = ["aiohttp", "ijson", "msgpack", "msgspec", "munch", "numpy", "plotext", "prettytable", "prometheus-client",
                "psutil<8", "pydantic", "pyyaml", "pyzmq", "transformers", "uvloop", "kubernetes<33"]
TTFT_MS, ITL_MS = 2000.0, 50.0
COLUMNS = ["work", "router", "replicas", "requests", "ttft_mean_ms", "itl_mean_ms", "ttft_p99_ms", "prefix_hit_ratio",
           "slo_attainment", "requests_per_s", "requests_per_cpu_s"]
BLOCKS = {"engine": {"block_size": 512, "num_gpu_blocks": 2000}}
MODES = {"kv": "kv_router", "round-robin": "round_robin"}
# One call in the virtual environment. Its CPU seconds include the reading of the trace and the report.
CALL = """
import json, sys, time
from dynamo import replay
function, arguments, options = json.loads(sys.argv[1])
start = time.process_time()
report = getattr(replay, function)(*arguments, **options)
cpu_s = time.process_time() - start
requests = [[one["ttft_ms"], one["itl_ms"]] for one in report.per_request or []]
with open(sys.argv[2], "w") as file:
    json.dump({"summary": report.summary, "requests": requests, "cpu_s": cpu_s}, file)
"""


def install(folder):
    """A virtual environment with the pinned releases; installed once."""
    python = folder / "bin" / "python"
    stamp = folder / "installed"
    if stamp.exists() and stamp.read_text() == AISIMULATE:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    print(f"dynamo: installing ai-dynamo {VERSION} from PyPI into {folder}", file=sys.stderr)
    venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    subprocess.run([*pip, *DEPENDENCIES], check=True)
    # Its other dependencies are for serving; replay needs none of them.
    subprocess.run([*pip, "--no-deps", f"ai-dynamo=={VERSION}", f"ai-dynamo-runtime=={VERSION}", f"aisimulate=={AISIMULATE}"],
                   check=True)
    stamp.write_text(AISIMULATE)
    return python


def run(python, function, *arguments, **options):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "report.json")
        done = subprocess.run([str(python), "-c", CALL, json.dumps([function, arguments, options]), str(out)],
                              env={**os.environ, "DYN_LOG": "error"}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, cwd=folder)
        if done.returncode != 0:
            raise RuntimeError(f"dynamo.replay failed: {done.stderr[-500:]}")
        return json.loads(out.read_text())


def row(work, router, replicas, report, requests):
    summary = report["summary"]
    met = sum(ttft <= TTFT_MS and (itl or 0.0) <= ITL_MS for ttft, itl in requests)
    return {
        "work": work,
        "router": router,
        "replicas": replicas,
        "requests": summary["num_requests"],
        "ttft_mean_ms": round(summary["mean_ttft_ms"], 2),
        "itl_mean_ms": round(summary["mean_itl_ms"], 4),
        "ttft_p99_ms": round(summary["p99_ttft_ms"], 1),
        "prefix_hit_ratio": round(summary["prefix_cache_reused_ratio"], 4),
        "slo_attainment": round(met / len(requests), 4) if requests else "",
        "requests_per_s": round(summary["num_requests"] / summary["wall_time_ms"] * 1000.0),
        "requests_per_cpu_s": round(summary["num_requests"] / report["cpu_s"]),
    }


def compare(python, trace, speed_only):
    mooncake = [("kv", 2), ("kv", 3), ("kv", 4), ("kv", 6), ("kv", 8), ("round-robin", 2), ("round-robin", 8), ("kv", 64)]
    for router, replicas in mooncake:
        if speed_only and (router, replicas) not in (("kv", 8), ("kv", 64)):
            continue
        print(f"dynamo: Mooncake conversation, {replicas} replicas, {router}", file=sys.stderr)
        options = {"num_workers": replicas, "router_mode": MODES[router], "trace_block_size": 512, "extra_engine_args": BLOCKS}
        # The list of requests takes time to make; speed is taken without it.
        listed = [] if speed_only else run(python, "run_trace_replay", str(trace), capture_per_request=True, **options)["requests"]
        yield row("mooncake", router, replicas, run(python, "run_trace_replay", str(trace), **options), listed)
    print("dynamo: 100,000 synthetic requests, 16 replicas, round-robin", file=sys.stderr)
    report = run(python, "run_synthetic_trace_replay", 1000, 250, 100_000, arrival_interval_ms=1.0, num_workers=16,
                 router_mode="round_robin", capture_per_request=not speed_only)
    yield row("saturated", "round-robin", 16, report, report["requests"])


def unpacked(trace, folder):
    """The path of a trace as the peer reads it: unpacked into the folder if it is compressed."""
    trace = trace.resolve()
    if trace.suffix != ".xz":
        return trace
    plain = Path(folder, "trace.jsonl")
    plain.write_bytes(lzma.decompress(trace.read_bytes()))
    return plain


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--speed", action="store_true")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("--venv", type=Path, default=cache / "penstock-dynamo-replay" / VERSION)
    arguments = parser.parse_args()
    try:
        python = install(arguments.venv)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"dynamo: cannot be installed ({error}); is python3-venv there, and PyPI reachable?", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        rows = list(compare(python, unpacked(arguments.trace, folder), arguments.speed))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with open(arguments.out, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"dynamo: wrote {arguments.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
