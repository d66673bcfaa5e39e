#!/usr/bin/env python3
"""Several pools behind one gateway: batch requests, short and long prompts find their pool, and a planner sees each pool."""

import json
import os
import tempfile
import unittest

from live_testing import Engine, Gateway, ask, complete, config_file, series, until
from planner_testing import Planner

POOLS = [{"name": "nightly", "class": "batch"}, {"name": "short", "prompt_max": 1000}, {"name": "long"}]
LONG = "Every sentence of this prompt says the same. " * 400


class PoolsTest(unittest.TestCase):
    def start(self):
        self.engines = {name: Engine(self, name=name) for name in ("nightly", "short", "long")}
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.replicas = os.path.join(folder.name, "replicas.json")
        self.list_replicas("nightly", "short", "long")
        self.config = config_file(self, model="penstock-sim", pools=POOLS)
        self.gateway = Gateway(self, "--config", self.config, "--replicas-file", self.replicas).ready()
        until("three eligible replicas", lambda: self.eligible() == 3)

    def list_replicas(self, *names):
        listed = [{"id": name, "url": self.engines[name].url, "model": "penstock-sim", "pool": name, "state": "serving"}
                  for name in names]
        with open(self.replicas + ".new", "w") as file:
            json.dump({"version": 1, "replicas": listed}, file)
        os.rename(self.replicas + ".new", self.replicas)

    def eligible(self):
        return sum(replica["eligible"] for replica in self.gateway.overview()["replicas"])

    def served_by(self, prompt="hello", **fields):
        status, answer, body = complete(self.gateway.port, 4, prompt, **fields)
        self.assertEqual(status, 200, body)
        return answer["x-penstock-replica"]

    def test_requests_go_to_the_first_pool_that_matches(self):
        self.start()
        for _ in range(3):
            self.assertEqual(self.served_by(), "short")
            self.assertEqual(self.served_by(LONG), "long")
            self.assertEqual(self.served_by(LONG, X_Traffic_Class="batch"), "nightly")
        self.assertEqual({replica["id"]: replica["pool"] for replica in self.gateway.overview()["replicas"]},
                         {name: name for name in self.engines})
        text = ask(self.gateway.admin, "GET", "/metrics")[2]
        attempts = series(text, "penstock_pool_attempts_total")
        for name in self.engines:
            self.assertEqual(attempts[f'pool="{name}",served_by="own"'], 3)
            self.assertEqual(attempts[f'pool="{name}",served_by="other"'], 0)
        self.assertIn('replica="long",model="penstock-sim",pool="long",role="aggregated"',
                      series(text, "penstock_replica_info"))

    def test_without_a_replica_of_its_own_a_short_prompt_goes_to_another_pool(self):
        self.start()
        self.list_replicas("long")
        until("one eligible replica", lambda: self.eligible() == 1)
        self.assertEqual(self.served_by(), "long")
        self.assertEqual(self.served_by(X_Traffic_Class="batch"), "long")
        self.list_replicas("short")
        until("another replica", lambda: [replica["id"] for replica in self.gateway.overview()["replicas"]] == ["short"]
              and self.eligible() == 1)
        status, answer, body = ask(self.gateway.port, "POST", "/v1/chat/completions", {
            "model": "penstock-sim", "messages": [{"role": "user", "content": LONG}], "max_tokens": 4}, X_Time_Budget="1s")
        self.assertEqual(status, 504, body)

    def test_a_planner_sees_the_requests_and_replicas_of_each_pool(self):
        self.start()
        planner = Planner(self, "--config", self.config, "--gateway", f"127.0.0.1:{self.gateway.admin}")
        until("all replicas", lambda: [len(pool["replicas"]) for pool in planner.state()["pools"]] == [1, 1, 1])
        for _ in range(5):
            self.served_by(LONG)
        self.served_by(X_Traffic_Class="batch")

        def arrivals():
            seen = series(planner.metrics(), "penstock_pool_requests_total")
            return {labels.split('"')[1]: value for labels, value in seen.items()}

        until("the traffic of each pool", lambda: arrivals() == {"nightly": 1, "short": 0, "long": 5})


if __name__ == "__main__":
    unittest.main(verbosity=2)
