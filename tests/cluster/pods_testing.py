"""Pods that serve: engines run as processes by the testbed's kubelet, in a network namespace of their own, with streams to them."""

import os
import shutil
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "live"))

from cluster_testing import TESTBED, Cluster, main, why_skipped  # noqa: E402
from live_testing import PROGRAM, Gateway, Stream, config_file, until  # noqa: E402

INSIDE = "PENSTOCK_INSIDE_NAMESPACE"
TOKENS = 300  # Of a stream, which takes about 6 s.


def deployment(replicas, grace_s, pre_stop_s):
    engine = {"name": "engine", "image": "local", "command": [os.path.abspath(shutil.which(PROGRAM) or PROGRAM)],
              "args": ["engine", "--host", "$(POD_IP)", "--port", "8000", "--id", "$(POD_NAME)"],
              "ports": [{"name": "http", "containerPort": 8000}],
              "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1}}
    if pre_stop_s:
        engine["lifecycle"] = {"preStop": {"sleep": {"seconds": pre_stop_s}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "engines"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "engines"}},
        "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 2}},
        "template": {"metadata": {"labels": {"app": "engines"}}, "spec": {
            "nodeSelector": {"type": "process"}, "tolerations": [{"key": "testbed/process", "operator": "Exists"}],
            "terminationGracePeriodSeconds": grace_s, "containers": [engine]}}}}


class Clients:
    """Streams one after another on several threads, until the end."""

    def __init__(self, port, count):
        self.ended, self.streams, self.lock = threading.Event(), [], threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(port, number)) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, port, number):
        while not self.ended.is_set():
            stream = Stream(port, TOKENS, prompt=f"client {number}").join()
            with self.lock:
                self.streams.append(stream)

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        return [f"{stream.status} {stream.fault} {stream.tokens()} tokens from {stream.replica}" for stream in self.streams
                if not stream.whole(TOKENS)]


class PodsThatServe(unittest.TestCase):
    """A control plane and a kubelet for all tests; each test has a namespace and a gateway of its own."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        exported = cls.cluster.testbed("env")
        command = [sys.executable, "-B", os.path.join(TESTBED, "process-kubelet.py"), "--cidr", "10.245.0.0/16",
                   "--logs", cls.cluster.run + "/pods"]
        with open(cls.cluster.run + "/kubelet.jsonl", "w", encoding="utf-8") as log:
            cls.kubelet = subprocess.Popen(["bash", "-c", f'{exported}\nexec "$@"', "bash", *command], stdout=log, stderr=subprocess.STDOUT)

    @classmethod
    def tearDownClass(cls):
        cls.kubelet.terminate()
        cls.kubelet.wait(timeout=60)
        cls.cluster.close()

    def start(self, name, *shape, kind="Deployment"):
        self.cluster.kubectl("create", "namespace", name)
        owner = deployment(*shape)
        if kind == "StatefulSet":
            owner["kind"] = kind
            del owner["spec"]["strategy"]
            owner["spec"].update(serviceName="engines", podManagementPolicy="Parallel")
        self.cluster.kubectl("apply", "-n", name, "-f", "-", given=owner)
        gateway = Gateway(self, "--config", config_file(self, gateway={"anonymous": True, "health_interval": "500ms",
                                                                       "kubernetes": self.kubernetes(name, self.cluster.kubeconfig)}))
        until(f"{shape[0]} pods", lambda: self.phases(gateway) == ["serving"] * shape[0])
        return gateway

    def kubernetes(self, name, kubeconfig):
        return {"selector": "app=engines", "namespace": name, "port": 8000, "kubeconfig": kubeconfig}

    def phases(self, gateway):
        return sorted(replica["phase"] for replica in gateway.overview()["replicas"])

    def scale(self, name, replicas, gateway):
        self.cluster.kubectl("scale", "deployment", "engines", "-n", name, f"--replicas={replicas}")
        until(f"{replicas} pods", lambda: self.phases(gateway) == ["serving"] * replicas)


def main_inside():
    if not why_skipped() and INSIDE not in os.environ:
        # All of 10.245.0.0/16 is local there, so that each pod has an address of its own.
        os.environ[INSIDE] = "yes"
        inside = 'ip link set lo up && ip route add local 10.245.0.0/16 dev lo && exec "$@"'
        os.execvp("unshare", ["unshare", "--user", "--map-root-user", "--net", "bash", "-c", inside, "bash", sys.executable, "-B",
                              *sys.argv])
    main()
