"""The gateways that are measured, as processes with a port each, and what they use of CPU and memory."""

import ctypes
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
KEY = "sk-bench"


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {KEY}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def answers(port):
    """Whether a chat gets through."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        body = '{"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":1}'
        connection.request("POST", "/v1/chat/completions", body=body,
                           headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def end_with_parent():
    """A measurement that is killed leaves no server behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


class Program:
    """A process with all that it starts; in a group of its own, so that it ends as a whole."""

    def __init__(self, command, log, cwd=None):
        self.log = open(log, "ab")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, cwd=cwd, start_new_session=True,
                                        preexec_fn=end_with_parent)

    def pids(self):
        """The process and what descends from it."""
        found, parents = [], {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    parents[int(entry)] = int(Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[1])
                except OSError:
                    continue
        waiting = [self.process.pid]
        while waiting:
            pid = waiting.pop()
            found.append(pid)
            waiting += [child for child, parent in parents.items() if parent == pid]
        return found

    def cpu_s(self):
        """User and system time of the whole tree."""
        ticks = 0
        for pid in self.pids():
            fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / TICKS_PER_S

    def rss_kib(self):
        return sum(int(re.search(r"VmRSS:\s+(\d+)", Path("/proc", str(pid), "status").read_text()).group(1))
                   for pid in self.pids())

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.log.close()


class Replicas:
    def __init__(self, program, folder, count=2, rate=20):
        self.programs, self.ports = [], []
        for i in range(count):
            self.ports.append(free_port())
            command = [program, "--port", str(self.ports[-1]), "--rate", str(rate)]
            self.programs.append(Program(command, folder / f"replica{i}.log"))
        for port in self.ports:
            wait_for(lambda port=port: answers(port), "a mock replica")

    def counts(self):
        return [int(get(port, "/count")[1]) for port in self.ports]

    def end(self):
        for program in self.programs:
            program.end()


def wait_for(condition, what, seconds=30):
    for _ in range(seconds * 20):
        if condition():
            return
        time.sleep(0.05)
    raise RuntimeError(f"{what} did not answer within {seconds} s")


NGINX = """
daemon off;
worker_processes 2;
pid nginx.pid;
error_log stderr error;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  tcp_nodelay on;
  keepalive_requests 1000000000;
  client_max_body_size 64m;
  client_body_buffer_size 512k;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  upstream replicas {{
    {servers}
    keepalive 64;
    keepalive_requests 1000000000;
  }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://replicas;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering {buffering};
    }}
  }}
}}
"""

# Limits are far above what the runs need: it is the work of checking them that is measured.
PENSTOCK = """
gateway:
  listen: 127.0.0.1:{port}
  admin_listen: 127.0.0.1:{admin}
  threads: 2
  ledger: {ledger}
  routing: {{slow_start: 0s}}
  admission: {{prefill_tokens: 100000000}}
  replicas:
{replicas}
tenants:
  - {{name: bench, keys: [{key}], tokens_per_minute: 1000000000000, concurrent: 100000}}
  - {{name: other, keys: [sk-other], tokens_per_minute: 1000000}}
models:
  - {{name: m, input_price: 1, cached_input_price: 0.5, output_price: 2}}
"""


class Gateway:
    """One of the gateways, in front of replicas. `streaming` lets nginx be what a stream wants."""

    NAMES = ("nginx", "sglang-router", "vllm-router", "penstock")

    def __init__(self, name, tools, replicas, folder, streaming=False):
        self.name, self.port, self.admin = name, free_port(), None
        urls = [f"http://127.0.0.1:{port}" for port in replicas.ports]
        folder = folder / f"{name}-{self.port}"
        folder.mkdir()
        if name == "nginx":
            servers = " ".join(f"server 127.0.0.1:{port};" for port in replicas.ports)
            config = folder / "nginx.conf"
            config.write_text(NGINX.format(servers=servers, port=self.port, buffering="off" if streaming else "on"))
            command = [tools["nginx"], "-p", str(folder), "-c", str(config)]
        elif name == "penstock":
            self.admin = free_port()
            config = folder / "penstock.yaml"
            listed = "\n".join(f"    - {{url: '{url}', model: m}}" for url in urls)
            config.write_text(PENSTOCK.format(port=self.port, admin=self.admin, ledger=folder / "ledger.sqlite",
                                              replicas=listed, key=KEY))
            command = [tools["penstock"], "gateway", "--config", str(config)]
        else:
            command = [tools[name], *(["launch"] if name == "sglang-router" else []), "--host", "127.0.0.1", "--port",
                       str(self.port), "--prometheus-port", str(free_port()), "--worker-urls", *urls, "--policy",
                       "cache_aware", "--log-level", "error"]
        self.log = folder / "log"
        self.program = Program(command, self.log, cwd=folder)
        try:
            wait_for(lambda: self.program.process.poll() is not None or answers(self.port), name)
            if self.program.process.poll() is not None:
                raise RuntimeError(f"{name} ended: {self.log.read_text(errors='replace')[-500:]}")
        except RuntimeError:
            self.end()
            raise

    def end(self):
        self.program.end()


def find_tools(build, venv):
    """Paths of what is there of the gateways and wrk."""
    known = {"penstock": os.environ.get("PENSTOCK") or str(build / "penstock"),
             "nginx": shutil.which("nginx") or "/usr/sbin/nginx", "wrk": shutil.which("wrk") or "",
             "sglang-router": str(venv / "bin" / "sglang-router"), "vllm-router": str(venv / "bin" / "vllm-router")}
    return {name: path for name, path in known.items() if path and os.access(path, os.X_OK)}
