#!/usr/bin/env python3
"""`penstock load` from end to end: the real program against the real engine, whose own figures are the measure."""

import http.server
import json
import re
import signal
import threading
import time
import unittest

from command_testing import CommandTest
from live_testing import KILL, Engine, ask, until

# An iteration takes 20 ms, and 0.05 ms for each prompt token.
STEADY = ("--engine", "linear:20,0,0.05,0")


class LoadTest(CommandTest):
    command = "load"

    def load(self, *words, code=0):
        """Runs it and returns its JSON and its table."""
        out, _ = self.finish(self.begin(*words, "--json", "load.json"), code)
        return self.json(), out

    def json(self):
        return json.loads((self.folder / "load.json").read_text())

    def assert_refused(self, *words, says):
        out, err = self.finish(self.begin(*words), code=2)
        self.assertEqual(out, "")
        self.assertRegex(err, r"\Apenstock: [^\n]+\n\Z")
        self.assertIn(says, err)


def metric(engine, name):
    text = ask(engine.port, "GET", "/metrics")[2]
    values = re.findall(rf"(?m)^{re.escape(name)}(?:\{{[^}}]*\}})? (\S+)$", text)
    return sum(map(float, values))  # of all labels


def mean(engine, name):
    return metric(engine, name + "_sum") / metric(engine, name + "_count")


class Figures(LoadTest):
    def test_agree_with_the_engines_own(self):
        engine = Engine(self, *STEADY)
        figures, table = self.load(engine.url, "--rate", 8, "--requests", 24, "--input-tokens", "100..2000",
                                   "--output-tokens", 20, "--expect", "ttft_p95=60s,errors=0,truncated=0")
        self.assertEqual(figures["requests"]["ok"], 24)
        self.assertEqual(figures["tokens_out"], 24 * 20)
        self.assertEqual(figures["model"], "penstock-sim")
        ttft = mean(engine, "vllm:time_to_first_token_seconds") * 1000
        itl = mean(engine, "vllm:inter_token_latency_seconds") * 1000
        # From outside it is never less; how much more is the machine's business, up to a point.
        self.assertGreater(figures["ttft_ms"]["mean"] / ttft, 0.95)
        self.assertLess(figures["ttft_ms"]["mean"] / ttft, 2.0)
        self.assertGreater(figures["itl_ms"]["mean"] / itl, 0.9)
        self.assertLess(figures["itl_ms"]["mean"] / itl, 1.5)
        self.assertGreater(figures["itl_ms"]["p50"], 19)
        self.assertEqual(figures["gap_ms"]["count"], 24 * 19)
        self.assertGreater(figures["generator"]["cpu_us_per_token"], 0)
        self.assertIn("met    errors=0: 0", table)

    def test_a_stall_of_the_server_counts_for_all_requests_due_meanwhile(self):
        engine = Engine(self, *STEADY)
        process = self.begin(engine.url, "--rate", 20, "--arrivals", "uniform", "--duration", "4s", "--input-tokens", 50,
                             "--output-tokens", 4, "--json", "load.json")
        until("requests that have ended", lambda: metric(engine, "vllm:request_success_total") >= 10)
        engine.signal(signal.SIGSTOP)
        time.sleep(1.2)
        engine.signal(signal.SIGCONT)
        self.finish(process)
        figures = self.json()
        self.assertEqual(figures["requests"]["ok"], 80)
        self.assertGreater(figures["ttft_ms"]["max"], 1000)
        # About 24 of 80 requests were meant to start within the stall, and wait half of it on average.
        self.assertGreater(figures["ttft_ms"]["p90"], 500)
        self.assertGreater(max(slot["ttft_p95_ms"] or 0 for slot in figures["timeline"]), 800)

    def test_a_closed_loop_keeps_the_configured_number_in_flight(self):
        engine = Engine(self, *STEADY)
        process = self.begin(engine.url, "--concurrency", 6, "--requests", 60, "--input-tokens", 50,
                             "--output-tokens", 10, "--json", "load.json")
        seen = []
        while process.poll() is None:
            seen.append(metric(engine, "vllm:num_requests_running"))
            time.sleep(0.01)
        self.finish(process)
        self.assertEqual(max(seen), 6)
        self.assertEqual(self.json()["requests"]["ok"], 60)
        self.assertEqual(max(slot["in_flight_max"] for slot in self.json()["timeline"]), 6)

    def test_shared_prefixes_are_found_in_the_cache(self):
        engine = Engine(self, *STEADY)
        figures, table = self.load(engine.url, "--rate", 20, "--requests", 40, "--input-tokens", 600,
                                   "--output-tokens", 2, "--shared-prefix-tokens", 480, "--completions")
        self.assertGreater(figures["cached_tokens"] / figures["prompt_tokens"], 0.5)
        self.assertIn("of the prompts cached", table)
        other, _ = self.load(engine.url, "--rate", 20, "--requests", 20, "--input-tokens", 600, "--output-tokens", 2,
                             "--completions", "--seed", 2)
        self.assertEqual(other["cached_tokens"], 0)

    def test_a_trace_and_answers_that_are_not_streamed(self):
        engine = Engine(self, *STEADY, "--speed", "50")
        figures, _ = self.load(engine.url, "--trace", "synthetic:rate=20,duration=4s,input=300,output=20,tenants=2,batch=0.3",
                               "--speed", 4, "--no-stream", "30%")
        self.assertGreater(figures["requests"]["ok"], 40)
        self.assertEqual(figures["requests"]["errors"], 0)
        self.assertLess(figures["ttft_ms"]["count"], figures["latency_ms"]["count"])
        groups = {(segment["group"], segment["label"]) for segment in figures["segments"]}
        self.assertLessEqual({("class", "interactive"), ("class", "batch")}, groups)
        self.assertEqual(len([group for group, _ in groups if group == "tenant"]), 2)


