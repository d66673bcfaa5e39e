#!/usr/bin/env python3
"""Dynamo's event plane over a real NATS server, and its discovery in a real etcd; scripts publish the bytes of Dynamo."""

import base64
import json
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

from fake_replica import FakeReplica, plain
from live_testing import PROGRAM, Engine, Gateway, ask, config_file, until
from planner_testing import Planner

GOLDEN = Path(__file__).resolve().parents[2] / "src/telemetry/golden_messages_testing.h"
SUBJECT = "namespace.dynamo.component.backend.endpoint.generate.forward-pass-metrics"
WORKERS = (1197945235247577030, 14707549495232457309)
KV_WORKER = 14125413811407687658  # Of the golden messages of KV caches.
# Before its first request a front end exposes no series of its queue.
IDLE_FRONT_END = b"dynamo_frontend_disconnected_clients 0\n"
FRONT_END = b"""dynamo_frontend_queued_requests{model="m"} 0
dynamo_frontend_inflight_requests{model="m"} 0
dynamo_frontend_model_total_kv_blocks{model="m"} 8192
dynamo_frontend_model_kv_cache_block_size{model="m"} 16
"""


def golden(name):
    found = re.search(rf'{name} =\s*((?:"[0-9a-f]*"\s*)+);', GOLDEN.read_text())
    return bytes.fromhex("".join(re.findall(r'"([0-9a-f]*)"', found.group(1))))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


class Server:
    """A neighbour's server at a port of its own; ended with the test."""

    def __init__(self, test, port, *words):
        self.process = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        test.addCleanup(self.end)

        def listens():
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return True
            except OSError:
                return False

        until(f"{words[0]} listens", listens)

    def end(self):
        self.process.kill()
        self.process.wait()


class Nats(Server):
    def __init__(self, test, port, *words, tls=None, **credentials):
        super().__init__(test, port, "nats-server", "-a", "127.0.0.1", "-p", port, *words)
        self.port, self.tls, self.credentials = port, tls, credentials

    def publish(self, subject, payload, count=1):
        connection = socket.create_connection(("127.0.0.1", self.port), 5)
        if self.tls:
            connection.recv(4096)  # The greeting, after which TLS begins.
            connection = self.tls.wrap_socket(connection, server_hostname="127.0.0.1")
        with connection:
            message = b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(payload), payload)
            connect = json.dumps({"verbose": False, **self.credentials}).encode()
            connection.sendall(b"CONNECT %b\r\n" % connect + count * message + b"PING\r\n")
            received = b""
            while b"PONG" not in received:
                received += connection.recv(4096)


