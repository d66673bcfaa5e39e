"""A relay of TCP connections on loopback that can be cut: what is sent meanwhile is lost to the other side."""

import socket
import threading


class Relay:
    def __init__(self, test, endpoint):
        self.target = int(endpoint.rsplit(":", 1)[1])
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self.listening.getsockname()[1]}"
        self.is_cut, self.lock, self.open = False, threading.Lock(), set()
        test.addCleanup(self.close)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Ends all connections; new ones are closed at once."""
        with self.lock:
            self.is_cut = True
            for connection in self.open:
                self._end(connection)

    def restore(self):
        with self.lock:
            self.is_cut = False

    def close(self):
        self.cut()
        self._end(self.listening)
        self.listening.close()

    @staticmethod
    def _end(connection):
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def _accept(self):
        while True:
            try:
                near, _ = self.listening.accept()
            except OSError:
                return
            with self.lock:
                if self.is_cut:
                    near.close()
                    continue
                try:
                    far = socket.create_connection(("127.0.0.1", self.target), 10)
                    far.settimeout(None)
                except OSError:
                    near.close()
                    continue
                self.open |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    def _copy(self, source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        with self.lock:
            for connection in (source, sink):
                self._end(connection)
            self.open -= {source}
        source.close()
