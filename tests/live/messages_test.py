#!/usr/bin/env python3
"""Anthropic's SDK for Python against gateway and engine."""

import json
import os
import tempfile
import unittest

import real_clients

real_clients.go_on_with(real_clients.ANTHROPIC_PYTHON)

import anthropic  # noqa: E402, of the Python that runs by now

from live_testing import SECONDS, Engine, Gateway, until  # noqa: E402

MODEL = "penstock-sim"
SLOW = ("--engine", "linear:20,0,0.001,0")  # 20 ms a token
CONFIG = {"tenants": [{"name": "large", "keys": ["sk-large"]},
                      {"name": "capped", "keys": ["sk-capped"], "max_completion_tokens": 5},
                      {"name": "small", "keys": ["sk-small"], "tokens_per_minute": 1200, "burst": 100}]}
ASKED = [{"role": "user", "content": "say something"}]
TOOL = {"name": "look", "description": "looks", "input_schema": {"type": "object", "properties": {}}}
EXACT = {"extra_body": {"ignore_eos": True}}


class MessagesTest(unittest.TestCase):
    def setUp(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
            file.write(json.dumps(CONFIG))
        self.addCleanup(os.unlink, file.name)
        self.engine = Engine(self, *SLOW)
        self.gateway = Gateway(self, "--config", file.name, self.engine.url).ready()

    def client(self, key="sk-large", **more):
        client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{self.gateway.port}",
                                     **{"api_key": key, "max_retries": 0, "timeout": SECONDS, **more})
        self.addCleanup(client.close)
        return client

    def ask(self, client, **asked):
        return client.messages.create(**{"model": MODEL, "messages": ASKED, "max_tokens": 4, **EXACT, **asked})

    def test_a_message_is_answered(self):
        answer = self.ask(self.client(), max_tokens=7)
        self.assertEqual((answer.type, answer.role, answer.model), ("message", "assistant", MODEL))
        self.assertEqual((answer.stop_reason, answer.usage.output_tokens), ("max_tokens", 7))
        self.assertEqual(len(answer.content[0].text.split()), 7)
        self.assertGreater(answer.usage.input_tokens, 0)

    def test_a_conversation_with_tools_and_system_is_read(self):
        messages = [*ASKED, {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [
                        {"type": "text", "text": "seen", "cache_control": {"type": "ephemeral"}}]}]}]
        system = [{"type": "text", "text": "Be brief. " * 40, "cache_control": {"type": "ephemeral"}}]
        asked = {"messages": messages, "system": system, "tools": [TOOL], "metadata": {"user_id": "u"}}
        first = self.ask(self.client(), **asked)
        second = self.ask(self.client(), **asked)
        self.assertEqual(first.content[0].text, second.content[0].text)
        self.assertGreater(second.usage.cache_read_input_tokens, 64)
        counted = self.client().messages.count_tokens(model=MODEL, messages=messages, system=system, tools=[TOOL])
        self.assertEqual(counted.input_tokens, second.usage.input_tokens + second.usage.cache_read_input_tokens)
        until("the gateway's books", lambda: self.gateway.overview()["usage"][0]["completed"] == 3)
        self.assertEqual(self.gateway.overview()["usage"][0]["output_tokens"], 8)

    def test_a_message_is_streamed(self):
        with self.client().messages.stream(model=MODEL, messages=ASKED, max_tokens=9, **EXACT) as stream:
            pieces = list(stream.text_stream)
            answer = stream.get_final_message()
        self.assertEqual((len(pieces), "".join(pieces)), (9, answer.content[0].text))
        self.assertEqual((answer.stop_reason, answer.usage.output_tokens), ("max_tokens", 9))
        until("the gateway's books", lambda: self.gateway.overview()["usage"][0]["completed"] == 1)
        self.assertEqual(self.gateway.overview()["usage"][0]["output_tokens"], 9)

    def test_a_time_budget_ends_a_stream_well(self):
        with self.client().messages.stream(model=MODEL, messages=ASKED, max_tokens=5000, **EXACT,
                                           extra_headers={"X-Time-Budget": "1s"}) as stream:
            answer = stream.get_final_message()
        self.assertEqual(answer.stop_reason, "max_tokens")
        self.assertGreater(answer.usage.output_tokens, 5)
        self.assertEqual(answer.usage.output_tokens, len(answer.content[0].text.split()))

    def test_a_cap_lowers_the_limit(self):
        raw = self.client("sk-capped").messages.with_raw_response.create(
            model=MODEL, messages=ASKED, max_tokens=2000, thinking={"type": "enabled", "budget_tokens": 1500}, **EXACT)
        self.assertEqual(raw.headers["x-penstock-max-tokens"], "5")
        self.assertEqual(raw.parse().usage.output_tokens, 5)

    def test_keys_come_in_either_field(self):
        self.assertEqual(self.ask(self.client(None, auth_token="sk-large")).usage.output_tokens, 4)
        self.assertEqual(self.ask(self.client("sk-large")).usage.output_tokens, 4)
        self.assertEqual(self.gateway.overview()["usage"][0]["tenant"], "large")

    def test_errors_are_known(self):
        for error, kind, call in (
                (anthropic.AuthenticationError, "authentication_error", lambda: self.ask(self.client("sk-wrong"))),
                (anthropic.NotFoundError, "not_found_error", lambda: self.ask(self.client(), model="unknown")),
                (anthropic.BadRequestError, "invalid_request_error", lambda: self.ask(self.client(), messages=[])),
                (anthropic.BadRequestError, "invalid_request_error", lambda: self.ask(self.client(), max_tokens=10_000_000)),
                (anthropic.RateLimitError, "rate_limit_error",
                 lambda: [self.ask(self.client("sk-small"), max_tokens=60) for _ in "123"])):
            with self.assertRaises(error) as caught:
                call()
            self.assertEqual(caught.exception.body["type"], "error")
            self.assertEqual(caught.exception.body["error"]["type"], kind)
            self.assertTrue(caught.exception.body["error"]["message"])
        self.assertGreaterEqual(int(caught.exception.response.headers["retry-after"]), 1)

    def test_a_client_that_leaves_frees_the_engine(self):
        stream = self.client().messages.create(model=MODEL, messages=ASKED, max_tokens=5000, stream=True, **EXACT)
        next(iter(stream))
        stream.close()
        until("an idle engine", lambda: self.engine.info()["requests_open"] == 0)
        until("the gateway's books", lambda: self.gateway.overview()["usage"][0]["cancelled"] == 1)


if __name__ == "__main__":
    unittest.main()
