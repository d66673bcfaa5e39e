#!/usr/bin/env python3
"""What goes wrong around the gateway and the planner, and that users notice as little of it as can be."""

import glob
import json
import os
import re
import resource
import signal
import socket
import tempfile
import threading
import unittest

from fake_replica import EVENT, HEAD, FakeReplica, chunk, plain
from live_testing import (KILL, SECONDS, STOP, Engine, Gateway, Program, Stream, ask, chat, complete, config_file,
                          until)
from many_streams import ManyStreams
from planner_testing import Home, rows_of, until_routed, until_serving

SLOW = ("--engine", "linear:20,0,0.001,0")  # 20 ms a token
FAST = ("--speed", "50")
MODEL = "penstock-sim"


class ReliabilityTest(unittest.TestCase):
    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def gateway(self, *urls, words=(), **settings):
        """A gateway that knows the model of its replicas without asking them."""
        replicas = [{"url": url, "model": MODEL} for url in urls]
        settings = {"routing": {"slow_start": "0s"}, "replicas": replicas, **settings}
        return Gateway(self, "--config", config_file(self, gateway=settings), *words)

    # ---- replicas ----------------------------------------------------------------------------------------------------

    def test_a_hung_engine_is_hidden_from_clients(self):
        good = Engine(self, *FAST, name="good")
        hung = Engine(self, *FAST, "--fault", "hang", name="hung")
        gateway = self.gateway(good.url, hung.url, first_byte_timeout="500ms", health_interval="1h")
        until_routed(gateway, 2)
        self.assertEqual([complete(gateway.port, 2, f"prompt {i}")[0] for i in range(20)], [200] * 20)
        overview = gateway.overview()
        self.assertGreater(sum(each["failures_total"] for each in overview["replicas"]), 0, overview["replicas"])

    def test_requests_of_a_stopped_engine_without_a_byte_are_retried_long_before_their_timeout(self):
        engines = [Engine(self, *SLOW, name=name) for name in ("a", "b")]
        gateway = self.gateway(*(engine.url for engine in engines), first_byte_timeout="1h", stream_idle_timeout="1h",
                               unresponsive_idle_timeout="1s", health_interval="500ms")
        until_routed(gateway, 2)
        streams = [Stream(gateway.port, 1000, f"long {i}") for i in range(6)]
        until("first tokens", lambda: all(stream.tokens() > 0 for stream in streams))
        at_stopped = [stream for stream in streams if stream.replica == engines[0].url]
        others = [stream for stream in streams if stream.replica == engines[1].url]
        self.assertTrue(at_stopped and others)
        engines[0].signal(signal.SIGSTOP)
        # The gateway does not know it yet, so that some of these go to the stopped engine.
        late = [Stream(gateway.port, 2, f"late {i}") for i in range(12)]
        for stream in late:
            self.assertTrue(stream.join().whole(2), stream.text)
            self.assertEqual(stream.replica, engines[1].url)
        self.assertGreater(gateway.overview()["retried_total"], 0)
        for stream in at_stopped:
            self.assertIn('"code":"truncated"', stream.join().text[-300:])
            self.assertNotIn("[DONE]", stream.text)
        for stream in others:
            self.assertTrue(stream.join().whole(1000))
        self.assertIn("replica_unresponsive", gateway.log())

    def test_a_stopped_engine_is_replaced_and_frees_its_place(self):
        home = Home(self, "  - {name: chat, replicas: 2, min_replicas: 1, max_replicas: 3}")
        gateway = home.gateway(self)
        home.planner(self, gateway, "--policy", "static")
        until_serving(home, 2)
        until_routed(gateway, 2)
        stopped = min(home.engines())
        os.kill(stopped, signal.SIGSTOP)
        # Long before the deadline of a drain, which is ten minutes.
        until("the end of the stopped engine", lambda: stopped not in home.engines(), 2 * SECONDS)
        until_serving(home, 2)
        until_routed(gateway, 2)
        self.assertEqual(complete(gateway.port)[0], 200)

    def test_an_engine_that_sends_only_a_head_is_hidden_from_clients(self):
        class HeadOnly(FakeReplica):
            def complete(self, connection, request, number):
                connection.sendall(HEAD)
                connection.recv(1)

        good = Engine(self, *FAST, name="good")
        hung = HeadOnly(self, None)
        # The limit between two pieces is longer than the test waits.
        gateway = self.gateway(good.url, hung.url, first_byte_timeout="500ms", stream_idle_timeout="1h", health_interval="1h")
        until_routed(gateway, 2)
        for i in range(200):  # Which of two equal replicas is picked is drawn.
            self.assertTrue(Stream(gateway.port, 2, f"prompt {i}").join().whole(2))
            if hung.completions > 0:
                break
        self.assertGreater(hung.completions, 0)

    def test_a_stream_that_fails_before_its_first_token_is_retried_elsewhere(self):
        good = Engine(self, *FAST, name="good")
        role = chunk(b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n')
        error = chunk(b'data: {"error":{"message":"EngineCore encountered an issue","code":500}}\n\n')
        end = chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        for answer in (error + end, role + error + end, chunk(b": ping\n\n"), role):
            bad = FakeReplica(self, lambda number, answer=answer: HEAD + answer)
            gateway = self.gateway(good.url, bad.url, health_interval="1h")
            until_routed(gateway, 2)
            for i in range(200):
                stream = Stream(gateway.port, 2, f"prompt {i}").join()
                self.assertTrue(stream.whole(2), (answer, stream.text))
                if bad.completions > 0:
                    break
            self.assertGreater(bad.completions, 0)
            self.assertEqual(gateway.overview()["retried_total"], bad.completions)

    def test_if_all_engines_hang_the_client_gets_an_error(self):
        hung = Engine(self, "--fault", "hang")
        gateway = self.gateway(hung.url, first_byte_timeout="500ms", health_interval="1h")
        until_routed(gateway, 1)
        status, fields, body = complete(gateway.port)
        self.assertEqual((status, json.loads(body)["error"]["code"]), (504, "replica_timeout"), body)
        self.assertTrue(fields["Retry-After"])

    def test_an_engine_that_stops_during_an_answer_is_cut_off(self):
        engines = [Engine(self, *SLOW, name=f"e{i}") for i in range(2)]
        gateway = self.gateway(*(engine.url for engine in engines), stream_idle_timeout="1s", first_byte_timeout="1s",
                               health_interval="500ms")
        until_routed(gateway, 2)
        streams = [Stream(gateway.port, 200, f"prompt {i}") for i in range(10)]
        until("tokens on all streams", lambda: all(stream.tokens() > 0 for stream in streams))
        engines[0].signal(signal.SIGSTOP)
        stuck = [stream for stream in streams if stream.replica == engines[0].url]
        self.assertTrue(stuck)
        for stream in stuck:
            stream.join()
            self.assertFalse(stream.text.endswith("data: [DONE]\n\n"), "an answer that is not whole says so")
        self.assertEqual([complete(gateway.port, 2, f"later {i}")[0] for i in range(10)], [200] * 10)
        engines[0].signal(signal.SIGCONT)
        until_routed(gateway, 2)
        for stream in streams:
            if stream not in stuck:
                self.assertTrue(stream.join().whole(200), stream.text[-200:])

    def test_a_slow_engine_gets_less(self):
        quick = Engine(self, "--engine", "linear:2,0,0.001,0", name="quick")
        slow = Engine(self, "--engine", "linear:2,0,0.001,0", "--slow", "20", name="slow")
        gateway = self.gateway(quick.url, slow.url)
        until_routed(gateway, 2)
        served = {quick.url: 0, slow.url: 0}
        lock = threading.Lock()

        def client(number):
            for i in range(20):
                status, fields, body = complete(gateway.port, 10, f"client {number} prompt {i}")
                with lock:
                    served[fields["x-penstock-replica"] if status == 200 else body] += 1

        clients = [threading.Thread(target=client, args=(number,)) for number in range(8)]
        for each in clients:
            each.start()
        for each in clients:
            each.join()
        self.assertEqual(sum(served.values()), 160, served)
        self.assertGreater(served[quick.url], 2 * served[slow.url], served)

    def test_no_retry_after_the_first_byte(self):
        cut = FakeReplica(self, lambda number: HEAD + chunk(EVENT))
        good = Engine(self, *FAST)
        gateway = self.gateway(cut.url, health_interval="1h")
        until_routed(gateway, 1)
        stream = Stream(gateway.port, 5).join()
        self.assertEqual((stream.status, stream.tokens()), (200, 1))
        self.assertFalse(stream.text.endswith("data: [DONE]\n\n"))
        self.assertEqual(cut.completions, 1)
        both = self.gateway(cut.url, good.url, health_interval="1h")
        until_routed(both, 2)
        for i in range(20):
            stream = Stream(both.port, 5, f"prompt {i}").join()
            self.assertIn(stream.tokens(), (1, 5))
            self.assertEqual(stream.whole(5), stream.replica == good.url)
        self.assertEqual(both.overview()["retried_total"], 0)

    def test_a_failure_before_the_first_byte_is_retried_elsewhere(self):
        good = Engine(self, *FAST)
        for answer in (b"", plain(500), plain(503), HEAD, b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"):
            bad = FakeReplica(self, lambda number, answer=answer: answer)
            gateway = self.gateway(good.url, bad.url, health_interval="1h")
            until_routed(gateway, 2)
            self.assertEqual([complete(gateway.port, 2, f"prompt {i}")[0] for i in range(10)], [200] * 10, answer)
            self.assertGreater(bad.completions, 0)
            self.assertEqual(gateway.overview()["retried_total"], bad.completions)

    def test_a_replicas_client_error_is_relayed(self):
        bad = FakeReplica(self, lambda number: plain(400, b'{"error":{"message":"no"}}'))
        gateway = self.gateway(bad.url, health_interval="1h")
        until_routed(gateway, 1)
        self.assertEqual(complete(gateway.port)[0::2], (400, '{"error":{"message":"no"}}'))
        self.assertEqual(bad.completions, 1)

    # ---- gateway, disks ----------------------------------------------------------------------------------------------

    def test_a_killed_gateway_recovers_and_the_planner_continues(self):
        home = Home(self)
        gateway = home.gateway(self)
        planner = home.planner(self, gateway, "--policy", "static")
        until_serving(home, 1)
        before = home.engines()
        for i in range(3):
            self.assertTrue(Stream(gateway.port, 2, f"before {i}").join().whole(2))
        until("the planner's count", lambda: planner.state()["slo"]["judged"] == 3)
        gateway.signal(KILL)
        gateway.wait()
        again = Program(self, "gateway", "--config", home.config, "--replicas-file", home.path("replicas.json"),
                        "--listen", f"127.0.0.1:{gateway.port}", "--admin-listen", f"127.0.0.1:{gateway.admin}",
                        ready=r"ready on http://127\.0\.0\.1:(\d+)")
        gateway.ready()  # Asks the new one, which has its ports.
        for i in range(5):
            stream = Stream(again.ports[0], 2, f"after {i}").join()
            self.assertTrue(stream.whole(2), (i, stream.status, stream.text, stream.fault, again.log()))
        until("the planner's count", lambda: planner.state()["slo"]["judged"] == 8)
        self.assertEqual(home.engines(), before)
        self.assertEqual(home.stages(), {"serving": 1})

    def gateway_on_a_full_disk(self):
        """Returns the file of its ledger, which has one entry and cannot grow, and the gateway, which has served 20 more requests."""
        ledger = os.path.join(self.folder(), "usage.sqlite")
        engine = Engine(self, *FAST)
        gateway = self.gateway(engine.url, words=("--ledger", ledger)).ready()
        self.assertEqual(complete(gateway.port)[0], 200)
        until("the entry", lambda: rows_of(ledger, "select count(*) from entries where outcome = 'completed'") == [(1,)])
        self.let_files_grow(gateway, os.path.getsize(ledger + "-wal"))
        self.assertEqual([complete(gateway.port, 2, f"prompt {i}")[0] for i in range(20)], [200] * 20)
        return ledger, gateway

    def test_a_full_disk_stops_the_ledger_and_nothing_else(self):
        ledger, gateway = self.gateway_on_a_full_disk()
        until("words on it", lambda: "usage.sqlite" in gateway.log())
        self.assertEqual(self.gateway_metric(gateway, "penstock_ledger_writable"), 0)
        self.assertGreater(self.gateway_metric(gateway, "penstock_ledger_waiting_entries"), 0)
        self.assertEqual(self.gateway_metric(gateway, "penstock_ledger_dropped_entries_total"), 0)
        self.let_files_grow(gateway, resource.RLIM_INFINITY)
        until("all entries", lambda: rows_of(ledger, "select count(*) from entries where outcome = 'completed'") == [(21,)])
        until("the end of the outage", lambda: self.gateway_metric(gateway, "penstock_ledger_writable") == 1)
        self.assertEqual(self.gateway_metric(gateway, "penstock_ledger_waiting_entries"), 0)
        lines = [line for line in gateway.log().splitlines() if " ledger " in line]
        self.assertEqual([re.split("[:;]", line.split('message="')[1])[0] for line in lines],
                         ["the ledger is not written", "the ledger is written again"], lines)
        gateway.signal(STOP)
        self.assertEqual(gateway.wait(), 0)

    def test_usage_that_is_lost_at_the_stop_shows_in_the_exit_status(self):
        _, gateway = self.gateway_on_a_full_disk()
        until("the outage", lambda: self.gateway_metric(gateway, "penstock_ledger_writable") == 0)
        gateway.signal(STOP)
        self.assertEqual(gateway.wait(), 1)
        self.assertIn("entries of the ledger are not written", gateway.log())
        self.assertIn("exit_code=1", gateway.log())

    def test_a_full_disk_loses_lines_of_the_access_log_and_nothing_else(self):
        gateway = self.gateway(Engine(self, *FAST).url, words=("--access-log", "/dev/full")).ready()
        self.assertEqual([complete(gateway.port)[0] for _ in range(3)], [200] * 3)
        until("the count", lambda: self.gateway_metric(gateway, 'penstock_log_lost_lines_total{log="access"}') == 3)
        self.assertEqual(self.gateway_metric(gateway, 'penstock_log_lost_lines_total{log="process"}'), 0)
        (line,) = [line for line in gateway.log().splitlines() if " file_unwritable " in line]
        self.assertIn("/dev/full: cannot be written: No space left on device", line)

    def test_a_full_disk_stops_the_decision_log_and_nothing_else(self):
        for kind in ("jsonl", "sqlite"):
            home = Home(self, engine=", max_sequences: 8, model: 'linear:20,0,0.001,0'")
            gateway = home.gateway(self)
            log = home.path(f"decisions.{kind}")
            # Standard error is a file here, too, and must not reach the limit.
            planner = home.planner(self, gateway, "--decision-log", log, "--log-level", "error")
            until_serving(home, 1)
            until("a decision", lambda: planner.state()["decisions"])
            self.let_files_grow(planner, max(os.path.getsize(path) for path in glob.glob(log + "*")))
            streams = ManyStreams(self, gateway.port, 60, 50)
            until("words on it", lambda: " decision_log_failed " in planner.log())
            self.assertEqual(streams.join(), [])
            self.assertEqual(planner.state()["mode"], "act")

    def test_a_failed_state_write_is_logged_once_and_the_planner_continues(self):
        home = Home(self)
        gateway = home.gateway(self)
        planner = home.planner(self, gateway, "--policy", "static")
        until_serving(home, 1)
        self.let_files_grow(planner, 100)
        (pid,) = home.engines()
        os.kill(pid, KILL)
        until("words on it", lambda: planner.has_event("fleet.json", warning=True))
        until("another engine", lambda: set(home.engines()) - {pid})
        self.let_files_grow(planner, resource.RLIM_INFINITY)
        until_serving(home, 1)
        until("better words", lambda: planner.has_event("can be written again"))
        output = [event["text"] for event in planner.state()["events"] if "fleet.json" in event["text"]]
        self.assertLessEqual(len(output), 4, output)
        self.assertEqual(complete(gateway.port)[0], 200)

    @staticmethod
    def gateway_metric(gateway, sample):
        text = ask(gateway.admin, "GET", "/metrics")[2]
        return float(next(line.split()[-1] for line in text.splitlines() if line.startswith(sample)))

    @staticmethod
    def let_files_grow(program, limit):
        _, hard = resource.prlimit(program.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(program.process.pid, resource.RLIMIT_FSIZE, (limit, hard))

    def check_memory(self, program, what, limit):
        """Sanitizers keep what was let go, so that their figures say nothing."""
        with open(f"/proc/{program.process.pid}/maps") as file:
            if not re.search("lib[at]san", file.read()):
                self.assertLess(memory_of(program, what), limit)

    # ---- clients -----------------------------------------------------------------------------------------------------

    def test_a_body_of_the_limit_is_read_and_one_byte_more_is_not(self):
        gateway = self.gateway(Engine(self, *FAST).url).ready()
        limit = 8 * 1024 * 1024
        self.assertEqual(complete(gateway.port)[0], 200)
        before = memory_of(gateway, "VmHWM")
        frame = len(json.dumps(chat(4, "")))
        status, _, body = complete(gateway.port, 4, "x" * (limit - frame))
        self.assertEqual((status, json.loads(body)["error"]["code"]), (400, "context_length_exceeded"), body)
        # As it came, as the parser needs it, and its text.
        self.check_memory(gateway, "VmHWM", before + 3.5 * limit)
        self.assertEqual(self.status_of(gateway.port, limit + 1), b"413")
        self.assertEqual(complete(gateway.port)[0], 200)

    @staticmethod
    def status_of(port, length):
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length)
            answer = connection.recv(4096)
            if b"\r\n\r\n{" in answer:
                error = json.loads(answer.split(b"\r\n\r\n")[1])["error"]
                assert error["code"] == "request_too_large" and "8388608 bytes" in error["message"], error
            return answer.split(b" ")[1]

    def test_malformed_requests_are_refused_without_effect(self):
        engine = Engine(self, *FAST)
        gateway = self.gateway(engine.url).ready()
        bodies = (b"", b"{", b"[]", b"null", b'{"model":"penstock-sim"}', b"\xff\xfe{}", b"[" * 100_000,
                  b'{"model":"penstock-sim","messages":[{"role":"user","content":"\xff\xc0"}]}',
                  b'{"model":"penstock-sim","messages":[{"role":"user","content":"\\ud800"}]}',
                  b'{"model":"penstock-sim","messages":[{"role":"user","content":"x"}],"max_tokens":-1}',
                  b'{"model":"penstock-sim","messages":[{"role":"user","content":"x"}],"max_tokens":1e99}')
        heads = (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n",
                 b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
                 b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                 b"POST /v1/chat/completions HTTP/1.1\r\n folded: x\r\n\r\n", b"GET  / HTTP/1.1\r\n\r\n", b"\r\n\r\n\0\r\n\r\n",
                 b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000 + b"\r\n", b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n")
        for port in (gateway.port, engine.port, gateway.admin):
            for body in bodies:
                self.answer_to(port, b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                               b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            for head in heads:
                self.answer_to(port, head)
        self.assertEqual(complete(gateway.port)[0], 200)
        self.assertEqual(engine.info()["requests_open"], 0)

    def answer_to(self, port, sent):
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
            try:
                connection.sendall(sent)
                answer = connection.recv(4096)
            except ConnectionResetError:
                return
        self.assertRegex(answer, rb"\AHTTP/1\.1 4\d\d ", sent[:200])

    def test_clients_that_read_nothing_are_cut_and_others_do_not_wait(self):
        engine = Engine(self, "--speed", "1000")
        gateway = self.gateway(engine.url).ready()
        body = json.dumps(chat(20_000, stream=True)).encode()
        deaf = []
        for _ in range(20):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", gateway.port))
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"
                               % (len(body), body))
            self.addCleanup(connection.close)
            deaf.append(connection)
        until("their answers", lambda: gateway.open_requests() == 20)
        self.assertEqual([complete(gateway.port, 2, f"prompt {i}")[0] for i in range(10)], [200] * 10)
        self.check_memory(gateway, "VmRSS", 512 * 1024 * 1024)
        for connection in deaf:
            connection.close()
        until("an idle engine", lambda: engine.info()["requests_open"] == 0 and gateway.open_requests() == 0)


def memory_of(program, what):
    with open(f"/proc/{program.process.pid}/status") as file:
        for line in file:
            if line.startswith(what + ":"):
                return int(line.split()[1]) * 1024
    raise AssertionError(f"no {what}")


if __name__ == "__main__":
    unittest.main()
