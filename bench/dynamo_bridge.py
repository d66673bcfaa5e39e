#!/usr/bin/env python3
"""Judges policies in two simulators: NVIDIA Dynamo's replay 1.6.1 and `penstock replay`, on the same file, engine, start and
SLO. In Dynamo's replay Penstock's policies are its scaling policy: `penstock decide` behind dynamo_policy.py. Dynamo's own
planner runs as it is there, and as Penstock's imitation here. Prints a page of Markdown, or writes it.

    make judged-by-dynamo
    bench/dynamo_bridge.py [--traces FOLDER] [--penstock PROGRAM] [--out FILE.md] [--minutes N] [--only mooncake|azure]
"""

import argparse
import csv
import json
import lzma
import os
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path

from dynamo_planner import DEPENDENCIES, TARGETS
from dynamo_planner import run as run_planner
from dynamo_replay import BLOCKS, ITL_MS, TTFT_MS, VERSION, install, run

ROOT = Path(__file__).resolve().parents[1]
START, MOST, START_UP_S = 2, 8, 120.0
FLEET = ["--max-replicas", str(MOST), "--start-up", f"{START_UP_S:.0f}s", "--router", "kv"]
BLOCK = BLOCKS["engine"]["block_size"]
# Name on the page, optimization target of Dynamo's planner, Penstock's imitation of it.
PLANNERS = [("Dynamo `throughput` (its default)", "throughput", "dynamo-throughput"), ("Dynamo `latency`", "latency", "dynamo-latency"),
            ("Dynamo `load`", "load", "dynamo-load"), ("Dynamo `sla`, load loop", "sla, load loop", "dynamo-sla-load"),
            ("Dynamo `sla`, throughput loop, Kalman", "sla, throughput loop, Kalman", "dynamo-sla-throughput"),
            ("Dynamo `sla`, both loops, Kalman", "sla, both loops, Kalman", "dynamo-sla")]
DECIDED = ["penstock", "penstock:goal=0.95", "llmd-slo", "llmd-queue", "llmd-queue-guard", "llmd-pool-saturation", "llmd-token-aware",
           "llmd-saturation-v2", "hpa-rate", "hpa-concurrency", "keda-tokens", "token-velocity"]
STATIC = [2, 3, 4, 6, 8]
PLANNER_RUNS = 3
CAPTION = {"mooncake": "Mooncake conversation", "azure": "Azure 2023 code"}


