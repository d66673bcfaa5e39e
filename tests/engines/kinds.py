"""Engines of each kind as processes on loopback: how they are started and what they can do."""

import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = pathlib.Path(os.environ.get("PENSTOCK_ENGINES") or "~/.cache/penstock-engines").expanduser()
PROGRAM = os.environ.get("PENSTOCK", "penstock")
START_SECONDS = 240  # A vLLM starts in 30 s on an idle machine.
STOP_SECONDS = 30
SLOTS = 2  # Requests that one engine runs at once.
MODEL = "tiny"


def free_ports(count):
    listening = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in listening]
    for each in listening:
        each.close()
    return ports


class Process:
    """A program in a process group of its own, because engines have child processes."""

    def __init__(self, words, environment=()):
        self.words, self.environment = [str(word) for word in words], {**os.environ, **dict(environment)}
        self.log = tempfile.TemporaryFile("w+")
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.words, env=self.environment, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=subprocess.STDOUT, start_new_session=True)

    def send(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def kill(self):
        self.send(signal.SIGKILL)
        self.process.wait(STOP_SECONDS)

    def stop(self):
        self.send(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    def ended(self):
        return self.process.poll() is not None

    def tail(self):
        # The process writes at the offset that both share, so reading must not move it.
        return os.pread(self.log.fileno(), os.fstat(self.log.fileno()).st_size, 0).decode(errors="replace")[-2000:]


class Replica:
    """What the gateway sees as one replica: a server at `port`, and the processes behind it."""

    def __init__(self, port, *processes):
        self.port, self.url, self.processes = port, f"http://127.0.0.1:{port}", list(processes)

    def get(self, path, **fields):
        return self._ask("GET", path, fields)

    def post(self, path, **fields):
        return self._ask("POST", path, fields)

    def _ask(self, method, path, fields):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, headers=fields)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def wait(self, is_ready):
        for _ in range(START_SECONDS * 5):
            for process in self.processes:
                if process.ended():
                    raise AssertionError(f"the engine ended: {process.tail()}")
            try:
                if is_ready(self):
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.2)
        raise AssertionError(f"the engine is not ready: {self.processes[0].tail()}")

    @property
    def server(self):
        return self.processes[0]

    def close(self):
        for process in reversed(self.processes):
            process.kill() if process.ended() else process.stop()


class Kind:
    """One kind of engine. `start` returns a replica; the attributes say what the kind can do."""

    name = ""
    model = MODEL
    replicas = 2
    api_key = None
    counts_cached_tokens = False
    is_observed = True
    honours_cache_salt = False
    models = (MODEL,)
    serves_messages = False  # Anthropic's Messages API.
    kv_events = False
    kv_replay = False  # Whether missed KV events can be requested again.
    overloads = False  # Whether the scene of an overload runs; it takes minutes.
    is_profiled = False  # Whether `penstock profile` measures one of its engines; it takes minutes.

    def folder(self):
        return ROOT / self.name

    def missing(self):
        """Why this kind cannot run here; empty if it can."""
        if not (self.folder() / "installed").exists():
            return f"{self.folder()} is missing; `make engines ENGINES={self.name}` installs it"
        return ""

    def is_ready(self, replica):
        return replica.get("/health")[0] == 200


