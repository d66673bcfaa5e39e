#!/usr/bin/env python3
"""Budgets of `penstock gateway` against bursts of every shape, with an engine that computes all that a request permits."""

import json
import os
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest

from fake_replica import FakeReplica, plain
from live_testing import KILL, PROGRAM, SECONDS, STOP, Gateway, ask, config_file, until
from wall_clock import WallClock

BUDGET = 10_000
BURST = 40  # requests at once
CONTEXT = 8192


class GreedyReplica(FakeReplica):
    """Answers after a time, and uses as many tokens as vLLM might for the body that it was sent."""

    def __init__(self, test, seconds=1.0):
        super().__init__(test, None)
        self.seconds, self.used, self.bodies = seconds, [], []

    def _answer(self, connection):
        with connection:
            request = self._read(connection)
            head, _, body = request.partition(b"\r\n\r\n")
            if not head.startswith(b"POST "):
                return connection.sendall(plain(200, b'{"data":[{"id":"m"}]}'))
            fields = json.loads(body)
            chat = b"/chat/" in head.split(b"\r\n")[0]
            limit = fields.get("max_tokens") or (CONTEXT - 1000 if chat else 16)
            if chat:
                limit = fields.get("max_completion_tokens") or limit
            prompts = fields.get("prompt", "")
            prompts = prompts if isinstance(prompts, list) else [prompts]
            output = limit * fields.get("n", 1) * len(prompts)
            prompt = 30 + len(json.dumps(fields.get("messages", prompts))) // 4
            with self.lock:
                self.used.append(prompt + output)
                self.bodies.append(fields)
            time.sleep(self.seconds)
            usage = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
            text = {"message": {"role": "assistant", "content": "x"}} if chat else {"text": "x"}
            answer = {"choices": [{"index": 0, "finish_reason": "stop", **text}], "usage": usage}
            connection.sendall(plain(200, json.dumps(answer).encode(), b"Content-Type: application/json"))


