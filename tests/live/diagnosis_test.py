#!/usr/bin/env python3
"""The diagnosis of a running planner, with one injected fault at a time on real sockets: it must name that fault."""

import json
import socket
import sys
import threading
import unittest

from live_testing import Engine, Gateway, Program, Stream, chat, config_file, until
from planner_testing import Planner

POOL = [{"name": "chat", "replicas": 1, "min_replicas": 1, "max_replicas": 4}]
TWO_POOLS = [{"name": "prefill", "role": "prefill", "replicas": 1, "min_replicas": 1, "max_replicas": 4},
             {"name": "decode", "role": "decode", "replicas": 1, "min_replicas": 1, "max_replicas": 4}]


class StartingEngine(Program):
    """An engine that listens and does not serve yet."""

    def __init__(self, test):
        super().__init__(test, "engine", "--start-up", "300s", "--id", "cold", ready=r"ready on http://127\.0\.0\.1:(\d+)")
        self.url = f"http://127.0.0.1:{self.ports[0]}"


class Clients:
    """Clients that each read one stream after the other until the end of the test."""

    def __init__(self, test, port, count, tokens, words=4, **fields):
        self.ends = threading.Event()
        self.port, self.tokens, self.words, self.fields = port, tokens, words, fields
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in range(count)]
        test.addCleanup(self.stop)
        for thread in self.threads:
            thread.start()

    def run(self, number):
        turn = 0
        while not self.ends.is_set():
            turn += 1
            # No two prompts begin alike, so that none is found in a cache.
            prompt = f"{number} {turn} " + "word " * self.words
            try:
                self.read(prompt)
            except OSError:
                self.ends.wait(0.1)  # A connection that the end of the test closed.

    def read(self, prompt):
        Stream(self.port, self.tokens, prompt, **self.fields).join()

    def stop(self):
        self.ends.set()
        for thread in self.threads:
            thread.join()


class SlowClients(Clients):
    """Clients that read nothing for a while and then all at once."""

    TOKENS = 24000  # About 5 MB, more than the kernel keeps for a connection.
    PAUSE = 4       # Seconds.

    def read(self, prompt):
        body = json.dumps(chat(self.tokens, prompt, stream=True))
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
            connection.settimeout(60)
            connection.connect(("127.0.0.1", self.port))
            connection.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"
                               f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            self.ends.wait(self.PAUSE)
            while connection.recv(65536):
                pass


class LiveDiagnosis(unittest.TestCase):
    def open(self, *engines, pools=POOL, ttft="600ms", itl="1s", gateway=None, **more):
        """A gateway before the engines and a planner that observes both."""
        replicas = [{"url": engine.url, "role": role or "aggregated"} for engine, role in engines]
        config = config_file(self, pools=pools, slo={"ttft": ttft, "itl": itl}, planner={"tick_interval": "1s"},
                             gateway={"anonymous": not more.get("tenants"), "routing": {"slow_start": "0s"},
                                      "replicas": replicas, **(gateway or {})},
                             classes={"interactive": {"queue_time": "60s"}}, **more)
        self.gateway = Gateway(self, "--config", config).ready()
        self.planner = Planner(self, "--config", config, "--gateway", f"127.0.0.1:{self.gateway.admin}")

    def expect(self, cause, text=""):
        """Waits until the planner names the cause, and returns its sentence."""
        seen = {}

        def is_named():
            diagnosis = self.planner.state()["diagnosis"] or {}
            seen[diagnosis.get("cause")] = diagnosis.get("text")
            return diagnosis.get("cause") == cause and text in diagnosis["text"] and diagnosis["text"]

        try:
            return until(f"the cause {cause}", is_named)
        except AssertionError as error:
            raise AssertionError(f"{error}; seen: {seen}") from None

    def decisions_to_grow(self):
        return [each for each in self.planner.state()["decisions"] if each["target"] > each["current"]]


