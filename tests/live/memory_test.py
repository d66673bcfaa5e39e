#!/usr/bin/env python3
"""Clients that send large bodies: the memory of the gateway stays within its limit, and the streams of others go on."""

import json
import resource
import socket
import threading
import time
import unittest

from fake_replica import FakeReplica, plain
from live_testing import SECONDS, Engine, Gateway, ask, config_file, until

MIB = 1024 * 1024
MODEL = "penstock-sim"
# The streams of others may pause for 50 ms more while large bodies arrive. A loaded machine adds to that; parsing on the
# thread of the streams took 300 to 5,900 ms.
GAP_MAX = 0.25


def gateway_with(test, replicas, *, address_space=None, **settings):
    tenants = [{"name": name, "keys": [name]} for name in ("heavy", "light")]
    tenants[0].update(settings.pop("heavy", {}))
    settings = {"replicas": replicas, "body_max": "64MiB", "health_interval": "1h",
                "scrape_interval": "1h", "threads": 1, **settings}
    path = config_file(test, tenants=tenants, gateway=settings)
    before = resource.getrlimit(resource.RLIMIT_AS)
    if address_space:
        resource.setrlimit(resource.RLIMIT_AS, (address_space, before[1]))
    try:
        return Gateway(test, "--config", path)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def request_of(body, key, path="/v1/chat/completions"):
    head = f"POST {path} HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def send(port, request, timeout=SECONDS):
    """Status of the answer; None if there is none within the time."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as client:
        try:
            client.sendall(request)
        except (BrokenPipeError, ConnectionResetError):
            pass  # A refusal closes the connection before the body is read.
        try:
            return int(client.recv(4096).split(b" ")[1])
        except socket.timeout:
            return None
        except (OSError, IndexError):
            return 0


class Watch:
    """Reads a stream and notes the longest pause between two pieces."""

    def __init__(self, port):
        body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 100_000,
                           "ignore_eos": True, "stream": True}).encode()
        self.client = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self.client.sendall(request_of(body, "light"))
        self.longest, self.last, self.bytes = 0.0, None, 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while True:
            try:
                piece = self.client.recv(65536)
            except OSError:
                return
            now = time.monotonic()
            if not piece:
                return
            self.longest = max(self.longest, now - (self.last or now))
            self.last = now
            self.bytes += len(piece)

    def take(self):
        """The longest pause since the last call, with that which goes on."""
        longest = max(self.longest, time.monotonic() - self.last)
        self.longest = 0.0
        return longest

    def close(self):
        self.client.close()


def shapes(size):
    """Bodies of this size, each slow to handle in its own way."""
    chat = b'{"model":"%s","messages":[{"role":"user","content":"hi"}],' % MODEL.encode()
    yield "numbers of tokens", "/v1/completions", b'{"model":"%s","prompt":[' % MODEL.encode() + b"7," * (size // 2) + b"7]}"
    yield "empty objects", "/v1/chat/completions", chat + b'"other":[' + b"{}," * (size // 3) + b"{}]}"
    yield "numbers", "/v1/chat/completions", chat + b'"other":[' + b"1," * (size // 2) + b"1]}"
    message = b'{"role":"user","content":"a"},'
    yield "messages", "/v1/chat/completions", (b'{"model":"%s","messages":[' % MODEL.encode() +
                                               message * (size // len(message)) + message[:-1] + b"]}")
    yield "text", "/v1/chat/completions", (b'{"model":"%s","messages":[{"role":"user","content":"' % MODEL.encode() +
                                           b"word " * (size // 5) + b'"}]}')
    yield "metadata", "/v1/chat/completions", chat + b'"metadata":{"a":"' + b"x" * size + b'"}}'


class MemoryTest(unittest.TestCase):
    def test_bodies_for_a_hung_engine_do_not_end_the_gateway(self):
        engine = Engine(self, "--speed", "50")
        stop = threading.Event()
        self.addCleanup(stop.set)

        def hang(_):
            stop.wait(SECONDS)
            return plain(200)

        # There are two, so that a retry is possible and the gateway keeps the bodies.
        hung = [{"url": FakeReplica(self, hang).url, "model": "hung"} for _ in range(2)]
        gateway = gateway_with(self, [{"url": engine.url, "model": MODEL}, *hung], address_space=1024 * MIB)
        gateway.ready()
        body = (b'{"model":"hung","messages":[{"role":"user","content":"hi"}],"metadata":{"a":"' + b"x" * (40 * MIB) +
                b'"}}')
        request = request_of(body, "heavy")
        statuses = []
        heavy = [threading.Thread(target=lambda: statuses.append(send(gateway.port, request, 20))) for _ in range(80)]
        small = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
        served = []

        def use_lightly():
            while any(thread.is_alive() for thread in heavy):
                served.append(ask(gateway.port, "POST", "/v1/chat/completions", small, Authorization="Bearer light")[0])

        for thread in heavy:
            thread.start()
        light = threading.Thread(target=use_lightly)
        light.start()
        for thread in [*heavy, light]:
            thread.join()
        self.assertIsNone(gateway.process.poll(), gateway.log())
        counts = {status: statuses.count(status) for status in set(statuses)}
        self.assertEqual(len(statuses), 80)
        self.assertGreater(counts.get(503, 0), 40, counts)
        self.assertEqual(set(served), {200}, (counts, served[:20]))
        metrics = ask(gateway.admin, "GET", "/metrics")[2]
        figures = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line.startswith("penstock_memory"))
        self.assertLessEqual(float(figures["penstock_memory_held_bytes"]), float(figures["penstock_memory_limit_bytes"]))
        self.assertGreater(float(figures["penstock_memory_refusals_total"]), 0)
        stop.set()
        until("released memory", lambda: "\npenstock_memory_held_bytes 0\n" in ask(gateway.admin, "GET", "/metrics")[2])
        print(f"80 bodies of 40 MiB: {counts}, {len(served)} requests of another tenant served")

    def test_large_bodies_do_not_delay_the_streams_of_others(self):
        engine = Engine(self, "--engine", "linear:10,0,0,0")
        gateway = gateway_with(self, [{"url": engine.url, "model": MODEL}], memory_max="4GiB",
                               heavy={"tokens_per_minute": 1})
        gateway.ready()
        watches = [Watch(gateway.port) for _ in range(4)]
        control = Watch(engine.port)  # What the machine and the engine add.
        for watch in [*watches, control]:
            self.addCleanup(watch.close)
        until("all streams", lambda: all(watch.bytes > 1000 for watch in [*watches, control]))

        def gaps(act):
            """The longest pause of the streams, and of that which does not pass the gateway."""
            for watch in [*watches, control]:
                watch.take()
            act()
            time.sleep(0.3)
            return max(watch.take() for watch in watches), control.take()

        before = gaps(lambda: time.sleep(2))[0]
        figures = {}
        for name, path, body in shapes(60 * MIB):
            request = request_of(body, "heavy", path)
            del body
            statuses = []
            # Other processes delay a stream now and then; work on its thread does so each time.
            for _ in range(3):
                gap, machine = gaps(lambda: statuses.append(send(gateway.port, request, 5 * SECONDS)))
                figures[name] = min(gap, figures.get(name, gap))
                if gap < max(before, machine) + GAP_MAX:
                    break
            else:
                self.fail(f"{name}: {gap:.3f} s, {before:.3f} s before, {machine:.3f} s without the gateway")
            self.assertIn(statuses[-1], (200, 400, 429, 503), name)
        print(f"longest gap before: {before * 1000:.0f} ms; " +
              ", ".join(f"{name}: {gap * 1000:.0f} ms" for name, gap in figures.items()))

    def test_a_client_that_ends_its_output_is_answered(self):
        engine = Engine(self, "--speed", "50")
        gateway = gateway_with(self, [{"url": engine.url, "model": MODEL}])
        gateway.ready()
        body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}).encode()
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=SECONDS) as client:
            client.sendall(request_of(body, "light"))
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := client.recv(65536):
                answer += piece
        self.assertIn(b"HTTP/1.1 200 OK\r\n", answer)
        self.assertIn(b'"finish_reason"', answer)

    def test_a_client_that_leaves_before_its_answer_frees_its_place(self):
        stop = threading.Event()
        self.addCleanup(stop.set)
        hung = FakeReplica(self, lambda _: b"" if stop.wait(SECONDS) else b"")
        gateway = gateway_with(self, [{"url": hung.url, "model": MODEL}])
        gateway.ready()
        body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}).encode()
        client = socket.create_connection(("127.0.0.1", gateway.port), timeout=SECONDS)
        client.sendall(request_of(body, "light"))
        until("a request in flight", lambda: gateway.open_requests() == 1)
        client.close()
        until("a free place", lambda: gateway.open_requests() == 0)

    def test_the_admin_address_answers_when_clients_use_all_descriptors(self):
        engine = Engine(self, "--speed", "50")
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64 if before[1] < 64 else before[1]))
        gateway = gateway_with(self, [{"url": engine.url, "model": MODEL}])
        resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (64, 64))
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        clients = [socket.create_connection(("127.0.0.1", gateway.port), timeout=SECONDS) for _ in range(100)]
        time.sleep(0.5)
        for _ in range(20):
            self.assertEqual(ask(gateway.admin, "GET", "/health")[0], 200)
        for client in clients:
            client.close()


if __name__ == "__main__":
    unittest.main()
