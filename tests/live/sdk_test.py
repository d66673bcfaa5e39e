#!/usr/bin/env python3
"""The OpenAI SDKs for Python and Node, and curl, against gateway and engine."""

import json
import os
import subprocess
import tempfile
import unittest

import real_clients

real_clients.go_on_with(real_clients.OPENAI_PYTHON)

import openai  # noqa: E402, of the Python that runs by now

from live_testing import SECONDS, Engine, Gateway, until  # noqa: E402

MODEL = "penstock-sim"
SLOW = ("--engine", "linear:20,0,0.001,0")  # 20 ms a token
HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = {"tenants": [{"name": "large", "keys": ["sk-large"]},
                      {"name": "small", "keys": ["sk-small"], "tokens_per_minute": 1200, "burst": 100},
                      {"name": "short", "keys": ["sk-short"], "context": 1000, "over_context": "truncate"}]}
ASKED = [{"role": "user", "content": "say something"}]


class SdkTest(unittest.TestCase):
    def setUp(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
            file.write(json.dumps(CONFIG))
        self.addCleanup(os.unlink, file.name)
        self.engine = Engine(self, *SLOW)
        self.gateway = Gateway(self, "--config", file.name, self.engine.url).ready()
        self.url = f"http://127.0.0.1:{self.gateway.port}/v1"

    def client(self, key="sk-large", **more):
        client = openai.OpenAI(base_url=self.url, api_key=key, **{"max_retries": 0, "timeout": SECONDS, **more})
        self.addCleanup(client.close)
        return client

    def test_python_lists_models(self):
        self.assertEqual([model.id for model in self.client().models.list()], [MODEL])

    def test_python_chats(self):
        answer = self.client().chat.completions.create(model=MODEL, messages=ASKED, max_tokens=7,
                                                       extra_body={"ignore_eos": True})
        self.assertEqual(answer.usage.completion_tokens, 7)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + 7)
        self.assertEqual((answer.model, answer.choices[0].finish_reason), (MODEL, "length"))
        self.assertEqual(len(answer.choices[0].message.content.split()), 7)
        self.assertTrue(answer._request_id)

    def test_python_reads_how_much_of_its_prompt_was_dropped(self):
        messages = [{"role": "user", "content": "many words " * 100}, {"role": "assistant", "content": "yes " * 100}] * 10
        asked = {"model": MODEL, "messages": messages + ASKED, "max_tokens": 4, "extra_body": {"ignore_eos": True}}
        raw = self.client("sk-short").chat.completions.with_raw_response.create(**asked)
        self.assertGreater(int(raw.headers["x-penstock-truncated-messages"]), 0)
        whole = self.client().chat.completions.create(**asked).usage.prompt_tokens
        left = raw.parse().usage.prompt_tokens
        self.assertLess(left, 1000)
        dropped = int(raw.headers["x-penstock-truncated-prompt-tokens"])
        self.assertLess(abs(whole - left - dropped), 0.1 * dropped)

    def test_python_completes(self):
        answer = self.client().completions.create(model=MODEL, prompt="once upon", max_tokens=5,
                                                  extra_body={"ignore_eos": True})
        self.assertEqual(len(answer.choices[0].text.split()), 5)

    def test_python_streams_with_usage(self):
        stream = self.client().chat.completions.create(model=MODEL, messages=ASKED, max_tokens=9, stream=True,
                                                       stream_options={"include_usage": True},
                                                       extra_body={"ignore_eos": True})
        pieces = list(stream)
        text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
        self.assertEqual(len(text.split()), 9)
        self.assertEqual((pieces[-1].choices, pieces[-1].usage.completion_tokens), ([], 9))
        self.assertTrue(all(piece.usage is None for piece in pieces[:-1]))

    def test_python_streams_completions_as_they_come(self):
        stream = self.client().completions.create(model=MODEL, prompt="once upon", max_tokens=5, stream=True,
                                                  extra_body={"ignore_eos": True})
        self.assertEqual(len("".join(piece.choices[0].text for piece in stream).split()), 5)

    def test_python_knows_the_errors(self):
        for error, status, call in (
                (openai.AuthenticationError, 401, lambda: self.client("sk-wrong").models.list()),
                (openai.AuthenticationError, 401, lambda: self.ask(self.client("sk-wrong"))),
                (openai.NotFoundError, 404, lambda: self.ask(self.client(), model="unknown")),
                (openai.BadRequestError, 400, lambda: self.ask(self.client(), messages=[])),
                (openai.BadRequestError, 400, lambda: self.ask(self.client(), max_tokens=10_000_000)),
                (openai.RateLimitError, 429, lambda: [self.ask(self.client("sk-small"), max_tokens=60) for _ in "123"])):
            with self.assertRaises(error) as caught:
                call()
            self.assertEqual(caught.exception.status_code, status)
            self.assertTrue(caught.exception.message)
        self.assertEqual(caught.exception.code, "token_budget_exceeded")
        self.assertGreaterEqual(int(caught.exception.response.headers["retry-after"]), 1)

    def test_python_honours_retry_after(self):
        answers = [self.ask(self.client("sk-small", max_retries=4), max_tokens=60) for _ in "123"]
        self.assertEqual([answer.usage.completion_tokens for answer in answers], [60] * 3)
        self.assertGreater(self.gateway.overview()["refused_total"], 0)

    def test_python_does_not_repeat_what_its_budget_can_never_hold(self):
        with self.assertRaises(openai.RateLimitError) as caught:
            self.ask(self.client("sk-small", max_retries=4), messages=[{"role": "user", "content": "word " * 1000}])
        self.assertEqual(caught.exception.code, "token_budget_exceeded")
        self.assertIn("(burst), 100; shorten the prompt", caught.exception.message)
        self.assertNotIn("retry-after", caught.exception.response.headers)
        self.assertEqual(self.gateway.overview()["refused_total"], 1)

    def test_python_reads_its_rate_limits(self):
        def limits(headers):
            return [headers.get("x-ratelimit-" + name) for name in ("limit-tokens", "remaining-tokens", "reset-tokens")]

        raw = self.client("sk-small").chat.completions.with_raw_response.create(
            model=MODEL, messages=ASKED, max_tokens=60, extra_body={"ignore_eos": True})
        limit, remaining, reset = limits(raw.headers)
        self.assertEqual(limit, "100")
        self.assertEqual(remaining, "0")  # The template of a chat is reserved, too.
        self.assertRegex(reset, r"\A([6-9]|1[0-9]|2[0-5])s\Z")  # A full budget takes 5 s, and the reservation more.
        with self.assertRaises(openai.RateLimitError) as caught:
            for _ in "123":
                self.ask(self.client("sk-small"), max_tokens=60)
        limit, remaining, reset = limits(caught.exception.response.headers)
        self.assertEqual(limit, "100")
        self.assertLess(int(remaining), 100)
        self.assertRegex(reset, r"\A[0-9]+s\Z")
        raw = self.client().chat.completions.with_raw_response.create(model=MODEL, messages=ASKED, max_tokens=4)
        self.assertEqual(limits(raw.headers), [None] * 3)

    def test_python_cancels_a_stream(self):
        stream = self.client().chat.completions.create(model=MODEL, messages=ASKED, max_tokens=5000, stream=True,
                                                       extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        until("an idle engine", lambda: self.engine.info()["requests_open"] == 0)
        until("the gateway's books", lambda: self.gateway.overview()["usage"][0]["cancelled"] == 1)

    def ask(self, client, **asked):
        return client.chat.completions.create(**{"model": MODEL, "messages": ASKED, "max_tokens": 4,
                                                 "extra_body": {"ignore_eos": True}, **asked})

    def test_node_does_all_that(self):
        folder = real_clients.node_modules_with(real_clients.OPENAI_NODE)
        script = os.path.join(folder, "sdk_client.mjs")
        with open(os.path.join(HERE, "sdk_client.mjs")) as source, open(script, "w") as copy:
            copy.write(source.read())
        done = subprocess.run(["node", script, self.url], capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], "all good")
        until("an idle engine", lambda: self.engine.info()["requests_open"] == 0)

    def test_curl_shows_a_stream(self):
        body = json.dumps({"model": MODEL, "messages": ASKED, "max_tokens": 6, "ignore_eos": True, "stream": True})
        done = subprocess.run(["curl", "-sSN", "--fail", f"{self.url}/chat/completions", "-H",
                               "Authorization: Bearer sk-large", "-H", "Content-Type: application/json", "-d", body],
                              capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count('"content":" '), 6)
        self.assertTrue(done.stdout.endswith("data: [DONE]\n\n"))
        # A body of more than a MiB comes with "Expect: 100-continue".
        long = json.dumps({"model": MODEL, "prompt": "word " * 300_000, "max_tokens": 1})
        done = subprocess.run(["curl", "-sS", f"{self.url}/completions", "-H", "Authorization: Bearer sk-large", "-d", "@-"],
                              input=long, capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(json.loads(done.stdout)["error"]["code"], "context_length_exceeded", done.stderr)


if __name__ == "__main__":
    unittest.main()
