"""Real processes of Penstock for tests: engines, a gateway, and clients of the standard library."""

import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time

PROGRAM = os.environ.get("PENSTOCK", "penstock")
SECONDS = 120  # that anything may take
SANITIZER = re.compile("WARNING: ThreadSanitizer|ERROR: (Thread|Address|Leak)Sanitizer|runtime error: ")


def until(what, condition, seconds=SECONDS):
    """Waits for a state that must come; how long it takes is the machine's business."""
    for _ in range(seconds * 50):
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come about in {seconds} s")


def check_sanitizers(log):
    """A program with a sanitizer continues after a report, and the exit code of a killed program does not show it."""
    assert not SANITIZER.search(log), log


class Program:
    """A subcommand that prints a line once it is ready; ended with the test."""

    def __init__(self, test, *words, ready, environment=None):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env={**os.environ, **(environment or {})})
        test.addCleanup(self.end)
        line = self.process.stdout.readline()
        found = re.search(ready, line)
        assert found, f"{words[0]} printed {line!r}, {self.log()}"
        self.ports = [int(port) for port in found.groups()]

    def log(self):
        # The program writes at the offset that both share, so reading must not move it.
        return os.pread(self.errors.fileno(), os.fstat(self.errors.fileno()).st_size, 0).decode(errors="replace")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        return self.process.wait(SECONDS)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(SECONDS)
        self.process.stdout.close()
        log = self.log()
        self.errors.close()
        check_sanitizers(log)


class Engine(Program):
    def __init__(self, test, *flags, name="e"):
        super().__init__(test, "engine", "--id", name, *flags, ready=r"ready on http://127\.0\.0\.1:(\d+)")
        self.port = self.ports[0]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process.stdout.readline()

    def info(self):
        return json.loads(ask(self.port, "GET", "/penstock/v1/info")[2])


class Gateway(Program):
    def __init__(self, test, *words, expose="always", environment=None):
        super().__init__(test, "gateway", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
                         "--expose-routing", expose, *words, environment=environment,
                         ready=r"ready on https?://127\.0\.0\.1:(\d+), metrics on http://127\.0\.0\.1:(\d+)")
        self.port, self.admin = self.ports

    def ready(self):
        until("a replica that may be chosen", lambda: ask(self.admin, "GET", "/ready")[0] == 200)
        return self

    def overview(self):
        return json.loads(ask(self.admin, "GET", "/penstock/v1/overview")[2])

    def open_requests(self):
        return sum(replica["open_requests"] for replica in self.overview()["replicas"])


def config_file(test, **sections):
    """Writes the sections to a configuration file of its own folder, which is removed after the test."""
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    path = os.path.join(folder.name, "p.yaml")
    with open(path, "w") as file:
        file.write(json.dumps(sections))
    return path


def ask(port, method, path, body=None, **fields):
    """Status, fields and body of one exchange."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def series(text, name):
    """The values of a metric by their labels."""
    return {line.split("{")[1].split("}")[0]: float(line.rsplit(" ", 1)[1])
            for line in text.splitlines() if line.startswith(name + "{")}


def chat(tokens, prompt="hello", **more):
    return {"model": "penstock-sim", "messages": [{"role": "user", "content": prompt}], "max_tokens": tokens,
            "ignore_eos": True, **more}


def complete(port, tokens=4, prompt="hello", **fields):
    return ask(port, "POST", "/v1/chat/completions", chat(tokens, prompt), **fields)


class Stream:
    """A streamed answer, read by a thread."""

    def __init__(self, port, tokens, prompt="hello", model="penstock-sim", **fields):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        self.connection.request("POST", "/v1/chat/completions", body=json.dumps(chat(tokens, prompt, stream=True, model=model)),
                                headers=headers)
        self.socket = self.connection.sock  # The library lets go of it if the answer ends the connection.
        self.text, self.status, self.fault, self.replica = "", None, None, None
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            answer = self.connection.getresponse()
            self.status = answer.status
            self.replica = answer.headers["x-penstock-replica"]
            while True:
                piece = answer.read1(65536)
                if not piece:
                    break
                self.text += piece.decode()
        # The library takes a cut between two chunks for a bad number.
        except (http.client.HTTPException, OSError, ValueError) as fault:
            self.fault = fault

    def tokens(self):
        return self.text.count('"content":" ')

    def leave(self):
        """Closes the connection as a client does that has gone: at once, with bytes unread."""
        self.socket.shutdown(2)
        self.join()

    def join(self):
        self.thread.join(SECONDS)
        assert not self.thread.is_alive(), "the stream did not end"
        self.connection.close()
        return self

    def whole(self, tokens):
        return self.status == 200 and self.tokens() == tokens and self.text.endswith("data: [DONE]\n\n")


STOP = signal.SIGTERM
KILL = signal.SIGKILL
