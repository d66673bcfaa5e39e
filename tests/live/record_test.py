#!/usr/bin/env python3
"""What a gateway recorded, in a trace and in its ledger, is the workload that clients sent."""

import json
import os
import signal
import subprocess
import tempfile
import unittest

from live_testing import PROGRAM, Engine, Gateway, Stream, complete

PROMPT = "A secret that no trace may show. " * 100  # Three full blocks of 1,024 bytes.


class Recording(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.trace = os.path.join(folder.name, "traffic.jsonl")
        self.ledger = os.path.join(folder.name, "usage.sqlite")

    def run_program(self, *words):
        done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["workloads"][0]

    def record(self):
        """Serves three requests; returns what the engine counted for each, as (prompt tokens, output tokens)."""
        gateway = Gateway(self, Engine(self).url, "--record", self.trace, "--ledger", self.ledger).ready()
        usages = []
        for tokens in (7, 9):
            usage = json.loads(complete(gateway.port, tokens, PROMPT)[2])["usage"]
            usages.append((usage["prompt_tokens"], usage["completion_tokens"]))
        Stream(gateway.port, 5, PROMPT).join()
        usages.append((usages[0][0], 5))
        gateway.signal(signal.SIGTERM)
        self.assertEqual(gateway.wait(), 0)
        return usages

    def test_is_replayed_with_the_tokens_of_the_engine_and_shared_prefixes(self):
        usages = self.record()
        with open(self.trace) as file:
            text = file.read()
        rows = [json.loads(line) for line in text.splitlines()]
        self.assertEqual([(row["input_length"], row["output_length"]) for row in rows], usages)
        self.assertEqual([row["streamed"] for row in rows], [False, False, True])
        self.assertEqual({row["model"] for row in rows}, {"penstock-sim"})
        self.assertEqual(len({tuple(row["hash_ids"]) for row in rows}), 1)
        self.assertNotIn("secret", text)

        recorded = self.run_program("workload", self.trace, "--json", "-")
        self.assertEqual((recorded["format"], recorded["requests"]), ("recorded", 3))
        self.assertGreater(recorded["prefix_reuse"], 0.5)
        ledger = self.run_program("workload", self.ledger, "--json", "-")
        self.assertEqual((ledger["format"], ledger["requests"]), ("ledger", 3))
        for lengths in ("input_tokens", "output_tokens"):
            self.assertEqual(ledger[lengths], recorded[lengths])

    def test_continues_in_the_same_file(self):
        self.record()
        self.record()
        self.assertEqual(self.run_program("workload", self.trace, "--json", "-")["requests"], 6)


if __name__ == "__main__":
    unittest.main()
