"""A replica that answers as a test wants it to, and counts what it was asked."""

import socket
import threading

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":" abc"},"finish_reason":null}]}\n\n'


def chunk(payload):
    return b"%x\r\n%b\r\n" % (len(payload), payload)


def plain(status, body=b"{}", *fields):
    lines = [b"HTTP/1.1 %d Whatever" % status, b"Content-Length: %d" % len(body), *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class FakeReplica:
    """`answers(number)` gives the bytes for the number-th completion; after them the connection is closed."""

    def __init__(self, test, answers):
        self.answers = answers
        self.completions = 0
        self.lock = threading.Lock()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()
        test.addCleanup(self.listening.close)

    def _serve(self):
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection:
            try:
                request = self._read(connection)
                if not request.startswith(b"POST "):
                    return connection.sendall(plain(200))
                with self.lock:
                    number = self.completions
                    self.completions += 1
                self.complete(connection, request, number)
            except OSError:
                pass

    def complete(self, connection, request, number):
        connection.sendall(self.answers(number))

    @staticmethod
    def _read(connection):
        request = b""
        while b"\r\n\r\n" not in request:
            more = connection.recv(65536)
            if not more:
                return request
            request += more
        head, _, body = request.partition(b"\r\n\r\n")
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                while len(body) < int(line.partition(b":")[2]):
                    more = connection.recv(65536)
                    if not more:
                        break
                    body += more
        return head + b"\r\n\r\n" + body