class Vllm(Kind):
    name = "vllm"
    api_key = "sk-engine"
    counts_cached_tokens = True
    honours_cache_salt = True
    serves_messages = True
    kv_events = True
    kv_replay = True
    overloads = True
    is_profiled = True
    environment = {
        "VLLM_SERVER_DEV_MODE": "1",  # It has /reset_prefix_cache then.
        "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
        # Otherwise all replicas would share the first core.
        "OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}

    def __init__(self):
        self.models = (MODEL, "second") + (("adapter",) if (self.folder() / "adapter").exists() else ())

    def folder(self):
        return pathlib.Path(os.environ.get("PENSTOCK_VLLM") or ROOT / self.name)

    def missing(self):
        return "" if (self.folder() / "venv/bin/vllm").exists() else super().missing()

    def command(self, host, port, *more):
        folder = self.folder()
        return [folder / "venv/bin/vllm", "serve", folder / "tiny", "--served-model-name", MODEL, "second", "--load-format", "dummy",
                "--host", host, "--port", port, "--max-model-len", 4096, "--max-num-seqs", SLOTS, "--enforce-eager",
                "--enable-prompt-tokens-details", *more]

    def start(self):
        port, events, replay = free_ports(3)
        # Its publisher connects to an endpoint without a wildcard, and no subscriber could.
        publisher = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": f"tcp://*:{events}",
                     "replay_endpoint": f"tcp://127.0.0.1:{replay}"}
        more = ["--api-key", self.api_key, "--kv-events-config", json.dumps(publisher)]
        if "adapter" in self.models:
            more += ["--enable-lora", "--max-loras", 1, "--max-lora-rank", 8, "--lora-modules", f"adapter={self.folder()}/adapter"]
        replica = Replica(port, Process(self.command("127.0.0.1", port, *more), self.environment))
        replica.kv_events, replica.kv_events_replay = f"tcp://127.0.0.1:{events}", publisher["replay_endpoint"]
        return replica


class Dynamo(Kind):
    """A front end with two mocked workers. The gateway sees one replica."""

    name = "dynamo"
    replicas = 1
    workers = 2

    def start(self):
        python = self.folder() / "venv/bin/python"
        port, *events = free_ports(1 + self.workers)
        state = tempfile.TemporaryDirectory()
        environment = {"DYN_FILE_KV": state.name, "DYN_DISCOVERY_BACKEND": "file", "DYN_REQUEST_PLANE": "tcp",
                       "DYN_EVENT_PLANE": "zmq", "DYN_TCP_RPC_HOST": "127.0.0.1", "DYN_EVENT_PLANE_HOST": "127.0.0.1",
                       "HF_HUB_OFFLINE": "1"}
        front_end = Process([python, "-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", port, "--router-mode",
                             "kv"], environment)
        workers = Process([python, "-m", "dynamo.mocker", "--model-path", self.folder() / "tiny", "--model-name", MODEL,
                           "--num-workers", self.workers, "--block-size", 16, "--num-gpu-blocks-override", 4096,
                           "--max-num-seqs", SLOTS, "--zmq-kv-events-ports", ",".join(map(str, events))],
                          environment)
        replica = Replica(port, front_end, workers)
        replica.state = state
        return replica

    def is_ready(self, replica):
        return MODEL in replica.get("/v1/models")[1]


class LlamaCpp(Kind):
    name = "llama_cpp"
    is_observed = False
    counts_cached_tokens = True

    def start(self):
        (port,) = free_ports(1)
        python = self.folder() / "venv/bin/python"
        return Replica(port, Process([python, "-B", HERE / "llama_server.py", self.folder() / "tiny.gguf", port, SLOTS]))


class LlmDSim(Kind):
    name = "llm_d_sim"

    def start(self):
        (port,) = free_ports(1)
        return Replica(port, Process([self.folder() / "llm-d-inference-sim", "--port", port, "--model", MODEL, "--max-num-seqs",
                                      SLOTS, "--mode", "random", "--max-model-len", 4096, "--time-to-first-token", "50ms",
                                      "--inter-token-latency", "5ms"]))


class Penstock(Kind):
    name = "penstock"
    counts_cached_tokens = True
    honours_cache_salt = True
    kv_events = True

    def missing(self):
        return ""

    def start(self):
        port, events = free_ports(2)
        replica = Replica(port, Process([PROGRAM, "engine", "--port", port, "--model-name", MODEL,
                                         "--max-sequences", SLOTS, "--kv-events-port", events]))
        replica.kv_events = f"tcp://127.0.0.1:{events}"
        return replica


KINDS = (Penstock, Vllm, Dynamo, LlamaCpp, LlmDSim)


def named(name):
    found = [kind for kind in KINDS if kind.name == name]
    if not found:
        sys.exit(f"unknown engine {name}; known: {', '.join(kind.name for kind in KINDS)}")
    return found[0]()