class Faults(LoadTest):
    def test_a_server_that_dies_leaves_truncated_streams(self):
        engine = Engine(self, *STEADY)
        process = self.begin(engine.url, "--concurrency", 5, "--requests", 8, "--input-tokens", 50, "--output-tokens",
                             2000, "--expect", "truncated=0,errors=0", "--json", "load.json")
        until("streams", lambda: metric(engine, "vllm:num_requests_running") == 5)
        until("tokens", lambda: metric(engine, "vllm:generation_tokens_total") > 50)
        engine.signal(KILL)
        out, _ = self.finish(process, code=3)
        figures = self.json()
        self.assertEqual(figures["requests"]["truncated"], 5)
        self.assertEqual(figures["requests"]["failed"], 3)
        self.assertIn("MISSED truncated=0: 5", out)

    def test_refusals_count_apart(self):
        engine = Engine(self, *STEADY, "--max-sequences", "1", "--max-queue", "1")
        figures, _ = self.load(engine.url, "--rate", 50, "--requests", 30, "--input-tokens", 50, "--output-tokens", 20,
                               "--expect", "errors=0,refused=100%")
        self.assertGreater(figures["requests"]["refused"], 5)
        self.assertEqual(figures["requests"]["ok"] + figures["requests"]["refused"], 30)

    def test_a_server_that_cuts_every_stream(self):
        class Cutting(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                for _ in range(3):
                    self.wfile.write(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cutting) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                figures, _ = self.load(f"127.0.0.1:{server.server_port}", "--model", "m", "--rate", 50, "--requests", 10,
                                       "--expect", "truncated=0", code=3)
            finally:
                server.shutdown()
                thread.join()
        self.assertEqual(figures["requests"]["truncated"], 10)
        self.assertEqual(figures["ttft_ms"]["count"], 10)

    def test_a_quiet_run_names_what_was_missed_and_writes_what_it_can(self):
        engine = Engine(self, *STEADY)
        process = self.begin(engine.url, "--rate", 20, "--requests", 5, "--output-tokens", 4, "--quiet", "--expect",
                             "errors=0,ttft_p50=1us", "--json", "/dev/full", "--html", "load.html")
        out, errors = self.finish(process, 1)
        self.assertEqual(out, "")
        self.assertRegex(errors, r"\Apenstock: /dev/full: [^\n]+\npenstock: --expect ttft_p50=1us: missed, is [^\n]+\n\Z")
        self.assertTrue((self.folder / "load.html").exists())

    def test_ctrl_c_reports_what_was_measured(self):
        engine = Engine(self, *STEADY)
        words = (engine.url, "--rate", 20, "--duration", "10m", "--input-tokens", 50, "--output-tokens", 4,
                 "--json", "load.json", "--html", "load.html")
        for expect, code in ((("--expect", "errors=0"), 0), (("--expect", "ttft_p50=1us"), 3), ((), 0)):
            ended = metric(engine, "vllm:request_success_total")
            process = self.begin(*words, *expect)
            until("answers", lambda: metric(engine, "vllm:request_success_total") > ended + 5)
            process.send_signal(signal.SIGINT)
            out, _ = self.finish(process, code)
            self.assertIn("interrupted: ", out)
            self.assertTrue(self.json()["interrupted"])
            self.assertGreater(self.json()["requests"]["ok"], 4)
            self.assertEqual(self.json()["requests"]["errors"], 0)
        page = (self.folder / "load.html").read_text()
        data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1)
        self.assertEqual(json.loads(data), self.json())
        self.assertNotIn("<script>", page)
        self.assertIn("default-src 'none'; script-src 'nonce-penstock'", page)

    def test_an_unreachable_server(self):
        with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as taken:
            port = taken.server_port
        out, err = self.finish(self.begin(f"127.0.0.1:{port}", "--rate", 1), code=1)
        self.assertEqual(out, "")
        self.assertIn("/v1/models", err + "/v1/models")
        self.assertIn("no connection", err)
        _, err = self.finish(self.begin(f"127.0.0.1:{port}", "--rate", 20, "--requests", 3, "--model", "m"), code=1)
        self.assertIn("no request succeeded", err)


