#!/usr/bin/env python3
"""`penstock gateway` and what engines know of its clients: credentials, models, controls, caches of tenants."""

import http.server
import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest

from live_testing import PROGRAM, Engine, Gateway, ask, chat, complete, until

FAST = ("--speed", "50")


def cached_tokens(body):
    details = json.loads(body)["usage"].get("prompt_tokens_details") or {}
    return details.get("cached_tokens") or 0


class RecordingEngine:
    """An engine that serves several models and records its requests."""

    def __init__(self, test, *models, api_key=None, certificate=None, client_ca=None):
        self.models, self.api_key, self.requests = list(models), api_key, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, status, document):
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def refused(self):
                if outer.api_key is None or self.headers["Authorization"] == f"Bearer {outer.api_key}":
                    return False
                self.answer(401, {"error": {"message": "Unauthorized", "code": 401}})
                return True

            def do_GET(self):
                if self.path == "/health":
                    self.answer(200, {})
                elif self.path != "/v1/models":
                    self.answer(404, {})
                elif not self.refused():
                    self.answer(200, {"object": "list", "data": outer.models})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.refused():
                    return
                outer.requests.append((dict(self.headers), body))
                if body["model"] not in [model["id"] for model in outer.models]:
                    return self.answer(404, {"error": {"message": "no such model", "code": "model_not_found"}})
                self.answer(200, {"model": body["model"], "usage": {"prompt_tokens": 1, "completion_tokens": 1},
                                  "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"},
                                               "finish_reason": "stop"}]})

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            if client_ca is not None:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(client_ca)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            scheme = "https"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"{scheme}://127.0.0.1:{self.server.server_address[1]}"
        test.addCleanup(self.server.server_close)
        test.addCleanup(self.server.shutdown)


def base(name, **more):
    return {"id": name, "object": "model", "root": "/weights", "parent": None, "max_model_len": 4096, **more}


def adapter(name, parent="base"):
    return {"id": name, "object": "model", "root": "/adapters/" + name, "parent": parent, "max_model_len": None}


def model(name, tokens=4):
    return {**chat(tokens), "model": name}


