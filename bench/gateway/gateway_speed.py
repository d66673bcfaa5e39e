#!/usr/bin/env python3
"""Measures the gateway beside nginx, sglang-router, vllm-router and Envoy, and as Envoy's endpoint picker, in one run:
the same replicas, the same load, in turns. Prints a table and writes the figures as JSON.

    bench/gateway/gateway_speed.py BUILD_DIR [--repeats 3] [--only post,long,stream,hot] [--seconds 4]

All figures are medians over the repeats. CPU is user and system time of a gateway's processes. PENSTOCK names another
binary than the build's."""

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import KEY, Gateway, Replicas, find_tools, get
from table import print_table

HERE = Path(__file__).resolve().parent
CONNECTIONS = 32
STREAMS = 1000


def say(text):
    print(f"gateway_speed: {text}", file=sys.stderr, flush=True)


def wrk(tools, port, seconds, size, prompts, shared):
    command = [tools["wrk"], "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "10s", "-s", str(HERE / "chat.lua"),
               f"http://127.0.0.1:{port}", "--", str(size), str(prompts), str(shared), KEY]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=seconds + 60, check=True)
    return json.loads(done.stdout.strip().split("\n")[-1])


def measure_posts(tools, gateway, seconds, size, prompts, shared):
    """Chats that are not streamed, by wrk."""
    before, picker_before = gateway.program.cpu_s(), gateway.picker.cpu_s() if gateway.picker else 0.0
    seen = wrk(tools, gateway.port, seconds, size, prompts, shared)
    seen["cpu_us"] = (gateway.program.cpu_s() - before) * 1e6 / max(1, seen["requests"])
    if gateway.picker:
        seen["picker_cpu_us"] = (gateway.picker.cpu_s() - picker_before) * 1e6 / max(1, seen["requests"])
    seen["per_s"] = seen["requests"] / seen["seconds"]
    return seen


