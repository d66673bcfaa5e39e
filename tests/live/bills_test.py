#!/usr/bin/env python3
"""What the ledger says of requests whose engine reports what it computed: whole, left, killed."""

import json
import os
import tempfile
import time
import unittest

from fake_replica import HEAD, FakeReplica, chunk
from live_testing import KILL, Gateway, Stream, ask, chat, config_file, until
from planner_testing import rows_of, until_routed

MODEL = "penstock-sim"
PROMPT = 1000


class CountingReplica(FakeReplica):
    """Streams events of `per_event` tokens, as fast as `pause_s` allows, and counts the tokens that it computed."""

    def __init__(self, test, events, per_event=1, pause_s=0.0):
        self.events, self.per_event, self.pause_s = events, per_event, pause_s
        self.computed = 0
        super().__init__(test, None)

    def complete(self, connection, request, number):
        body = json.loads(request.partition(b"\r\n\r\n")[2] or b"{}")
        connection.sendall(HEAD)
        for _ in range(self.events):
            delta = {"content": " abc" * self.per_event}
            event = {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            connection.sendall(chunk(b"data: %b\n\n" % json.dumps(event, separators=(",", ":")).encode()))
            with self.lock:
                self.computed += self.per_event
            time.sleep(self.pause_s)
        end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
        if body.get("stream_options", {}).get("include_usage"):
            usage = {"prompt_tokens": PROMPT, "completion_tokens": self.events * self.per_event}
            end += b"data: %b\n\n" % json.dumps({"choices": [], "usage": usage}).encode()
        connection.sendall(chunk(end + b"data: [DONE]\n\n") + b"0\r\n\r\n")


class BillsTest(unittest.TestCase):
    def gateway(self, *replicas, ledger=None):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.ledger = ledger or os.path.join(folder.name, "usage.sqlite")
        path = config_file(self, gateway={
            "routing": {"slow_start": "0s"}, "health_interval": "1h",
            "replicas": [{"url": replica.url, "model": MODEL} for replica in replicas]})
        gateway = Gateway(self, "--config", path, "--ledger", self.ledger)
        until_routed(gateway, len(replicas))
        return gateway

    def billed(self, outcome):
        (row,) = rows_of(self.ledger, "select count(*), coalesce(sum(output_tokens), 0) from entries "
                                      f"where outcome = '{outcome}'")
        return row

    def test_streams_are_billed_by_the_engines_count_and_clients_do_not_see_it(self):
        replica = CountingReplica(self, 100, per_event=8)
        gateway = self.gateway(replica)
        for i in range(5):
            status, _, text = ask(gateway.port, "POST", "/v1/chat/completions", chat(800, f"prompt {i}", stream=True))
            self.assertEqual(status, 200)
            self.assertNotIn("usage", text)
            self.assertTrue(text.endswith("data: [DONE]\n\n"))
        until("five bills", lambda: self.billed("completed") == (5, 4000))
        self.assertEqual(replica.computed, 4000)

    def test_streams_that_clients_leave_are_billed_by_what_was_delivered(self):
        replica = CountingReplica(self, 1000, per_event=8, pause_s=0.02)
        gateway = self.gateway(replica)
        streams = [Stream(gateway.port, 8000, f"prompt {i}") for i in range(4)]
        until("tokens on all streams", lambda: all(stream.tokens() >= 50 for stream in streams))
        for stream in streams:
            stream.leave()
        until("four bills", lambda: self.billed("cancelled")[0] == 4)
        time.sleep(0.2)
        billed = self.billed("cancelled")[1]
        print(f"left streams: {billed} billed of {replica.computed}")
        self.assertGreater(billed, 0.9 * replica.computed)
        self.assertLessEqual(billed, 1.01 * replica.computed)

    def test_after_kill_at_most_a_second_of_tokens_is_missing(self):
        replica = CountingReplica(self, 2000, pause_s=0.01)
        gateway = self.gateway(replica)
        streams = [Stream(gateway.port, 2000, f"prompt {i}") for i in range(10)]
        until("tokens on all streams", lambda: all(stream.tokens() >= 150 for stream in streams))
        started = time.monotonic()
        with replica.lock:
            computed = replica.computed
        gateway.signal(KILL)
        gateway.wait()
        self.assertLess(time.monotonic() - started, 1.0)
        for stream in streams:
            stream.join()
        again = self.gateway(replica, ledger=self.ledger)
        count, billed = self.billed("lost")
        missing_s = (computed - billed) / 10 * 0.01
        print(f"killed: {billed} billed of {computed}, {missing_s:.2f} s of each stream are missing")
        self.assertEqual(count, 10)
        self.assertGreater(billed, 0)
        self.assertLess(missing_s, 1.5)  # A loaded machine is late; without the counts all of it is missing.
        del again


if __name__ == "__main__":
    unittest.main()
