#!/usr/bin/env python3
"""`penstock gateway` from end to end: real engines behind it, real clients in front of it."""

import collections
import http.client
import json
import os
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest

from fake_replica import FakeReplica
from live_testing import KILL, PROGRAM, SECONDS, STOP, Engine, Gateway, Stream, ask, chat, complete, until

SLOW = ("--engine", "linear:20,0,0.001,0")  # 20 ms a token
FAST = ("--speed", "50")


class GatewayTest(unittest.TestCase):
    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def write(self, folder, name, text):
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def test_relays_whole_and_streamed_answers(self):
        engine = Engine(self, *FAST)
        gateway = Gateway(self, engine.url).ready()
        status, fields, body = complete(gateway.port, 8)
        self.assertEqual(status, 200, body)
        answer = json.loads(body)
        self.assertEqual(answer["usage"]["completion_tokens"], 8)
        self.assertEqual(fields["x-penstock-replica"], engine.url)
        self.assertTrue(fields["x-request-id"])
        stream = Stream(gateway.port, 50).join()
        self.assertTrue(stream.whole(50), stream.text[-300:])

    def test_errors_have_openais_format(self):
        gateway = Gateway(self, Engine(self, *FAST).url).ready()
        for status, code, request in (
                (404, "model_not_found", {**chat(4), "model": "unknown"}),
                (400, "invalid_request", {"model": "penstock-sim"}),
                (400, "context_length_exceeded", chat(10_000_000))):
            seen, _, body = ask(gateway.port, "POST", "/v1/chat/completions", request)
            self.assertEqual((seen, json.loads(body)["error"]["code"]), (status, code), body)
        missing = json.loads(ask(gateway.port, "POST", "/v1/chat/completions", {"messages": chat(4)["messages"]})[2])["error"]
        self.assertEqual((missing["message"], missing["param"]), ("model is missing", "model"))
        self.assertEqual(ask(gateway.port, "GET", "/v1/elsewhere")[0], 404)
        self.assertEqual(ask(gateway.port, "GET", "/v1/chat/completions")[0], 405)
        models = json.loads(ask(gateway.port, "GET", "/v1/models")[2])
        self.assertEqual([model["id"] for model in models["data"]], ["penstock-sim"])

    def test_the_cache_of_a_restarted_engine_counts_as_empty(self):
        engine = Engine(self, *FAST)
        config = self.write(self.folder(), "p.yaml", "gateway: {scrape_interval: 20ms}\n")
        gateway = Gateway(self, "--config", config, engine.url).ready()

        def prefix_keys():
            return gateway.overview()["replicas"][0]["prefix_keys"]

        self.assertEqual(complete(gateway.port, 2, "x" * 5000)[0], 200)
        self.assertGreater(prefix_keys(), 0)
        time.sleep(1)  # several scrapes
        engine.signal(KILL)
        engine.wait()
        Engine(self, *FAST, "--port", str(engine.port))
        until("an empty cache", lambda: prefix_keys() == 0)

    def test_keys_identify_tenants_and_budgets_hold(self):
        folder = self.folder()
        config = self.write(folder, "p.yaml", "tenants:\n"
                            "  - {name: small, keys: [sk-small], tokens_per_minute: 2000}\n"
                            "  - {name: large, keys: [sk-large]}\n")
        gateway = Gateway(self, "--config", config, Engine(self, *FAST).url).ready()
        self.assertEqual(complete(gateway.port)[0], 401)
        self.assertEqual(complete(gateway.port, Authorization="Bearer sk-wrong")[0], 401)
        statuses = [complete(gateway.port, 500, Authorization="Bearer sk-small")[0] for _ in range(8)]
        self.assertIn(200, statuses)
        self.assertIn(429, statuses)
        status, fields, body = complete(gateway.port, 2000, Authorization="Bearer sk-small")
        self.assertEqual(status, 429, body)
        self.assertEqual(json.loads(body)["error"]["code"], "token_budget_exceeded")
        self.assertGreaterEqual(int(fields["Retry-After"]), 1)
        self.assertEqual(complete(gateway.port, 500, Authorization="Bearer sk-large")[0], 200)
        self.assertNotIn("sk-small", json.dumps(gateway.overview()) + gateway.log())

    def test_a_time_budget_cuts_an_answer_that_is_not_streamed(self):
        engine = Engine(self, *SLOW)
        gateway = Gateway(self, engine.url).ready()
        status, _, body = complete(gateway.port, 5, X_Time_Budget="60s")
        answer = json.loads(body)
        self.assertEqual((status, answer["usage"]["completion_tokens"]), (200, 5), body)
        self.assertEqual(answer["choices"][0]["message"]["content"],
                         json.loads(complete(gateway.port, 5)[2])["choices"][0]["message"]["content"])
        status, _, body = complete(gateway.port, 100_000, X_Time_Budget="3s")
        answer = json.loads(body)
        self.assertEqual((status, answer["choices"][0]["finish_reason"]), (200, "length"), body[-300:])
        self.assertTrue(answer["choices"][0]["message"]["content"])
        self.assertGreater(answer["usage"]["completion_tokens"], 0)
        until("an idle engine", lambda: engine.info()["requests_open"] == 0)
        self.assertEqual(gateway.overview()["usage"][0]["timed_out"], 1)

    def test_no_start_answers_404_for_a_model_of_a_replica(self):
        engines = [Engine(self, *FAST, name=f"e{i}") for i in range(3)]
        first = Gateway(self, *(engine.url for engine in engines)).ready()
        addresses = ("--listen", f"127.0.0.1:{first.port}", "--admin-listen", f"127.0.0.1:{first.admin}")
        gateway, seen, ready = first, collections.Counter(), []
        ended = threading.Event()

        def request():
            while not ended.is_set():
                try:
                    status, fields, body = complete(first.port)
                except (http.client.HTTPException, OSError):
                    continue  # There is no gateway at the moment.
                seen[status] += 1
                if status != 200:
                    seen[json.loads(body)["error"]["code"], fields["Retry-After"]] += 1

        threads = [threading.Thread(target=request) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            gateway.signal(KILL)
            gateway.wait()
            gateway = Gateway(self, *addresses, *(engine.url for engine in engines)).ready()
            ready.append(ask(gateway.port, "GET", "/v1/models/penstock-sim")[0])
            before = seen[200]
            until("answers", lambda: seen[200] > before)
        ended.set()
        for thread in threads:
            thread.join()
        print(dict(seen))
        self.assertEqual(set(seen) - {200, 503, ("no_replica", "1")}, set())
        self.assertEqual(ready, [200] * 5)
        self.assertEqual(ask(gateway.port, "POST", "/v1/chat/completions", {**chat(4), "model": "unknown"})[0], 404)

    def test_a_replica_that_is_down_delays_the_start_for_a_limited_time(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))  # No one listens here.
            gateway = Gateway(self, Engine(self, *FAST).url, f"http://127.0.0.1:{probe.getsockname()[1]}")
            until("an answer", lambda: complete(gateway.port)[0] == 200)
            unknown = {**chat(4), "model": "unknown"}
            self.assertFalse(gateway.overview()["models_complete"])
            status, fields, _ = ask(gateway.port, "POST", "/v1/chat/completions", unknown)
            self.assertEqual((status, fields["Retry-After"]), (503, "1"))
            self.assertEqual(ask(gateway.admin, "GET", "/ready")[0], 503)
            gateway.ready()
            self.assertEqual(ask(gateway.port, "POST", "/v1/chat/completions", unknown)[0], 404)
            (problem,) = gateway.overview()["problems"]
            self.assertEqual(problem["code"], "unreachable")

    def test_the_overview_names_a_replica_without_metrics(self):
        replica = FakeReplica(self, lambda number: b"")  # Its /metrics is no text of Prometheus.
        gateway = Gateway(self, "--config", self.write(self.folder(), "p.yaml", json.dumps(
            {"gateway": {"replicas": [{"url": replica.url, "model": "m"}], "scrape_interval": "50ms"}})))
        problems = until("a problem", lambda: gateway.overview()["problems"])
        self.assertIn(("metrics_unavailable", replica.url), [(each["code"], each["url"]) for each in problems])
        self.assertIn('code="metrics_unavailable"} 1', ask(gateway.admin, "GET", "/metrics")[2])

    def test_requests_wait_for_a_model_without_replicas(self):
        folder = self.folder()
        path = os.path.join(folder, "replicas.json")

        def say(*replicas):
            os.replace(self.write(folder, "new.json", json.dumps({"version": 1, "replicas": list(replicas)})), path)

        config = self.write(folder, "p.yaml", "classes:\n  batch: {queue_time: 0s}\n")
        entry = {"id": "r0", "url": Engine(self, *FAST).url, "model": "penstock-sim", "state": "serving"}
        say(entry)
        gateway = Gateway(self, "--config", config, "--replicas-file", path).ready()
        say()
        until("no replica", lambda: not gateway.overview()["replicas"])
        status, fields, body = complete(gateway.port, X_Traffic_Class="batch")
        self.assertEqual((status, json.loads(body)["error"]["code"]), (503, "no_replica"), body)
        self.assertGreaterEqual(int(fields["Retry-After"]), 1)
        self.assertIn("penstock-sim", ask(gateway.port, "GET", "/v1/models")[2])
        stream = Stream(gateway.port, 5)
        until("one that waits", lambda: gateway.overview()["queue"]["interactive"] == 1)
        say(entry)
        self.assertTrue(stream.join().whole(5), stream.text)

    def test_a_client_that_leaves_frees_its_slot_at_the_engine(self):
        engine = Engine(self, *SLOW)
        gateway = Gateway(self, engine.url).ready()
        streams = [Stream(gateway.port, 5000, f"prompt {i}") for i in range(5)]
        until("tokens on all streams", lambda: all(stream.tokens() > 0 for stream in streams))
        for stream in streams:
            stream.leave()
        until("an idle engine", lambda: engine.info()["requests_open"] == 0)
        until("the gateway's books", lambda: gateway.open_requests() == 0)
        usage = gateway.overview()["usage"][0]
        self.assertEqual((usage["cancelled"], usage["completed"]), (5, 0))
        self.assertGreater(usage["output_tokens"], 0)

    def test_a_killed_engine_costs_only_started_answers(self):
        engines = [Engine(self, *SLOW, name=f"e{i}") for i in range(2)]
        gateway = Gateway(self, *(engine.url for engine in engines)).ready()
        begun = [Stream(gateway.port, 100, f"prompt {i}") for i in range(10)]
        until("tokens on all streams", lambda: all(stream.tokens() > 0 for stream in begun))
        engines[0].signal(KILL)
        later = [complete(gateway.port, 2, f"later {i}")[0] for i in range(20)]
        self.assertEqual(later, [200] * 20)
        for stream in begun:
            stream.join()
            if stream.replica == engines[0].url:
                self.assertFalse(stream.text.endswith("data: [DONE]\n\n"), "an answer that is not whole says so")
            else:
                self.assertTrue(stream.whole(100))

    def test_garbage_and_hangs_of_a_replica_are_hidden_from_clients(self):
        good = Engine(self, *FAST, name="good")
        bad = Engine(self, *FAST, "--fault", "garbage", name="bad")
        gateway = Gateway(self, good.url, bad.url)
        until("both replicas", lambda: len(gateway.overview()["replicas"]) == 2)
        gateway.ready()
        self.assertEqual([complete(gateway.port, 2, f"prompt {i}")[0] for i in range(30)], [200] * 30)

    def test_replicas_come_and_go_with_their_file_and_no_stream_breaks(self):
        folder = self.folder()
        engines = [Engine(self, *SLOW, name=f"e{i}") for i in range(2)]

        def say(*states):
            replicas = [{"id": f"r{i}", "url": engine.url, "model": "penstock-sim", "state": state}
                        for i, (engine, state) in enumerate(zip(engines, states)) if state]
            new = self.write(folder, "new.json", json.dumps({"version": 1, "replicas": replicas}))
            os.replace(new, os.path.join(folder, "replicas.json"))

        def eligible():
            return sorted(replica["id"] for replica in gateway.overview()["replicas"] if replica["eligible"])

        say("serving", "serving")
        gateway = Gateway(self, "--replicas-file", os.path.join(folder, "replicas.json")).ready()
        until("both", lambda: eligible() == ["r0", "r1"])
        streams = [Stream(gateway.port, 60, f"prompt {i}") for i in range(60)]
        until("tokens on all streams", lambda: all(stream.tokens() > 0 for stream in streams))
        self.assertEqual({stream.replica for stream in streams}, {"r0", "r1"})
        say("draining", "serving")
        until("one", lambda: eligible() == ["r1"])
        self.assertEqual({Stream(gateway.port, 2, f"more {i}").join().replica for i in range(5)}, {"r1"})
        say(None, "serving")
        engines[0].signal(STOP)
        for stream in streams:
            self.assertTrue(stream.join().whole(60), stream.text[-200:])
        self.assertEqual(engines[0].wait(), 0)

    def test_replicas_in_several_files_count_once(self):
        folder = self.folder()
        urls = [Engine(self, *FAST).url for _ in range(3)]

        def say(name, *ids):
            entries = [{"id": each, "url": url, "model": "penstock-sim", "state": "serving"} for each, url in ids]
            os.replace(self.write(folder, "new.json", json.dumps({"version": 1, "replicas": entries})),
                       os.path.join(folder, name))

        say("a.json", ("r0", urls[0]))
        gateway = Gateway(self, "--replicas-file", f"{folder}/a.json,{folder}/b.json").ready()
        say("b.json", ("r1", urls[1]), ("r0", urls[2]))
        until("both", lambda: [(each["id"], each["url"]) for each in gateway.overview()["replicas"]] ==
              [("r0", urls[0]), ("r1", urls[1])])
        self.assertIn("replica_duplicate replica=r0 ", gateway.log())
        say("a.json")
        until("the other r0", lambda: {each["url"] for each in gateway.overview()["replicas"]} == set(urls[1:]))

    def test_requests_wait_for_the_first_replica(self):
        folder = self.folder()
        path = os.path.join(folder, "replicas.json")
        entry = {"id": "r0", "url": Engine(self, *FAST).url, "model": "penstock-sim", "state": "warming"}
        self.write(folder, "replicas.json", json.dumps({"version": 1, "replicas": [entry]}))
        gateway = Gateway(self, "--replicas-file", path)
        until("the replica", lambda: gateway.overview()["replicas"])
        stream = Stream(gateway.port, 5)
        until("one that waits", lambda: gateway.overview()["queue"]["interactive"] == 1)
        new = self.write(folder, "new.json", json.dumps({"version": 1, "replicas": [{**entry, "state": "serving"}]}))
        os.replace(new, path)
        self.assertTrue(stream.join().whole(5), stream.text)

    def test_a_prefill_and_a_decode_engine_serve_one_request(self):
        prefill = Engine(self, *FAST, "--role", "prefill", name="p")
        decode = Engine(self, *FAST, "--role", "decode", name="d")
        config = self.write(self.folder(), "p.yaml", "gateway:\n  replicas:\n"
                            f"    - {{url: '{prefill.url}', role: prefill}}\n"
                            f"    - {{url: '{decode.url}', role: decode}}\n")
        gateway = Gateway(self, "--config", config)
        until("both", lambda: sum(replica["eligible"] for replica in gateway.overview()["replicas"]) == 2)
        stream = Stream(gateway.port, 30, "a prompt of some length " * 200).join()
        self.assertTrue(stream.whole(30), stream.text[-300:])
        self.assertEqual(stream.replica, decode.url)
        until("all KV fetched", lambda: prefill.info()["requests_open"] == 0 and prefill.info()["transfers_open"] == 0)
        self.assertEqual(complete(gateway.port, 8, "not streamed")[0], 200)

    def test_the_ledger_balances_after_the_gateway_was_killed(self):
        folder = self.folder()
        ledger = os.path.join(folder, "ledger.sqlite")
        engine = Engine(self, *SLOW)
        gateway = Gateway(self, "--ledger", ledger, engine.url).ready()
        for i in range(5):
            self.assertEqual(complete(gateway.port, 3, f"prompt {i}")[0], 200)
        streams = [Stream(gateway.port, 2000, f"stream {i}") for i in range(4)]
        until("tokens on all streams", lambda: all(stream.tokens() > 0 for stream in streams))

        def opened():
            with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as store:
                return store.execute("select count(*) from entries").fetchone()[0]

        until("the entries", lambda: opened() == 9)
        gateway.signal(KILL)
        for stream in streams:
            stream.join()
        gateway.wait()
        again = Gateway(self, "--ledger", ledger, engine.url).ready()
        again.signal(STOP)
        self.assertEqual(again.wait(), 0)
        with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as store:
            outcomes = dict(store.execute("select outcome, count(*) from entries group by outcome").fetchall())
        self.assertEqual(outcomes, {"completed": 5, "lost": 4})

    def test_sigterm_lets_streams_end(self):
        gateway = Gateway(self, Engine(self, *SLOW).url).ready()
        streams = [Stream(gateway.port, 40, f"prompt {i}") for i in range(10)]
        until("tokens on all streams", lambda: all(stream.tokens() > 0 for stream in streams))
        gateway.signal(STOP)
        for stream in streams:
            self.assertTrue(stream.join().whole(40), stream.text[-200:])
        self.assertEqual(gateway.wait(), 0)

    def test_a_time_budget_cuts_an_answer(self):
        config = self.write(self.folder(), "p.yaml", "classes: {batch: {time_budget: 500ms}}\n")
        gateway = Gateway(self, "--config", config, Engine(self, *SLOW).url).ready()
        stream = Stream(gateway.port, 5000, X_Traffic_Class="batch").join()
        self.assertTrue(stream.text.endswith("data: [DONE]\n\n"), stream.text[-200:])
        self.assertIn('"finish_reason":"length"', stream.text)
        self.assertGreater(stream.tokens(), 0)
        self.assertEqual(gateway.overview()["usage"][0]["timed_out"], 1)

    def test_bytes_that_are_not_http_are_refused_without_effect(self):
        gateway = Gateway(self, Engine(self, *FAST).url).ready()
        for sent in (b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/9.9\r\n\r\n", b"POST /v1/chat/completions HTTP/1.1\r\n"
                     b"Host: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", b"\0" * 100 + b"\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", gateway.port), timeout=SECONDS) as connection:
                connection.sendall(sent)
                self.assertTrue(connection.recv(4096).startswith(b"HTTP/1.1 "), sent)
        self.assertEqual(ask(gateway.port, "POST", "/v1/chat/completions", "no object")[0], 400)
        self.assertEqual(complete(gateway.port)[0], 200)

    def test_a_port_in_use_is_reported(self):
        gateway = Gateway(self, Engine(self, *FAST).url).ready()
        done = subprocess.run([PROGRAM, "gateway", "--listen", f"127.0.0.1:{gateway.port}",
                               "--admin-listen", "127.0.0.1:0", "http://127.0.0.1:1"], capture_output=True, text=True,
                              timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"port {gateway.port}", done.stderr)


if __name__ == "__main__":
    unittest.main()
