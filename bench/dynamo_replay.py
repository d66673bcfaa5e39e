#!/usr/bin/env python3
"""Runs NVIDIA Dynamo's replay (PyPI, Apache-2.0) on the runs that Penstock is compared on, and writes a CSV of what it
reports: one line a run, in the columns of bench/dynamo-1.3.1.csv, which holds the figures of such a run and stands in
where PyPI cannot be reached.

    bench/dynamo_replay.py TRACE.jsonl[.xz] --out FILE.csv [--venv FOLDER]
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

VERSION = "1.3.1"
DEPENDENCIES = ["numpy", "pydantic", "scipy", "pyyaml", "msgspec", "transformers", "uvloop"]
TTFT_MS, ITL_MS = 2000.0, 50.0
SYNTHETIC_REQUESTS = 20_000  # of 100,000: its speed is the same, and a run takes seconds instead of half a minute
COLUMNS = ["work", "router", "replicas", "requests", "ttft_mean_ms", "itl_mean_ms", "ttft_p99_ms", "prefix_hit_ratio",
           "slo_attainment", "requests_per_s"]


def install(folder):
    """A virtual environment with the pinned release; installed once."""
    python = folder / "bin" / "python"
    stamp = folder / "installed"
    if stamp.exists() and stamp.read_text() == VERSION:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    print(f"dynamo: installing ai-dynamo {VERSION} from PyPI into {folder}", file=sys.stderr)
    venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"ai-dynamo-runtime=={VERSION}", *DEPENDENCIES], check=True)
    # Its other dependencies are for serving; replay needs none of them.
    subprocess.run([*pip, "--no-deps", f"ai-dynamo=={VERSION}"], check=True)
    stamp.write_text(VERSION)
    return python


def run(python, arguments, requests_wanted=True):
    with tempfile.TemporaryDirectory() as folder:
        report, lines = Path(folder, "report.json"), Path(folder, "requests.jsonl")
        command = [str(python), "-m", "dynamo.replay", *arguments, "--report-json", str(report)]
        if requests_wanted:
            command += ["--report-jsonl", str(lines)]
        done = subprocess.run(command, env={**os.environ, "DYN_LOG": "error"}, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, cwd=folder)
        if done.returncode != 0:
            raise RuntimeError(f"dynamo.replay exited with {done.returncode}: {done.stderr[-500:]}")
        summary = json.loads(report.read_text())
        requests = [json.loads(line) for line in lines.read_text().splitlines()] if requests_wanted else []
        return summary, requests


def row(work, router, replicas, summary, requests):
    met = sum(r["ttft_ms"] <= TTFT_MS and (r["itl_ms"] or 0.0) <= ITL_MS for r in requests)
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
    }


def compare(python, trace):
    engine = json.dumps({"block_size": 512, "num_gpu_blocks": 2000})
    modes = {"kv": "kv_router", "round-robin": "round_robin"}
    for router, replicas in [("kv", 2), ("kv", 3), ("kv", 4), ("kv", 6), ("kv", 8), ("round-robin", 2), ("round-robin", 8),
                             ("kv", 64)]:
        print(f"dynamo: Mooncake conversation, {replicas} replicas, {router}", file=sys.stderr)
        common = [str(trace), "--num-workers", str(replicas), "--router-mode", modes[router], "--trace-block-size", "512",
                  "--extra-engine-args", engine]
        # The list of requests takes time to write; speed is taken without it.
        _, requests = run(python, common) if replicas <= 8 else ({}, [])
        summary, _ = run(python, common, requests_wanted=False)
        yield row("mooncake", router, replicas, summary, requests)
    print(f"dynamo: {SYNTHETIC_REQUESTS} synthetic requests, 16 replicas, round-robin", file=sys.stderr)
    summary, _ = run(python, ["--input-tokens", "1000", "--output-tokens", "250", "--request-count", str(SYNTHETIC_REQUESTS),
                              "--arrival-interval-ms", "1", "--num-workers", "16", "--router-mode", "round_robin"],
                     requests_wanted=False)
    yield row("synthetic", "round-robin", 16, summary, [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--venv", type=Path, default=Path(__file__).resolve().parent.parent / ".cache" / "dynamo")
    arguments = parser.parse_args()
    try:
        python = install(arguments.venv)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"dynamo: cannot be installed ({error}); is python3-venv there, and PyPI reachable?", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        trace = arguments.trace.resolve()
        if trace.suffix == ".xz":
            plain = Path(folder, "trace.jsonl")
            plain.write_bytes(lzma.decompress(trace.read_bytes()))
            trace = plain
        rows = list(compare(python, trace))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with open(arguments.out, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"dynamo: wrote {arguments.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
