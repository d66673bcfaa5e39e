"""Hundreds of streamed answers at once, read by one thread."""

import json
import selectors
import socket
import threading
import time

from live_testing import SECONDS, chat


class OneOfMany:
    """What came on one connection; whole() once it has ended."""

    def __init__(self, number):
        self.number = number
        self.raw = bytearray()
        self.fault = None
        self.done = False

    def begun(self):
        return b'"content":" ' in self.raw

    def text(self):
        """The body with its chunks put together; None if it was cut."""
        head, _, rest = bytes(self.raw).partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            return None
        body = b""
        while True:
            size, line, rest = rest.partition(b"\r\n")
            if not line:
                return None
            length = int(size, 16)
            if length == 0:
                return body.decode() if rest == b"\r\n" else None
            if rest[length:length + 2] != b"\r\n":
                return None
            body += rest[:length]
            rest = rest[length + 2:]

    def replica(self):
        for line in bytes(self.raw).partition(b"\r\n\r\n")[0].split(b"\r\n"):
            name, _, value = line.partition(b": ")
            if name.lower() == b"x-penstock-replica":
                return value.decode()
        return None

    def whole(self, tokens):
        text = self.text()
        return (self.fault is None and text is not None and text.count('"content":" ') == tokens
                and text.endswith("data: [DONE]\n\n"))


class ManyStreams:
    def __init__(self, test, port, count, tokens, prompt="stream {}", timeout_s=SECONDS):
        self.port, self.tokens, self.timeout_s = port, tokens, timeout_s
        self.streams = [OneOfMany(number) for number in range(count)]
        self.prompt = prompt
        self.selector = selectors.DefaultSelector()
        self.stopped = False
        for stream in self.streams:
            self._open(stream)
        self.thread = threading.Thread(target=self._read)
        self.thread.start()
        test.addCleanup(self.stop)

    def _open(self, stream):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)
        body = json.dumps(chat(self.tokens, self.prompt.format(stream.number), stream=True)).encode()
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        connection.setblocking(False)
        self.selector.register(connection, selectors.EVENT_READ, stream)

    def _read(self):
        while self.selector.get_map() and not self.stopped:
            for key, _ in self.selector.select(0.1):
                try:
                    bytes_read = key.fileobj.recv(65536)
                except OSError as fault:
                    key.data.fault, bytes_read = fault, b""
                key.data.raw += bytes_read
                if not bytes_read:
                    key.data.done = True
                    self.selector.unregister(key.fileobj)
                    key.fileobj.close()

    def begun(self):
        return sum(stream.begun() for stream in self.streams)

    def open(self):
        return sum(not stream.done for stream in self.streams)

    def replicas(self):
        return {stream.replica() for stream in self.streams if stream.replica()}

    def join(self):
        """Those that are not whole, with how each of them ended."""
        end = time.monotonic() + self.timeout_s
        while self.thread.is_alive() and time.monotonic() < end:
            self.thread.join(0.1)
        return [(stream.number, stream.fault, stream.done, bytes(stream.raw[-200:]))
                for stream in self.streams if not stream.whole(self.tokens)]

    def stop(self):
        self.stopped = True
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()
