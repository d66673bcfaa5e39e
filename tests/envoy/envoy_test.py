#!/usr/bin/env python3
"""Clients of all kinds behind a real Envoy whose endpoint picker is `penstock epp`. Exit code 77: Envoy cannot be had."""

import json
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "live"))

import real_clients  # noqa: E402

real_clients.go_on_with(real_clients.OPENAI_PYTHON)

import openai  # noqa: E402, of the Python that runs by now

from envoy_testing import (DUPLEX, EXAMPLES, ORIGINAL_DST, OVERRIDE_HOST, SLOW, BehindEnvoy, install)  # noqa: E402
from live_testing import KILL, SECONDS, STOP, Stream, ask, chat, complete, config_file, series, until  # noqa: E402
from planner_testing import Planner  # noqa: E402

MODEL = "penstock-sim"
ASKED = [{"role": "user", "content": "say something"}]
EXACT = {"extra_body": {"ignore_eos": True}}
TENANTS = {"tenants": [{"name": "large", "keys": ["sk-large"]},
                       {"name": "small", "keys": ["sk-small"], "tokens_per_minute": 1200, "burst": 100}]}


class WithClient(BehindEnvoy, unittest.TestCase):
    example = ORIGINAL_DST

    def client(self, key="sk-large", **more):
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.envoy.port}/v1", api_key=key,
                               **{"max_retries": 0, "timeout": SECONDS, **more})
        self.addCleanup(client.close)
        return client

    def ask(self, client, **asked):
        return client.chat.completions.create(**{"model": MODEL, "messages": ASKED, "max_tokens": 7, **EXACT, **asked})

    def served(self):
        """Answers that each engine has finished, by its metrics."""
        return [sum(series(ask(engine.port, "GET", "/metrics")[2], "vllm:request_success_total").values())
                for engine in self.engines]


