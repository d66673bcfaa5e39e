#!/usr/bin/env python3
"""`penstock plan` in front of engines that others run: their queues count, whatever else they report."""

import os
import tempfile
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from live_testing import STOP, Gateway, until
from planner_testing import Planner

CONFIG = """
model: penstock-sim
pools: [{name: chat, replicas: 2, min_replicas: 1, max_replicas: 12}]
planner: {tick_interval: 1s, stabilisation: 3s}
"""


class FakeVllm:
    """Answers health checks, and exposes the given metrics."""

    def __init__(self, test, metrics):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = metrics.encode() if self.path == "/metrics" else b'{"data":[{"id":"penstock-sim"}]}'
                self.send_response(200)
                self.send_header("Content-Type", "text/plain" if self.path == "/metrics" else "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        test.addCleanup(server.server_close)
        test.addCleanup(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_address[1]}"


def decisions(planner):
    return planner.state()["decisions"]


class QueueTest(unittest.TestCase):
    def planner_of(self, urls, *words):
        gateway = Gateway(self, *urls).ready()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        config = os.path.join(folder.name, "penstock.yaml")
        with open(config, "w") as file:
            file.write(CONFIG)
        planner = Planner(self, "--config", config, "--gateway", f"127.0.0.1:{gateway.admin}", *words)
        until("figures of all engines", lambda: len([each for each in planner.pool()["replicas"] if each["sample"]]) ==
              len(urls))
        return gateway, planner

    def check_that_nothing_shrinks(self, metrics):
        for target in ("throughput", "latency", "sla"):
            with self.subTest(target):
                engines = [FakeVllm(self, metrics) for _ in range(2)]
                _, planner = self.planner_of([each.url for each in engines], "--target", target)
                end = time.monotonic() + 12  # Four times the stabilisation of the configuration.
                while time.monotonic() < end:
                    self.assertEqual([each for each in decisions(planner) if each["target"] < each["current"]], [])
                    time.sleep(0.5)
                if target != "sla":  # Without traffic there is nothing to simulate.
                    grown = [each for each in decisions(planner) if each["reason"] == "load_above_target"]
                    self.assertTrue(grown and all(each["target"] > 2 for each in grown), decisions(planner))
                planner.signal(STOP)

    def test_no_engine_with_a_queue_is_given_up(self):
        self.check_that_nothing_shrinks("vllm:num_requests_running 2\nvllm:num_requests_waiting 40\n"
                                        "vllm:kv_cache_usage_perc 0.2\n")

    def test_no_engine_with_a_queue_and_without_kv_usage_is_given_up(self):
        self.check_that_nothing_shrinks("vllm:num_requests_running 2\nvllm:num_requests_waiting 40\n")


if __name__ == "__main__":
    unittest.main()
