#!/usr/bin/env python3
"""Dynamo's event plane and discovery, and the workers behind its front end. Exit code 77: Dynamo is not installed."""

import os
import sys
import threading
import time
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

    def complete(self, port, prompt, tokens):
        body = {"model": kinds.MODEL, "prompt": prompt, "max_tokens": tokens}
        return ask(port, "POST", "/v1/completions", body, Content_Type="application/json")[0]

    def prompts(self, port, words):
        statuses = []

        def complete(number):
            statuses.append(self.complete(port, f"{words} {number} ".ljust(13000, "x"), 4))

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

    def test_the_planner_receives_the_kv_usage_of_each_worker(self):
        gateway = self.gateway()
        planner = Planner(self, "--config", self.config, "--gateway", f"127.0.0.1:{gateway.admin}", "--dynamo-discovery",
                          f"file:{self.replica.state.name}")
        until("both workers", lambda: planner.pool()["ready"] == self.kind.workers)

        def usage():
            return [(each["sample"] or {}).get("kv_usage") for each in planner.pool()["replicas"]]

        # 200 tokens of output follow 1,200 tokens of prompt, 75 of 4,096 blocks; both workers get a request.
        seen = []
        streams = [threading.Thread(target=self.complete, args=(gateway.port, f"{number} " * 1200, 200))
                   for number in range(4)]
        for stream in streams:
            stream.start()
        while any(stream.is_alive() for stream in streams):
            seen.append(usage())
            time.sleep(0.1)
        until("messages of KV caches", lambda: planner.pool()["replicas"][0]["kv_events"]["received"] > 0)
        counts = planner.pool()["replicas"][0]["kv_events"]
        self.assertEqual((counts["rejected"], counts["lost"]), (0, 0))
        for worker in range(self.kind.workers):
            most = max(each[worker] or 0 for each in seen)
            self.assertGreater(most, 75 / 4096, seen)
        # The workers report that all their blocks are free again.
        until("no block in use", lambda: usage() == [0] * self.kind.workers)
        text = ask(planner.port, "GET", "/metrics/engines")[2]
        self.assertRegex(text, r'penstock_worker_kv_event_messages_received_total\{[^}]*\} [1-9]')

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
