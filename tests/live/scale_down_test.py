#!/usr/bin/env python3
"""Fewer replicas while hundreds of streams are open: none fails, none is cut short."""

import json
import unittest

from live_testing import SECONDS, STOP, ask, complete, until
from many_streams import ManyStreams
from planner_testing import Home, until_routed, until_serving

STATIC = ("--policy", "static")
STREAMS = 200
STEP = ", model: 'linear:20,0,0.001,0'"  # 20 ms a token
POOL = "  - {{name: chat, replicas: {0}, min_replicas: 1, max_replicas: {1}}}"
ROLES = ("  - {{name: first, role: prefill, replicas: {0}, min_replicas: 1, max_replicas: {1}}}\n"
         "  - {{name: second, role: decode, replicas: {0}, min_replicas: 1, max_replicas: {1}}}")
# The KV transfer of a prompt takes more than a second, so that transfers are open while replicas drain.
SLOW_KV = ("--kv-bytes-per-token", "1MB", "--kv-bandwidth", "256MB/s")


class ScaleDownTest(unittest.TestCase):
    def test_aggregated(self):
        home = Home(self, POOL.format(3, 3), STEP)
        gateway = home.gateway(self)
        planner = home.planner(self, gateway, *STATIC, "--keep-engines")
        until_serving(home, 3)
        until_routed(gateway, 3)
        streams = ManyStreams(self, gateway.port, STREAMS, 400, timeout_s=3 * SECONDS)
        until("tokens on all streams", lambda: streams.begun() == STREAMS)
        self.assertEqual(len(streams.replicas()), 3)
        planner = self.replace(home, planner, gateway, POOL.format(1, 1), STEP)
        until("two that drain", lambda: home.stages() == {"serving": 1, "draining": 2})
        self.assertEqual(streams.open(), STREAMS)
        self.assertEqual(complete(gateway.port, 2, "meanwhile")[0], 200)
        self.assertEqual(streams.join(), [])
        self.ends_well(home, gateway, planner, {"serving": 1}, STREAMS)

    def test_a_rolling_change(self):
        home = Home(self, POOL.format(2, 2), STEP)
        gateway = home.gateway(self)
        planner = home.planner(self, gateway, *STATIC, "--keep-engines")
        until_serving(home, 2)
        until_routed(gateway, 2)
        before = set(home.engines())
        streams = ManyStreams(self, gateway.port, STREAMS, 200, timeout_s=3 * SECONDS)
        until("tokens on all streams", lambda: streams.begun() == STREAMS)
        planner = self.replace(home, planner, gateway, POOL.format(2, 2), STEP + ", max_sequences: 250")
        until("a new one beside the old", lambda: set(home.engines()) - before)
        served = 0
        while streams.open() > 0:
            self.assertEqual(complete(gateway.port, 2, f"meanwhile {served}")[0], 200)
            served += 1
        self.assertEqual(streams.join(), [])
        until("new engines only", lambda: home.stages() == {"serving": 2} and not set(home.engines()) & before)
        self.ends_well(home, gateway, planner, {"serving": 2}, STREAMS)

    def test_disaggregated_with_transfers_in_flight(self):
        home = Home(self, ROLES.format(2, 2), STEP)
        gateway = home.gateway(self)
        planner = home.planner(self, gateway, *STATIC, *SLOW_KV, "--keep-engines")
        until_serving(home, 4)
        until_routed(gateway, 4)
        streams = ManyStreams(self, gateway.port, STREAMS, 100, prompt="stream {} " + "word " * 300,
                              timeout_s=3 * SECONDS)
        until("KV transfers", lambda: self.transfers(home) > 0)
        planner = self.replace(home, planner, gateway, ROLES.format(1, 1), STEP, *SLOW_KV)
        until("two that drain", lambda: home.stages().get("draining", 0) == 2)
        self.assertGreater(self.transfers(home), 0)
        self.assertEqual(streams.join(), [])
        self.ends_well(home, gateway, planner, {"serving": 2}, STREAMS)

    def replace(self, home, planner, gateway, pools, engine, *words):
        """Another planner takes the engines over, with another configuration."""
        planner.signal(STOP)
        self.assertEqual(planner.wait(), 0)
        home.write_config(pools, engine)
        return home.planner(self, gateway, *STATIC, *words)

    def transfers(self, home):
        return sum(self.info(replica)["transfers_open"] for replica in home.fleet()["replicas"]
                   if replica["stage"] in ("serving", "draining"))

    def info(self, replica):
        return json.loads(ask(replica["ports"][0], "GET", "/penstock/v1/info")[2])

    def ends_well(self, home, gateway, planner, stages, streams):
        until("the target", lambda: home.stages() == stages)
        until("as many engines", lambda: len(home.engines()) == sum(stages.values()))
        usage = gateway.overview()["usage"][0]
        self.assertEqual((usage["failed"], usage["cancelled"]), (0, 0), usage)
        self.assertGreaterEqual(usage["completed"], streams)
        ended_badly = [each for each in home.fleet()["replicas"] if each["stage"] == "failed" or each["killed"]]
        self.assertEqual(ended_badly, [])
        # And the planner tells it so.
        until("a fleet that has settled", lambda: all(each["settled_s"] for each in planner.state()["scaling"]))
        told = planner.state()["scaling"]
        self.assertGreaterEqual(max(each["completed"] for each in told), streams, told)
        for outcome in ("failed", "truncated", "timed_out", "cancelled"):
            self.assertEqual([each[outcome] for each in told], [0] * len(told), told)
        self.assertIn('penstock_scaling_requests_total{pool="', ask(planner.port, "GET", "/metrics")[2])


if __name__ == "__main__":
    unittest.main()
