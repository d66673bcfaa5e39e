#!/usr/bin/env python3
"""Batch traffic beyond what an engine serves, beside interactive requests: each overload policy acts, and the class interactive keeps its SLO."""

import json
import signal
import threading
import time
import unittest

from live_testing import Engine, Gateway, Stream, ask, chat, config_file, series, until

SLO_TTFT_S = 3        # Ten times what an engine with room takes, because the machine may be busy.
CLIENTS = 40          # Batch clients, of which the engine's KV cache has room for 18.
REQUESTS, GAP_S = 24, 0.2
# 20 ms a token; KV cache for 4,096 tokens.
ENGINE = ("--engine", "linear:20,0.1,0,0", "--kv-blocks", "256", "--max-sequences", "64")
BATCH, INTERACTIVE = {"Authorization": "Bearer sk-nightly"}, {"Authorization": "Bearer sk-shop"}


class BatchClients:
    """Clients that send their next request as soon as the last one was answered or refused."""

    def __init__(self, test, port):
        self.port, self.answers, self.stopped = port, [], threading.Event()
        self.threads = [threading.Thread(target=self.run) for _ in range(CLIENTS)]
        test.addCleanup(self.stop)
        for thread in self.threads:
            thread.start()

    def run(self):
        while not self.stopped.is_set():
            status, fields, body = ask(self.port, "POST", "/v1/chat/completions", chat(128, "work " * 40), **BATCH)
            answer = json.loads(body)
            code = answer["error"]["code"] if status != 200 else None
            tokens = answer["usage"]["completion_tokens"] if status == 200 else 0
            self.answers.append((status, code, fields["Retry-After"], fields["x-penstock-max-tokens"], tokens))
            if status != 200:
                self.stopped.wait(0.5)

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


class OverloadPolicyTest(unittest.TestCase):
    def begin(self, batch):
        self.engine = Engine(self, *ENGINE)
        self.sections = {
            "model": "penstock-sim", "slo": {"ttft": f"{SLO_TTFT_S}s"},
            "gateway": {"replicas": [{"url": self.engine.url}]},
            "classes": {"interactive": {"overload": "queue"}, "batch": batch},
            "tenants": [{"name": "shop", "keys": ["sk-shop"]}, {"name": "nightly", "keys": ["sk-nightly"], "class": "batch"}]}
        self.config = config_file(self, **self.sections)
        self.gateway = Gateway(self, "--config", self.config).ready()
        self.batch = BatchClients(self, self.gateway.port)
        until("a full KV cache", lambda: len(self.batch.answers) >= CLIENTS or self.waiting() > 0)

    def waiting(self):
        return self.gateway.overview()["queue"]["batch"]

    def actions(self):
        """Requests by class, tenant and action."""
        return series(ask(self.gateway.admin, "GET", "/metrics")[2], "penstock_overload_actions_total")

    def interactive(self, tokens=16, gap_s=GAP_S):
        """The share of interactive requests that met the SLO."""
        times, threads = [], []

        def one():
            began = time.monotonic()
            stream = Stream(self.gateway.port, tokens, "hello " * 40, **INTERACTIVE)
            while stream.thread.is_alive() and "data:" not in stream.text:
                time.sleep(0.005)
            ttft_s = time.monotonic() - began
            stream.join()
            times.append(ttft_s if stream.status == 200 else float("inf"))

        for _ in range(REQUESTS):
            threads.append(threading.Thread(target=one))
            threads[-1].start()
            time.sleep(gap_s)
        for thread in threads:
            thread.join()
        met = sum(each <= SLO_TTFT_S for each in times) / REQUESTS
        print(f"{self.id().rsplit('.', 1)[1]}: TTFT median {sorted(times)[REQUESTS // 2]:.2f} s, worst {max(times):.2f} s; "
              f"batch answers {sum(each[0] == 200 for each in self.batch.answers)}, actions {self.actions()}")
        return met

    def of_batch(self, action):
        return self.actions().get(f'class="batch",tenant="nightly",action="{action}"', 0)

    def refusals(self, code):
        return [each for each in self.batch.answers if each[1] == code]

    def test_batch_that_sheds_is_refused_at_once(self):
        self.begin({"overload": "shed"})
        self.assertGreaterEqual(self.interactive(), 0.95)
        self.batch.stop()
        self.assertTrue(self.refusals("engines_full"))
        self.assertTrue(all(each[0] == 503 and int(each[2]) >= 1 for each in self.refusals("engines_full")))
        self.assertEqual(len(self.refusals("engines_full")), self.of_batch("shed"))
        self.assertTrue(any(each[0] == 200 for each in self.batch.answers))  # What is left over is used.
        self.assertEqual(self.of_batch("queue") + self.of_batch("drop") + self.of_batch("degrade"), 0)
        self.assertNotIn('action="shed"', "".join(key for key in self.actions() if "interactive" in key))
        until("a log line", lambda: "overload_began class=batch tenant=nightly action=shed" in self.gateway.log())

    def test_batch_that_drops_waits_until_an_interactive_request_waits(self):
        self.begin({"overload": "drop"})
        until("batch requests that wait", lambda: self.waiting() > 0)
        self.assertEqual(self.of_batch("drop"), 0)
        self.interactive(tokens=128, gap_s=0)  # More than the engine has room for.
        self.batch.stop()
        self.assertTrue(self.refusals("dropped"))
        self.assertTrue(all(each[0] == 503 and int(each[2]) >= 1 for each in self.refusals("dropped")))
        self.assertEqual(len(self.refusals("dropped")), self.of_batch("drop"))
        self.assertGreater(self.of_batch("queue"), 0)
        self.assertEqual(self.of_batch("shed") + self.of_batch("degrade"), 0)
        until("a log line", lambda: "overload_began class=batch tenant=nightly action=drop" in self.gateway.log())

    def test_batch_that_degrades_gets_shorter_answers_and_is_told(self):
        self.begin({"overload": "degrade", "degrade_above": 100, "degrade_to": 8})
        self.assertGreaterEqual(self.interactive(), 0.95)
        self.batch.stop()
        short = [each for each in self.batch.answers if each[3] is not None]
        self.assertTrue(short)
        self.assertEqual({(each[0], each[3], each[4]) for each in short}, {(200, "8", 8)})
        self.assertEqual({each[4] for each in self.batch.answers if each[3] is None and each[0] == 200} - {128}, set())
        self.assertEqual(len(short), self.of_batch("degrade"))
        self.assertEqual({each[0] for each in self.batch.answers}, {200})

    def test_a_reload_changes_the_policy(self):
        self.begin({"overload": "queue"})
        until("batch requests that wait", lambda: self.waiting() > 0)
        self.assertEqual({each[0] for each in self.batch.answers} - {200}, set())
        self.sections["classes"]["batch"] = {"overload": "shed"}
        with open(self.config, "w") as file:
            file.write(json.dumps(self.sections))
        self.gateway.signal(signal.SIGHUP)
        until("refusals", lambda: self.refusals("engines_full"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
