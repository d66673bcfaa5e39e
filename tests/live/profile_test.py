#!/usr/bin/env python3
"""`penstock profile URL` from end to end: the real program against the real engine, whose model is known."""

import json
import os
import re
import time
import unittest

from command_testing import CommandTest
from live_testing import KILL, SECONDS, Engine, Stream, until

# A step takes 25 ms, 0.5 ms for each sequence, 0.03 ms for each prompt token, and 0.0005 ms for each token of context.
STEP, SEQUENCE, PROMPT, CONTEXT = 25, 0.5, 0.03, 0.0005
MODEL = f"linear:{STEP},{SEQUENCE},{PROMPT},{CONTEXT}"
LIMITS = ("--kv-blocks", 4096, "--block-size", 16, "--max-sequences", 16)
SMALL = ("--max-prompt", 1024, "--max-concurrency", 16)
TRAFFIC = ("--input", 800, "--output", 100, "--slo", "ttft=2s,itl=60ms")
ERROR_MAX = 0.05
BUSY_LOAD = 2  # Processes for each core; other programs then delay some of the measured tokens.


def capacity(text):
    """C_in and C_out of an aggregated replica, from the table."""
    row = re.search(r"(?m)^  aggregated +[\d.]+k? +([\d.]+)(k?) +([\d.]+)(k?)", text)
    return tuple(float(row[i]) * (1000 if row[i + 1] else 1) for i in (1, 3))


class ProfileTest(CommandTest):
    command = "profile"
    finish_s = 5 * SECONDS

    def profile(self, *words, code=0):
        return self.finish(self.begin(*words), code)

    def engine(self, *flags):
        return Engine(self, "--engine", MODEL, *map(str, LIMITS), *map(str, flags))

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())

    def assert_failed(self, process, says):
        out, err = self.finish(process, code=2)
        self.assertEqual(out, "")
        self.assertRegex(err.splitlines()[-1], says)


