#!/usr/bin/env python3
"""Replicas that are not what the list says: each is named once with the remedy, shown, counted, and nothing is guessed."""

import http.server
import json
import pathlib
import tempfile
import threading
import unittest

from live_testing import Engine, Gateway, ask, complete, config_file, until
from planner_testing import Planner
from zmq_publisher import Publisher

PAGE = "<!DOCTYPE html><html><body><h1>Welcome to nginx!</h1></body></html>"
MODELS = json.dumps({"object": "list", "data": [{"id": "penstock-sim", "object": "model"}]})
VLLM = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0\n"
SEQUENCE = bytes(8)


class PlainServer:
    """A web server with these documents by path; `statuses` of a path are answered one after the other."""

    def __init__(self, test, documents, otherwise=(404, "not found")):
        self.documents, self.otherwise, self.statuses, self.posts, self.asked = documents, otherwise, {}, 0, {}
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked[self.path] = outer.asked.get(self.path, 0) + 1
                status, body = (200, outer.documents[self.path]) if self.path in outer.documents else outer.otherwise
                if outer.statuses.get(self.path):
                    status = outer.statuses[self.path].pop(0)
                self.send_response(status)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def do_POST(self):
                outer.posts += 1
                self.send_error(405)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        test.addCleanup(self.server.server_close)
        test.addCleanup(self.server.shutdown)


