#!/usr/bin/env python3
"""Engines of many pods in one process, for pods of KWOK, in which nothing runs: many_engines.py PORT-OF-AN-ENGINE

Listens on all addresses. Requests go to the one real engine; its answers to GET are kept for a second, because each pod is asked. Each
subscriber of forward pass metrics (ZeroMQ, in Dynamo's format) gets a message every 43 ms, at times of its own, with the counter and the worker of the
pod whose address it has connected to."""

import asyncio
import pathlib
import re
import socket
import struct
import sys
import threading
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "live"))
from zmq_publisher import COMMAND, GREETING, MORE, READY, frame

PERIOD_MS = 43
KEPT = ("/metrics", "/health", "/v1/models", "/penstock/v1/info")
LONG = 2  # A frame whose length has eight bytes.


def packed(value):
    """msgpack; integers have eight bytes."""
    if isinstance(value, dict):
        return b"\xde" + struct.pack(">H", len(value)) + b"".join(packed(part) for item in value.items() for part in item)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, int):
        return b"\xcf" + struct.pack(">Q", value)
    return b"\xd9" + bytes([len(value)]) + value.encode()


def metrics(worker):
    """The message before and after its counter."""
    queued = {"num_prefill_requests": 0, "sum_prefill_tokens": 0, "var_prefill_length": 0.0, "num_decode_requests": 0,
              "sum_decode_kv_tokens": 0, "var_decode_kv_tokens": 0.0}
    scheduled = {**queued, "sum_prefill_kv_tokens": 0, "num_decode_requests": 8, "sum_decode_kv_tokens": 2000}
    message = packed({"version": 1, "worker_id": worker, "dp_rank": 0, "wall_time": PERIOD_MS / 1000, "scheduled_requests": scheduled,
                      "queued_requests": queued, "counter_id": 0})
    return message[:-8]


class Subscribers:
    def __init__(self):
        self.listening = socket.create_server(("0.0.0.0", 0), backlog=1024)
        self.slots, self.count, self.lock = [[] for _ in range(PERIOD_MS)], 0, threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()
        threading.Thread(target=self.publish, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listening.accept()
            threading.Thread(target=self.greet, args=(connection,), daemon=True).start()

    def greet(self, connection):
        received = b""
        try:
            connection.sendall(GREETING + frame(COMMAND, READY))
            while b"READY" not in received:
                more = connection.recv(1024)
                if not more:
                    return
                received += more
        except OSError:
            return
        connection.setblocking(False)
        with self.lock:
            self.slots[self.count % PERIOD_MS].append([connection, metrics(connection.getsockname()[0]), 0])
            self.count += 1

    def publish(self):
        at, turn = time.monotonic(), 0
        while True:
            # Messages for which there was no time are left out.
            at = max(at + 0.001, time.monotonic() - 0.1)
            time.sleep(max(0.0, at - time.monotonic()))
            turn = (turn + 1) % PERIOD_MS
            with self.lock:
                self.slots[turn] = [subscriber for subscriber in self.slots[turn] if self.send(subscriber)]

    @staticmethod
    def send(subscriber):
        connection, start, counter = subscriber
        number = struct.pack(">Q", counter)
        subscriber[2] += 1
        message = (frame(MORE, b"") + frame(MORE, number) + bytes([LONG]) + struct.pack(">Q", len(start) + 8) + start + number)
        try:
            return connection.send(message) == len(message)
        except BlockingIOError:
            return True  # A subscriber that does not read loses messages.
        except OSError:
            return False


class Pods:
    def __init__(self, engine, fpm_port):
        self.engine, self.fpm_port, self.answers = engine, fpm_port, {}

    async def request(self, head, body=b""):
        line, rest = head.split(b"\r\n", 1)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.engine)
        writer.write(line + b"\r\nConnection: close\r\n" + rest + body)
        return reader, writer

    async def keep(self, path):
        reader, writer = await self.request(f"GET {path} HTTP/1.1\r\nHost: engine\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        body = re.sub(rb'"fpm_endpoint":"[^"]*"', b'"fpm_endpoint":"tcp://0.0.0.0:%d"' % self.fpm_port, body)
        kind = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-type"))
        self.answers[path] = b"HTTP/1.1 200 OK\r\n" + kind + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    async def keep_all(self):
        while True:
            for path in KEPT:
                await self.keep(path)
            await asyncio.sleep(1)

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, path = head.split(b" ", 2)[:2]
                if method == b"GET" and path.decode() in self.answers:
                    writer.write(self.answers[path.decode()])
                    continue
                length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
                answer, upstream = await self.request(head, await reader.readexactly(length))
                while piece := await answer.read(65536):
                    writer.write(piece)
                return upstream.close()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


async def run(engine):
    subscribers = Subscribers()
    pods = Pods(engine, subscribers.listening.getsockname()[1])
    for path in KEPT:
        await pods.keep(path)
    keeping = asyncio.create_task(pods.keep_all())
    server = await asyncio.start_server(pods.serve, "0.0.0.0", 0, backlog=1024)
    print(f"ready on port {server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.gather(keeping, server.serve_forever())


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1])))
