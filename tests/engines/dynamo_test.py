#!/usr/bin/env python3
"""Dynamo's event plane and discovery, and the workers behind its front end. Exit code 77: Dynamo is not installed."""

import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "live"))

import kinds  # noqa: E402
from live_testing import Gateway, ask, config_file, until  # noqa: E402
from planner_testing import Planner  # noqa: E402

PROMPTS = 60


class DynamoTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kind = kinds.named("dynamo")
        cls.replica = cls.kind.start()
        cls.replica.wait(cls.kind.is_ready)

    @classmethod
    def tearDownClass(cls):
        cls.replica.close()

    def gateway(self):
        self.config = config_file(self, gateway={"anonymous": True, "replicas": [{"url": self.replica.url}]},
                                  model=self.kind.model)
        return Gateway(self, "--config", self.config).ready()

    def prompts(self, port, words):
        statuses = []

        def complete(number):
            body = {"model": kinds.MODEL, "prompt": f"{words} {number} ".ljust(13000, "x"), "max_tokens": 4}
            statuses.append(ask(port, "POST", "/v1/completions", body, Content_Type="application/json")[0])

        threads = [threading.Thread(target=complete, args=(number,)) for number in range(PROMPTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return statuses

    def test_the_planner_receives_the_iterations_of_each_worker(self):
        gateway = self.gateway()
        planner = Planner(self, "--config", self.config, "--gateway", f"127.0.0.1:{gateway.admin}", "--dynamo-discovery",
                          f"file:{self.replica.state.name}")
        until("both workers", lambda: planner.pool()["ready"] == self.kind.workers)
        until("their messages", lambda: ((planner.pool()["replicas"][0]["fpm"] or {}).get("received") or 0) > 5)
        until("their capacity", lambda: [each["sample"]["kv_capacity_tokens"] for each in planner.pool()["replicas"]
                                         if each["sample"]] == [4096 * 16] * self.kind.workers)
        counts = planner.pool()["replicas"][0]["fpm"]
        self.assertEqual((counts["rejected"], counts["lost"]), (0, 0))

    def test_no_prompt_is_refused_that_dynamo_alone_serves(self):
        self.assertEqual(self.prompts(self.replica.port, "direct"), [200] * PROMPTS)
        gateway = self.gateway()
        until("both workers", lambda: gateway.overview()["replicas"][0]["workers"] == self.kind.workers)
        self.assertEqual(self.prompts(gateway.port, "gateway"), [200] * PROMPTS)


if __name__ == "__main__":
    if missing := kinds.named("dynamo").missing():
        print(f"SKIPPED: engine dynamo: {missing}")
        sys.exit(77)
    unittest.main()