class InTheQueue(LiveDiagnosis):
    def test_too_many_requests_for_a_replica_are_the_queue(self):
        self.open((Engine(self, "--engine", "linear:20,0,0,0", "--max-sequences", "1"), None))
        Clients(self, self.gateway.port, 8, 10)
        self.assertIn("too many requests per replica", self.expect("queue"))

    def test_a_replica_that_starts_is_a_cold_start(self):
        # The gateway lists a second replica that does not serve yet, while the first one is full.
        slow = Engine(self, "--engine", "linear:20,0,0,0", "--max-sequences", "1")
        self.open((slow, None), (StartingEngine(self), None))
        Clients(self, self.gateway.port, 8, 10)
        self.assertIn("replicas are still starting", self.expect("cold_start"))

    def test_full_kv_caches_are_kv_pressure(self):
        engine = Engine(self, "--engine", "linear:20,0,0,0", "--kv-blocks", "40", "--watermark", "0.2")
        self.open((engine, None))
        Clients(self, self.gateway.port, 8, 40, words=120)
        self.assertIn("KV caches are full", self.expect("kv_pressure"))

    def test_sequences_that_lose_their_blocks_are_preemption(self):
        # The engine admits more sequences than fit at their full length, and other clients than the gateway's use it.
        engine = Engine(self, "--engine", "linear:5,0,0,0", "--kv-blocks", "64", "--no-prefix-caching")
        self.open((engine, None), gateway={"admission": {"kv_reject": 1, "kv_throttle": 1}})
        Clients(self, engine.port, 6, 300)
        Clients(self, self.gateway.port, 4, 100)
        self.assertIn("requests are preempted", self.expect("preemption"))


class InTheEngine(LiveDiagnosis):
    def test_long_prompts_are_prefill(self):
        self.open((Engine(self, "--engine", "linear:5,0,1,0"), None))
        Clients(self, self.gateway.port, 1, 2, words=800)
        self.assertIn("prompts take long to compute", self.expect("prefill"))

    def test_a_large_batch_is_decode(self):
        self.open((Engine(self, "--engine", "linear:5,20,0,0"), None), ttft="20s", itl="100ms")
        Clients(self, self.gateway.port, 12, 12)
        self.assertIn("large decode batches", self.expect("decode_batch"))

    def test_a_slow_link_is_transfer(self):
        prefill = Engine(self, "--engine", "linear:5,0,0,0", "--role", "prefill", "--kv-bandwidth", "10MB/s", name="p")
        decode = Engine(self, "--engine", "linear:5,0,0,0", "--role", "decode", "--kv-bandwidth", "10MB/s", name="d")
        self.open((prefill, "prefill"), (decode, "decode"), pools=TWO_POOLS)
        Clients(self, self.gateway.port, 2, 4, words=80)
        self.assertIn("slow KV transfers", self.expect("transfer"))


class OutsideTheFleet(LiveDiagnosis):
    def test_a_limit_of_the_tenant_is_admission(self):
        self.open((Engine(self, "--engine", "linear:40,0,0,0"), None),
                  tenants=[{"name": "shop", "keys": ["sk-shop"], "concurrent": 1, "over_budget": "queue"}])
        Clients(self, self.gateway.port, 8, 10, Authorization="Bearer sk-shop")
        self.assertIn("more replicas do not help", self.expect("admission"))
        self.assertEqual(self.decisions_to_grow(), [])

    def test_clients_that_do_not_read_are_the_client(self):
        self.open((Engine(self, "--engine", "linear:0.1,0,0,0"), None))
        SlowClients(self, self.gateway.port, 4, SlowClients.TOKENS)
        self.assertIn("clients read their answers too slowly", self.expect("client"))
        self.assertEqual(self.decisions_to_grow(), [])


if __name__ == "__main__":
    # With the name of a class, its scenes alone.
    unittest.main(verbosity=2, argv=sys.argv)
