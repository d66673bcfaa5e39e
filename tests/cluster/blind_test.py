#!/usr/bin/env python3
"""The planner lacks data: it holds, never shrinks, and says why."""

import json
import os
import re
import signal
import sys
import time

from cluster_testing import main
from live_testing import Program, Stream, ask, config_file, until
from pods_testing import Planner, PodsThatServe

BLIND_S = 15


class Blind(PodsThatServe):
    def state(self, planner):
        return json.loads(ask(planner.port, "GET", "/api/state")[2])

    def metrics(self, planner):
        return ask(planner.port, "GET", "/metrics")[2]

    def holds(self, name, planner, replicas, seconds):
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            self.assertEqual(self.replicas(name), replicas)
            self.assertNotIn("penstock_target_replicas{", self.metrics(planner))
            time.sleep(0.5)

    def test_without_a_gateway_nothing_shrinks(self):
        first, planner = self.begin("no-gateway", 3)
        until("a target", lambda: "penstock_target_replicas{" in self.metrics(planner))
        # At its start the planner may have waited for the list of pods.
        before, known = len(planner.events("data_unknown")), len(planner.events("data_known"))
        first.signal(signal.SIGKILL)
        first.wait()
        planner.target(1)
        until("the planner's word", lambda: planner.events("data_unknown")[before:])
        self.assertEqual(planner.events("data_unknown")[before]["state"], "no_gateway")
        # Other gateways go on with all pods.
        until("no mark", lambda: not any(map(marked, self.cluster.get("pods", "-n", "no-gateway")["items"])))
        self.holds("no-gateway", planner, 3, BLIND_S)
        data = self.state(planner)["data"]
        self.assertEqual(data["state"], "no_gateway")
        self.assertTrue(data["text"])
        self.assertEqual(len(planner.events("data_unknown")), before + 1)
        self.assertEqual(sum(map(marked, self.cluster.get("pods", "-n", "no-gateway")["items"])), 0)

        config = config_file(self, gateway={"anonymous": True, "health_interval": "500ms",
                                            "kubernetes": self.kubernetes("no-gateway", self.cluster.kubeconfig)})
        Program(self, "gateway", "--listen", "127.0.0.1:0", "--admin-listen", f"127.0.0.1:{first.admin}", "--config", config,
                ready=r"ready on https?://127\.0\.0\.1:(\d+)")
        until("data", lambda: planner.events("data_known")[known:])
        until("1 replica", lambda: self.replicas("no-gateway") == 1)

    def test_a_silent_engine_with_an_open_stream_is_not_taken_away(self):
        gateway, planner = self.begin("silent", 2)
        until("data", lambda: planner.events("data_known"))
        stream = Stream(gateway.port, 500)
        until("tokens", lambda: stream.tokens() > 5)
        pod = stream.replica
        process = self.process_of(pod)
        os.kill(process, signal.SIGSTOP)
        self.addCleanup(os.kill, process, signal.SIGCONT)
        # The pod is no longer Ready, so that it would be the first to go.
        until("a pod that is not Ready", lambda: self.phases(gateway) == ["serving", "warming"])
        planner.target(1)
        until("the mark", lambda: [event for event in planner.events("replica_step") if event["step"] == "mark"])
        began = time.monotonic()
        while time.monotonic() < began + 5:
            self.assertEqual(self.replicas("silent"), 2)
            time.sleep(0.2)
        self.assertRegex(self.metrics(planner), r'penstock_pool_held\{[^}]*cause="draining"[^}]*\} 1')
        os.kill(process, signal.SIGCONT)
        stream.join()
        print(f"the stream of the silent engine: {stream.status} {stream.fault} {stream.tokens()} tokens", file=sys.stderr)
        self.assertTrue(stream.whole(500))
        until("1 replica", lambda: self.replicas("silent") == 1)

    def test_pods_that_the_gateway_does_not_list_are_not_taken_away(self):
        gateway = self.start("mute", 2)
        self.allow("mute")
        # Another gateway, without these pods: what is open there is unknown.
        config = config_file(self, gateway={"anonymous": True, "kubernetes": {
            **self.kubernetes("mute", self.cluster.kubeconfig), "selector": "fleet=another"}})
        other = Program(self, "gateway", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--config", config,
                        ready=r"ready on https?://127\.0\.0\.1:(\d+), metrics on http://127\.0\.0\.1:(\d+)")
        other.admin = other.ports[1]
        planner = Planner(self, "mute", other, 2)
        planner.target(1)
        until("the hold", lambda: re.search(r'penstock_pool_held\{[^}]*cause="draining"[^}]*\} 1', self.metrics(planner)))
        began = time.monotonic()
        while time.monotonic() < began + BLIND_S:
            self.assertEqual(self.replicas("mute"), 2)
            time.sleep(0.5)
        self.assertEqual(sum(map(marked, self.cluster.get("pods", "-n", "mute")["items"])), 0)
        self.assertEqual(self.phases(gateway), ["serving"] * 2)


def marked(pod):
    return "penstock/draining" in pod["metadata"].get("annotations", {})


if __name__ == "__main__":
    main()