class Etcd(Server):
    def __init__(self, test):
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        self.port, peers = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        super().__init__(test, self.port, "etcd", "--data-dir", folder.name, "--listen-client-urls", self.url,
                         "--advertise-client-urls", self.url, "--listen-peer-urls", f"http://127.0.0.1:{peers}")

    def call(self, path, **fields):
        body = json.dumps({name: base64.b64encode(value.encode()).decode() for name, value in fields.items()}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/v3/kv/{path}", body), timeout=10) as answer:
            return answer.read()


class FrontEnd(FakeReplica):
    """Dynamo's front end, which the planner recognises by its metrics."""

    def __init__(self, test):
        super().__init__(test, None)
        self.metrics = IDLE_FRONT_END

    def _answer(self, connection):
        with connection:
            try:
                request = self._read(connection)
                if request.startswith(b"GET /metrics"):
                    return connection.sendall(plain(200, self.metrics))
                connection.sendall(plain(200, b'{"data":[{"id":"m"}]}' if request.startswith(b"GET /v1/models") else b"{}"))
            except OSError:
                pass


def worker_record(number):
    """The model card of a worker, as Dynamo 1.6.1 writes it, without fields that are not read."""
    return json.dumps({"type": "Model", "namespace": "dynamo", "component": "backend", "endpoint": "generate",
                       "instance_id": number,
                       "card_json": {"display_name": "m", "kv_cache_block_size": 16,
                                     "runtime_config": {"total_kv_blocks": 4096, "max_num_seqs": 8}}})


def channel_record(topic):
    return json.dumps({"type": "EventChannel", "topic": topic, "instance_id": 5915707931478959,
                       "scope": {"kind": "endpoint",
                                 "endpoint": {"namespace": "dynamo", "component": "backend", "name": "generate"}},
                       "transport": {"kind": "Nats", "config": {"subject_prefix": SUBJECT.rsplit(".", 1)[0]}}})


def received(planner):
    replicas = planner.pool()["replicas"]
    return ((replicas[0]["fpm"] if replicas else None) or {}).get("received", 0)


@unittest.skipUnless(shutil.which("nats-server"), "nats-server is not installed")
class NatsTest(unittest.TestCase):
    def test_iterations_arrive_through_a_server_that_restarts(self):
        port = free_port()
        server = Nats(self, port)
        engine = Engine(self)
        config = config_file(self, gateway={"anonymous": True, "replicas": [
            {"url": engine.url, "fpm": f"nats://127.0.0.1:{port}/{SUBJECT}"}]})
        gateway = Gateway(self, "--config", config).ready()
        planner = Planner(self, "--config", config, "--gateway", f"127.0.0.1:{gateway.admin}")

        def publish_until(count):
            def has_arrived():
                server.publish(SUBJECT, golden("kForwardPassEnvelope"))
                return received(planner) >= count
            until(f"{count} messages", has_arrived)

        publish_until(3)
        server.publish(SUBJECT, b"\x81\xa5topic\xa1x")
        until("a rejected message", lambda: planner.pool()["replicas"][0]["fpm"]["rejected"] == 1)
        server.end()
        until("an event that tells it", lambda: planner.has_event("the server closed the connection", warning=True))
        before = received(planner)
        server = Nats(self, port)
        publish_until(before + 3)
        self.assertEqual(planner.pool()["replicas"][0]["fpm"]["rejected"], 1)

    def test_workers_report_their_kv_caches(self):
        nats = Nats(self, free_port())
        discovery = tempfile.TemporaryDirectory()
        self.addCleanup(discovery.cleanup)
        records = {"mdc/worker": worker_record(KV_WORKER), "event_channels/events": channel_record("kv-events"),
                   "event_channels/metrics": channel_record("kv_metrics")}
        for name, record in records.items():
            path = Path(discovery.name, "v1", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(record)
        front_end = FrontEnd(self)
        front_end.metrics = FRONT_END
        config = config_file(self, gateway={"anonymous": True, "replicas": [{"url": front_end.url}]}, model="m")
        gateway = Gateway(self, "--config", config).ready()
        planner = Planner(self, "--config", config, "--gateway", f"127.0.0.1:{gateway.admin}", "--dynamo-discovery",
                          f"file:{discovery.name}", "--nats-server", f"nats://127.0.0.1:{nats.port}")
        prefix = SUBJECT.rsplit(".", 1)[0]

        def worker():
            return next((each for each in planner.pool()["replicas"] if each["name"].endswith(str(KV_WORKER))), None)

        def has_arrived():
            for topic, name in (("kv_metrics", "kKvUsedFrame"), ("kv-events", "kKvStoredFrame"),
                                ("kv-events", "kKvRemovedFrame")):
                nats.publish(f"{prefix}.{topic}", golden(name)[5:])
            seen = worker()
            sample = seen and seen["sample"]  # Each topic has a subscription of its own.
            return sample and sample["evictions"] and sample["kv_usage"] is not None

        until("messages of the worker", has_arrived)
        self.assertEqual(worker()["sample"]["kv_usage"], 12 / 4096)
        self.assertGreaterEqual(worker()["kv_events"]["received"], 3)
        self.assertEqual(worker()["kv_events"]["rejected"], 0)
        # What the front end itself exposes is there as well, once.
        text = ask(planner.port, "GET", "/metrics/engines")[2]
        self.assertRegex(text, r'(?m)^llm_queue_depth\{[^}]*model_id="m"[^}]*\} 0$')
        nats.publish(f"{prefix}.kv-events", golden("kForwardPassEnvelope"))
        until("a rejected message", lambda: worker()["kv_events"]["rejected"] == 1)
        self.assertTrue(planner.has_event("the message has another topic", warning=True))

    def test_a_server_that_is_not_there_is_reported(self):
        engine = Engine(self)
        config = config_file(self, gateway={"anonymous": True, "replicas": [
            {"url": engine.url, "fpm": f"nats://127.0.0.1:{free_port()}/{SUBJECT}"}]})
        gateway = Gateway(self, "--config", config).ready()
        planner = Planner(self, "--config", config, "--gateway", f"127.0.0.1:{gateway.admin}")
        until("an event that tells it", lambda: planner.has_event("no server answers; check the address", warning=True))
        until("the engine is watched all the same", lambda: planner.pool()["replicas"][0]["sample"])


    def test_a_server_with_tls_client_certificates_and_a_password(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name)
        certificate, key, password = (str(path / name) for name in ("certificate.pem", "key.pem", "password"))
        # It verifies itself, the server and the client.
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "1", "-subj", "/CN=nats", "-addext", "subjectAltName=IP:127.0.0.1", "-out", certificate,
                        "-keyout", key], check=True, capture_output=True)
        tls = ssl.create_default_context(cafile=certificate)
        tls.load_cert_chain(certificate, key)
        (path / "password").write_text("wrong\n")
        port = free_port()
        server = Nats(self, port, "--tlsverify", "--tlscert", certificate, "--tlskey", key, "--tlscacert", certificate,
                      "--user", "u", "--pass", "geheim", tls=tls, user="u", **{"pass": "geheim"})
        engine = Engine(self)
        config = config_file(self, gateway={"anonymous": True, "replicas": [
            {"url": engine.url, "fpm": f"tls://127.0.0.1:{port}/{SUBJECT}"}]}, planner={
                "nats_server": f"tls://127.0.0.1:{port}", "nats": {"ca_file": certificate, "certificate": certificate,
                                                                   "key": key, "user": "u", "password_file": password}})
        gateway = Gateway(self, "--config", config).ready()
        planner = Planner(self, "--config", config, "--gateway", f"127.0.0.1:{gateway.admin}")
        until("an event about the password", lambda: planner.has_event("the server refused the credentials", warning=True))
        (path / "password").write_text("geheim\n")

        def has_arrived():
            server.publish(SUBJECT, golden("kForwardPassEnvelope"))
            return received(planner) >= 3

        until("three messages", has_arrived)
        self.assertFalse(planner.has_event("geheim"))

    def test_a_contradiction_in_the_credentials_is_an_error_of_the_configuration(self):
        config = config_file(self, planner={"nats_server": "nats://u:geheim@127.0.0.1", "nats": {"user": "u"}})
        checked = subprocess.run([PROGRAM, "check", config], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 2, checked)
        self.assertIn("planner.nats.password_file: a user needs a password", checked.stderr)
        self.assertIn("planner.nats_server: an endpoint of NATS has no user in its URL", checked.stderr)
        self.assertNotIn("geheim", checked.stderr)


