"""Pods that serve: engines run as processes by the testbed's kubelet, with streams to them, and a planner that scales them."""

import json
import os
import shutil
import signal
import threading
import time
import unittest

from cluster_testing import Cluster
from live_testing import PROGRAM, Gateway, Program, Stream, ask, config_file, until

TOKENS = 300  # Of a stream, which takes about 6 s.
# All that a planner needs.
ROLE = [
    {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets"], "verbs": ["list", "watch"]},
    {"apiGroups": ["apps"], "resources": ["deployments/scale", "statefulsets/scale"], "verbs": ["get", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "patch"]},
    {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": ["list", "watch"]},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list", "watch"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
]
LEASE_ROLE = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}]


def role(rules):
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "penstock-planner"}, "rules": rules}


def engine_pod(name="engines", grace_s=1, pre_stop_s=0, memory="1Mi", flags=(), start_up="", labels=None):
    """The template of pods whose container is an engine as a process."""
    engine = {"name": "engine", "image": "local", "command": [os.path.abspath(shutil.which(PROGRAM) or PROGRAM)],
              "args": ["engine", "--host", "$(POD_IP)", "--port", "8000", "--id", "$(POD_NAME)", *flags],
              "ports": [{"name": "http", "containerPort": 8000}],
              "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1},
              "resources": {"requests": {"memory": memory}}}
    if pre_stop_s:
        engine["lifecycle"] = {"preStop": {"sleep": {"seconds": pre_stop_s}}}
    metadata = {"labels": {"app": name, "fleet": "engines", **(labels or {})}}
    if start_up:
        metadata["annotations"] = {"testbed/start-delay": start_up}
    return {"metadata": metadata, "spec": {
        "nodeSelector": {"type": "process"}, "tolerations": [{"key": "testbed/process", "operator": "Exists"}],
        "terminationGracePeriodSeconds": grace_s, "containers": [engine]}}


def owner_of(template, replicas, kind="Deployment"):
    name = template["metadata"]["labels"]["app"]
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    if kind == "StatefulSet":
        spec.update(serviceName=name, podManagementPolicy="Parallel")
    else:
        spec["strategy"] = {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 2}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def kwok_pod(name, requests=None):
    """The template of pods that KWOK calls ready; nothing serves there."""
    return {"metadata": {"labels": {"app": name}}, "spec": {
        "containers": [{"name": "engine", "image": "engine", "resources": {"limits": requests or {}}}],
        "tolerations": [{"operator": "Exists"}], "nodeSelector": {"type": "kwok"}}}


class Clients:
    """Streams one after another on several threads, until the end."""

    def __init__(self, port, count, tokens=TOKENS, prompt="client {} turn {}", model="penstock-sim"):
        self.tokens, self.prompt, self.model = tokens, prompt, model
        self.ended, self.streams, self.lock = threading.Event(), [], threading.Lock()
        # A test that fails does not wait for them.
        self.threads = [threading.Thread(target=self.run, args=(port, number), daemon=True) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, port, number):
        turn = 0
        while not self.ended.is_set():
            # No two prompts share a prefix that would bind them to one replica.
            turn += 1
            stream = Stream(port, self.tokens, self.prompt.format(number, turn), self.model)
            try:
                stream.join()
            except AssertionError as fault:  # It did not end.
                stream.fault = fault
            stream.ended_at = time.time()
            with self.lock:
                self.streams.append(stream)

    def broken(self):
        with self.lock:
            return [stream for stream in self.streams if not stream.whole(self.tokens)]

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        return [f"{stream.status} {stream.fault} {stream.tokens()} tokens from {stream.replica}" for stream in self.broken()]


