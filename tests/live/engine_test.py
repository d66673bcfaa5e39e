#!/usr/bin/env python3
"""`penstock engine` from end to end: the real program and clients of the standard library."""

import http.client
import json
import os
import re
import signal
import subprocess
import threading
import unittest

PROGRAM = os.environ.get("PENSTOCK", "penstock")
SECONDS = 60  # that anything may take


class Engine:
    """One engine process; ended with the test."""

    def __init__(self, test, *flags):
        self.process = subprocess.Popen([PROGRAM, "engine", "--id", "e1", *flags], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        test.addCleanup(self.end)
        line = self.process.stdout.readline()
        found = re.fullmatch(r"engine e1 ready on http://127\.0\.0\.1:(\d+)\n", line)
        test.assertIsNotNone(found, line)
        self.port = int(found[1])

    def wait_until_serving(self):
        assert self.process.stdout.readline() == "engine e1 serving\n"

    def end(self):
        self.process.kill()
        self.process.communicate()

    def request(self, method, path, body=None, **fields):
        """Status, fields and body of one exchange."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=fields)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def open_stream(self, tokens, prompt="hello"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        connection.request("POST", "/v1/chat/completions", body=json.dumps(chat(tokens, prompt, stream=True)))
        return connection, connection.getresponse()

    def info(self):
        return json.loads(self.request("GET", "/penstock/v1/info")[2])


def chat(tokens, prompt="hello", **more):
    return {"model": "penstock-sim", "messages": [{"role": "user", "content": prompt}], "max_tokens": tokens,
            "ignore_eos": True, **more}


class EngineTest(unittest.TestCase):
    def test_complete_and_streamed_answers_are_equal(self):
        engine = Engine(self, "--speed", "20")
        engine.wait_until_serving()
        status, _, body = engine.request("POST", "/v1/chat/completions", chat(12))
        self.assertEqual(status, 200, body)
        whole = json.loads(body)["choices"][0]["message"]["content"]
        connection, answer = engine.open_stream(12)
        lines = [line for line in answer.read().decode().split("\n\n") if line]
        connection.close()
        self.assertEqual(lines[-1], "data: [DONE]")
        pieces = [json.loads(line[len("data: "):])["choices"][0]["delta"].get("content", "") for line in lines[:-1]]
        self.assertEqual("".join(pieces), whole)
        self.assertEqual(len(whole), 48)

    def test_starts_up_before_it_serves(self):
        engine = Engine(self, "--start-up", "1h")
        status, fields, _ = engine.request("GET", "/health")
        self.assertEqual(status, 503)
        self.assertEqual(fields["Retry-After"], "3600")
        engine = Engine(self, "--start-up", "1h", "--speed", "36000")
        engine.wait_until_serving()
        self.assertEqual(engine.request("GET", "/health")[0], 200)

    def test_sigterm_lets_streams_end_and_then_exits_with_0(self):
        engine = Engine(self, "--engine", "linear:10,0,0.001,0")
        streams = [engine.open_stream(40, f"prompt {i}") for i in range(20)]
        bodies = [None] * len(streams)

        def read(i):
            connection, answer = streams[i]
            bodies[i] = answer.read().decode()
            connection.close()

        readers = [threading.Thread(target=read, args=(i,)) for i in range(len(streams))]
        for reader in readers:
            reader.start()
        engine.process.send_signal(signal.SIGTERM)
        for reader in readers:
            reader.join()
        for body in bodies:
            self.assertTrue(body.endswith("data: [DONE]\n\n"), body[-200:])
            self.assertEqual(body.count('"content":" '), 40)
        self.assertEqual(engine.process.wait(SECONDS), 0)

    def test_sighup_is_logged_and_changes_nothing(self):
        engine = Engine(self, "--speed", "20")
        engine.wait_until_serving()
        engine.process.send_signal(signal.SIGHUP)
        line = next(line for line in engine.process.stderr if " reload_ignored " in line)
        self.assertIn("cause=SIGHUP", line)
        self.assertEqual(engine.request("POST", "/v1/chat/completions", chat(4))[0], 200)

    def test_a_second_sigterm_ends_it_and_reports_cut_streams(self):
        engine = Engine(self, "--speed", "0.001")
        engine.wait_until_serving()
        connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=SECONDS)
        connection.request("POST", "/v1/chat/completions", body=json.dumps(chat(40)))
        while engine.info()["requests_open"] == 0:
            pass
        engine.process.send_signal(signal.SIGTERM)
        while engine.info()["state"] != "draining":
            pass
        engine.process.send_signal(signal.SIGTERM)
        self.assertEqual(engine.process.wait(SECONDS), 1)
        self.assertIn("engine e1: 1 requests and transfers were cut short", engine.process.stderr.read())
        connection.close()

    def test_a_prefill_and_a_decode_engine_share_one_prompt(self):
        prefill = Engine(self, "--role", "prefill", "--speed", "20")
        decode = Engine(self, "--role", "decode", "--speed", "20")
        prompt = "word " * 400
        asked = chat(1, prompt, kv_transfer_params={"do_remote_decode": True, "do_remote_prefill": False})
        status, _, body = prefill.request("POST", "/v1/chat/completions", asked)
        self.assertEqual(status, 200, body)
        params = json.loads(body)["kv_transfer_params"]
        self.assertEqual(params["remote_port"], prefill.port)
        status, _, body = decode.request("POST", "/v1/chat/completions", chat(9, prompt, kv_transfer_params=params))
        self.assertEqual(status, 200, body)
        self.assertEqual(json.loads(body)["usage"]["completion_tokens"], 9)
        self.assertIn('penstock_engine_kv_transfers_total{result="fetched"} 1', decode.request("GET", "/metrics")[2])

    def test_the_crash_fault_ends_the_process(self):
        engine = Engine(self, "--fault", "crash-after=1")
        self.assertEqual(engine.request("POST", "/v1/chat/completions", chat(1))[0], 200)
        with self.assertRaises((http.client.HTTPException, OSError)):
            engine.request("POST", "/v1/chat/completions", chat(1))
        self.assertEqual(engine.process.wait(SECONDS), 70)

    def test_a_port_in_use_is_reported_at_once(self):
        engine = Engine(self)
        second = subprocess.run([PROGRAM, "engine", "--port", str(engine.port)], capture_output=True, text=True,
                                timeout=SECONDS)
        self.assertEqual(second.returncode, 1)
        self.assertRegex(second.stderr, rf"\Apenstock: [^\n]*{engine.port}[^\n]*\n\Z")

    def test_bad_flags_are_named(self):
        for flags, says in ((["--role", "both"], "--role: must be aggregated, prefill or decode"),
                            (["--fault", "fire"], "--fault: must be hang, garbage, slow or crash"),
                            (["--speed", "0"], "--speed: "), (["--port", "70000"], "--port: "),
                            (["--id", "a b"], "--id: "), (["--host", "localhost"], "localhost")):
            done = subprocess.run([PROGRAM, "engine", *flags], capture_output=True, text=True, timeout=SECONDS)
            self.assertEqual(done.returncode, 2, flags)
            self.assertEqual(done.stdout, "")
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
