#!/usr/bin/env python3
"""KEDA's operator and adapter follow `penstock plan` by the ScaledObjects that `penstock manifests` writes, and hold while the target is unknown."""

import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "live"))

from cluster_testing import Cluster, folder_of_programs, keda_is_built, main  # noqa: E402
from live_testing import PROGRAM, Engine, Gateway, Program, ask, until  # noqa: E402

WITH_KEDA = True
COOLDOWN_S = 2
HELD_S = 10  # Longer than the cooldown and than two polls.


def deployment(replicas):
    pod = {"metadata": {"labels": {"app": "chat"}},
           "spec": {"containers": [{"name": "engine", "image": "engine"}],
                    "tolerations": [{"operator": "Exists"}], "nodeSelector": {"type": "kwok"}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "chat"}}, "template": pod}}


class Keda(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.close)
        cls.folder = tempfile.mkdtemp(dir=cls.cluster.run)

    def configure(self, replicas):
        """The planner wants exactly so many."""
        path = pathlib.Path(self.folder, "planner.yaml")
        path.write_text(json.dumps({
            "pools": [{"name": "chat", "min_replicas": replicas, "max_replicas": replicas}],
            "planner": {"tick_interval": "1s"}, "gateway": {"anonymous": True}}), encoding="utf-8")
        return str(path)

    def planner(self, port=0):
        planner = Program(self, "plan", "--config", self.folder + "/planner.yaml", "--gateway", f"127.0.0.1:{self.admin}", "--dashboard",
                          "127.0.0.1:0", "--external-scaler", f"127.0.0.1:{port}", ready="planner ready, .*:(\\d+)")
        self.address = until("the address", lambda: re.search(r"grpc://(127\.0\.0\.1:\d+)", planner.log()))[1]
        return planner

    def gateway(self, listen="127.0.0.1:0"):
        path = pathlib.Path(self.folder, "gateway.yaml")
        path.write_text(json.dumps({"gateway": {"anonymous": True, "replicas": [{"url": self.engine.url}]}}), encoding="utf-8")
        return Gateway(self, "--config", str(path), "--admin-listen", listen)

    def scaled_object(self, kind, **changes):
        """As `penstock manifests` writes it, with the planner's address of this machine."""
        path = pathlib.Path(self.folder, "manifests.yaml")
        path.write_text(json.dumps({"pools": [{"name": "chat", "max_replicas": 40}]}), encoding="utf-8")
        text = subprocess.run([PROGRAM, "manifests", "planner", str(path), "--namespace", "default", "--autoscaler", "keda"],
                              capture_output=True, text=True, check=True).stdout
        part = next(part for part in text.split("\n---\n") if "kind: ScaledObject" in part)
        read = subprocess.run([folder_of_programs() / "kubectl", "--kubeconfig", self.cluster.kubeconfig, "create", "--dry-run=client",
                               "-o", "json", "-f", "-"], input=part, capture_output=True, text=True, check=True).stdout
        made = json.loads(read)
        made["metadata"] = {"name": made["metadata"]["name"]}
        trigger = made["spec"]["triggers"][0]
        self.assertEqual(trigger["metadata"].pop("scalerAddress"), "penstock-planner.default.svc:9090")
        trigger["metadata"]["scalerAddress"] = self.address
        trigger["type"] = kind
        made["spec"].update(changes)
        return made

    def start(self, name, replicas, scaled_object):
        self.cluster.namespace(self, name)
        for document in (deployment(replicas), scaled_object):
            self.cluster.kubectl("apply", "--server-side", "--validate=strict", "-n", name, "-f", "-", given=document)

    def replicas(self, name):
        return self.cluster.get("deployment", "chat", "-n", name)["spec"]["replicas"]

    def follow(self, what, wanted, names, planner=None):
        if planner is not None:
            self.configure(wanted)
            planner.signal(signal.SIGHUP)
            until("the target", lambda: f'penstock_target_replicas{{pool="chat"}} {wanted}\n' in
                  ask(planner.ports[0], "GET", "/metrics")[2])
        begun, left = time.monotonic(), set(names)

        def are_there():
            for name in sorted(left):
                if self.replicas(name) == wanted:
                    print(f"{what}, {name}: {time.monotonic() - begun:.1f} s", flush=True)
                    left.discard(name)
            return not left

        until(what, are_there)

    def assert_held(self, what, wanted, names):
        until_s = time.monotonic() + HELD_S
        while time.monotonic() < until_s:
            for name in names:
                self.assertEqual(self.replicas(name), wanted, f"{what}: {name}")
            time.sleep(0.2)

    def test_keda_follows_the_planner_and_holds_without_it(self):
        if not keda_is_built():
            print("SKIPPED: no test with KEDA ran, because its programs are not built (k8s-testbed.sh build keda)", flush=True)
            self.skipTest("KEDA is not built")
        self.engine = Engine(self)
        gateway = self.gateway().ready()
        self.admin = gateway.admin
        self.configure(10)
        planner = self.planner()
        port = self.address.rsplit(":", 1)[1]
        until("a target", lambda: 'penstock_target_replicas{pool="chat"} 10\n' in ask(planner.ports[0], "GET", "/metrics")[2])
        names = ["keda-push", "keda-pull", "keda-zero"]
        to_zero = {"minReplicaCount": 0, "cooldownPeriod": COOLDOWN_S, "pollingInterval": 2}
        self.start("keda-push", 1, self.scaled_object("external-push"))
        self.start("keda-pull", 1, self.scaled_object("external"))
        self.start("keda-zero", 1, self.scaled_object("external-push", **to_zero))
        self.follow("10 replicas", 10, names)
        hpa = self.cluster.get("hpa", "-n", "keda-push")["items"][0]["spec"]
        self.assertEqual({hpa["behavior"][way]["tolerance"] for way in ("scaleUp", "scaleDown")}, {"0"})
        self.follow("10 to 11", 11, names, planner)
        self.follow("11 to 23", 23, names, planner)
        self.follow("23 to 22", 22, names, planner)

        # A target that is unknown, and a planner that is gone, both for longer than the cooldown.
        gateway.signal(signal.SIGKILL)
        gateway.wait()
        until("an unknown target", lambda: "penstock_target_replicas{" not in ask(planner.ports[0], "GET", "/metrics")[2])
        self.assert_held("unknown", 22, names)
        planner.signal(signal.SIGKILL)
        planner.wait()
        self.assert_held("gone", 22, names)
        health = self.cluster.get("scaledobject", "chat", "-n", "keda-zero")["status"]["conditions"]
        ready = next(each for each in health if each["type"] == "Ready")
        self.assertEqual(ready["status"], "False", "the status shows it")

        # Back again, and from zero.
        gateway = self.gateway(f"127.0.0.1:{self.admin}").ready()
        self.configure(12)
        planner = self.planner(port)
        until("a target", lambda: 'penstock_target_replicas{pool="chat"} 12\n' in ask(planner.ports[0], "GET", "/metrics")[2])
        self.follow("12 after the return", 12, names)
        # A person takes the pods away. An HPA that finds 0 replicas does nothing; KEDA activates the target.
        self.cluster.kubectl("scale", "deployment", "chat", "--replicas", "0", "-n", "keda-zero")
        begun = time.monotonic()
        until("the activation", lambda: self.replicas("keda-zero") > 0)
        print(f"from zero, by the next poll: {time.monotonic() - begun:.1f} s", flush=True)
        self.follow("12 from zero", 12, ["keda-zero"])

    def test_a_target_at_zero_is_activated_by_the_push(self):
        if not keda_is_built():
            self.skipTest("KEDA is not built")
        self.engine = Engine(self)
        gateway = self.gateway().ready()
        self.admin = gateway.admin
        gateway.signal(signal.SIGKILL)
        gateway.wait()
        self.configure(5)
        planner = self.planner()
        # While the target is unknown, nothing starts.
        self.start("keda-activation", 0, self.scaled_object("external-push", minReplicaCount=0, cooldownPeriod=COOLDOWN_S, pollingInterval=600))
        self.assert_held("unknown", 0, ["keda-activation"])
        self.gateway(f"127.0.0.1:{self.admin}").ready()
        until("a target", lambda: 'penstock_target_replicas{pool="chat"} 5\n' in ask(planner.ports[0], "GET", "/metrics")[2])
        begun = time.monotonic()
        until("the activation", lambda: self.replicas("keda-activation") > 0)
        print(f"from zero, by push: {time.monotonic() - begun:.1f} s", flush=True)
        self.follow("5 from zero", 5, ["keda-activation"])


if __name__ == "__main__":
    main()