@unittest.skipUnless(shutil.which("etcd"), "etcd is not installed")
class EtcdTest(unittest.TestCase):
    def test_workers_come_and_go_with_their_records(self):
        etcd = Etcd(self)
        front_end = FrontEnd(self)
        config = config_file(self, gateway={"anonymous": True, "replicas": [{"url": front_end.url}]}, model="m")
        gateway = Gateway(self, "--config", config).ready()
        more = []
        if shutil.which("nats-server"):
            nats = Nats(self, free_port())
            more = ["--nats-server", f"nats://127.0.0.1:{nats.port}"]
            etcd.call("put", key="v1/event_channels/namespace/dynamo/x", value=channel_record("forward-pass-metrics"))
        for number in WORKERS:
            etcd.call("put", key=f"v1/mdc/dynamo/backend/generate/{number:x}", value=worker_record(number))
        planner = Planner(self, "--config", config, "--gateway", f"127.0.0.1:{gateway.admin}", "--dynamo-discovery",
                          f"etcd:{etcd.url}", *more)

        def workers():
            return sorted(int(each["name"].rsplit("/", 1)[1]) for each in planner.pool()["replicas"]
                          if "/" in each["name"].split("//")[-1])

        until("both workers", lambda: workers() == sorted(WORKERS))
        front_end.metrics = FRONT_END
        until("their capacity", lambda: [each["sample"]["kv_capacity_tokens"] for each in planner.pool()["replicas"]
                                         if each["sample"]] == 2 * [4096 * 16])
        if more:
            def has_arrived():
                nats.publish(SUBJECT, golden("kForwardPassEnvelope"))
                return received(planner) >= 3
            until("messages on the subject that a record names", has_arrived)
        etcd.call("deleterange", key=f"v1/mdc/dynamo/backend/generate/{WORKERS[0]:x}")
        until("the worker that is left", lambda: workers() == [WORKERS[1]])
        etcd.end()
        until("an event that tells it", lambda: planner.has_event("discovery of Dynamo cannot be read", warning=True))
        time.sleep(2.5)  # More than one reading.
        self.assertEqual(workers(), [WORKERS[1]])


if __name__ == "__main__":
    unittest.main(verbosity=2)
