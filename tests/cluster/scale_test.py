#!/usr/bin/env python3
"""A planner of a pool of 451 pods, beside 49 other Deployments, with 10,000 forward pass metrics a second: what it costs.

The pods are those of KWOK. many_engines.py listens on all their addresses, so each of them answers as a real engine does, and publishes. Limits are
CPU time and memory of the planner's process and shares of its own figures, so that they hold on a busy machine."""

import os
import subprocess
import sys
import time

from cluster_testing import HERE, limit_s, main, quiet
from live_testing import PROGRAM, Engine, ask, series, until
from pods_testing import Planner, PodsThatServe, kwok_pod, owner_of

OTHERS = 49  # Deployments of one pod.
PODS = 500 - OTHERS
STEP = "linear:43,0,0.001,0"  # 43 ms a token: 451 pods publish 10,480 messages a second.
SECONDS = 30  # Of the measurement.
KNOWN_S = 2  # From the start of the planner until it knows all pods.


def sums(text):
    """The sum of all series of each metric."""
    found = {}
    for line in text.splitlines():
        if line and line[0] != "#":
            name = line.split("{")[0].split(" ")[0]
            found[name] = found.get(name, 0.0) + float(line.rsplit(" ", 1)[1])
    return found


def share_within(text, before, name, bound):
    """The share of the values of a histogram since `before` that are at most `bound`."""
    def read(of):
        buckets = {float(labels.split('"')[1]): count for labels, count in series(of, name + "_bucket").items()}
        return buckets[bound], buckets[float("inf")]
    return [now - then for now, then in zip(read(text), read(before))]


class Scale(PodsThatServe):
    def metrics(self, planner, path="/metrics"):
        return ask(planner.port, "GET", path)[2]

    def received(self, planner):
        counts = series(self.metrics(planner, "/metrics/engines"), "penstock_fpm_messages_received_total")
        if len(counts) < PODS:
            self.skipTest(f"the machine is too busy: {PODS - len(counts)} pods have not answered the planner in time")
        return sum(counts.values())

    def cpu(self, planner):
        """Seconds of CPU time that the process has used."""
        with open(f"/proc/{planner.process.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self, planner):
        with open(f"/proc/{planner.process.pid}/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) / 1000 for line in file if line.startswith("VmHWM"))

    def start_pods(self, name):
        self.cluster.namespace(self, name)
        owners = [owner_of(kwok_pod(app), count) for app, count in [("engines", PODS), *((f"other-{i}", 1) for i in range(OTHERS))]]
        for owner in owners:
            owner["spec"]["template"]["metadata"]["labels"]["fleet"] = "engines"
        self.cluster.kubectl("apply", "-n", name, "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": owners})
        engine = Engine(self, "--fpm-port", "0", "--engine", STEP, "--max-sequences", "1024", "--kv-blocks", "100000")
        engines = subprocess.Popen([sys.executable, "-B", str(HERE / "many_engines.py"), str(engine.port)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(engines.stdout.close)
        self.addCleanup(engines.wait)
        self.addCleanup(engines.kill)
        self.port = int(engines.stdout.readline().split()[-1])
        gateway = self.gateway(name, health_interval="5s")
        until("serving pods", lambda: self.phases(gateway) == ["serving"] * (PODS + OTHERS))
        return gateway

    @quiet
    def test_500_pods_and_10000_messages_a_second_are_cheap(self):
        gateway = self.start_pods("scale")
        self.allow("scale")
        load = subprocess.Popen([PROGRAM, "load", f"http://127.0.0.1:{gateway.port}", "--rate", "4", "--duration", "600s", "--input-tokens", "200",
                                 "--output-tokens", "100"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(load.wait)
        self.addCleanup(load.kill)
        began = time.monotonic()
        planner = Planner(self, "scale", gateway, PODS, slo={"ttft": "2s", "itl": "50ms", "goal": 0.99}, model="penstock-sim",
                          engine={"max_sequences": 1024, "block_size": 16, "kv_blocks": 100000, "model": STEP}, planner={"tick_interval": "1s"})
        until("all pods", lambda: series(self.metrics(planner), "penstock_replicas").get('pool="chat",state="ready"') == PODS)
        took, cost = time.monotonic() - began, self.cpu(planner)
        until("telemetry of all pods", lambda: sums(self.metrics(planner)).get("penstock_engine_up") == PODS)
        until("messages of all pods", lambda: PODS == sum(
            value > 0 for value in series(self.metrics(planner, "/metrics/engines"), "penstock_fpm_messages_received_total").values()))
        time.sleep(5)
        text, spent, at = self.metrics(planner), self.cpu(planner), time.monotonic()
        received = self.received(planner)
        time.sleep(SECONDS)
        spent, at = self.cpu(planner) - spent, time.monotonic() - at
        received = self.received(planner) - received
        rejected = sums(self.metrics(planner, "/metrics/engines")).get("penstock_fpm_messages_rejected_total")
        after = self.metrics(planner)
        within, ticks = share_within(after, text, "penstock_plan_tick_cpu_seconds", 0.025)
        slow = share_within(after, text, "penstock_plan_tick_seconds", 0.025)
        memory = self.memory_mb(planner)
        of_10000 = spent / received * 10_000
        print(f"{PODS} pods known after {took:.1f} s and {cost:.2f} s of CPU; {received / at:.0f} messages/s cost {spent / at:.2f} cores, which are "
              f"{of_10000:.2f} for 10,000 messages; {within:.0f} of {ticks:.0f} ticks took at most 25 ms of CPU, {slow[0]:.0f} of {slow[1]:.0f} "
              f"at most 25 ms; {memory:.0f} MB", file=sys.stderr)
        self.assertEqual(rejected, 0)
        self.assertGreater(received, 1000 * SECONDS, "the pods hardly publish")
        self.assertLess(cost, 2.0)
        self.assertLess(took, limit_s(KNOWN_S))
        # 0.3 to 0.5 cores for 10,000 messages a second, a fifth of them for the pods themselves; more on a busy machine.
        self.assertLess(spent / at, 0.1 + 0.6 * received / at / 10_000)
        # Once a minute a tick plans anew, which takes longer.
        self.assertGreaterEqual(within, 0.9 * ticks)
        self.assertEqual(share_within(after, text, "penstock_plan_tick_cpu_seconds", 0.25)[0], ticks)
        self.assertGreater(ticks, 5)
        self.assertLess(memory, 200)
        self.assertEqual(self.replicas("scale"), PODS)


if __name__ == "__main__":
    main()
