"""A ZeroMQ publisher (ZMTP 3.0, without encryption) that sends any frames to every subscriber, again and again."""

import socket
import threading
import time

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
READY = b"\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"
COMMAND, MORE = 4, 1
INTERVAL_S = 0.05


def frame(flags, body):
    return bytes([flags, len(body)]) + body  # Of less than 256 bytes.


class Publisher:
    def __init__(self, test, *frames):
        self.frames = frames
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self.listening.getsockname()[1]}"
        test.addCleanup(self.listening.close)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        last = len(self.frames) - 1
        message = b"".join(frame(MORE if index < last else 0, body) for index, body in enumerate(self.frames))
        with connection:
            try:
                connection.sendall(GREETING + frame(COMMAND, READY))
                received = b""
                while b"READY" not in received:  # Before the peer is ready, a message is an error of the protocol.
                    more = connection.recv(1024)
                    if not more:
                        return
                    received += more
                while True:
                    connection.sendall(message)
                    time.sleep(INTERVAL_S)
            except OSError:
                pass
