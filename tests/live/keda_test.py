#!/usr/bin/env python3
"""The external scaler of `penstock plan`, called by a gRPC client that others wrote as KEDA calls it."""

import re
import signal
import unittest

from live_testing import Engine, Gateway, config_file, until
from planner_testing import Planner
from scaler_client import Keda, scaler_of


class ExternalScaler(unittest.TestCase):
    def test_keda_sees_the_target_and_never_a_guess(self):
        engine = Engine(self)
        config = config_file(self, model="penstock-sim", pools=[{"name": "chat", "replicas": 1, "min_replicas": 1, "max_replicas": 4}],
                             planner={"tick_interval": "1s"},
                             gateway={"anonymous": True, "replicas": [{"url": engine.url}]})
        gateway = Gateway(self, "--config", config).ready()
        blind = Planner(self, "--config", config, "--gateway", "127.0.0.1:1", "--external-scaler", "127.0.0.1:0")
        keda = Keda(self, scaler_of(blind))
        # Without a gateway the target is unknown, which is an error and never 0.
        for method in ("IsActive", "GetMetrics"):
            answer = keda.call(method)
            self.assertEqual(answer["status"], "UNAVAILABLE")
            self.assertTrue(answer["text"])
        self.assertEqual(keda.call("GetMetricSpec"),
                         {"status": "OK", "name": "penstock_target_replicas", "integer": 1, "real": 1.0})
        self.assertEqual(keda.call("GetMetrics", {"pool": "other"}),
                         {"status": "NOT_FOUND", "text": "no pool other; the pools are chat"})
        self.assertEqual(keda.call("GetMetrics", {"pool": "chat", "model": "another"})["status"], "NOT_FOUND")
        self.assertEqual(keda.call("GetMetrics", metric="s0-x")["status"], "NOT_FOUND")
        self.assertEqual(keda.call("Other")["status"], "UNIMPLEMENTED")

        planner = Planner(self, "--config", config, "--gateway", f"127.0.0.1:{gateway.admin}", "--external-scaler",
                          "127.0.0.1:0")
        keda = Keda(self, scaler_of(planner))
        until("a target", lambda: "penstock_target_replicas{" in planner.metrics())
        target = int(re.search(r'^penstock_target_replicas\{.*\} (\d+)', planner.metrics(), re.M)[1])
        self.assertEqual(keda.call("GetMetrics"), {"status": "OK", "name": "penstock_target_replicas",
                                                   "integer": target, "real": float(target)})
        self.assertEqual(keda.call("GetMetrics", {})["integer"], target)  # There is one pool.
        self.assertEqual(keda.call("IsActive"), {"status": "OK", "active": True})
        keda.open("StreamIsActive")
        self.assertEqual(keda.of("StreamIsActive").get(timeout=60), {"active": True})
        keda.open("StreamMetricSpec")
        self.assertEqual(keda.of("StreamMetricSpec").get(timeout=60)["integer"], 1)

        # A gateway that is gone makes it unknown again; the streams stay open and say nothing.
        gateway.signal(signal.SIGKILL)
        until("an unknown target", lambda: keda.call("GetMetrics")["status"] == "UNAVAILABLE")
        self.assertTrue(keda.of("StreamIsActive").empty())
        # KEDA connects at once to a scaler whose streams ended with OK.
        planner.signal(signal.SIGTERM)
        self.assertEqual(keda.of("StreamIsActive").get(timeout=60), {"status": "OK"})
        self.assertEqual(keda.of("StreamMetricSpec").get(timeout=60), {"status": "OK"})


if __name__ == "__main__":
    unittest.main()
