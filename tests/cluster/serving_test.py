#!/usr/bin/env python3
"""Streams of 10 and 60 s through the gateway while the planner scales prefill and decode Deployments up and down, with a rolling restart in
between; and a step of the load."""

import json
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "browser"))

import chromium  # noqa: E402
from cluster_testing import limit_s, long, main, seconds_of  # noqa: E402
from live_testing import PROGRAM, Stream, until  # noqa: E402
from pods_testing import Clients, Planner, PodsThatServe, engine_pod, owner_of  # noqa: E402

ROLES = ("prefill", "decode")
TOKENS, LONG_TOKENS, TURNS = 500, 3000, 5
STEP = "linear:20,0,0.001,0"  # 20 ms a token.
SLO = {"ttft": "2s", "itl": "50ms", "goal": 0.99}
DRAINED_S, STEP_S = 2, 5  # From the last stream of a pod to its deletion; from a step of the load to the write of /scale.


def pools(bounds):
    return [{"name": role, "role": role, "kubernetes": f"deployment/{role}", **bounds} for role in ROLES]


class Serving(PodsThatServe):
    def start_roles(self, name, replicas, **shape):
        self.cluster.namespace(self, name)
        for role in ROLES:
            self.apply(name, owner_of(engine_pod(role, flags=("--role", role, "--engine", STEP), labels={"llm-d.ai/role": role}, **shape), replicas))
        gateway = self.gateway(name)
        self.until_serving(gateway, replicas)
        return gateway

    def until_serving(self, gateway, replicas):
        until(f"{replicas} pods of each role", lambda: self.phases(gateway) == ["serving"] * (2 * replicas))

    def until_streaming(self, gateway, clients):
        until("open streams", lambda: gateway.open_requests() >= len(clients.threads))

    def restart(self, name, gateway):
        """Replaces all pods by others that end 1 s after their deletion."""
        before = {replica["id"] for replica in gateway.overview()["replicas"]}
        for role in ROLES:
            self.cluster.kubectl("patch", "deployment", role, "-n", name, "-p", json.dumps(
                {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "engine", "lifecycle": None}]}}}}))
        until("new pods", lambda: not before & {replica["id"] for replica in gateway.overview()["replicas"]})

    def drains(self, planner, clients, since):
        """Seconds from the last stream of a pod, or from its mark, to its deletion, of each pod that the planner took away."""
        marked = {event["replica"]: event["time"] for event in planner.events("replica_step") if event["step"] == "mark"}
        ends = {}
        for stream in clients.streams:
            ends[stream.replica] = max(ends.get(stream.replica, 0), stream.ended_at)
        found = []
        with open(self.cluster.run + "/kubelet.jsonl", encoding="utf-8") as log:
            for event in map(json.loads, log):
                pod = event.get("pod")
                if event["event"] == "terminating" and event["t"] > since and pod in marked and pod in ends:
                    found.append(event["t"] - max(seconds_of(marked[pod]), ends[pod]))
        return found

    @long
    def test_no_stream_of_prefill_and_decode_is_cut(self):
        gateway = self.start_roles("roles", 1, grace_s=60, pre_stop_s=1)
        self.allow("roles")
        planner = Planner(self, "roles", gateway, 1, pools=pools, slo=SLO)
        clients = Clients(gateway.port, 8, TOKENS, "{} client, turn {}" + " word" * 200)
        long_stream = Stream(gateway.port, LONG_TOKENS, "a long one" + " word" * 200)
        self.until_streaming(gateway, clients)
        began = time.monotonic()
        for turn in range(TURNS):
            planner.target(3)
            self.until_serving(gateway, 3)
            until("streams from all decode pods", lambda: all(replica["open_requests"] for replica in gateway.overview()["replicas"]
                                                              if replica["id"].startswith("decode")))
            page = chromium.open_live_page(self, planner.port, 1280, 664) if turn == TURNS - 1 else None
            planner.target(1)
            if page:
                page.wait_for(r"/[1-9]\d* draining/.test(document.getElementById('tiles').textContent)")
                time.sleep(4)  # The chart of the replicas gets its next points.
                chromium.write_picture(page)
            self.until_serving(gateway, 1)
            if turn == 1:
                self.restart("roles", gateway)
                self.until_serving(gateway, 1)
                restarted = time.time()
        took = time.monotonic() - began
        broken = clients.end()
        long_stream.join()
        drains = self.drains(planner, clients, restarted)
        print(f"{len(clients.streams)} streams of {TOKENS} tokens in {took:.0f} s, {len(broken)} broken, beside one of {LONG_TOKENS}; "
              f"{len(drains)} drains, which ended {statistics.median(drains or [0]):.1f} s after the last stream in the median, and "
              f"{max(drains, default=0):.1f} s at most", file=sys.stderr)
        self.assertEqual(broken, [])
        self.assertTrue(long_stream.whole(LONG_TOKENS), f"{long_stream.status} {long_stream.fault} {long_stream.tokens()} tokens")
        self.assertGreater(len(clients.streams), 20)
        self.assertGreater(len(drains), 2)
        # A single one may wait for a core; see limit_s().
        self.assertLessEqual(statistics.median(drains), DRAINED_S)
        self.assertLessEqual(max(drains), limit_s(DRAINED_S))
        self.assertEqual({write["status"] for write in self.cluster.scale_writes("roles")} - {409}, {200})

    def test_the_same_without_drain_cuts_streams(self):
        gateway = self.start_roles("cut", 3)
        clients = Clients(gateway.port, 8, TOKENS, "{} client, turn {}" + " word" * 200)
        self.until_streaming(gateway, clients)
        for role in ROLES:
            self.cluster.kubectl("scale", "deployment", role, "-n", "cut", "--replicas=1")
        self.until_serving(gateway, 1)
        broken = clients.end()
        print(f"{len(clients.streams)} streams without drain, {len(broken)} broken", file=sys.stderr)
        self.assertNotEqual(broken, [])

    @long
    def test_a_step_of_the_load_is_followed_and_the_slo_is_met(self):
        # 8 sequences of 2 s a replica: 4 requests a second.
        engine = ("--max-sequences", "8", "--engine", STEP)
        gateway = self.start("step", 3, flags=engine, start_up="5s")
        self.allow("step")
        planner = Planner(self, "step", gateway, 3, slo=SLO, model="penstock-sim", start_up="5s", price=2.5,
                          engine={"max_sequences": 8, "block_size": 16, "kv_blocks": 12288, "model": STEP},
                          planner={"tick_interval": "1s", "throughput_interval": "4s", "stabilisation": "30s"})
        planner.target(3, 8)
        load = [PROGRAM, "load", f"http://127.0.0.1:{gateway.port}", "--input-tokens", "200", "--output-tokens", "100", "--expect",
                "ttft_p95=2s,itl_p95=50ms,errors=0,refused=0"]
        # A planner that knows less than a minute of traffic sees no step in it, only queues.
        subprocess.run([*load, "--rate", "4", "--duration", "65s"], check=True, stdout=subprocess.DEVNULL)
        before = len(self.cluster.scale_writes("step"))
        began = time.time()
        loaded = subprocess.run([*load, "--rate", "15", "--duration", "60s"], capture_output=True, text=True, check=False)
        first = min((write["at"] for write in self.cluster.scale_writes("step")[before:]), default=0)
        print(f"/scale was written {first - began:.1f} s after the step; {self.replicas('step')} replicas at its end\n{loaded.stdout}", file=sys.stderr)
        self.assertGreater(first, 0, "the planner did not scale")
        self.assertLess(first - began, min(3 * STEP_S, limit_s(STEP_S)))
        self.assertEqual(loaded.returncode, 0, loaded.stdout + loaded.stderr)


if __name__ == "__main__":
    main()