class Measured(ProfileTest):
    def test_profile_is_that_of_the_engine(self):
        engine = self.engine()
        out, err = self.profile(engine.url, *SMALL, *TRAFFIC, "--json", "engine.json")
        self.assertRegex(err, r"\d+ of \d+ points, .*about .* left")
        self.assertEqual(self.files(), ["engine.json"])
        written = json.loads((self.folder / "engine.json").read_text())
        self.assertEqual((written["endpoint"], written["model"]), (engine.url, "penstock-sim"))
        self.assertEqual(written["max_kv_tokens"], 4096 * 16)
        errors = []
        for kv, length, ms in zip(written["decode_active_kv_tokens"], written["decode_context_length"], written["decode_itl"]):
            errors.append(abs(ms / (STEP + SEQUENCE * kv / length + CONTEXT * kv) - 1))
        for length, alone, added in zip(written["prefill_isl"], written["prefill_ttft_ms"], written["prefill_added_ms"]):
            errors.append(abs(alone / (STEP + PROMPT * length) - 1))
            errors.append(abs((STEP + added) / (STEP + PROMPT * length) - 1))
        errors.sort()
        is_busy = os.getloadavg()[0] > BUSY_LOAD * os.cpu_count()
        checked = errors[:len(errors) * 3 // 4] if is_busy else errors
        self.assertLess(checked[-1], ERROR_MAX, errors)
        known, _ = self.profile("--engine", MODEL, *LIMITS, *TRAFFIC)
        for measured, true in zip(capacity(out), capacity(known)):
            self.assertLess(abs(measured / true - 1), ERROR_MAX, f"{out}\n{known}")
        c_in, c_out = (written["capacity"][name] for name in ("c_in_tokens_per_s", "c_out_tokens_per_s"))
        self.assertAlmostEqual(c_in / capacity(known)[0], 1, delta=ERROR_MAX)
        self.assertAlmostEqual(c_out / capacity(known)[1], 1, delta=ERROR_MAX)
        again, _ = self.profile("--engine", "engine.json", *LIMITS, *TRAFFIC)
        self.assertEqual(capacity(again), capacity(out))

    def test_limit_of_sequences_is_found(self):
        engine = self.engine("--max-sequences", 3)
        out, _ = self.profile(engine.url, "--max-prompt", 256, "--max-concurrency", 8, *TRAFFIC)
        self.assertIn("the endpoint runs at most 3 sequences at once", out)
        self.assertIn(", 3 sequences at once,", out)


class Interrupted(ProfileTest):
    def test_measurements_are_continued(self):
        engine = self.engine()
        process = self.begin(engine.url, *SMALL, "--json", "engine.json")
        partial = self.folder / "engine.json.partial"
        until("some points", lambda: partial.exists() and len(json.loads(partial.read_text())["points"]) >= 4)
        process.send_signal(KILL)
        process.wait(SECONDS)
        self.assertEqual(self.files(), ["engine.json.partial"])
        before = json.loads(partial.read_text())["points"]
        renamed = self.folder / "renamed.json"
        renamed.write_bytes(partial.read_bytes())
        _, err = self.profile("--engine", renamed, code=2)
        self.assertIn("has no field prefill_isl", err)
        renamed.unlink()
        _, err = self.profile(engine.url, *SMALL, "--max-prompt", 512, "--json", "engine.json", code=2)
        self.assertIn("with prompts up to 1024 tokens, not 512; remove it to measure from the start", err)
        _, err = self.profile(engine.url, *SMALL, "--json", "engine.json")
        self.assertIn("engine.json.partial is continued", err)
        self.assertEqual(self.files(), ["engine.json"])
        measured = json.loads((self.folder / "engine.json").read_text())["measured"]
        for point in before[:-1]:  # The last one may have been incomplete.
            self.assertIn(point, measured)

    def test_limit_of_requests_leaves_holes(self):
        engine = self.engine()
        process = self.begin(engine.url, *SMALL, "--requests", 15, "--json", "engine.json")
        self.assert_failed(process, r"^penstock: 127\.0\.0\.1:\d+: .* was not measured; \d+ of \d+ required points are missing; "
                                    r"--requests or --duration was reached; engine\.json\.partial keeps \d+ of \d+ points, "
                                    r"and the same command continues$")
        self.assertEqual(self.files(), ["engine.json.partial"])

    def test_engine_that_fails(self):
        engine = self.engine("--fault", "crash-after=12")
        process = self.begin(engine.url, *SMALL, "--json", "engine.json")
        self.assert_failed(process, r"^penstock: 127\.0\.0\.1:\d+: a request failed: .*engine\.json\.partial keeps")
        self.assertEqual(self.files(), ["engine.json.partial"])

    def test_engine_that_hangs(self):
        engine = self.engine("--fault", "hang-after=12")
        process = self.begin(engine.url, *SMALL, "--timeout", "2s")
        self.assert_failed(process, r"^penstock: 127\.0\.0\.1:\d+: a request failed: .*; nothing was written$")


class OtherTraffic(ProfileTest):
    def test_stream_of_others_before_the_start(self):
        engine = self.engine()
        stream = Stream(engine.port, 5000)
        until("its first token", stream.tokens)
        self.assert_failed(self.begin(engine.url, *SMALL),
                           r"has other traffic: 1 other request is in flight; profile a replica that no one else uses")
        stream.leave()

    def test_requests_of_others_while_it_is_profiled(self):
        engine = self.engine()
        process = self.begin(engine.url, *SMALL, "--json", "engine.json")
        partial = self.folder / "engine.json.partial"
        until("a point", partial.exists)
        while process.poll() is None:
            Stream(engine.port, 2).join()
            time.sleep(0.1)
        self.assert_failed(process, r"has other traffic: .*engine\.json\.partial keeps")
        self.assertEqual(self.files(), ["engine.json.partial"])


class BadInput(ProfileTest):
    def test_flags(self):
        for words, says in ((("--max-prompt", 512), "--max-prompt: needs the URL of an endpoint"),
                            (("http://127.0.0.1:1", "--engine", "polynomial"), "--engine: does not go together with the URL"),
                            (("http://127.0.0.1:1", "--max-concurrency", 1), "--max-concurrency: "),
                            (("http://",), "http://"), (("a", "b"), "takes one"),
                            (("http://127.0.0.1:1",), "127.0.0.1:1")):
            out, err = self.profile(*words, code=2)
            self.assertEqual(out, "")
            self.assertRegex(err, r"\Apenstock: [^\n]+\n\Z")
            self.assertIn(says, err)

    def test_model_and_folder_that_do_not_exist(self):
        engine = self.engine()
        _, err = self.profile(engine.url, "--model", "other", code=2)
        self.assertIn("the answer names no model other", err)
        _, err = self.profile(engine.url, "--json", "missing/engine.json", code=1)
        self.assertIn("there is no folder missing", err)


if __name__ == "__main__":
    unittest.main()