class Keys(LoadTest):
    def test_tenants_bring_their_own(self):
        engine = Engine(self, *STEADY, "--api-key", "sk-right")
        figures, table = self.load(engine.url, "--rate", 50, "--requests", 40, "--input-tokens", 50, "--output-tokens", 2,
                                   "--tenant", "good=sk-right:75%", "--tenant", "bad=sk-wrong:25%")
        tenants = {one["label"]: one["requests"] for one in figures["segments"] if one["group"] == "tenant"}
        self.assertEqual(tenants["good"]["failed"], 0)
        self.assertEqual(tenants["bad"]["ok"], 0)
        self.assertGreater(tenants["good"]["ok"], tenants["bad"]["failed"])
        self.assertIn("status 401", table)
        for text in (table, json.dumps(figures)):
            self.assertNotIn("sk-", text.replace(figures["causes"][0]["example"], ""))

    def test_a_server_that_is_away_is_named_once(self):
        _, err = self.finish(self.begin("http://127.0.0.1:1", "--rate", 1, "--requests", 1), code=1)
        self.assertEqual(err.count("127.0.0.1:1"), 1, err)

    def test_a_wrong_key_is_named_as_the_cause(self):
        engine = Engine(self, *STEADY, "--api-key", "sk-right")
        _, err = self.finish(self.begin(engine.url, "--rate", 1, "--requests", 1, "--api-key", "sk-wrong"), code=1)
        self.assertIn("status 401; give a valid key by --api-key or OPENAI_API_KEY", err)


class BadInput(LoadTest):
    def test_each_fault_is_one_clear_line(self):
        url = "http://127.0.0.1:1"
        for words, says in (((), "takes one URL"),
                            (("--rate", 1), "takes one URL"),
                            ((url,), "there is no traffic"),
                            ((url, "--rate", 1, "--concurrency", 2), "does not go together with --rate"),
                            ((url, "--rate", 0), "--rate"),
                            ((url, "--rate", 1, "--speed", 2), "--speed: has no effect with --rate"),
                            ((url, "--rate", 1, "--input-tokens", "500:70%"), "--input-tokens: shares add up to 70.0%"),
                            ((url, "--rate", 1, "--shared-prefix-tokens", 1000), "longest prompt of --input-tokens (1000)"),
                            ((url, "--rate", 1, "--expect", "tft_p95=2s"), "did you mean ttft_p95?"),
                            ((url, "--rate", 1, "--expect", "ttft_p95"), "--expect"),
                            ((url, "--rate", 1, "--tenant", "acme"), "--tenant: must be NAME=KEY"),
                            ((url, "--rate", 1, "--tenant", "acme=sk-1:2"), "--tenant: has the share 2, which must be"),
                            ((url, "--rate", 1, "--api-key", "a\r\nb"), "--api-key: must be"),
                            ((url, "--rate", 1, "--arrivals", "now"), "--arrivals: must be poisson"),
                            ((url, "--rate", 1, "--timeout", "0"), "--timeout: must be longer than 0"),
                            ((url, "--rate", 1, "--class", "urgent"), "--class: must be interactive"),
                            ((url, "--profile", "weekly"), "--profile: must be diurnal"),
                            ((url, "--profile", "diurnal", "--trough", 20, "--peak", 10), "--trough"),
                            ((url, "--trace", "nothing.jsonl"), "nothing.jsonl"),
                            ((url, "--rat", 1), "did you mean --rate?"),
                            (("ftp://x", "--rate", 1), "ftp")):
            with self.subTest(words=words):
                self.assert_refused(*words, says=says)

    def test_help(self):
        out, _ = self.finish(self.begin("--help"))
        for part in ("--rate", "--concurrency", "--expect", "--shared-prefix-tokens", "--profile"):
            self.assertIn(part, out)


if __name__ == "__main__":
    unittest.main()
