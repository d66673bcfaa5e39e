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

from cluster_testing import Cluster, folder_of_programs, keda_is_built, limit_s, long, main  # noqa: E402
from live_testing import PROGRAM, Engine, Gateway, Program, ask, chat, until  # noqa: E402

WITH_KEDA = True
COOLDOWN_S = 2
HELD_S = 10  # Longer than the cooldown and than two polls.
FOLLOWED_S, FROM_ZERO_S = 3, 2  # From a decision to the write of /scale; the HPA looks once a second.


def deployment(replicas):
    pod = {"metadata": {"labels": {"app": "chat"}},
           "spec": {"containers": [{"name": "engine", "image": "engine"}],
                    "tolerations": [{"operator": "Exists"}], "nodeSelector": {"type": "kwok"}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "chat"}}, "template": pod}}


def hours_from_now(hours):
    """A time of each day as crontab(5) has it, in UTC."""
    return time.strftime("%M %H * * *", time.gmtime(time.time() + 3600 * hours)).replace(" 0", " ").removeprefix("0")


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
        self.running, self.page = planner, planner.ports[0]
        return planner

    def gateway(self, listen="127.0.0.1:0"):
        path = pathlib.Path(self.folder, "gateway.yaml")
        path.write_text(json.dumps({"gateway": {"anonymous": True, "replicas": [{"url": self.engine.url}]}}), encoding="utf-8")
        return Gateway(self, "--config", str(path), "--admin-listen", listen)

    def scaled_object(self, kind, *flags, **changes):
        """As `penstock manifests` writes it, with the planner's address of this machine."""
        path = pathlib.Path(self.folder, "manifests.yaml")
        path.write_text(json.dumps({"pools": [{"name": "chat", "max_replicas": 40}]}), encoding="utf-8")
        text = subprocess.run([PROGRAM, "manifests", "planner", str(path), "--namespace", "default", "--autoscaler", "keda", *flags],
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

    def metrics(self):
        return ask(self.page, "GET", "/metrics")[2]

    def has_target(self, wanted):
        return f'penstock_target_replicas{{pool="chat"}} {wanted}\n' in self.metrics()

    def follow(self, what, wanted, names, change, activated=False):
        """After the change the planner decides, and the number of replicas follows."""
        begun = time.time()
        change()
        until("the target", lambda: self.has_target(wanted))
        decided = time.time()
        for name in names:
            for replicas, limit in (((1, FROM_ZERO_S),) if activated else ()) + ((wanted, FOLLOWED_S),):
                took = max(0, until(what, lambda: self.cluster.scaled_at(name, replicas, begun)) - decided)
                print(f"{what}, {name}: {replicas} after {took:.1f} s", flush=True)
                self.assertLess(took, limit_s(limit), f"{what}, {name}")
            until(what, lambda: self.replicas(name) == wanted)

    def target(self, wanted):
        self.configure(wanted)
        self.running.signal(signal.SIGHUP)

    def assert_held(self, what, wanted, names):
        until_s = time.monotonic() + HELD_S
        while time.monotonic() < until_s:
            for name in names:
                self.assertEqual(self.replicas(name), wanted, f"{what}: {name}")
            time.sleep(0.2)

    @long
    def test_keda_follows_the_planner_and_holds_without_it(self):
        if not keda_is_built():
            self.skipTest("KEDA is not built (k8s-testbed.sh build keda)")
        self.engine = Engine(self)
        gateway = self.gateway().ready()
        self.admin = gateway.admin
        self.configure(10)
        planner = self.planner()
        port = self.address.rsplit(":", 1)[1]
        names = ["keda-push", "keda-pull", "keda-zero"]
        to_zero = {"minReplicaCount": 0, "cooldownPeriod": COOLDOWN_S, "pollingInterval": 2}
        until("the target", lambda: self.has_target(10))
        self.start("keda-push", 1, self.scaled_object("external-push"))
        self.start("keda-pull", 1, self.scaled_object("external"))
        self.start("keda-zero", 1, self.scaled_object("external-push", **to_zero))
        for name in names:
            until("10 replicas", lambda: self.replicas(name) == 10)
        hpa = self.cluster.get("hpa", "-n", "keda-push")["items"][0]["spec"]
        self.assertEqual({hpa["behavior"][way]["tolerance"] for way in ("scaleUp", "scaleDown")}, {"0"})
        for name in ("keda-push", "keda-pull"):
            until("a finding of doctor", lambda: re.search(r' ok +"chat", 1 to 40 replicas$', self.doctor(name)))
        self.assertRegex(self.doctor("keda-zero"), " missing +minReplicaCount is 0, ")
        self.follow("10 to 11", 11, names, lambda: self.target(11))
        self.follow("11 to 23", 23, names, lambda: self.target(23))
        self.follow("23 to 22", 22, names, lambda: self.target(22))

        # A target that is unknown, a planner that does not answer and one that is gone, each for longer than the cooldown.
        gateway.signal(signal.SIGKILL)
        gateway.wait()
        until("an unknown target", lambda: "penstock_target_replicas{" not in self.metrics())
        self.assert_held("unknown", 22, names)
        planner.signal(signal.SIGSTOP)
        self.assert_held("silent", 22, names)
        planner.signal(signal.SIGKILL)
        planner.wait()
        # KEDA 2.21 takes a trigger whose cache it is closing for an inactive one without an error. A target with minReplicaCount 0
        # may go to zero then, in about half of the runs.
        self.assert_held("gone", 22, ["keda-push", "keda-pull"])
        print(f"gone, keda-zero: {self.replicas('keda-zero')}", flush=True)
        until("a status that shows it", lambda: self.is_ready("keda-push") == "False")

        # Back again, and from zero.
        gateway = self.gateway(f"127.0.0.1:{self.admin}").ready()
        self.configure(12)
        planner = self.planner(port)
        for name in names:
            until("12 replicas after the return", lambda: self.replicas(name) == 12)
        until("a healthy ScaledObject", lambda: self.is_ready("keda-zero") == "True")
        # A person takes the pods away. An HPA that finds 0 replicas does nothing; KEDA activates the target.
        begun = time.monotonic()
        self.cluster.kubectl("scale", "deployment", "chat", "--replicas", "0", "-n", "keda-zero")
        until("12 replicas from zero", lambda: self.replicas("keda-zero") == 12)
        print(f"12 from zero after a person, by the next poll: {time.monotonic() - begun:.1f} s", flush=True)

    @long
    def test_the_fallback_begins_while_the_target_is_unknown_and_not_while_the_planner_is_gone(self):
        """A planner that is gone tells no metric, whose failures KEDA 2.21 would count. A cron trigger counts on."""
        if not keda_is_built():
            self.skipTest("KEDA is not built")
        self.engine = Engine(self)
        gateway = self.gateway().ready()
        self.admin = gateway.admin
        self.configure(2)
        planner = self.planner()
        names = ["keda-fallback-push", "keda-fallback-pull"]
        flags = ("--fallback", "1:9", "--cron", f"Etc/UTC; {hours_from_now(-2)}; {hours_from_now(2)}; 4")

        def reach(what, wanted):
            for name in names:
                until(f"{what}: {wanted} in {name}", lambda: self.replicas(name) == wanted)

        for name, kind in zip(names, ("external-push", "external")):
            self.start(name, 1, self.scaled_object(kind, *flags))
        reach("the calendar", 4)
        self.target(6)
        reach("the planner", 6)
        gateway.signal(signal.SIGKILL)
        gateway.wait()
        reach("the fallback", 9)
        until("a finding of doctor", lambda: re.search(r" missing +(Fallback is True|Ready is \w+): ", self.doctor(names[0])))
        self.gateway(f"127.0.0.1:{self.admin}").ready()
        reach("the planner again", 6)
        planner.signal(signal.SIGKILL)
        planner.wait()
        self.assert_held("gone", 6, names)
        until("a finding of doctor again", lambda: re.search(r" missing +(HPAActive|Ready) is \w+: ", self.doctor(names[0])))

    def doctor(self, name):
        """What `penstock doctor` reports of the ScaledObject."""
        table = subprocess.run([PROGRAM, "doctor", self.folder + "/planner.yaml", "--namespace", name, "--program", "planner",
                                "--autoscaler", "keda", "--kubeconfig", self.cluster.kubeconfig], capture_output=True, text=True,
                               timeout=120, check=False).stdout
        return next(line for line in table.splitlines() if line.startswith("ScaledObject "))

    def is_ready(self, name):
        conditions = self.cluster.get("scaledobject", "chat", "-n", name)["status"]["conditions"]
        return next(each["status"] for each in conditions if each["type"] == "Ready")

    def test_a_target_at_zero_is_activated_by_the_push(self):
        if not keda_is_built():
            self.skipTest("KEDA is not built")
        self.engine = Engine(self)
        gateway = self.gateway().ready()
        self.admin = gateway.admin
        gateway.signal(signal.SIGKILL)
        gateway.wait()
        self.configure(5)
        self.planner()
        # While the target is unknown, nothing starts.
        name = "keda-activation"
        self.start(name, 0, self.scaled_object("external-push", minReplicaCount=0, cooldownPeriod=COOLDOWN_S, pollingInterval=600))
        self.assert_held("unknown", 0, [name])
        self.follow("5 from zero, by push", 5, [name], lambda: self.gateway(f"127.0.0.1:{self.admin}").ready(), activated=True)

    def test_a_pool_without_requests_goes_to_zero_and_a_request_brings_the_first_replica(self):
        if not keda_is_built():
            self.skipTest("KEDA is not built")
        self.engine = Engine(self)
        gateway = self.gateway().ready()
        self.admin = gateway.admin
        pathlib.Path(self.folder, "planner.yaml").write_text(json.dumps({
            "pools": [{"name": "chat", "min_replicas": 0, "max_replicas": 3}],
            "planner": {"tick_interval": "1s", "scale_to_zero_after": "3s"}}), encoding="utf-8")
        self.planner()
        name = "keda-idle"
        self.start(name, 1, self.scaled_object("external-push", minReplicaCount=0, cooldownPeriod=COOLDOWN_S, pollingInterval=2))
        until("the target", lambda: self.has_target(0))
        until("no replica", lambda: self.replicas(name) == 0)
        self.assertRegex(self.doctor(name), " ok +")
        self.assert_held("idle", 0, [name])
        self.assertEqual(ask(gateway.port, "POST", "/v1/chat/completions", chat(1))[0], 200)
        until("the first replica", lambda: self.replicas(name) == 1)


if __name__ == "__main__":
    main()
