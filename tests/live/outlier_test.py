#!/usr/bin/env python3
"""Engines that fail within their answers: how many requests are lost until they are ejected."""

import http.client
import json
import os
import socket
import struct
import tempfile
import threading
import time
import unittest

from fake_replica import EVENT, HEAD, FakeReplica, chunk
from live_testing import SECONDS, Gateway, chat, config_file, until
from planner_testing import rows_of, until_routed

MODEL = "penstock-sim"
DONE = b"data: [DONE]\n\n"
END = chunk(DONE) + b"0\r\n\r\n"


class PacedReplica(FakeReplica):
    """Streams 20 events in a second, and ends its answers well or as `bad` does, which gets the connection."""

    def __init__(self, test, bad=None):
        self.bad = bad
        super().__init__(test, None)

    def complete(self, connection, request, number):
        connection.sendall(HEAD)
        for event in range(20):
            if self.bad and event == 3:
                return self.bad(connection)
            connection.sendall(chunk(EVENT))
            time.sleep(0.05)
        connection.sendall(END)


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def end_in_order(connection):
    connection.sendall(b"0\r\n\r\n")


def send_garbage(connection):
    connection.sendall(chunk(b"data: {broken\n\n") + END)


def be_silent(connection):
    connection.recv(1)


class OutlierTest(unittest.TestCase):
    def gateway(self, *replicas, **settings):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.ledger = os.path.join(folder.name, "usage.sqlite")
        path = config_file(self, gateway={
            "routing": {"slow_start": "0s"}, "health_interval": "1h",
            "replicas": [{"url": replica.url, "model": MODEL} for replica in replicas], **settings})
        gateway = Gateway(self, "--config", path, "--ledger", self.ledger)
        until_routed(gateway, len(replicas))
        return gateway

    @staticmethod
    def is_whole(port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        try:
            connection.request("POST", "/v1/chat/completions", body=json.dumps(chat(20, stream=True)))
            return connection.getresponse().read().endswith(DONE)
        except (http.client.HTTPException, OSError):
            return False
        finally:
            connection.close()

    def lost_of(self, port, users, seconds=None, requests=None):
        """Lost requests and all of them. Each user sends the next request when the last one has ended."""
        lock, wholes = threading.Lock(), []
        until_s = None if seconds is None else time.monotonic() + seconds

        def user():
            while until_s is None or time.monotonic() < until_s:
                with lock:
                    if requests is not None and len(wholes) >= requests:
                        return
                whole = self.is_whole(port)
                with lock:
                    wholes.append(whole)

        threads = [threading.Thread(target=user) for _ in range(users)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return wholes.count(False), len(wholes)

    def check(self, bad, outcome, **settings):
        good = [PacedReplica(self) for _ in range(3)]
        broken = PacedReplica(self, bad)
        gateway = self.gateway(*good, broken, **settings)
        lost, count = self.lost_of(gateway.port, 30, seconds=20)
        self.assertGreater(count, 300)
        seen = {replica["url"]: replica for replica in gateway.overview()["replicas"]}
        self.assertLessEqual(lost, max(12, count * 2 // 100), (count, seen))
        self.assertGreater(seen[broken.url]["ejections_total"], 0, seen)
        self.assertGreater(seen[broken.url]["failures_total"], 0, seen)
        until("the entries", lambda: rows_of(self.ledger, f"select count(*) from entries where outcome = '{outcome}'") ==
              [(lost,)])
        self.assertIn("breaker_open", gateway.log())
        print(f"{bad.__name__}: {lost} of {count} lost")

    def test_a_replica_that_resets_its_streams_is_ejected(self):
        self.check(reset, "truncated")

    def test_a_replica_that_ends_its_streams_early_is_ejected(self):
        self.check(end_in_order, "truncated")

    def test_a_silent_replica_is_ejected(self):
        self.check(be_silent, "truncated", stream_idle_timeout="1s")

    def test_a_replica_with_malformed_events_is_ejected(self):
        good = [PacedReplica(self) for _ in range(3)]
        broken = PacedReplica(self, send_garbage)
        gateway = self.gateway(*good, broken)
        self.lost_of(gateway.port, 30, requests=100)
        until("entries", lambda: rows_of(self.ledger, "select count(*) from entries where outcome = 'failed'") !=
              [(0,)])
        seen = {replica["url"]: replica for replica in gateway.overview()["replicas"]}
        self.assertGreater(seen[broken.url]["ejections_total"], 0, seen)

    def test_one_of_two_is_ejected_and_the_other_stays(self):
        for bad in (reset, end_in_order):
            gateway = self.gateway(PacedReplica(self), PacedReplica(self, bad))
            lost, count = self.lost_of(gateway.port, 10, requests=100)
            self.assertLessEqual(lost, 10, (bad.__name__, lost, count))
            print(f"1 good, 1 bad, {bad.__name__}: {lost} of {count} lost")


if __name__ == "__main__":
    unittest.main()
