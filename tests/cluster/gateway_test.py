#!/usr/bin/env python3
"""`penstock gateway` in front of pods that serve: engines run as processes by the testbed's kubelet, in a network namespace of their own.

Exit code 77: there is no testbed."""

import os
import shutil
import subprocess
import sys
import threading
import time
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
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        exported = cls.cluster.testbed("env")
        kubelet = os.path.join(TESTBED, "process-kubelet.py")
        cls.kubelet = subprocess.Popen(
            ["bash", "-c", f'{exported}\nexec "$0" --cidr 10.245.0.0/16 --logs "$1"', kubelet, cls.cluster.run + "/pods"],
            stdout=open(cls.cluster.run + "/kubelet.jsonl", "w", encoding="utf-8"), stderr=subprocess.STDOUT)

    @classmethod
    def tearDownClass(cls):
        cls.kubelet.terminate()
        cls.kubelet.wait(timeout=60)
        cls.cluster.close()

    def start(self, name, *shape):
        self.cluster.kubectl("create", "namespace", name)
        self.cluster.kubectl("apply", "-n", name, "-f", "-", given=deployment(*shape))
        gateway = Gateway(self, "--config", config_file(self, gateway={"anonymous": True, "health_interval": "500ms", "kubernetes": {
            "selector": "app=engines", "namespace": name, "port": 8000, "kubeconfig": self.cluster.kubeconfig}}))
        until("two pods", lambda: self.phases(gateway) == ["serving"] * 2)
        return gateway

    def phases(self, gateway):
        return sorted(replica["phase"] for replica in gateway.overview()["replicas"])

    def scale(self, name, replicas, gateway):
        self.cluster.kubectl("scale", "deployment", "engines", "-n", name, f"--replicas={replicas}")
        until(f"{replicas} pods", lambda: self.phases(gateway) == ["serving"] * replicas)

    def change_all(self, name, gateway):
        began = time.monotonic()
        for replicas in (4, 1, 3):
            self.scale(name, replicas, gateway)
        before = {replica["id"] for replica in gateway.overview()["replicas"]}
        self.cluster.kubectl("rollout", "restart", "deployment", "engines", "-n", name)
        until("new pods", lambda: len(gateway.overview()["replicas"]) == 3 and
              not before & {replica["id"] for replica in gateway.overview()["replicas"]})
        return time.monotonic() - began

    def test_no_stream_is_cut_while_pods_come_go_and_restart(self):
        gateway = self.start("graceful", 2, 60, 1)
        clients = Clients(gateway.port, 8)
        until("first streams", lambda: len(clients.streams) > 8)
        took = self.change_all("graceful", gateway)
        broken = clients.end()
        print(f"{len(clients.streams)} streams in {took:.0f} s of changes, {len(broken)} broken", file=sys.stderr)
        self.assertEqual(broken, [])

    def test_the_same_without_time_to_end_breaks_streams(self):
        gateway = self.start("abrupt", 2, 1, 0)
        clients = Clients(gateway.port, 8)
        until("first streams", lambda: len(clients.streams) > 8)
        self.change_all("abrupt", gateway)
        broken = clients.end()
        print(f"{len(clients.streams)} streams without time to end, {len(broken)} broken", file=sys.stderr)
        self.assertNotEqual(broken, [])


if __name__ == "__main__":
    if not why_skipped() and INSIDE not in os.environ:
        # All of 10.245.0.0/16 is local there, so that each pod has an address of its own.
        os.environ[INSIDE] = "yes"
        inside = 'ip link set lo up && ip route add local 10.245.0.0/16 dev lo && exec "$@"'
        os.execvp("unshare", ["unshare", "--user", "--map-root-user", "--net", "bash", "-c", inside, "bash", sys.executable, "-B",
                              *sys.argv])
    main()
