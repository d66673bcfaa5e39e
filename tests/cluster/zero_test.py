#!/usr/bin/env python3
"""A Deployment without requests has no pods, and the next request waits at the gateway for the first pod."""

import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "live"))

from cluster_testing import main  # noqa: E402
from live_testing import Gateway, Stream, ask, chat, config_file, until  # noqa: E402
from pods_testing import Planner, PodsThatServe, engine_pod, owner_of  # noqa: E402

MODEL = "penstock-sim"
IDLE_S, QUIET_S = 3, 6


class ScaleToZero(PodsThatServe):
    def fleet(self, name):
        """One pod, a gateway that knows the model without it, and a planner that may take it away."""
        self.cluster.namespace(self, name)
        self.apply(name, owner_of(engine_pod(flags=("--engine", "linear:20,0,0.001,0")), 1))
        self.allow(name)
        self.config = config_file(self, models=[{"name": MODEL}], classes={"interactive": {"cold_start_queue_time": "2m"}}, gateway={
            "anonymous": True, "health_interval": "500ms", "kubernetes": self.kubernetes(name, self.cluster.kubeconfig)})
        gateway = Gateway(self, "--config", self.config)
        until("the pod", lambda: self.phases(gateway) == ["serving"])
        planner = Planner(self, name, gateway, 0, pools=lambda bounds: [
            {"name": "chat", "kubernetes": "deployment/engines", "min_replicas": 0, "max_replicas": 2}],
            models=[{"name": MODEL}], planner={"tick_interval": "1s", "scale_to_zero_after": f"{IDLE_S}s"})
        return gateway, planner

    def decided(self, planner, reason):
        return [event for event in planner.events("decision") if event["reason"] == reason]

    def test_pods_end_without_requests_and_a_request_brings_the_first_back(self):
        gateway, planner = self.fleet("zero")
        stream = Stream(gateway.port, 400)  # 8 s.
        time.sleep(QUIET_S)
        self.assertEqual(self.replicas("zero"), 1, "a request runs")
        self.assertTrue(stream.join().whole(400))
        until("no pods", lambda: self.replicas("zero") == 0 and not gateway.overview()["replicas"])
        self.assertTrue(self.decided(planner, "scaled_to_zero"))
        self.assertEqual(ask(gateway.admin, "GET", "/ready")[0], 200, "else no request could start the first pod")
        self.assertIn(MODEL, ask(gateway.port, "GET", "/v1/models")[2])
        time.sleep(QUIET_S)
        self.assertEqual(self.replicas("zero"), 0)

        streams = [Stream(gateway.port, 50, f"prompt {number}") for number in range(5)]
        for stream in streams:
            self.assertTrue(stream.join().whole(50), f"{stream.status} {stream.fault} {stream.text[:200]}")
        self.assertTrue(self.decided(planner, "first_replica"))

    def test_a_gateway_and_a_planner_may_start_while_there_is_no_pod(self):
        gateway, planner = self.fleet("nothing")
        until("no pods", lambda: self.replicas("nothing") == 0 and not gateway.overview()["replicas"])
        admin = gateway.admin
        for program in (planner, gateway):
            program.signal(signal.SIGTERM)
            program.wait()
        again = Gateway(self, "--config", self.config, "--admin-listen", f"127.0.0.1:{admin}")
        until("a ready gateway", lambda: ask(again.admin, "GET", "/ready")[0] == 200)
        until("an unknown model", lambda: ask(again.port, "POST", "/v1/chat/completions", chat(1, model="other"))[0] == 404)
        restarted = Planner(self, "nothing", again, 0, pools=planner.pools, models=[{"name": MODEL}], planner=planner.sections["planner"])
        time.sleep(QUIET_S)
        self.assertEqual(self.replicas("nothing"), 0, "a new planner starts no pod")
        self.assertTrue(Stream(again.port, 50).join().whole(50))
        self.assertTrue(self.decided(restarted, "first_replica"))


if __name__ == "__main__":
    main()
