#!/usr/bin/env python3
"""The diagnosis of a running planner, with one fault at a time on real sockets: it must name that fault."""

import threading
import unittest

from live_testing import Engine, Gateway, Stream, config_file, until
from planner_testing import Planner

POOL = [{"name": "chat", "replicas": 1, "min_replicas": 1, "max_replicas": 4}]


class Clients:
    """Clients that each read one stream after the other until the end of the test."""

    def __init__(self, test, port, count, tokens, words=4, **fields):
        self.ends = threading.Event()
        self.port, self.tokens, self.words, self.fields = port, tokens, words, fields
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in range(count)]
        test.addCleanup(self.stop)
        for thread in self.threads:
            thread.start()

    def run(self, number):
        turn = 0
        while not self.ends.is_set():
            turn += 1
            # No two prompts begin alike, so that none is found in a cache.
            Stream(self.port, self.tokens, f"{number} {turn} " + "word " * self.words, **self.fields).join()

    def stop(self):
        self.ends.set()
        for thread in self.threads:
            thread.join()


class LiveDiagnosis(unittest.TestCase):
    def open(self, *engines, pools=POOL, ttft="600ms", itl="1s", **more):
        """A gateway before the engines and a planner that observes both."""
        replicas = [{"url": engine.url, "role": role or "aggregated"} for engine, role in engines]
        config = config_file(self, pools=pools, slo={"ttft": ttft, "itl": itl}, planner={"tick_interval": "1s"},
                             gateway={"anonymous": not more.get("tenants"), "routing": {"slow_start": "0s"},
                                      "replicas": replicas},
                             classes={"interactive": {"queue_time": "60s"}}, **more)
        self.gateway = Gateway(self, "--config", config).ready()
        self.planner = Planner(self, "--config", config, "--gateway", f"127.0.0.1:{self.gateway.admin}")

    def expect(self, *causes):
        seen = set()

        def is_named():
            diagnosis = self.planner.state()["diagnosis"] or {}
            seen.add(diagnosis.get("cause"))
            return diagnosis.get("cause") in causes and diagnosis["text"]

        try:
            return until(f"the cause {causes}", is_named)
        except AssertionError as error:
            raise AssertionError(f"{error}; seen: {seen}; {self.planner.state()['diagnosis']}") from None

    def test_a_large_batch_is_decode(self):
        self.open((Engine(self, "--engine", "linear:5,0,20,0"), None), ttft="20s", itl="100ms")
        Clients(self, self.gateway.port, 12, 12)
        self.assertIn("large decode batches", self.expect("decode_batch"))

    def test_a_limit_of_the_tenant_is_admission(self):
        self.open((Engine(self, "--engine", "linear:40,0,0,0"), None),
                  tenants=[{"name": "shop", "keys": ["sk-shop"], "concurrent": 1, "over_budget": "queue"}])
        Clients(self, self.gateway.port, 8, 10, Authorization="Bearer sk-shop")
        self.assertIn("more replicas do not help", self.expect("admission"))
        state = self.planner.state()
        self.assertEqual([each for each in state["decisions"] if each["target"] > each["current"]], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
