#!/usr/bin/env python3
"""Anthropic's SDK behind a real Envoy whose endpoint picker is `penstock epp`. Exit code 77: Envoy cannot be had."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "live"))

import real_clients  # noqa: E402

real_clients.go_on_with(real_clients.ANTHROPIC_PYTHON)

import anthropic  # noqa: E402, of the Python that runs by now

from envoy_testing import SLOW, BehindEnvoy, install  # noqa: E402
from live_testing import SECONDS, until  # noqa: E402

MODEL = "penstock-sim"
ASKED = {"model": MODEL, "messages": [{"role": "user", "content": "say something"}], "max_tokens": 9,
         "extra_body": {"ignore_eos": True}}
TENANTS = {"tenants": [{"name": "large", "keys": ["sk-large"]},
                       {"name": "small", "keys": ["sk-small"], "tokens_per_minute": 1200, "burst": 100}]}


class MessagesBehindEnvoy(BehindEnvoy, unittest.TestCase):
    def setUp(self):
        self.start(engine=SLOW, config=TENANTS)

    def client(self, key="sk-large"):
        client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{self.envoy.port}", api_key=key, max_retries=0, timeout=SECONDS)
        self.addCleanup(client.close)
        return client

    def test_messages_are_answered_and_streamed(self):
        answer = self.client().messages.create(**ASKED)
        self.assertEqual((answer.stop_reason, answer.usage.output_tokens), ("max_tokens", 9))
        self.assertEqual(len(answer.content[0].text.split()), 9)
        with self.client().messages.stream(**ASKED) as stream:
            pieces = list(stream.text_stream)
            answer = stream.get_final_message()
        self.assertEqual((len(pieces), answer.usage.output_tokens), (9, 9))
        until("the picker's books", lambda: self.usage()["completed"] == 2)
        self.assertEqual(self.usage()["output_tokens"], 18)

    def test_errors_are_those_of_anthropic(self):
        for error, kind, call in (
                (anthropic.AuthenticationError, "authentication_error", lambda: self.client("sk-wrong").messages.create(**ASKED)),
                (anthropic.NotFoundError, "not_found_error",
                 lambda: self.client().messages.create(**{**ASKED, "model": "unknown"})),
                (anthropic.RateLimitError, "rate_limit_error",
                 lambda: [self.client("sk-small").messages.create(**{**ASKED, "max_tokens": 60}) for _ in "123"])):
            with self.assertRaises(error) as caught:
                call()
            self.assertEqual(caught.exception.body["error"]["type"], kind)
        self.assertGreaterEqual(int(caught.exception.response.headers["retry-after"]), 1)


if __name__ == "__main__":
    install()
    unittest.main()
