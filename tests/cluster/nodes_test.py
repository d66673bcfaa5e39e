#!/usr/bin/env python3
"""Pods that cannot start, and nodes that are lost: pods count as asked for, no more are asked for after a while, and the cause is shown."""

import json
import os
import signal
import subprocess
import sys
import time

from cluster_testing import TESTBED, long, main
from live_testing import Program, ask, series, until
from pods_testing import ROLE, Clients, Planner, PodsThatServe, engine_pod, kwok_pod, owner_of

GPUS = 32  # Of all nodes of KWOK.


class Nodes(PodsThatServe):
    def asked(self, name, replicas):
        return self.cluster.get("deployment", "engines", "-n", name)["spec"]["replicas"] == replicas

    def until_long(self, what, condition):
        """A node is taken for lost after 50 s."""
        deadline = time.monotonic() + 120
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.5)

    def ready(self, name):
        return sum(any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", []))
                   for pod in self.cluster.get("pods", "-n", name)["items"])

    def test_the_gpu_after_the_last_one(self):
        name = "gpus"
        # One engine serves at the addresses of all pods of KWOK.
        Program(self, "engine", "--host", "0.0.0.0", "--port", "8100", "--id", "gpus", ready=r"ready on http://0\.0\.0\.0:(\d+)")
        self.cluster.namespace(self, name)
        template = kwok_pod("engines", {"nvidia.com/gpu": "1"})
        template["metadata"]["labels"]["fleet"] = "engines"
        self.apply(name, owner_of(template, GPUS - 1))
        self.allow(name)
        until("31 pods", lambda: self.ready(name) == GPUS - 1)
        self.port = 8100
        gateway = self.gateway(name)
        until("31 replicas", lambda: len(self.phases(gateway)) == GPUS - 1)
        planner = Planner(self, name, gateway, GPUS - 1)
        until("data", lambda: planner.events("data_known"))
        planner.target(GPUS)
        until("32 pods", lambda: self.ready(name) == GPUS)
        self.assertEqual(planner.held("blocked"), [])
        planner.target(GPUS + 1)
        until("33 asked for", lambda: self.asked(name, GPUS + 1))
        time.sleep(7)
        # The pod counts as asked for: the same number is not asked for again.
        self.assertEqual([write["replicas"] for write in self.cluster.scale_writes(name)], [GPUS, GPUS + 1])
        planner.target(GPUS + 3)
        held = until("a hold", lambda: planner.held("blocked"))
        self.assertIn("Insufficient nvidia.com/gpu", held[0]["message"])
        until("an Event", lambda: [note for note, _ in self.noted(name, "ScalingHeld") if "nvidia.com/gpu" in note])
        time.sleep(3)
        self.assertTrue(self.asked(name, GPUS + 1))
        self.assertEqual(len(planner.held("blocked")), 1)
        # Falling demand cancels the pod that waits, and no other.
        planner.target(GPUS)
        until("32 asked for", lambda: self.asked(name, GPUS))
        until("no pod without a node", lambda: len(self.cluster.get("pods", "-n", name)["items"]) == GPUS)
        self.assertEqual(self.ready(name), GPUS)

    def cannot_start(self, name, change, words):
        """A new revision whose pods do not start: those of the old one go on serving, and no more are asked for."""
        gateway, planner = self.begin(name, 2)
        until("data", lambda: planner.events("data_known"))
        self.cluster.kubectl("patch", "deployment", "engines", "-n", name, "-p", json.dumps(
            {"spec": {"template": {"spec": {"containers": [{"name": "engine", **change}]}}}}))
        until("a new pod", lambda: len(self.cluster.get("pods", "-n", name)["items"]) > 2)
        time.sleep(10)
        planner.target(4)
        held = until("a hold", lambda: planner.held("blocked"))
        print(f"held: {held[0]['message']}", file=sys.stderr)
        self.assertIn(words, held[0]["message"])
        until("an Event", lambda: [note for note, _ in self.noted(name, "ScalingHeld") if words in note])
        time.sleep(3)
        self.assertTrue(self.asked(name, 2))
        self.assertEqual(self.phases(gateway).count("serving"), 2)
        self.assertEqual(len(planner.held("blocked")), 1)
        self.cluster.kubectl("rollout", "undo", "deployment/engines", "-n", name)
        until("4 pods", lambda: self.phases(gateway) == ["serving"] * 4)

    def test_a_container_that_crashes(self):
        self.cannot_start("crashing", {"command": ["false"]}, "CrashLoopBackOff")

    def test_pods_that_are_never_ready(self):
        """New pods of a ReplicaSet run and are never Ready: once several are not, no more are asked for, and they are the first to go."""
        name = "never-ready"
        self.cluster.namespace(self, name)
        owner = owner_of(engine_pod(), 2, "ReplicaSet")
        del owner["spec"]["strategy"]
        self.apply(name, owner)
        self.allow(name, ROLE + [{"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["list", "watch"]},
                                 {"apiGroups": ["apps"], "resources": ["replicasets/scale"], "verbs": ["get", "patch"]}])
        gateway = self.gateway(name)
        until("2 pods", lambda: self.phases(gateway) == ["serving"] * 2)
        serving = {pod["metadata"]["name"] for pod in self.cluster.get("pods", "-n", name)["items"]}
        planner = Planner(self, name, gateway, 2, pools=lambda bounds: [
            {"name": "chat", "kubernetes": "apps/v1/replicasets/engines", "start_up": "1s", **bounds}])
        until("data", lambda: planner.events("data_known"))

        def pods():
            return {pod["metadata"]["name"] for pod in self.cluster.get("pods", "-n", name)["items"]
                    if "deletionTimestamp" not in pod["metadata"]}

        def metrics():
            return ask(planner.port, "GET", "/metrics")[2]

        self.cluster.kubectl("patch", "replicaset", "engines", "-n", name, "-p", json.dumps({"spec": {"template": {"spec": {
            "containers": [{"name": "engine", "readinessProbe": {"httpGet": {"path": "/no-such-page", "port": "http"}}}]}}}}))
        planner.target(3)
        until("a third pod", lambda: len(pods()) == 3)
        until("a pod that is late", lambda: list(series(metrics(), "penstock_replicas_pending").values()) == [1.0])
        time.sleep(6)
        planner.target(5)
        until("two more, which may start", lambda: len(pods()) == 5)
        until("pods that are late", lambda: list(series(metrics(), "penstock_replicas_pending").values()) == [3.0])
        time.sleep(6)
        planner.target(7)
        held = until("a hold", lambda: planner.held("blocked"))
        print(f"held: {held[0]['message']}", file=sys.stderr)
        self.assertIn("not Ready", held[0]["message"])
        until("an Event", lambda: [note for note, _ in self.noted(name, "ScalingHeld") if "not Ready" in note])
        until("evidence", lambda: 'name="pending_replicas"' in metrics())
        time.sleep(3)
        self.assertEqual(self.cluster.get("replicaset", "engines", "-n", name)["spec"]["replicas"], 5)
        self.assertEqual(len(pods()), 5)
        self.assertEqual(len(planner.held("blocked")), 1)
        planner.target(2)
        until("2 pods", lambda: pods() == serving)
        self.assertEqual(self.phases(gateway).count("serving"), 2)

    @long
    def test_a_lost_node(self):
        name = "lost-node"
        nodes = [Kubelet(self, "first", "10.245.128.0/18"), Kubelet(self, "second", "10.245.192.0/18")]
        self.cluster.namespace(self, name)
        template = engine_pod(flags=("--engine", "linear:20,0,0.001,0"))
        # One pod of two on each node, and pods of a lost node are replaced after 3 s.
        template["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["first", "second"]}]}]}}}
        template["spec"]["topologySpreadConstraints"] = [{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "engines"}}}]
        template["spec"]["tolerations"] += [{"key": "lost", "operator": "Exists"}] + [
            {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}
            for state in ("not-ready", "unreachable")]
        self.apply(name, owner_of(template, 4))
        self.allow(name)
        gateway = self.gateway(name)
        until("4 pods", lambda: self.phases(gateway) == ["serving"] * 4)
        where = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in self.cluster.get("pods", "-n", name)["items"]}
        self.assertEqual(sorted(where.values()), ["first", "first", "second", "second"])
        planner = Planner(self, name, gateway, 4)
        until("data", lambda: planner.events("data_known"))
        clients = Clients(gateway.port, 8)
        until("open streams on the node", lambda: sum(
            replica["open_requests"] for replica in gateway.overview()["replicas"] if where[replica["id"]] == "second") > 2)
        # Some have sent tokens by now.
        time.sleep(2)
        nodes[1].kill()
        began = time.monotonic()
        self.until_long("4 pods on the other node", lambda: self.phases(gateway).count("serving") == 4 and {
            pod["spec"]["nodeName"] for pod in self.cluster.get("pods", "-n", name)["items"] if is_ready(pod)} == {"first"})
        print(f"replaced after {time.monotonic() - began:.0f} s", file=sys.stderr)
        clients.end()
        broken = clients.broken()
        print(f"{len(clients.streams)} streams, {len(broken)} cut after their first byte", file=sys.stderr)
        # Only streams that had begun on the lost node ended early; all others were sent elsewhere.
        for stream in broken:
            self.assertEqual((stream.status, where[stream.replica]), (200, "second"))
            self.assertGreater(stream.tokens(), 0)
        self.assertGreater(len(broken), 0, "the node was not lost")
        self.assertLessEqual(len(broken), 8)
        # The planner wrote nothing because of it.
        self.assertEqual([write["replicas"] for write in self.cluster.scale_writes(name)], [])
        self.assertTrue(self.asked(name, 4))


