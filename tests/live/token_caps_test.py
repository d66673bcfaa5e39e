#!/usr/bin/env python3
"""Caps of prompt and completion tokens apart: OpenAI's SDK against a real gateway and a real engine."""

import json
import os
import signal
import subprocess
import tempfile
import unittest

import real_clients

real_clients.go_on_with(real_clients.OPENAI_PYTHON)

import openai  # noqa: E402, of the Python that runs by now

from live_testing import PROGRAM, SECONDS, Engine, Gateway, until  # noqa: E402

MODEL = "penstock-sim"
SHORT = [{"role": "user", "content": "say something"}]
# About 1,800 tokens by the engine's count of four bytes a token, in turns of which the oldest can be dropped.
LONG = [{"role": "user", "content": "many words " * 30}, {"role": "assistant", "content": "yes " * 90}] * 10 + SHORT
COMPLETION_CAP, TENANT_CAP, PROMPT_CAP = 40, 12, 1200


def config(**small):
    return {"models": [{"name": MODEL, "max_completion_tokens": COMPLETION_CAP}],
            "tenants": [{"name": "large", "keys": ["sk-large"]},
                        {"name": "small", "keys": ["sk-small"], "max_completion_tokens": TENANT_CAP,
                         "max_prompt_tokens": PROMPT_CAP, **small}]}


class TokenCapsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "p.yaml")
        self.write(config())
        self.engine = Engine(self, "--context-tokens", "8000")
        self.gateway = Gateway(self, "--config", self.path, self.engine.url).ready()

    def write(self, content):
        with open(self.path, "w") as file:
            json.dump(content, file)

    def client(self, key):
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.gateway.port}/v1", api_key=key, max_retries=0, timeout=SECONDS)
        self.addCleanup(client.close)
        return client

    def chat(self, key, messages=None, **asked):
        """The answer and the header fields that report what was lowered or dropped."""
        raw = self.client(key).chat.completions.with_raw_response.create(
            model=MODEL, messages=messages or SHORT, extra_body={"ignore_eos": True}, **asked)
        return raw.parse(), raw.headers.get("x-penstock-max-tokens"), raw.headers.get("x-penstock-truncated-prompt-tokens")

    def test_the_smaller_cap_of_model_and_tenant_ends_an_answer_and_the_client_is_told(self):
        for key, cap in (("sk-large", COMPLETION_CAP), ("sk-small", TENANT_CAP)):
            for asked in ({"max_tokens": 100}, {"max_completion_tokens": 100}, {}):
                answer, lowered, _ = self.chat(key, **asked)
                self.assertEqual((answer.usage.completion_tokens, lowered), (cap, str(cap)), (key, asked))
                self.assertEqual(answer.choices[0].finish_reason, "length")
        answer, lowered, _ = self.chat("sk-small", max_tokens=TENANT_CAP)
        self.assertEqual((answer.usage.completion_tokens, lowered), (TENANT_CAP, None))
        self.assertEqual(self.gateway.overview()["clamped_total"], 6)

    def test_a_stream_ends_at_the_cap_too(self):
        with self.client("sk-small").chat.completions.with_streaming_response.create(
                model=MODEL, messages=SHORT, stream=True, max_tokens=100, stream_options={"include_usage": True},
                extra_body={"ignore_eos": True}) as raw:
            self.assertEqual(raw.headers["x-penstock-max-tokens"], str(TENANT_CAP))
            chunks = list(raw.parse())
        self.assertEqual(chunks[-1].usage.completion_tokens, TENANT_CAP)

    def test_a_prompt_above_the_cap_is_refused(self):
        answer, _, dropped = self.chat("sk-large", LONG, max_tokens=4)
        self.assertGreater(answer.usage.prompt_tokens, 1.25 * PROMPT_CAP)
        self.assertIsNone(dropped)
        with self.assertRaises(openai.BadRequestError) as raised:
            self.chat("sk-small", LONG, max_tokens=4)
        self.assertEqual(raised.exception.code, "context_length_exceeded")
        self.assertIn(f"tokens, the limit (max_prompt_tokens) is {PROMPT_CAP}; shorten the prompt", raised.exception.message)

    def test_a_reload_truncates_prompts_instead(self):
        self.write(config(over_context="truncate"))
        self.gateway.signal(signal.SIGHUP)

        def truncated():
            try:
                return self.chat("sk-small", LONG, max_tokens=4)
            except openai.BadRequestError:
                return None

        answer, _, dropped = until("the reload", truncated)
        self.assertTrue(PROMPT_CAP // 3 < answer.usage.prompt_tokens <= PROMPT_CAP, answer.usage)
        self.assertGreater(int(dropped), 900)

    def test_the_list_of_models_names_the_caps(self):
        listed = self.client("sk-small").models.retrieve(MODEL).model_dump()
        self.assertEqual((listed["max_prompt_tokens"], listed["max_completion_tokens"]), (PROMPT_CAP, TENANT_CAP))
        listed = self.client("sk-large").models.retrieve(MODEL).model_dump()
        self.assertNotIn("max_prompt_tokens", listed)
        self.assertEqual(listed["max_completion_tokens"], COMPLETION_CAP)

    def test_check_names_the_place_of_a_wrong_cap(self):
        with open(self.path, "w") as file:
            file.write("models:\n  - {name: m, max_completion_tokens: -5}\n")
        done = subprocess.run([PROGRAM, "check", self.path], capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("p.yaml:2:38: models[0].max_completion_tokens: ", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
