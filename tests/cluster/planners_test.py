#!/usr/bin/env python3
"""Two planners as `penstock manifests planner --replicas 2` writes them, with the Role that it writes and nothing else, on a real API server."""

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

from cluster_testing import Cluster, folder_of_programs, long, main  # noqa: E402
from live_testing import PROGRAM, Engine, Gateway, Program, ask, config_file, until  # noqa: E402
from real_clients import python_with  # noqa: E402
from scaler_client import GRPC, Keda, scaler_of  # noqa: E402

NAMESPACE, NAME = "two-planners", "penstock-planner"
TAKE_OVER_S = 15.0


class Planner(Program):
    """A pod of the Deployment as a process: its arguments, with files and addresses of this machine."""

    def __init__(self, test, arguments, places):
        words = list(arguments)
        for flag, value in places.items():
            words[words.index(flag) + 1] = value
        words = [*words, "--kubeconfig", test.kubeconfig]
        super().__init__(test, *words, ready=r"planner ready, .*http://127\.0\.0\.1:(\d+)")
        self.port = self.ports[0]

    def metrics(self):
        return ask(self.port, "GET", "/metrics")[2]

    def leads(self):
        return "\npenstock_leader 1\n" in self.metrics()

    def is_ready(self):
        return ask(self.port, "GET", "/ready")[0] == 200


