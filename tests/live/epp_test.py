#!/usr/bin/env python3
"""`penstock epp` as a program: flags of llm-d's endpoint picker, addresses, health, reloads. tests/envoy has it behind a real Envoy."""

import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest

from live_testing import PROGRAM, SECONDS, STOP, Engine, Program, ask, complete, until
from real_clients import python_with
from scaler_client import GRPC

FAST = ("--speed", "50")
LOOPBACK = ("--endpoint-picker-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
READY = r"epp ready on (?:http://127\.0\.0\.1:\d+ and )?grpcs?://127\.0\.0\.1:(\d+), metrics on http://127\.0\.0\.1:(\d+)"
# Prints what the health service answers for each name.
ASK_HEALTH = """
import grpc, sys
channel = grpc.insecure_channel("127.0.0.1:" + sys.argv[1])
check = channel.unary_unary("/grpc.health.v1.Health/Check", request_serializer=bytes, response_deserializer=bytes)
for name in sys.argv[2:]:
    try:
        print(check(b"\\x0a" + bytes([len(name)]) + name.encode(), timeout=60)[1])
    except grpc.RpcError as error:
        print(error.code().name)
"""


class EppTest(unittest.TestCase):
    def file(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
            file.write(text)
        self.addCleanup(os.unlink, file.name)
        return file.name

    def picker(self, *words, health="127.0.0.1:0", ready=READY, **more):
        picker = Program(self, "epp", *LOOPBACK, "--endpoint-picker-health-listen", health, *words, ready=ready, **more)
        picker.picks, picker.admin = picker.ports[-2:]
        until("a replica that may be chosen", lambda: ask(picker.admin, "GET", "/ready")[0] == 200)
        return picker

    def test_flags_of_llmds_chart_start_it_and_each_that_is_ignored_is_named(self):
        config = self.file("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{type: queue-scorer}, {type: by-label}]\n"
                           "flowControl: {defaultRequestTTL: 7s}\n")
        picker = self.picker("--zap-encoder", "json", "--config-file", config, "--ha-enable-leader-election", "--tracing=false",
                             "-v", "4", "--secure-serving=false", Engine(self, *FAST).url, environment={"NAMESPACE": "prod"})
        for warned in ("--ha-enable-leader-election", "--tracing", "-v", f"{config}: the plugin by-label"):
            self.assertIn(f"penstock: warning: {warned} has no counterpart and is ignored\n", picker.log())

        def listening():
            lines = [json.loads(line) for line in picker.log().splitlines() if line.startswith("{") and line.endswith("}")]
            return [(line["purpose"], line["url"].split(":")[0]) for line in lines if line["event"] == "listening"]

        until("the lines of the log", lambda: len(listening()) >= 2)
        self.assertEqual(listening(), [("endpoint picker", "grpc"), ("admin", "http")])

    def test_clients_are_served_only_where_an_address_is_given(self):
        engine = Engine(self, *FAST)
        picker = self.picker("--listen", "127.0.0.1:0", engine.url, ready=r"epp ready on http://127\.0\.0\.1:(\d+) and grpcs://127\.0\.0\.1:(\d+)"
                             r", metrics on http://127\.0\.0\.1:(\d+)")
        self.assertEqual(complete(picker.ports[0], 3)[0], 200)
        self.picker(engine.url)

    def test_health_is_that_of_llmds_services(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        engine = Engine(self, *FAST)
        picker = self.picker("--drain-delay", "60s", engine.url, health=f"127.0.0.1:{port}")
        names = ("liveness", "readiness", "inference-extension", "envoy.service.ext_proc.v3.ExternalProcessor", "other")

        def health():
            done = subprocess.run([python_with(GRPC), "-c", ASK_HEALTH, str(port), *names], capture_output=True, text=True,
                                  timeout=SECONDS, check=True)
            return done.stdout.split()

        self.assertEqual(health(), ["1"] * 4 + ["NOT_FOUND"])
        picker.signal(STOP)
        until("the drain", lambda: ask(picker.admin, "GET", "/ready")[0] == 503)
        self.assertEqual(health(), ["1"] + ["2"] * 3 + ["NOT_FOUND"])

    def test_a_reload_keeps_what_its_flags_say(self):
        config = self.file(json.dumps({"gateway": {"retries": 1}}))
        picker = self.picker("--config", config, Engine(self, *FAST).url)
        with open(config, "w", encoding="utf-8") as file:
            file.write(json.dumps({"gateway": {"retries": 2}}))
        picker.signal(signal.SIGHUP)
        until("the reload", lambda: "config_reloaded" in picker.log())
        self.assertIn("applied=gateway.retries", picker.log())
        self.assertNotIn("restart", picker.log())

    def test_new_connections_use_a_new_certificate(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        files = [os.path.join(folder.name, name) for name in ("tls.crt", "tls.key")]

        def certify(name):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-out",
                            files[0] + ".new", "-keyout", files[1] + ".new", "-subj", f"/CN={name}"], check=True, capture_output=True)
            for file in files:
                os.rename(file + ".new", file)

        def served():
            pem = ssl.get_server_certificate(("127.0.0.1", picker.picks))
            return subprocess.run(["openssl", "x509", "-noout", "-subject"], input=pem, capture_output=True, text=True,
                                  check=True).stdout

        certify("first")
        picker = self.picker("--cert-path", folder.name, Engine(self, *FAST).url)
        self.assertIn("first", served())
        certify("second")
        until("the new certificate", lambda: "second" in served())

    def test_what_cannot_be_is_an_error(self):
        for words, error in (
                ((), "there is no replica"),
                (("--grpc-port", "seven", "http://127.0.0.1:1"), "must be address:port"),
                (("--metrics-port", "9002", "http://127.0.0.1:1"), "must have another port than gateway.admin_listen (:9002)"),
                (("--config-file", self.file("gateway: {}\n"), "http://127.0.0.1:1"), "the kind must be EndpointPickerConfig"),
                (("--pool-group", "example.com", "--pool-name", "chat"), "must be inference.networking.k8s.io or inference.networking.x-k8s.io"),
                (("--cert-path", "/no/such/folder", "http://127.0.0.1:1"), "No such file or directory"),
                (("--no-such-flag", "http://127.0.0.1:1"), "unknown flag")):
            done = subprocess.run([PROGRAM, "epp", *words], capture_output=True, text=True, timeout=SECONDS, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(error, done.stderr)


if __name__ == "__main__":
    unittest.main()
