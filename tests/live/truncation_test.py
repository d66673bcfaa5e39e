#!/usr/bin/env python3
"""Prompts above the context, truncated by a real gateway before a real engine."""

import json
import os
import signal
import subprocess
import tempfile
import unittest

from live_testing import PROGRAM, SECONDS, Engine, Gateway, ask, until

MODEL = "penstock-sim"
CONTEXT = 2000
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


def turns(count):
    """A conversation of about 100 tokens for each turn, by the engine's count of four bytes a token."""
    messages = [{"role": "system", "content": "be brief"}]
    for turn in range(count):
        messages += [{"role": "user", "content": f"question {turn} " + "q" * 180},
                     {"role": "assistant", "content": f"answer {turn} " + "a" * 180}]
    return messages + [{"role": "user", "content": "the last question"}]


class TruncationTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "p.yaml")

    def write(self, model, tenant=None):
        tenants = [{"name": "shop", "keys": ["sk-shop"], "context": CONTEXT, **({"over_context": tenant} if tenant else {})},
                   {"name": "large", "keys": ["sk-large"]}]
        with open(self.path, "w") as file:
            json.dump({"models": [{"name": MODEL, "over_context": model}], "tenants": tenants}, file)

    def start(self, model, tenant=None):
        self.write(model, tenant)
        self.engine = Engine(self, "--context-tokens", "8000")
        self.gateway = Gateway(self, "--config", self.path, self.engine.url).ready()

    def send(self, path, key="sk-shop", **body):
        body = {"model": MODEL, "max_tokens": 8, "ignore_eos": True, **body}
        status, fields, text = ask(self.gateway.port, "POST", path, body, Authorization=f"Bearer {key}")
        return status, fields, json.loads(text)

    def test_an_engine_gets_the_newest_turns_and_the_client_is_told(self):
        self.start("truncate")
        messages = turns(40)
        status, whole_fields, whole = self.send(CHAT, "sk-large", messages=messages)
        self.assertEqual((status, whole_fields["x-penstock-truncated-prompt-tokens"]), (200, None), whole)
        status, fields, answer = self.send(CHAT, messages=messages)
        self.assertEqual(status, 200, answer)
        self.assertLess(answer["usage"]["prompt_tokens"], CONTEXT - 8)
        self.assertGreater(answer["usage"]["prompt_tokens"], CONTEXT // 2)
        dropped = int(fields["x-penstock-truncated-prompt-tokens"])
        missing = whole["usage"]["prompt_tokens"] - answer["usage"]["prompt_tokens"]
        self.assertLess(abs(dropped - missing), 0.1 * missing)
        messages_dropped = int(fields["x-penstock-truncated-messages"])
        self.assertTrue(messages_dropped > 0 and messages_dropped % 2 == 0, messages_dropped)
        # The same prompt, truncated by the client, has the same tokens.
        kept = messages[:1] + messages[1 + messages_dropped:]
        self.assertEqual(self.send(CHAT, "sk-large", messages=kept)[2]["usage"]["prompt_tokens"],
                         answer["usage"]["prompt_tokens"])
        overview = self.gateway.overview()
        self.assertEqual((overview["truncated_prompts_total"], overview["truncated_prompt_tokens_total"]), (1, dropped))
        metrics = ask(self.gateway.admin, "GET", "/metrics")[2]
        self.assertIn(f"\npenstock_truncated_prompt_tokens_total {dropped}\n", metrics)

    def test_a_stream_tells_it_too(self):
        self.start("truncate")
        body = {"model": MODEL, "messages": turns(40), "max_tokens": 4, "stream": True, "ignore_eos": True}
        status, fields, text = ask(self.gateway.port, "POST", CHAT, body, Authorization="Bearer sk-shop")
        self.assertEqual(status, 200, text)
        self.assertGreater(int(fields["x-penstock-truncated-prompt-tokens"]), 1000)
        self.assertTrue(text.endswith("data: [DONE]\n\n"))

    def test_a_completion_keeps_its_end(self):
        self.start("truncate")
        status, fields, answer = self.send(COMPLETIONS, prompt="word " * 10_000, max_tokens=8)
        self.assertEqual(status, 200, answer)
        self.assertTrue(CONTEXT // 2 < answer["usage"]["prompt_tokens"] < CONTEXT - 8, answer)
        self.assertIsNone(fields["x-penstock-truncated-messages"])
        status, fields, answer = self.send(COMPLETIONS, prompt=list(range(5000)), max_tokens=8)
        self.assertEqual((status, answer["usage"]["prompt_tokens"]), (200, CONTEXT - 8), answer)
        self.assertEqual(fields["x-penstock-truncated-prompt-tokens"], str(5000 - (CONTEXT - 8)))
        # The limit of the engine itself, of another tenant.
        status, fields, answer = self.send(COMPLETIONS, "sk-large", prompt=list(range(9000)), max_tokens=8)
        self.assertEqual((status, answer["usage"]["prompt_tokens"]), (200, 8000 - 8), answer)

    def test_a_last_message_that_does_not_fit_is_refused(self):
        self.start("truncate")
        messages = turns(40)
        messages[-1]["content"] = "x" * 40_000
        status, _, answer = self.send(CHAT, messages=messages)
        self.assertEqual((status, answer["error"]["code"]), (400, "context_length_exceeded"), answer)
        self.assertIn("after truncation", answer["error"]["message"])
        self.assertEqual(self.gateway.overview()["truncated_prompts_total"], 0)

    def test_a_reload_changes_the_policy(self):
        self.start("truncate", "reject")
        self.assertEqual(self.send(CHAT, messages=turns(40))[0], 400)
        self.write("reject", "truncate")
        self.gateway.signal(signal.SIGHUP)
        until("the reload", lambda: self.send(CHAT, messages=turns(40))[0] == 200)

    def test_check_names_the_place_of_a_wrong_policy(self):
        with open(self.path, "w") as file:
            file.write("models:\n  - {name: m, over_context: cut}\n")
        done = subprocess.run([PROGRAM, "check", self.path], capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("p.yaml:2:29: models[0].over_context: ", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
