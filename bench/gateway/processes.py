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

ENVOY = """
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: llm
          route_config:
            virtual_hosts:
            - {{name: llm, domains: ["*"], routes: [{{match: {{prefix: "/"}}, route: {{cluster: engines, timeout: 0s}}}}]}}
          http_filters:{filters}
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
  clusters:{clusters}
"""

ENVOY_FILTER = """
          - name: envoy.filters.http.ext_proc
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor
              grpc_service: {envoy_grpc: {cluster_name: picker}, timeout: 0s}
              message_timeout: 600s
              processing_mode: {request_header_mode: SEND, request_body_mode: FULL_DUPLEX_STREAMED, request_trailer_mode: SEND,
                                response_header_mode: SEND, response_body_mode: FULL_DUPLEX_STREAMED, response_trailer_mode: SEND}
"""

MANY = "circuit_breakers: {thresholds: [{max_requests: 100000, max_connections: 100000, max_pending_requests: 100000}]}"
ENVOY_ENGINES = """
  - name: engines
    type: STATIC
    """ + MANY + """
    load_assignment: {cluster_name: engines, endpoints: [{lb_endpoints: [ENDPOINTS]}]}
"""
ENVOY_PICKED = """
  - name: engines
    type: ORIGINAL_DST
    lb_policy: CLUSTER_PROVIDED
    """ + MANY + """
    original_dst_lb_config: {use_http_header: true, http_header_name: x-gateway-destination-endpoint}
  - name: picker
    type: STATIC
    """ + MANY + """
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config:
          http2_protocol_options: {initial_stream_window_size: 1048576, initial_connection_window_size: 16777216}
    load_assignment: {cluster_name: picker, endpoints: [{lb_endpoints: [ENDPOINTS]}]}
"""


def envoy_config(port, engines, picker=None):
    """Envoy alone, with the engines in turn, or with the engine that the picker names."""
    def endpoints(ports):
        return ", ".join(f"{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {one}}}}}}}}}"
                         for one in ports)
    clusters = ENVOY_PICKED.replace("ENDPOINTS", endpoints([picker])) if picker else \
        ENVOY_ENGINES.replace("ENDPOINTS", endpoints(engines))
    return ENVOY.format(port=port, filters=ENVOY_FILTER.rstrip() if picker else "", clusters=clusters)


# Limits are far above what the runs need: it is the work of checking them that is measured.
PENSTOCK = """
gateway:
  listen: 127.0.0.1:{port}
{picker}  admin_listen: 127.0.0.1:{admin}
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


class Programs:
    """Several processes that are one gateway."""

    def __init__(self, programs):
        self.parts = programs
        self.process = programs[0].process

    def cpu_s(self):
        return sum(program.cpu_s() for program in self.parts)

    def rss_kib(self):
        return sum(program.rss_kib() for program in self.parts)

    def end(self):
        for program in self.parts:
            program.end()


class Gateway:
    """One of the gateways, in front of replicas. `streaming` lets nginx be what a stream wants."""

    NAMES = ("nginx", "sglang-router", "vllm-router", "penstock", "envoy", "envoy+picker")
    TOOLS = {"envoy+picker": ("envoy", "penstock")}  # Where they are not those of the name.

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
            command = self.penstock(tools, urls, folder, self.port)
        elif name.startswith("envoy"):
            config = folder / "envoy.yaml"
            picker = free_port() if name == "envoy+picker" else None
            config.write_text(envoy_config(self.port, replicas.ports, picker))
            command = [tools["envoy"], "-c", str(config), "--concurrency", "2", "--log-level", "error",
                       "--use-dynamic-base-id"]
        else:
            command = [tools[name], *(["launch"] if name == "sglang-router" else []), "--host", "127.0.0.1", "--port",
                       str(self.port), "--prometheus-port", str(free_port()), "--worker-urls", *urls, "--policy",
                       "cache_aware", "--log-level", "error"]
        self.log = folder / "log"
        self.program, self.picker = Program(command, self.log, cwd=folder), None
        if name == "envoy+picker":
            command = self.penstock(tools, urls, folder, free_port(), picker)
            self.picker = Program(command, folder / "picker.log", cwd=folder)
            self.program = Programs([self.program, self.picker])
        try:
            wait_for(lambda: self.program.process.poll() is not None or answers(self.port), name)
            if self.program.process.poll() is not None:
                raise RuntimeError(f"{name} ended: {self.log.read_text(errors='replace')[-500:]}")
        except RuntimeError:
            self.end()
            raise

    def penstock(self, tools, urls, folder, port, picker=None):
        self.admin = free_port()
        config = folder / "penstock.yaml"
        listed = "\n".join(f"    - {{url: '{url}', model: m}}" for url in urls)
        listen = f"  endpoint_picker: {{listen: '127.0.0.1:{picker}', tls: false}}\n" if picker else ""
        config.write_text(PENSTOCK.format(port=port, admin=self.admin, ledger=folder / "ledger.sqlite", picker=listen,
                                          replicas=listed, key=KEY))
        return [tools["penstock"], "gateway", "--config", str(config)]

    def end(self):
        self.program.end()


def find_tools(build, venv):
    """Paths of what is there of the gateways and wrk."""
    known = {"penstock": os.environ.get("PENSTOCK") or str(build / "penstock"),
             "nginx": shutil.which("nginx") or "/usr/sbin/nginx", "wrk": shutil.which("wrk") or "",
             "sglang-router": str(venv / "bin" / "sglang-router"), "vllm-router": str(venv / "bin" / "vllm-router")}
    known.update({"envoy": str(path) for path in venv.glob("lib/python3*/site-packages/envoy/_bin/envoy")})
    return {name: path for name, path in known.items() if path and os.access(path, os.X_OK)}