class Examples(unittest.TestCase):
    def test_envoy_accepts_the_examples(self):
        for example in (OVERRIDE_HOST, ORIGINAL_DST):
            done = subprocess.run([install(), "--mode", "validate", "-l", "warning", "-c", EXAMPLES / example],
                                  capture_output=True, text=True, timeout=SECONDS, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("OK", done.stdout + done.stderr)


class SdkBehindEnvoy(WithClient):
    def test_python_lists_models_and_chats(self):
        self.start(config=TENANTS, example=self.example)
        self.assertEqual([model.id for model in self.client().models.list()], [MODEL])
        answer = self.ask(self.client())
        self.assertEqual((answer.usage.completion_tokens, answer.choices[0].finish_reason), (7, "length"))
        self.assertEqual(len(answer.choices[0].message.content.split()), 7)
        pieces = list(self.ask(self.client(), max_tokens=9, stream=True, stream_options={"include_usage": True}))
        text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
        self.assertEqual(len(text.split()), 9)
        self.assertEqual((pieces[-1].choices, pieces[-1].usage.completion_tokens), ([], 9))
        until("the picker's books", lambda: self.usage()["completed"] == 2)
        self.assertEqual(self.usage()["output_tokens"], 16)

    def test_errors_are_those_of_openai(self):
        self.start(config=TENANTS, example=self.example)
        for error, status, call in (
                (openai.AuthenticationError, 401, lambda: self.ask(self.client("sk-wrong"))),
                (openai.AuthenticationError, 401, lambda: self.client("sk-wrong").models.list()),
                (openai.NotFoundError, 404, lambda: self.ask(self.client(), model="unknown")),
                (openai.BadRequestError, 400, lambda: self.ask(self.client(), messages=[])),
                (openai.RateLimitError, 429, lambda: [self.ask(self.client("sk-small"), max_tokens=60) for _ in "123"])):
            with self.assertRaises(error) as caught:
                call()
            self.assertEqual(caught.exception.status_code, status)
            self.assertTrue(caught.exception.message)
        self.assertEqual(caught.exception.code, "token_budget_exceeded")
        self.assertGreaterEqual(int(caught.exception.response.headers["retry-after"]), 1)
        self.assertTrue(caught.exception.response.headers["content-type"].startswith("application/json"))


class SdkWithOverrideHost(SdkBehindEnvoy):
    example = OVERRIDE_HOST


class Routing(WithClient):
    def test_requests_with_one_long_prefix_reach_one_replica(self):
        for example in (ORIGINAL_DST, OVERRIDE_HOST):
            self.start(example=example, engine=SLOW)
            for i in range(9):
                self.assertEqual(complete(self.envoy.port, 4, "the same words " * 200 + str(i))[0], 200)
            self.assertEqual(sorted(self.served())[:2], [0, 0], example)

    def test_other_requests_spread(self):
        self.start(example=OVERRIDE_HOST, engine=SLOW)
        streams = [Stream(self.envoy.port, 50, f"prompt {i}") for i in range(12)]
        for stream in streams:
            self.assertTrue(stream.join().whole(50), stream.text[-300:])
        self.assertEqual(sum(self.served()), 12)
        self.assertTrue(all(count >= 2 for count in self.served()), self.served())

    def test_an_endpoint_that_the_client_names_is_overwritten(self):
        self.start()
        fields = {"x-gateway-destination-endpoint": f"127.0.0.1:{self.picker.admin}"}
        status, _, body = complete(self.envoy.port, 5, **fields)
        self.assertEqual(status, 200, body)
        status, _, body = ask(self.envoy.port, "GET", "/metrics", **fields)
        self.assertNotIn("penstock_", body)
        self.assertEqual(status, 404, body)

    def test_a_subset_of_the_endpoints_is_refused(self):
        self.start(subset=["127.0.0.1:1"])
        status, _, body = complete(self.envoy.port, 3)
        self.assertEqual(status, 500, body)
        self.assertIn("subset of endpoints", json.loads(body)["error"]["message"])

    def test_an_engine_that_dies_gets_no_further_requests(self):
        for example in (ORIGINAL_DST, OVERRIDE_HOST):
            self.start(example=example, engine=SLOW)
            streams = [Stream(self.envoy.port, 500, f"prompt {i}") for i in range(6)]
            until("streams at all engines", lambda: all(engine.info()["requests_open"] for engine in self.engines))
            self.engines[0].signal(KILL)
            self.engines[0].wait()
            until("streams that break", lambda: any(not stream.thread.is_alive() for stream in streams))
            statuses = [complete(self.envoy.port, 3, f"after {i}")[0] for i in range(20)]
            self.assertEqual(statuses[-10:], [200] * 10, statuses)
            self.assertTrue(set(statuses) <= {200, 502, 503}, statuses)
            for stream in streams:
                stream.leave()

    def test_a_long_prompt_arrives_whole(self):
        for modes in ((DUPLEX, DUPLEX), ("BUFFERED", "STREAMED")):
            self.start(request_mode=modes[0], response_mode=modes[1])
            for words in (300_000, 1_000):
                prompt = ("word " * (words // 5))[:words]
                status, _, body = complete(self.envoy.port, 4, prompt)
                self.assertEqual(status, 200, body)
            until("the picker's books", lambda: self.usage()["completed"] == 2)
            self.assertGreater(self.usage()["prompt_tokens"], 60_000)


class Waiting(WithClient):
    def test_requests_wait_while_all_replicas_are_full(self):
        self.start(engine=SLOW, config={"gateway": {"admission": {"prefill_tokens": 4000}},
                                        "classes": {"interactive": {"queue_time": "60s"}}})
        streams = [Stream(self.envoy.port, 40, f"{i} " + "word " * 3000) for i in range(24)]
        until("requests that wait at the picker", lambda: self.picker.overview()["queue"]["interactive"] > 0)
        for stream in streams:
            self.assertTrue(stream.join().whole(40), stream.text[-300:])
        self.assertEqual(self.envoy.counter("http.llm.downstream_rq_5xx"), 0)

    def test_a_client_that_leaves_frees_its_slot(self):
        self.start(engine=SLOW)
        streams = [Stream(self.envoy.port, 5000, f"prompt {i}") for i in range(6)]
        until("tokens of all", lambda: all(stream.tokens() > 2 for stream in streams))
        for stream in streams:
            stream.leave()
        until("idle engines", lambda: self.open_requests() == 0)
        until("the picker's books", lambda: self.usage()["cancelled"] == 6)
        self.assertEqual(self.picker.open_requests(), 0)


class Modes(WithClient):
    def check(self, request_mode, response_mode):
        self.start(engine=SLOW, request_mode=request_mode, response_mode=response_mode)
        status, _, body = complete(self.envoy.port, 8)
        self.assertEqual(status, 200, body)
        for words in (1, 20_000):  # A body of one piece and one of several.
            stream = Stream(self.envoy.port, 30, "word " * words).join()
            self.assertTrue(stream.whole(30), stream.text[-300:])
            self.assertNotIn('"usage":{', stream.text)  # The picker asks the engine for it, and the client did not.
        self.assertEqual(len(list(self.client().models.list())), 1)
        unknown = {**chat(4), "model": "unknown"}
        self.assertEqual(ask(self.envoy.port, "POST", "/v1/chat/completions", unknown)[0], 404)
        until("the picker's books", lambda: self.usage()["completed"] == 3)
        return self.usage()

    def test_full_duplex(self):
        self.assertEqual(self.check(DUPLEX, DUPLEX)["output_tokens"], 68)

    def test_buffered_request(self):
        self.assertEqual(self.check("BUFFERED", "STREAMED")["output_tokens"], 68)

    def test_modes_that_hide_what_a_picker_needs_are_named(self):
        for request_mode, response_mode, named in (("STREAMED", "STREAMED", "request_body_mode"), (DUPLEX, "NONE", "response_body_mode")):
            self.start(request_mode=request_mode, response_mode=response_mode)
            status, _, body = complete(self.envoy.port, 8)
            self.assertEqual(status, 500)
            self.assertIn(f"{named} must be FULL_DUPLEX_STREAMED", body)
            self.assertEqual(self.open_requests(), 0)


class Failing(WithClient):
    def test_without_a_picker_requests_fail_at_once_and_streams_break(self):
        self.start(engine=SLOW)
        stream = Stream(self.envoy.port, 500)
        until("tokens", lambda: stream.tokens() > 5)
        self.picker.signal(KILL)
        self.picker.wait()
        self.assertFalse(stream.join().whole(500))
        self.assertEqual(complete(self.envoy.port, 3)[0], 500)
        until("idle engines", lambda: self.open_requests() == 0)

    def test_without_replicas_the_picker_is_not_ready(self):
        self.start(engines=1, engine=SLOW, config={"classes": {"interactive": {"queue_time": "2s"}}})
        self.engines[0].signal(KILL)
        self.engines[0].wait()
        until("a picker that is not ready", lambda: "/failed_active_hc" in self.envoy.page("/clusters"))
        # Envoy asks a picker that is not ready where there is no other. Requests wait there for a replica.
        status, fields, body = complete(self.envoy.port, 3)
        self.assertEqual((status, json.loads(body)["error"]["code"]), (503, "queue_timeout"), body)
        self.assertTrue(fields["retry-after"])


class Draining(WithClient):
    def test_all_streams_end_whole_after_sigterm(self):
        self.start("--drain-time", "60s", engine=SLOW)
        streams = [Stream(self.envoy.port, 200, f"prompt {i}") for i in range(50)]
        until("tokens of all", lambda: all(stream.tokens() > 5 for stream in streams))
        self.picker.signal(STOP)
        for stream in streams:
            self.assertTrue(stream.join().whole(200), stream.text[-300:])
        self.assertEqual(self.picker.wait(), 0)

    def test_streams_that_outlive_the_drain_go_on_without_the_picker(self):
        self.start("--drain-delay", "0s", "--drain-time", "1s", engine=SLOW)
        streams = [Stream(self.envoy.port, 300, f"prompt {i}") for i in range(50)]
        until("tokens of all", lambda: all(stream.tokens() > 5 for stream in streams))
        self.picker.signal(STOP)
        self.assertEqual(self.picker.wait(), 0)
        for stream in streams:
            self.assertTrue(stream.join().whole(300), (stream.status, stream.tokens(), stream.fault, stream.text[-300:]))


class TwoPickers(WithClient):
    def ask_while(self, running):
        statuses = []
        while running():
            statuses.append(complete(self.envoy.port, 3, f"turn {len(statuses)}")[0])
        return statuses

    def test_no_request_fails_while_one_of_two_pickers_restarts(self):
        self.start("--drain-delay", "5s", engine=SLOW, pickers=2)
        self.picker.signal(STOP)
        statuses = self.ask_while(lambda: self.picker.process.poll() is None)
        statuses += [complete(self.envoy.port, 3, f"after {i}")[0] for i in range(20)]
        self.assertGreater(len(statuses), 30)
        self.assertEqual(set(statuses), {200}, statuses)

    def test_a_picker_that_hangs_is_left_out(self):
        self.start(engine=SLOW, pickers=2)
        self.picker.signal(signal.SIGSTOP)
        self.addCleanup(self.picker.signal, signal.SIGCONT)
        until("the failed health check", lambda: "/failed_active_hc" in self.envoy.page("/clusters"))
        self.assertEqual([complete(self.envoy.port, 3, f"after {i}")[0] for i in range(20)], [200] * 20)


class Operators(WithClient):
    def test_metrics_and_the_planner_see_the_traffic(self):
        self.start(engine=SLOW)
        config = {"model": MODEL, "pools": [{"name": "default", "replicas": 3, "min_replicas": 1, "max_replicas": 6}],
                  "planner": {"tick_interval": "1s"}}
        planner = Planner(self, "--config", config_file(self, **config), "--gateway", f"127.0.0.1:{self.picker.admin}")
        streams = [Stream(self.envoy.port, 40, f"prompt {i}") for i in range(10)]
        for stream in streams:
            self.assertTrue(stream.join().whole(40), stream.text[-300:])
        until("the picker's books", lambda: self.usage()["completed"] == 10)
        metrics = self.picker.metrics()
        requests = series(metrics, "penstock_requests_total")
        self.assertEqual(requests[f'tenant="anonymous",model="{MODEL}",outcome="completed"'], 10)
        self.assertEqual(sum(requests.values()), 10)
        tokens = series(metrics, "penstock_tokens_total")
        self.assertEqual(tokens[f'tenant="anonymous",model="{MODEL}",kind="output"'], 400)
        until("requests that the planner has seen",
              lambda: sum(series(planner.metrics(), "penstock_pool_requests_total").values()) == 10)


if __name__ == "__main__":
    install()
    unittest.main()