class BudgetsTest(unittest.TestCase):
    def gateway(self, replica, *words, tenants=None, environment=None):
        tenants = tenants or [{"name": "t", "keys": ["sk-t"], "tokens_per_minute": BUDGET}]
        path = config_file(self, tenants=tenants, models=[{"name": "m", "context": CONTEXT}],
                           gateway={"replicas": [{"url": replica.url, "model": "m"}]})
        return Gateway(self, "--config", path, *words, environment=environment).ready()

    def burst(self, gateway, path, body, count=BURST):
        statuses = []

        def send():
            statuses.append(ask(gateway.port, "POST", path, {"model": "m", **body}, Authorization="Bearer sk-t")[0])

        threads = [threading.Thread(target=send) for _ in range(count)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return statuses, time.monotonic() - began

    def test_no_burst_exceeds_a_budget_by_more_than_one_request(self):
        chat, completion = "/v1/chat/completions", "/v1/completions"
        messages = [{"role": "user", "content": "say something"}]
        for path, body in ((chat, {"messages": messages, "max_tokens": 4000}),
                           (chat, {"messages": messages}),
                           (chat, {"messages": messages, "max_tokens": None}),
                           (chat, {"messages": messages, "min_tokens": 1000}),
                           (chat, {"messages": messages, "n": 8, "max_tokens": 100}),
                           (chat, {"messages": messages, "max_tokens": 1, "max_completion_tokens": 4000}),
                           (completion, {"prompt": ["say something"] * 64, "max_tokens": 100}),
                           (completion, {"prompt": "say something", "max_tokens": 4000, "max_completion_tokens": 1}),
                           (completion, {"prompt": "say something", "max_completion_tokens": 4000, "max_tokens": 1}),
                           (completion, {"prompt": "say something"}),
                           (completion, {"prompt": [[1, 2, 3]] * 64, "n": 4, "max_tokens": None})):
            with self.subTest(path=path, body={name: str(value)[:40] for name, value in body.items()}):
                replica = GreedyReplica(self)
                gateway = self.gateway(replica)
                statuses, seconds = self.burst(gateway, path, body)
                self.assertIn(200, statuses)
                self.assertLessEqual(set(statuses), {200, 429})
                used, largest = sum(replica.used), max(replica.used)
                self.assertLessEqual(used, BUDGET * (1 + seconds / 60) + largest, replica.bodies[0])
                print(f"{path} {str(body)[-60:]}: {statuses.count(200)} of {BURST}, {used} tokens of {BUDGET}")

    def test_an_expected_reservation_is_an_option(self):
        replica = GreedyReplica(self)
        gateway = self.gateway(replica, tenants=[{"name": "t", "keys": ["sk-t"], "tokens_per_minute": BUDGET,
                                                  "reserve": "expected"}])
        body = {"messages": [{"role": "user", "content": "say something"}]}
        statuses, _ = self.burst(gateway, "/v1/chat/completions", body)
        self.assertGreater(statuses.count(200), 10)
        self.assertNotIn("max_tokens", replica.bodies[0])

    def test_full_budgets_without_a_ledger_are_logged(self):
        replica = GreedyReplica(self, 0.01)
        self.assertEqual(self.gateway(replica).log().count(" budgets_start_full cause="), 1)
        unlimited = self.gateway(replica, tenants=[{"name": "t", "keys": ["sk-t"]}])
        self.assertNotIn("budgets_start_full", unlimited.log())
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        kept = self.gateway(replica, "--ledger", os.path.join(folder.name, "ledger.sqlite"))
        self.assertNotIn("budgets_start_full", kept.log())

    def test_levels_survive_a_restart_and_a_kill(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        ledger = os.path.join(folder.name, "ledger.sqlite")
        body = {"messages": [{"role": "user", "content": "say something"}], "max_tokens": 7500}
        replica = GreedyReplica(self, 0.05)

        def start():
            return self.gateway(replica, "--ledger", ledger)

        gateway = start()
        self.assertEqual(self.burst(gateway, "/v1/chat/completions", body, 1)[0], [200])
        self.assertEqual(self.burst(gateway, "/v1/chat/completions", body, 1)[0], [429])
        gateway.signal(STOP)
        self.assertEqual(gateway.wait(), 0)
        gateway = start()
        self.assertEqual(self.burst(gateway, "/v1/chat/completions", body, 1)[0], [429])
        # What was reserved stays reserved if the process is killed.
        replica.seconds = 5.0
        small = {**body, "max_tokens": 1000}
        thread = threading.Thread(target=self.swallow, args=(gateway, small))
        thread.start()
        rows = "select count(*) from entries where closed_unix_ms is null"
        until("an open row of the ledger", lambda: sqlite3.connect(ledger).execute(rows).fetchone()[0])
        before = gateway.overview()["tenants"][0]["budget_available"]
        gateway.signal(KILL)
        gateway.wait()
        thread.join()
        gateway = start()
        after = gateway.overview()["tenants"][0]["budget_available"]
        print(f"before the kill {before:.0f} tokens, after {after:.0f}")
        self.assertLess(after, before + BUDGET / 60 * 10 + 1)

    def test_no_jump_of_the_wall_clock_refills_a_budget(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        ledger, clock = os.path.join(folder.name, "ledger.sqlite"), WallClock(self)
        body = {"messages": [{"role": "user", "content": "say something"}], "max_tokens": 7500}
        replica = GreedyReplica(self, 0.05)

        def start():
            return self.gateway(replica, "--ledger", ledger, environment=clock.environment)

        gateway = start()
        self.assertEqual(self.burst(gateway, "/v1/chat/completions", body, 1)[0], [200])
        for hours in (5, -5, 100, 0):
            clock.set(hours * 3600)
            self.assertEqual(self.burst(gateway, "/v1/chat/completions", body, 1)[0], [429], f"{hours} h")
            gateway.signal(STOP)
            self.assertEqual(gateway.wait(), 0)
            gateway = start()
            available = gateway.overview()["tenants"][0]["budget_available"]
            print(f"clock set to {hours} h: {available:.0f} tokens of {BUDGET} after a restart")
            self.assertEqual(self.burst(gateway, "/v1/chat/completions", body, 1)[0], [429], f"{hours} h and a restart")
        tokens = "select sum(prompt_tokens + output_tokens) from entries where outcome = 'completed'"
        self.assertEqual(sqlite3.connect(ledger).execute(tokens).fetchone()[0], sum(replica.used))

    def swallow(self, gateway, body):
        try:
            self.burst(gateway, "/v1/chat/completions", body, 1)
        except OSError:
            pass

    def test_the_class_of_a_tenant_is_its_ceiling(self):
        replica = GreedyReplica(self, 0.01)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        ledger = os.path.join(folder.name, "ledger.sqlite")
        gateway = self.gateway(replica, "--ledger", ledger, tenants=[
            {"name": "nightly", "keys": ["sk-t"], "class": "batch"}, {"name": "chat", "keys": ["sk-c"]}])
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
        for key, header in (("sk-t", "interactive"), ("sk-c", "interactive"), ("sk-c", "batch")):
            status = ask(gateway.port, "POST", "/v1/chat/completions", body, Authorization=f"Bearer {key}",
                         X_Traffic_Class=header)[0]
            self.assertEqual(status, 200)
        rows = "select tenant, traffic_class from entries where closed_unix_ms is not null order by id"
        until("three rows", lambda: len(sqlite3.connect(ledger).execute(rows).fetchall()) == 3)
        self.assertEqual(sqlite3.connect(ledger).execute(rows).fetchall(),
                         [("nightly", "batch"), ("chat", "interactive"), ("chat", "batch")])

    def test_estimates_refuse_only_what_no_tokenizer_could_fit(self):
        replica = GreedyReplica(self, 0.01)
        tenants = [{"name": name, "keys": [f"sk-{name}"]} for name in ("alice", "bob")]
        gateway = self.gateway(replica, tenants=tenants)

        def chat(key, content):
            body = {"model": "m", "messages": [{"role": "user", "content": content}], "max_tokens": 1}
            return ask(gateway.port, "POST", "/v1/chat/completions", body, Authorization=f"Bearer sk-{key}")[0]

        for _ in range(40):
            self.assertEqual(chat("alice", "\U0001f600" * 500), 200)
        self.assertEqual(chat("bob", "word " * (CONTEXT * 2)), 200, "the engine decides")
        self.assertEqual(chat("bob", "word " * (CONTEXT * 4)), 400)
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 700_000}}
        self.assertEqual(chat("bob", [{"type": "text", "text": "what is it"}, picture]), 200)


    def test_a_replay_of_its_ledger_admits_what_the_gateway_admitted(self):
        replica = GreedyReplica(self, seconds=0.0)
        with tempfile.TemporaryDirectory() as folder:
            ledger, report = os.path.join(folder, "usage.sqlite"), os.path.join(folder, "report.json")
            tenants = [{"name": "t", "keys": ["sk-t"], "tokens_per_minute": 6000}]
            path = config_file(self, tenants=tenants, models=[{"name": "m", "context": CONTEXT}],
                               gateway={"replicas": [{"url": replica.url, "model": "m"}]})
            gateway = Gateway(self, "--config", path, "--ledger", ledger).ready()
            body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 300}
            for _ in range(6):
                status, _, text = ask(gateway.port, "POST", "/v1/chat/completions", body, Authorization="Bearer sk-t")
                self.assertEqual(status, 200, text)
            gateway.signal(STOP)
            self.assertEqual(gateway.wait(), 0)
            replay = subprocess.run([PROGRAM, "replay", ledger, "--config", path, "--policy", "static", "--json", report],
                                    capture_output=True, text=True, timeout=SECONDS)
            self.assertEqual(replay.returncode, 0, replay.stderr)
            with open(report) as file:
                (result,) = json.load(file)["results"]
            self.assertEqual((result["requests"], result["completed"]), (6, 6), replay.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