def mooncake_rows(folder):
    with lzma.open(folder / "mooncake_conversation.jsonl.xz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def azure_rows(folder):
    """The trace of Azure in the format of Mooncake; no two prompts share a block."""
    with lzma.open(folder / "azure2023_code.csv.xz", "rt", encoding="utf-8") as file:
        rows = [(datetime.fromisoformat(row["TIMESTAMP"][:26]), int(row["ContextTokens"]), int(row["GeneratedTokens"]))
                for row in csv.DictReader(file)]
    made, block = [], 0
    for at, prompt, output in rows:
        blocks = -(-max(1, prompt) // BLOCK)
        made.append({"timestamp": round((at - rows[0][0]).total_seconds() * 1000.0, 3), "input_length": max(1, prompt),
                     "output_length": max(1, output), "hash_ids": list(range(block, block + blocks))})
        block += blocks
    return made


def write_trace(rows, minutes, path):
    kept = [row for row in rows if minutes is None or row["timestamp"] < minutes * 60_000]
    path.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    return path


def attainment(requests):
    return sum(ttft <= TTFT_MS and (itl or 0.0) <= ITL_MS for ttft, itl in requests) / len(requests)


def decided_in_dynamo(python, penstock, trace, policy, capacity=None):
    """Attainment, GPU-hours, and the targets over time. `capacity` of one replica, by the names of --capacity, for policies that need it."""
    known = ["--capacity", ",".join(f"{name}={value}" for name, value in capacity.items())] if capacity else []
    arguments = {"command": [str(penstock), "decide", "--policy", policy, *FLEET, *known], "trace": str(trace),
                 "kv_tokens": BLOCK * BLOCKS["engine"]["num_gpu_blocks"],
                 "options": {"extra_engine_args": {**BLOCKS, "startup_time": START_UP_S}, "num_workers": START,
                             "router_mode": "kv_router", "trace_block_size": BLOCK}}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "report.json")
        done = subprocess.run([str(python), str(ROOT / "bench" / "dynamo_policy.py"), json.dumps(arguments), str(out)],
                              env={**os.environ, "DYN_LOG": "error"}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{policy} in dynamo.replay failed: {done.stderr[-500:]}")
        report = json.loads(out.read_text())
    return attainment(report["requests"]), report["gpu_hours"], report["targets"]


def static_in_dynamo(python, trace, replicas):
    report = run(python, "run_trace_replay", str(trace), num_workers=replicas, router_mode="kv_router", trace_block_size=BLOCK,
                 extra_engine_args=BLOCKS, capture_per_request=True)
    return attainment(report["requests"]), report["summary"]["gpu_hours"]


def in_penstock(penstock, trace, policies, replicas=START):
    """Attainment and GPU-hours by policy, and the capacity of one replica, None if no policy needs it."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "result.json")
        subprocess.run([str(penstock), "replay", str(trace), "--policy", ",".join(policies), "--replicas", str(replicas), *FLEET,
                        "--quiet", "--json", str(out)], check=True)
        report = json.loads(out.read_text())
    return {result["policy"]: (result["slo_attainment"], result["gpu_hours"]) for result in report["results"]}, \
        report["options"]["pools"][0].get("capacity")


def rows_of(python, planner_python, penstock, trace):
    for row in compare(python, planner_python, penstock, trace):
        print("bridge:", *row, file=sys.stderr, flush=True)
        yield row


def compare(python, planner_python, penstock, trace):
    here, capacity = in_penstock(penstock, trace, DECIDED + [imitation for _, _, imitation in PLANNERS])
    for policy in DECIDED:
        yield f"`{policy}`", [decided_in_dynamo(python, penstock, trace, policy, capacity)[:2]], here[policy]
    for name, target, imitation in PLANNERS:
        reports = [run_planner(planner_python, trace, target) for _ in range(PLANNER_RUNS)]
        yield name, [(attainment(report["requests"]), report["gpu_hours"]) for report in reports], here[imitation]
    for replicas in STATIC:
        yield f"{replicas} replicas", [static_in_dynamo(python, trace, replicas)], \
            in_penstock(penstock, trace, ["static"], replicas)[0]["static"]


def agreement(rows):
    """How far the two simulators differ on what neither policy nor snapshot takes part in, and on the planner."""
    fixed = max(abs(there[0][0] - here[0]) for name, there, here in rows if name.endswith(" replicas"))
    own_there, own_here = next((there[0], here) for name, there, here in rows if name == "`penstock`")
    return (f"Attainment of the fixed fleets differs by at most {fixed * 100:.2f} points between the simulators, that of `penstock` by "
            f"{abs(own_there[0] - own_here[0]) * 100:.2f} points; its GPU-hours in Dynamo's replay are {own_there[1] / own_here[1]:.2f}× those here.")


def span(figures):
    least, most = min(figures, key=float), max(figures, key=float)
    return least if least == most else f"{least} to {most}"


def table(rows):
    yield "| policy | Dynamo's replay: attainment | GPU-hours | `penstock replay`: attainment | GPU-hours |"
    yield "|---|---:|---:|---:|---:|"
    for name, there, here in rows:
        kept, hours = span([f"{run[0] * 100:.1f}" for run in there]), span([f"{run[1]:.2f}" for run in there])
        yield f"| {name} | {kept} % | {hours} | {here[0] * 100:.1f} % | {here[1]:.2f} |"


def page(python, planner_python, penstock, traces, minutes):
    yield f"""# Judged by Dynamo's replay

Written by `make judged-by-dynamo`: Penstock's policies decide in the replay of NVIDIA Dynamo {VERSION}, a simulator that this project
did not write, beside Dynamo's own planner. The same runs in `penstock replay` follow in the last two columns.

In Dynamo's replay a policy of Penstock is the `scaling_policy`: at each tick of 5 s, `bench/dynamo_policy.py` turns the snapshot of the replay into an
observation for [`penstock decide`](decide.md) and returns the target. The planner of Dynamo runs there as it is, and here as the policies `dynamo-*`
([Policies](policies.md)). Policies that need the capacity of a replica have that of the load test of `penstock replay` in both.

- Both read the same file: {START} replicas at the start, at most {MOST}, start-up {START_UP_S:.0f} s, `polynomial` step times, blocks of {BLOCK} tokens,
  {BLOCKS["engine"]["num_gpu_blocks"]:,} per replica, KV router. SLO: TTFT {TTFT_MS / 1000:.0f} s and mean ITL {ITL_MS:.0f} ms, both, for each request.
- Dynamo's replay reports no single requests to a policy. The bridge takes arrivals, prompts and lengths of answers from the trace, as a gateway sees
  them, and the number and mean latencies of ends from the replay: a policy sees no latency of a single request there, and `llmd-slo` no p90.
- The snapshot has the state at the last pass of each engine, `penstock replay` that of the moment. Rules on short queues, such as `llmd-queue-guard` and
  `llmd-saturation-v2`, see other queues for this reason.
- Dynamo's replay with its KV router differs from run to run, and its planner amplifies that: the rows of that planner have the least and the most of
  {PLANNER_RUNS} runs. All other rows are one run.
"""
    for name, trace in traces:
        yield f"## {CAPTION[name]}{'' if minutes is None else f', first {minutes:g} minutes'}\n"
        rows = list(rows_of(python, planner_python, penstock, trace))
        yield from table(rows)
        yield f"\n{agreement(rows)}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=ROOT.parent / "shared" / "traces")
    parser.add_argument("--penstock", type=Path, default=ROOT / "build" / "release" / "penstock")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--only", choices=sorted(CAPTION))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("--venv", type=Path, default=cache / "penstock-dynamo-replay")
    arguments = parser.parse_args()
    try:
        python, planner_python = install(arguments.venv / VERSION), install(arguments.venv / "planner")
        subprocess.run([str(planner_python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *DEPENDENCIES], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"dynamo: cannot be installed ({error}); is python3-venv there, and PyPI reachable?", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        read = {"mooncake": mooncake_rows, "azure": azure_rows}
        traces = [(name, write_trace(rows(arguments.traces), arguments.minutes, Path(folder, f"{name}.jsonl")))
                  for name, rows in read.items() if arguments.only in (None, name)]
        text = "\n".join(page(python, planner_python, arguments.penstock.resolve(), traces, arguments.minutes))
    if arguments.out is None:
        print(text, end="")
    else:
        arguments.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