class Planners(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.close)

    def start(self, name, configuration, *flags):
        """Applies the manifests; returns the arguments of the container."""
        self.cluster.namespace(self, name)
        folder = tempfile.mkdtemp(dir=self.cluster.run)
        path = pathlib.Path(folder, "p.yaml")
        path.write_text(json.dumps(configuration), encoding="utf-8")
        text = subprocess.run([PROGRAM, "manifests", "planner", str(path), "--namespace", name, "--replicas", "2", *flags],
                              capture_output=True, text=True, check=True).stdout
        # The ScaledObject needs KEDA's definitions, which are another test's.
        parts = [part for part in text.split("\n---\n") if "kind: ScaledObject" not in part]
        kubectl = [folder_of_programs() / "kubectl", "--kubeconfig", self.cluster.kubeconfig, "apply", "--server-side", "--validate=strict",
                   "-f", "-"]
        done = subprocess.run(kubectl, input="\n---\n".join(parts), capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        spec = self.cluster.get("deployment", NAME, "-n", name)["spec"]
        self.assertEqual((spec["replicas"], spec["strategy"]["type"]), (2, "RollingUpdate"))
        pod = spec["template"]["spec"]
        self.assertTrue(pod["automountServiceAccountToken"])
        token = self.cluster.kubectl("create", "token", NAME, "-n", name).strip()
        admin = json.loads(self.cluster.kubectl("config", "view", "--raw", "-o", "json"))
        kubeconfig = pathlib.Path(folder, "kubeconfig")
        kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "c", "cluster": admin["clusters"][0]["cluster"]}],
            "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u", "namespace": name}}],
            "users": [{"name": "u", "user": {"token": token}}]}), encoding="utf-8")
        self.kubeconfig = str(kubeconfig)
        engine = Engine(self)
        self.gateway = Gateway(self, "--config", config_file(
            self, gateway={"anonymous": True, "replicas": [{"url": engine.url}]})).ready()
        self.configuration = str(path)
        return pod["containers"][0]["args"]

    def planner(self, arguments, **places):
        folder = tempfile.mkdtemp(dir=self.cluster.run)
        return Planner(self, arguments, {"--config": self.configuration, "--gateway": f"127.0.0.1:{self.gateway.admin}",
                                         "--dashboard": "127.0.0.1:0", "--state-dir": folder, **places})

    def leader_and_follower(self, first, second):
        def found():
            leaders = [planner for planner in (first, second) if planner.leads()]
            self.assertLessEqual(len(leaders), 1)
            return leaders
        leader = until("a leader", found)[0]
        return leader, second if leader is first else first

    def assert_permitted(self, *planners):
        for planner in planners:
            for words in ("Forbidden", "lease_failed", "cluster_events_failed", "file_unwritable"):
                self.assertNotIn(words, planner.log())

    @long
    def test_one_leads_and_the_other_takes_over_with_that_role_only(self):
        pod = {"metadata": {"labels": {"app": "chat"}},
               "spec": {"containers": [{"name": "engine", "image": "engine"}], "tolerations": [{"operator": "Exists"}],
                        "nodeSelector": {"type": "kwok"}}}
        arguments = self.start(NAMESPACE, {
            "pools": [{"name": "chat", "kubernetes": "deployment/chat", "min_replicas": 2, "max_replicas": 4}],
            "planner": {"tick_interval": "1s"}, "gateway": {"kubernetes": {"selector": "app=chat"}}})
        self.assertEqual(arguments[arguments.index("--leader-election") + 1], f"{NAMESPACE}/{NAME}")
        self.cluster.kubectl("apply", "--server-side", "-n", NAMESPACE, "-f", "-", given={
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "chat"}}, "template": pod}})
        first, second = self.planner(arguments), self.planner(arguments)
        leader, follower = self.leader_and_follower(first, second)
        until("two ready planners", lambda: first.is_ready() and second.is_ready())
        until("2 replicas", lambda: self.cluster.get("deployment", "chat", "-n", NAMESPACE)["spec"]["replicas"] == 2)
        until("the saved state", lambda: self.cluster.kubectl("get", "configmap", NAME + "-state", "-n", NAMESPACE, "--ignore-not-found"))
        until("its Events", lambda: {"ScaledUp", "LeaderElection"} <= {
            each["reason"] for each in self.cluster.get("events.events.k8s.io", "-n", NAMESPACE)["items"]})
        self.assert_permitted(first, second)

        begun = time.monotonic()
        leader.signal(signal.SIGKILL)
        until("the take-over", follower.leads)
        seconds = time.monotonic() - begun
        print(f"take-over of a planner with the Role of its manifest: {seconds:.1f} s", flush=True)
        self.assertLess(seconds, TAKE_OVER_S)
        until("the restored state", lambda: re.search("policy_state.*restored", follower.log()))
        self.assert_permitted(follower)

        # No wider than needed.
        user = f"system:serviceaccount:{NAMESPACE}:{NAME}"
        for verb, resource in (("delete", "leases/" + NAME), ("update", "leases/other"), ("get", "configmaps/other"), ("list", "secrets"),
                               ("patch", "deployments/chat"), ("delete", "pods"), ("update", "deployments/other")):
            done = subprocess.run([folder_of_programs() / "kubectl", "--kubeconfig", self.cluster.kubeconfig, "auth", "can-i", verb, resource,
                                   "--as", user, "-n", NAMESPACE], capture_output=True, text=True, check=False)
            self.assertEqual(done.stdout.strip(), "no", f"{verb} {resource}")

    def test_without_the_role_none_leads_and_none_is_ready(self):
        name = "no-role"
        arguments = self.start(name, {"pools": [{"name": "chat"}]})
        self.cluster.kubectl("delete", "role", NAME, "-n", name)
        planner = self.planner(arguments)
        until("the Role line", lambda: "lease_failed" in planner.log() and "coordination.k8s.io" in planner.log())
        time.sleep(3)
        self.assertFalse(planner.leads())
        self.assertFalse(planner.is_ready())

    def test_both_give_keda_the_same_number(self):
        try:
            python_with(GRPC)
        except SystemExit as error:  # There is no network in the namespace of the run.
            self.skipTest(f"the client is not installed; tests/live/keda_test.py installs it: {error}")
        arguments = self.start("same-number", {
            "pools": [{"name": "chat", "min_replicas": 5, "max_replicas": 9}], "planner": {"tick_interval": "1s"}}, "--autoscaler", "keda")
        places = {"--external-scaler": "127.0.0.1:0"}
        first, second = self.planner(arguments, **places), self.planner(arguments, **places)
        leader, follower = self.leader_and_follower(first, second)
        answers = {planner: Keda(self, scaler_of(planner)) for planner in (leader, follower)}

        def value(planner):
            answer = answers[planner].call("GetMetrics")
            return answer.get("integer") if answer["status"] == "OK" else answer["status"]

        until("the leader's number", lambda: value(leader) == 5)
        until("the same from the follower", lambda: value(follower) == 5)
        self.assertEqual(answers[follower].call("IsActive")["status"], "OK")
        self.assertNotIn("penstock_target_replicas{", follower.metrics())
        # Without the gateway the leader does not know it any more, and neither does the follower.
        self.gateway.signal(signal.SIGKILL)
        until("no number of the leader", lambda: value(leader) == "UNAVAILABLE")
        until("no number of the follower", lambda: value(follower) == "UNAVAILABLE")
        self.assertTrue(follower.is_ready())
        self.assert_permitted(first, second)


if __name__ == "__main__":
    main()