class Kubelet:
    """A node of its own, for pods that tolerate its taint."""

    def __init__(self, test, name, addresses):
        # No other pod comes to it before it has its taint.
        test.cluster.kubectl("apply", "-f", "-", given={"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                                                        "spec": {"unschedulable": True}})
        exported = test.cluster.testbed("env")
        self.log = f"{test.cluster.run}/kubelet-{name}.jsonl"
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", f'{exported}\nexec "$@"', "bash", sys.executable, "-B", os.path.join(TESTBED, "process-kubelet.py"),
                 "--node", name, "--cidr", addresses, "--logs", test.cluster.run + "/pods"], stdout=log, stderr=subprocess.STDOUT)
        test.addCleanup(test.cluster.kubectl, "delete", "node", name, check=False)
        test.addCleanup(self.end)
        until("the node", lambda: any(each["type"] == "Ready" and each["status"] == "True" for each in test.cluster.get("node", name)["status"].get("conditions", [])))
        test.cluster.kubectl("taint", "node", name, "lost=yes:NoSchedule")
        test.cluster.kubectl("uncordon", name)

    def kill(self):
        """The kubelet and all that runs on its node, at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        with open(self.log, encoding="utf-8") as log:
            for process in [event["pid"] for event in map(json.loads, log) if event["event"] == "started"]:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # It ended with its kubelet.

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=60)


def is_ready(pod):
    return "deletionTimestamp" not in pod["metadata"] and any(
        each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", []))


if __name__ == "__main__":
    main()