class Planner(Program):
    """Its targets are the numbers between their bounds, which are equal unless a test says otherwise."""

    def __init__(self, test, name, gateway, replicas, kind="Deployment", flags=(), kubeconfig="", pools=None, environment=None, **sections):
        self.path = os.path.join(test.cluster.run, f"{name}-{os.urandom(3).hex()}.yaml")
        self.object = f"{kind.lower()}/engines"
        self.pools = pools or (lambda bounds: [{"name": "chat", "kubernetes": self.object, **bounds}])
        self.sections = {"planner": {"tick_interval": "1s", "kubernetes": {"manual_hold": "5s", "pending_timeout": "5s"}},
                         "gateway": {"anonymous": True, "kubernetes": test.kubernetes(
                             name, kubeconfig or os.path.join(test.cluster.run, "kubeconfig-autoscaler"))},
                         "log": {"format": "json"}, **sections}
        self.write(replicas)
        super().__init__(test, "plan", "--engines", "kubernetes", "--config", self.path, "--gateway", f"127.0.0.1:{gateway.admin}",
                         "--dashboard", "127.0.0.1:0", *flags, environment=environment,
                         ready="planner ready, acting on Kubernetes, live page on http://127.0.0.1:(\\d+)")
        self.port = self.ports[0]

    def write(self, replicas, most=None):
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump({"pools": self.pools({"min_replicas": replicas, "max_replicas": most or replicas}), **self.sections}, file)

    def target(self, replicas, most=None):
        self.write(replicas, most)
        self.signal(signal.SIGHUP)

    def events(self, name):
        return [line for line in map(parsed, self.log().splitlines()) if line and line.get("event") == name]

    def leads(self):
        return "\npenstock_leader 1\n" in ask(self.port, "GET", "/metrics")[2]

    def held(self, cause):
        return [event for event in self.events("pool_held") if event["cause"] == cause]


def parsed(line):
    try:
        return json.loads(line)
    except ValueError:
        return None


class PodsThatServe(unittest.TestCase):
    """Each test has a namespace and a gateway of its own."""

    port = 8000

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    def start(self, name, replicas, kind="Deployment", **shape):
        self.cluster.namespace(self, name)
        self.apply(name, owner_of(engine_pod(**shape), replicas, kind))
        gateway = self.gateway(name)
        until(f"{replicas} pods", lambda: self.phases(gateway) == ["serving"] * replicas)
        return gateway

    def apply(self, name, thing):
        self.cluster.kubectl("apply", "-n", name, "-f", "-", given=thing)

    def gateway(self, name, **more):
        return Gateway(self, "--config", config_file(self, gateway={
            "anonymous": True, "health_interval": "500ms", "kubernetes": self.kubernetes(name, self.cluster.kubeconfig), **more}))

    def allow(self, name, rules=None):
        """Binds the Role to the user of kubeconfig-autoscaler."""
        self.apply(name, role(rules or ROLE))
        self.cluster.kubectl("create", "rolebinding", "penstock-planner", "-n", name, "--role=penstock-planner", "--user=autoscaler")

    def begin(self, name, pods, kind="Deployment", **shape):
        """Pods that end 1 s after their deletion, whatever is open: only a drain before it keeps their streams."""
        gateway = self.start(name, pods, kind=kind, **shape)
        self.allow(name)
        return gateway, Planner(self, name, gateway, pods, kind)

    def kubernetes(self, name, kubeconfig):
        return {"selector": "fleet=engines", "namespace": name, "port": self.port, "kubeconfig": kubeconfig}

    def phases(self, gateway):
        return sorted(replica["phase"] for replica in gateway.overview()["replicas"])

    def replicas(self, name, deployment="engines"):
        return self.cluster.get("deployment", deployment, "-n", name)["spec"]["replicas"]

    def reaches(self, planner, gateway, replicas):
        planner.target(replicas)
        until(f"{replicas} pods", lambda: self.phases(gateway) == ["serving"] * replicas)

    def scale(self, name, replicas, gateway):
        self.cluster.kubectl("scale", "deployment", "engines", "-n", name, f"--replicas={replicas}")
        until(f"{replicas} pods", lambda: self.phases(gateway) == ["serving"] * replicas)

    def noted(self, name, reason):
        """The notes of Events with this reason, each with its count."""
        return [(event.get("note", ""), event.get("series", {}).get("count", 1))
                for event in self.cluster.get("events.events.k8s.io", "-n", name)["items"] if event["reason"] == reason]

    def process_of(self, pod):
        """The process of a pod."""
        with open(self.cluster.run + "/kubelet.jsonl", encoding="utf-8") as log:
            return [event["pid"] for event in map(json.loads, log) if event["event"] == "started" and event["pod"] == pod][-1]