class EnginesTest(unittest.TestCase):
    def problems(self, gateway):
        return {problem["url"]: (problem["code"], problem["text"]) for problem in gateway.overview()["problems"]}

    def ask_model(self, gateway, name):
        status, _, body = ask(gateway.port, "POST", "/v1/chat/completions", model(name))
        return status, json.loads(body)

    # ---- credentials -----------------------------------------------------------------------------------------------

    def test_engines_with_a_key_are_used_with_it(self):
        engine = Engine(self, *FAST, "--api-key", "sk-engine")
        key = self.write("sk-engine\n", "key")
        gateway = Gateway(self, "--replica-key-file", key, engine.url).ready()
        status, _, body = complete(gateway.port, 4)
        self.assertEqual(status, 200, body)
        self.assertEqual(gateway.overview()["problems"], [])
        shown = gateway.log() + json.dumps(gateway.overview()) + ask(gateway.admin, "GET", "/metrics")[2]
        self.assertNotIn("sk-engine", shown)

    def test_the_key_of_a_replica_comes_before_the_one_for_all(self):
        engines = [RecordingEngine(self, base("base"), api_key=f"sk-{i}") for i in range(2)]
        os.environ["PENSTOCK_TEST_KEY"] = "sk-1"
        config = self.write("gateway:\n"
                            f"  credentials: {{api_key_file: {self.write('sk-0', 'key')}, headers: ['X-Team: search']}}\n"
                            f"  replicas: [{{url: '{engines[0].url}'}},\n"
                            f"             {{url: '{engines[1].url}', api_key_env: PENSTOCK_TEST_KEY}}]\n")
        gateway = Gateway(self, "--config", config).ready()
        until("two replicas", lambda: len(gateway.overview()["replicas"]) == 2)
        for i in range(20):
            self.assertEqual(self.ask_model(gateway, "base")[0], 200)
        for engine in engines:
            self.assertTrue(engine.requests)
            self.assertEqual(engine.requests[0][0]["X-Team"], "search")

    def test_a_refused_key_is_the_fault_of_the_replica_and_is_shown(self):
        engine = Engine(self, *FAST, "--api-key", "sk-engine")
        key = self.write("sk-old", "key")
        config = self.write(f"gateway: {{credentials: {{api_key_file: {key}}}, health_interval: 100ms,\n"
                            f"          replicas: [{{url: '{engine.url}', model: penstock-sim}}]}}\n"
                            "classes: {interactive: {queue_time: 0s}}\n")
        gateway = Gateway(self, "--config", config)
        until("the problem", lambda: self.problems(gateway).get(engine.url))
        code, text = self.problems(gateway)[engine.url]
        self.assertEqual(code, "unauthorized")
        self.assertIn("refused the gateway's API key", text)
        self.assertIn('penstock_replica_problem{replica="%s",code="unauthorized"} 1' % engine.url,
                      ask(gateway.admin, "GET", "/metrics")[2])
        until("the log", lambda: "refused the gateway's API key" in gateway.log())
        self.assertEqual(ask(gateway.admin, "GET", "/ready")[0], 503)
        self.assertEqual(complete(gateway.port, 4)[0], 503)
        # The key is rotated without a restart.
        with open(key, "w") as file:
            file.write("sk-engine")
        gateway.signal(signal.SIGHUP)
        gateway.ready()
        self.assertEqual(complete(gateway.port, 4)[0], 200)
        until("no problem", lambda: not self.problems(gateway))

    def test_a_client_never_sees_that_an_engine_refused_the_gateway(self):
        engine = RecordingEngine(self, base("base"))
        gateway = Gateway(self, engine.url).ready()
        engine.api_key = "sk-new"
        status, body = self.ask_model(gateway, "base")
        self.assertEqual((status, body["error"]["code"]), (502, "replica_failed"), body)
        until("the problem", lambda: self.problems(gateway).get(engine.url))
        self.assertEqual(self.problems(gateway)[engine.url][0], "unauthorized")
        self.assertIn("requires an API key", self.problems(gateway)[engine.url][1])

    def certificate(self, name):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        certificate, key = os.path.join(folder.name, "c.pem"), os.path.join(folder.name, "k.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={name}",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                       check=True, capture_output=True)
        return certificate, key

    def test_replicas_with_https_need_a_trusted_certificate_and_may_need_the_gateways(self):
        server, client = self.certificate("engine"), self.certificate("gateway")
        engine = RecordingEngine(self, base("base"), certificate=server, client_ca=client[0])
        gateway = Gateway(self, engine.url)
        found = until("the problem", lambda: self.problems(gateway).get(engine.url))
        self.assertEqual(found[0], "unreachable")
        self.assertIn("certificate is not trusted", found[1])
        config = self.write(f"gateway: {{credentials: {{ca_file: {server[0]}, certificate: {client[0]}, key: {client[1]}}},\n"
                            f"          replicas: [{{url: '{engine.url}'}}]}}\n")
        gateway = Gateway(self, "--config", config).ready()
        self.assertEqual(self.ask_model(gateway, "base")[0], 200)

    def test_a_replica_that_does_not_answer_is_shown_with_the_reason(self):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        gateway = Gateway(self, url)
        found = until("the problem", lambda: self.problems(gateway).get(url))
        self.assertIn("Connection refused", found[1])

    def test_check_names_credentials_that_cannot_be_read(self):
        config = self.write("gateway:\n  credentials: {api_key_env: PENSTOCK_UNSET_VARIABLE}\n"
                            "  replicas: [{url: 'http://127.0.0.1:1'}]\n")
        done = subprocess.run([PROGRAM, "check", config], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("gateway.credentials: the environment variable", done.stderr)

    # ---- models ----------------------------------------------------------------------------------------------------

    def test_all_models_of_an_engine_are_served_and_adapters_come_and_go(self):
        engines = [RecordingEngine(self, base("base"), base("alias"), adapter("lora-a")),
                   RecordingEngine(self, base("base"))]
        config = self.write("gateway: {health_interval: 100ms, replicas: [%s]}\n"
                            % ", ".join(f"{{url: '{engine.url}'}}" for engine in engines))
        gateway = Gateway(self, "--config", config).ready()

        def listed():
            entries = json.loads(ask(gateway.port, "GET", "/v1/models")[2])["data"]
            return {entry["id"]: entry["max_model_len"] for entry in entries}

        until("all models", lambda: set(listed()) == {"base", "alias", "lora-a"})
        self.assertEqual(set(listed().values()), {4096})
        for i in range(10):
            for name in ("base", "alias", "lora-a"):
                status, body = self.ask_model(gateway, name)
                self.assertEqual((status, body["model"]), (200, name), body)
        self.assertEqual({body["model"] for _, body in engines[1].requests}, {"base"})
        # One model, and a name that is missing.
        status, _, body = ask(gateway.port, "GET", "/v1/models/lora-a")
        self.assertEqual((status, json.loads(body)["id"]), (200, "lora-a"), body)
        status, _, body = ask(gateway.port, "GET", "/v1/models/lora-b")
        self.assertEqual((status, json.loads(body)["error"]["code"]), (404, "model_not_found"), body)
        # Loaded at the other engine, and unloaded at this one.
        engines[1].models.append(adapter("team/lora b"))
        until("the new adapter", lambda: "team/lora b" in listed())
        self.assertEqual(self.ask_model(gateway, "team/lora b")[0], 200)
        self.assertEqual(ask(gateway.port, "GET", "/v1/models/team/lora%20b")[0], 200)
        engines[0].models[:] = [base("base"), base("alias")]
        until("the end of the adapter", lambda: "lora-a" not in listed())
        self.assertEqual(self.ask_model(gateway, "lora-a")[0], 404)
        # The limit is that of the engine.
        status, body = ask(gateway.port, "POST", "/v1/chat/completions", model("base", 5000))[::2]
        self.assertEqual((status, json.loads(body)["error"]["code"]), (400, "context_length_exceeded"), body)

    # ---- tenants ---------------------------------------------------------------------------------------------------

    def write(self, text, name="p.yaml"):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def test_isolated_tenants_find_nothing_of_others_in_the_cache(self):
        engine = Engine(self, *FAST)
        config = self.write("gateway: {isolation: tenant}\n"
                            "tenants: [{name: alice, keys: [sk-alice]}, {name: bob, keys: [sk-bob]}]\n")
        gateway = Gateway(self, "--config", config, engine.url, expose="operators").ready()

        def probe(key, **more):
            status, fields, body = ask(gateway.port, "POST", "/v1/chat/completions", chat(2, "secret " * 1000, **more),
                                       Authorization=f"Bearer {key}")
            self.assertEqual(status, 200, body)
            self.assertFalse([name for name in fields if name.lower().startswith("x-penstock")])
            return cached_tokens(body)

        self.assertEqual(probe("sk-alice"), 0)
        self.assertGreater(probe("sk-alice"), 1000)
        self.assertEqual(probe("sk-bob"), 0)
        self.assertEqual(probe("sk-bob", cache_salt="other"), probe("sk-alice"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