def stream_client(build, port, *flags):
    command = [str(build / "bench" / "stream_client"), "--port", str(port), "--key", KEY, *map(str, flags)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def measure_streams(build, port, seconds, program=None, picker=None):
    """A thousand streams; `program` is the gateway's, None where there is none."""
    idle_kib = program.rss_kib() if program else 0
    with stream_client(build, port, "--streams", STREAMS, "--tokens", 2000, "--ramp-s", 3, "--window-s", seconds) as client:
        seen = {}
        for line in client.stdout:
            cpu_s = program.cpu_s() if program else 0.0
            kib = program.rss_kib() if program else 0
            picker_s = picker.cpu_s() if picker else 0.0
            told = json.loads(line)
            if told["phase"] == "open":
                seen["began_s"], seen["picker_began_s"] = cpu_s, picker_s
            else:
                tokens = max(1, told["tokens"])
                picked = {"picker_cpu_us": (picker_s - seen.get("picker_began_s", 0.0)) * 1e6 / tokens} if picker else {}
                seen = {**told, "cpu_us": (cpu_s - seen.get("began_s", 0.0)) * 1e6 / tokens,
                        "kib_per_stream": (kib - idle_kib) / STREAMS, **picked}
    return seen


def measure_hot_prefix(build, gateway, replicas):
    """One prompt, 60 streams at any time: who gets them, and how many found the prompt in a cache, as ours believes."""
    before = replicas.counts()
    with stream_client(build, gateway.port, "--streams", 60, "--tokens", 10, "--requests", 315,
                       "--prompt-bytes", 8000) as client:
        told = json.loads(client.stdout.read().strip().split("\n")[-1])
    seen = {"per_replica": [now - then for now, then in zip(replicas.counts(), before)], "faults": told["faults"]}
    if gateway.admin:
        events = json.loads(get(gateway.admin, "/penstock/v1/traffic?limit=20000")[1])["events"]
        first = [event for event in events if event[0] == "first_token"]
        seen["hits"] = sum(event[-1] > 0 for event in first) / max(1, len(first))
    return seen


class Bench:
    def __init__(self, build, tools, folder, repeats, seconds):
        self.build, self.tools, self.folder, self.repeats, self.seconds = build, tools, folder, repeats, seconds
        self.names = [name for name in Gateway.NAMES if all(tool in tools for tool in Gateway.TOOLS.get(name, (name,)))]

    def replicas(self, rate=20):
        return Replicas(str(self.build / "bench" / "mock_replica"), self.folder, rate=rate)

    def order(self, repeat):
        """Each repeat begins with another one, so that no gateway always has the same neighbour."""
        at = repeat % len(self.names)
        return self.names[at:] + self.names[:at]

    def posts(self, what, size, prompts, shared):
        if "wrk" not in self.tools:
            say(f"{what}: left out, there is no wrk")
            return {}
        replicas, gateways, seen = self.replicas(), {}, {}
        try:
            for name in self.names:
                gateways[name] = Gateway(name, self.tools, replicas, self.folder)
            for repeat in range(self.repeats):
                direct = wrk(self.tools, replicas.ports[0], max(1, self.seconds // 2), size, prompts, shared)
                direct["per_s"] = direct["requests"] / direct["seconds"]
                seen.setdefault("direct", []).append(direct)
                for name in self.order(repeat):
                    if repeat == 0:
                        wrk(self.tools, gateways[name].port, 1, size, prompts, shared)
                    figures = measure_posts(self.tools, gateways[name], self.seconds, size, prompts, shared)
                    seen.setdefault(name, []).append(figures)
                    say(f"{what} {name}: {figures['cpu_us']:.1f} us CPU, {figures['per_s']:.0f}/s, "
                        f"p99 {figures['p99_ms']:.2f} ms, {figures['faults']} faults")
        finally:
            for gateway in gateways.values():
                gateway.end()
            replicas.end()
        return seen

    def streams(self):
        replicas, seen = self.replicas(), {}
        try:
            for repeat in range(self.repeats):
                seen.setdefault("direct", []).append(measure_streams(self.build, replicas.ports[0], self.seconds))
                for name in self.order(repeat):
                    # A fresh one each time: memory that an earlier run left behind would hide what a stream takes.
                    gateway = Gateway(name, self.tools, replicas, self.folder, streaming=True)
                    try:
                        figures = measure_streams(self.build, gateway.port, self.seconds, gateway.program,
                                                  gateway.picker)
                    finally:
                        gateway.end()
                    seen.setdefault(name, []).append(figures)
                    say(f"stream {name}: {figures['cpu_us']:.1f} us CPU a token, {figures['tokens_per_s']} tokens/s, added "
                        f"p99 {figures['added_p99_ms']:.2f} ms, TTFT p50 {figures['ttft_p50_ms']:.2f} ms, "
                        f"{figures['kib_per_stream']:.1f} KiB a stream")
        finally:
            replicas.end()
        return seen

    def hot_prefix(self):
        seen = {}
        for name in self.names:
            replicas = self.replicas()
            try:
                gateway = Gateway(name, self.tools, replicas, self.folder, streaming=True)
                try:
                    seen[name] = [measure_hot_prefix(self.build, gateway, replicas)]
                finally:
                    gateway.end()
            finally:
                replicas.end()
            say(f"hot prefix {name}: {seen[name][0]['per_replica']}")
        return seen


def middle(runs):
    """The median of each figure over the repeats."""
    return {key: statistics.median(run[key] for run in runs) if isinstance(runs[0][key], (int, float)) else runs[0][key]
            for key in runs[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--venv", type=Path, help="where the routers are; default: bench/gateway-peers in the build")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=4, help="of each measurement")
    parser.add_argument("--only", default="post,long,stream,hot")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("gateway_speed: ended from outside"))
    build = given.build.resolve()
    tools = find_tools(build, given.venv or build / "bench" / "gateway-peers")
    for name in (*Gateway.NAMES, "wrk"):
        if not all(tool in tools for tool in Gateway.TOOLS.get(name, (name,))):
            say(f"{name} is not here and is left out")
    if "penstock" not in tools:
        sys.exit("gateway_speed: there is no penstock to measure; build it first")
    parts = given.only.split(",")
    with tempfile.TemporaryDirectory(prefix="gateway_speed") as folder:
        bench = Bench(build, tools, Path(folder), given.repeats, given.seconds)
        runs = {}
        if "post" in parts:
            runs["post"] = bench.posts("post", size=1024, prompts=64, shared=0)
        if "long" in parts:
            runs["long"] = bench.posts("long", size=220_000, prompts=16, shared=110_000)
        if "stream" in parts:
            runs["stream"] = bench.streams()
        if "hot" in parts:
            runs["hot"] = bench.hot_prefix()
    figures = {part: {name: middle(of) for name, of in seen.items()} for part, seen in runs.items()}
    out = build / "bench" / "gateway_speed.json"
    rows = print_table(figures)
    out.write_text(json.dumps({"figures": figures, "rows": rows, "runs": runs}, indent=1) + "\n")
    say(f"all figures are in {out}")


if __name__ == "__main__":
    main()
