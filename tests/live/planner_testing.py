"""A planner with engines of its own for tests, and what is needed to see and to end them."""

import glob
import json
import os
import signal
import socket
import sqlite3
import tempfile

from live_testing import Gateway, Program, ask, check_sanitizers, until

MARK = b"PENSTOCK_PROCESS="
TOKEN = "token-of-the-admin-address"
PORTS_EACH = 60  # of one home, below those that the system gives to clients …
OWN_PORTS = 3    # … of which so many are for what is no engine
RANGES = 350

# Loops and waits that are as short as a test is.
CONFIG = """
model: {model}
start_up: {start_up}
price: 2.5
engine: {{block_size: 16, kv_blocks: 12288{engine}}}
pools:
{pools}
slo: {{ttft: 2s, itl: 50ms, goal: 0.99}}
planner: {{throughput_interval: 4s, tick_interval: 1s, stabilisation: 3s, failure_cooldown: 1s, manual_hold: 1s}}
gateway: {{anonymous: true, health_interval: 500ms, routing: {{slow_start: 0s}}{gateway}}}
classes: {{interactive: {{queue_time: 60s}}}}
"""


def is_free(port):
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class Home:
    """A state folder with a configuration for gateway and planner. Every engine that was started there ends with the test."""

    ranges = 0

    def __init__(self, test, pools="  - {name: chat, replicas: 1, min_replicas: 1, max_replicas: 3}", engine="",
                 start_up="0s", gateway="", model="penstock-sim"):
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.config = self.path("penstock.yaml")
        self.model = model
        self.write_config(pools, engine, start_up, gateway)
        with open(self.path("admin-token"), "w") as file:
            file.write(TOKEN)
        first = self.free_range()
        self.ports = f"{first}-{first + PORTS_EACH - OWN_PORTS - 1}"
        self.own_ports = range(first + PORTS_EACH - OWN_PORTS, first + PORTS_EACH)
        test.addCleanup(self.check_logs)
        test.addCleanup(self.kill_engines)

    @staticmethod
    def free_range():
        """The first of PORTS_EACH ports, none of which another test listens at now."""
        for _ in range(RANGES):
            Home.ranges += 1
            first = 10000 + (os.getpid() * 7 + Home.ranges) % RANGES * PORTS_EACH
            if all(is_free(port) for port in range(first, first + PORTS_EACH)):
                return first
        raise AssertionError("no range of ports is free")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_config(self, pools, engine="", start_up="0s", gateway=""):
        with open(self.config, "w") as file:
            file.write(CONFIG.format(pools=pools, engine=engine, start_up=start_up, gateway=gateway, model=self.model))

    def engines(self):
        """Number to name of each engine process that a planner of this folder started and that runs."""
        found = {}
        mark = MARK + os.path.realpath(self.path("fleet.json")).encode() + b"#"
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    marks = [each for each in file.read().split(b"\0") if each.startswith(mark)]
                with open(f"/proc/{name}/stat", "rb") as file:
                    ended = file.read().rsplit(b") ", 1)[1].startswith((b"Z", b"X"))
            except OSError:
                continue
            if marks and not ended:
                found[int(name)] = marks[0][len(mark):].decode()
        return found

    def kill_engines(self):
        for pid in self.engines():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def check_logs(self):
        for path in glob.glob(self.path("logs/*.log")):
            with open(path) as file:
                check_sanitizers(file.read())

    def fleet(self):
        with open(self.path("fleet.json")) as file:
            return json.load(file)

    def stages(self):
        """How many replicas are in each stage, ended ones left out."""
        count = {}
        for replica in self.fleet()["replicas"]:
            if replica["stage"] not in ("stopped", "failed"):
                count[replica["stage"]] = count.get(replica["stage"], 0) + 1
        return count

    def serving(self):
        with open(self.path("replicas.json")) as file:
            return sorted(each["id"] for each in json.load(file)["replicas"] if each["state"] == "serving")

    def gateway(self, test, *words):
        return Gateway(test, "--config", self.config, "--replicas-file", self.path("replicas.json"), "--admin-token-file",
                       self.path("admin-token"), "--admin-token-guards", "prompts", *words)

    def planner(self, test, gateway, *words):
        return Planner(test, "--config", self.config, "--engines", "local", "--state-dir", self.folder, "--ports",
                       self.ports, "--gateway", f"127.0.0.1:{gateway.admin}", "--gateway-token-file",
                       self.path("admin-token"), *words)


class Planner(Program):
    def __init__(self, test, *words, page=True):
        more = ("--dashboard", "127.0.0.1:0") if page else ()
        super().__init__(test, "plan", *words, *more,
                         ready=r"planner ready, .* live page on http://127\.0\.0\.1:(\d+)" if page
                         else "planner ready, .* no live page")
        self.port = self.ports[0] if page else None

    def state(self):
        return json.loads(ask(self.port, "GET", "/api/state")[2])

    def pool(self, index=0):
        return self.state()["pools"][index]

    def has_event(self, words, warning=None):
        return any(words in event["text"] and warning in (None, event["warning"]) for event in self.state()["events"])

    def metrics(self):
        return ask(self.port, "GET", "/metrics")[2]


def until_serving(home, replicas):
    def are_there():
        try:
            return home.stages() == {"serving": replicas} and len(home.serving()) == replicas
        except FileNotFoundError:
            return False

    until(f"{replicas} serving replicas", are_there)


def until_routed(gateway, replicas):
    until(f"{replicas} replicas that the gateway may choose",
          lambda: sum(each["eligible"] for each in gateway.overview()["replicas"]) == replicas)


def rows_of(path, question):
    store = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return store.execute(question).fetchall()
    finally:
        store.close()


class Up(Program):
    """All of Penstock at ports of its own, in the folder of a home."""

    def __init__(self, test, home, *words):
        self.port, self.admin, self.page = home.own_ports
        super().__init__(test, "up", *self.places(home), *words,
                         ready="up: starting gateway, planner and engines")
        self.announced = ""
        while "Ctrl-C ends it all." not in self.announced:
            line = self.process.stdout.readline()
            assert line, f"up ended: {self.announced}{self.log()}"
            self.announced += line

    @staticmethod
    def places(home):
        port, admin, page = home.own_ports
        return ("--listen", f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{admin}", "--dashboard",
                f"127.0.0.1:{page}", "--ports", home.ports, "--state-dir", home.folder)

    def completed(self):
        """Succeeded requests by tenant."""
        usage = json.loads(ask(self.admin, "GET", "/penstock/v1/overview")[2])["usage"]
        return {each["tenant"]: each["completed"] for each in usage}

    def state(self):
        return json.loads(ask(self.page, "GET", "/api/state")[2])