class WrongReplicas(unittest.TestCase):
    def open(self, *replicas, model="penstock-sim"):
        self.engine = Engine(self, "--speed", "50")
        config = config_file(self, model=model, pools=[{"name": "chat", "replicas": 1, "min_replicas": 1, "max_replicas": 4}],
                             planner={"tick_interval": "1s"},
                             gateway={"anonymous": True, "health_interval": "200ms", "scrape_interval": "200ms",
                                      "replicas": [{"url": self.engine.url}, *replicas]})
        self.gateway = Gateway(self, "--config", config).ready()
        self.planner = Planner(self, "--config", config, "--gateway", f"127.0.0.1:{self.gateway.admin}")
        until("telemetry", lambda: any(each["sample"] for each in self.planner.pool()["replicas"]))

    def problem(self, url):
        found = [each for each in self.gateway.overview()["problems"] if each["url"] == url]
        return found[0] if found else None

    def assert_named_once(self, process, event, *words):
        lines = [line for line in process.log().splitlines() if f" {event} " in line]
        lines = [line for line in lines if all(word in line for word in words)]
        self.assertEqual(len(lines), 1, process.log())

    def assert_shown(self, url, code):
        """At the gateway's metrics and in the state behind the live page."""
        self.assertIn(f'penstock_replica_problem{{replica="{url}",code="{code}"}} 1', ask(self.gateway.admin, "GET", "/metrics")[2])
        until("the problem on the page", lambda: [each for each in (self.planner.state()["gateway"] or {}).get("problems", [])
                                                  if (each["url"], each["code"]) == (url, code)])

    def test_a_web_server_gets_no_request(self):
        for name, otherwise in (("every path is missing", (404, PAGE)), ("every path is a page", (200, PAGE))):
            with self.subTest(name):
                server = PlainServer(self, {}, otherwise)
                self.open({"url": server.url})
                problem = until("the problem", lambda: self.problem(server.url))
                self.assertEqual(problem["code"], "model_unknown")
                self.assertIn("if the server is no engine, correct the URL", problem["text"])
                for number in range(20):
                    self.assertEqual(complete(self.gateway.port, 2, f"prompt {number}")[0], 200)
                self.assertEqual(server.posts, 0)
                self.assert_shown(server.url, "model_unknown")
                asked = server.asked["/v1/models"]
                until("further answers", lambda: server.asked["/v1/models"] > asked + 3)
                self.assert_named_once(self.gateway, "replica_model_unknown", server.url, "correct the URL")
                self.assertEqual([each["url"] for each in self.planner.pool()["replicas"]], [self.engine.url])

    def test_a_host_name_without_an_address_does_not_keep_others_from_serving(self):
        url = "http://no-such-host.invalid:8000"
        with self.subTest("in the configuration"):
            self.open({"url": url})
            problem = until("the problem", lambda: self.problem(url))
            self.assertEqual(problem["code"], "unreachable")
            self.assertIn("no-such-host.invalid: the name has no address", problem["text"])
            self.assertEqual(complete(self.gateway.port, 2)[0], 200)
            self.assert_shown(url, "unreachable")
            self.assertIn(" host_unresolved host=no-such-host.invalid ", self.gateway.log())
        with self.subTest("in a file"):
            folder = tempfile.TemporaryDirectory()
            self.addCleanup(folder.cleanup)
            file = pathlib.Path(folder.name, "replicas.json")
            file.write_text(json.dumps({"version": 1, "replicas": [{"id": "a", "url": self.engine.url}, {"id": "b", "url": url}]}))
            self.gateway = Gateway(self, "--replicas-file", str(file)).ready()
            until("the problem", lambda: self.problem(url))
            self.assertEqual(complete(self.gateway.port, 2)[0], 200)
            self.assertNotIn("replicas_reload_failed", self.gateway.log())

    def test_a_replica_of_another_model_is_left_out(self):
        other = Engine(self, "--speed", "50", "--model-name", "other", name="other")
        self.open({"url": other.url})
        until("the event", lambda: self.planner.has_event(f"{other.url} is left out: it serves the model other"))
        event = [each for each in self.planner.state()["events"] if "is left out" in each["text"]]
        self.assertEqual([each["warning"] for each in event], [False])  # The planner has a replica of its own.
        self.assertIn("start a planner with --model other", event[0]["text"])
        self.assert_named_once(self.planner, "replica_left_out", other.url, "--model other")
        until("the metric", lambda: "\npenstock_replicas_left_out 1\n" in self.planner.metrics())
        self.assertEqual([each["url"] for each in self.planner.pool()["replicas"]], [self.engine.url])

    def test_a_planner_without_any_replica_of_its_model_needs_attention(self):
        engine = Engine(self, "--speed", "50")
        gateway = Gateway(self, engine.url).ready()
        planner = Planner(self, "--gateway", f"127.0.0.1:{gateway.admin}", "--model", "another")
        until("the event", lambda: planner.has_event("it serves the model penstock-sim, and this planner scales another", True))

    def test_a_configured_model_that_the_engine_does_not_serve_is_a_problem(self):
        other = Engine(self, "--speed", "50", "--model-name", "other", name="other")
        self.open({"url": other.url, "model": "penstock-sim"})
        problem = until("the problem", lambda: self.problem(other.url))
        self.assertEqual(problem["code"], "model_unknown")
        self.assertIn("serves other, and not its configured model penstock-sim; correct its model or its URL", problem["text"])
        self.assert_shown(other.url, "model_unknown")
        self.assert_named_once(self.gateway, "replica_model_unknown", other.url)

    def test_unknown_metrics_are_no_figures(self):
        server = PlainServer(self, {"/health": "{}", "/v1/models": MODELS, "/metrics": "acme_requests_waiting 40\nacme_running 2\n"})
        self.open({"url": server.url})
        problem = until("the problem", lambda: self.problem(server.url))
        self.assertEqual(problem["code"], "metrics_unavailable")
        self.assertIn("no metrics of a known engine", problem["text"])
        self.assert_shown(server.url, "metrics_unavailable")
        until("the event", lambda: self.planner.has_event(f"metrics of {server.url} cannot be read", True))
        until("the metric", lambda: 'penstock_engine_up{pool="chat",worker_id="2"} 0' in self.planner.metrics() or
              'penstock_engine_up{pool="chat",worker_id="1"} 0' in self.planner.metrics())
        asked = server.asked["/metrics"]
        until("further answers", lambda: server.asked["/metrics"] > asked + 5)
        for process in (self.gateway, self.planner):
            self.assert_named_once(process, "telemetry_unavailable", server.url, "no metrics of a known engine")
        self.assertIn("prometheus.url", self.planner.log())
        self.assertEqual([each["sample"] for each in self.planner.pool()["replicas"] if each["url"] == server.url], [None])

    def test_one_scrape_that_fails_is_not_reported(self):
        server = PlainServer(self, {"/health": "{}", "/v1/models": MODELS, "/metrics": VLLM})
        self.open({"url": server.url})
        until("samples of both", lambda: all(each["sample"] for each in self.planner.pool()["replicas"]))

        def fail(*statuses):
            server.statuses["/metrics"] = list(statuses)
            asked = server.asked["/metrics"]
            until("later answers", lambda: not server.statuses["/metrics"] and server.asked["/metrics"] > asked + len(statuses) + 10)

        fail(500)
        for process in (self.gateway, self.planner):
            self.assertNotIn("telemetry_unavailable", process.log())
        self.assertIsNone(self.problem(server.url))
        # Both scrape: of 20 failures in a row each has more than one.
        fail(*[500] * 20)
        for process in (self.gateway, self.planner):
            until("the report", lambda: "telemetry_unavailable" in process.log())
            until("the end", lambda: "telemetry_available" in process.log())
            self.assert_named_once(process, "telemetry_unavailable", server.url)

    def rejected(self):
        text = ask(self.planner.port, "GET", "/metrics/engines")[2]
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                   if line.startswith("penstock_fpm_messages_rejected_total{"))

    def test_forward_pass_metrics_that_cannot_be_read_are_dropped_and_counted(self):
        for name, frames, cause in (
                ("a version that is not known", (b"", SEQUENCE, b"\x81\xa7version\x09"), "version: is 9, but only 1 is known; use"),
                ("a malformed envelope", (b"forward-pass-metrics", SEQUENCE, SEQUENCE, b"\x01\x00\x00\x00\x02\xc1\xc1"), "envelope"),
                ("an envelope of an unknown version", (b"forward-pass-metrics", SEQUENCE, SEQUENCE, b"\x07\x00\x00\x00\x01\x80"),
                 "version 7")):
            with self.subTest(name):
                publisher = Publisher(self, *frames)
                server = PlainServer(self, {"/health": "{}", "/v1/models": MODELS, "/metrics": VLLM})
                self.open({"url": server.url, "fpm": publisher.endpoint})
                until("rejected messages", lambda: self.rejected() > 3)
                until("the event", lambda: self.planner.has_event(f"forward pass metrics of {server.url} are rejected", True))
                self.assert_named_once(self.planner, "fpm_rejected", server.url, cause)
                (seen,) = [each for each in self.planner.pool()["replicas"] if each["url"] == server.url]
                self.assertEqual((seen["fpm"]["received"], seen["sample"]["running"]), (0, 0))


if __name__ == "__main__":
    unittest.main(verbosity=2)
