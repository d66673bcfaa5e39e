#!/usr/bin/env python3
"""Targets with definitions of their own: LeaderWorkerSets, and components of DynamoGraphDeployments beside Dynamo's own client.

No controller of these runs. Threads of the tests copy the numbers to pods and Deployments, as the controllers do.
Exit code 77: there is no testbed."""

import itertools
import json
import os
import subprocess
import sys
import threading
import time
import unittest

import dynamo_planner
from cluster_testing import main
from live_testing import until
from pods_testing import ROLE, Clients, Planner, PodsThatServe, engine_pod, owner_of

LWS = "leaderworkerset.sigs.k8s.io/"
GRAPH_LABELS = {"nvidia.com/dynamo-graph-deployment-name": "graph", "nvidia.com/dynamo-component": "Decode"}


def rules_of(group, scaled, patched=()):
    rules = [{"apiGroups": [group], "resources": [*scaled, *patched], "verbs": ["list", "watch"]},
             {"apiGroups": [group], "resources": [name + "/scale" for name in scaled], "verbs": ["get", "patch"]}]
    return rules + [{"apiGroups": [group], "resources": list(patched), "verbs": ["patch"]}] * bool(patched) + ROLE[2:]


class Controller(threading.Thread):
    """Repeats a step until the test ends."""

    def __init__(self, test, step):
        super().__init__(daemon=True)
        self.step, self.ended = step, threading.Event()
        self.start()
        test.addCleanup(self.end)

    def run(self):
        while not self.ended.wait(0.2):
            try:
                self.step()
            except subprocess.CalledProcessError:
                pass  # Something changed meanwhile.

    def end(self):
        self.ended.set()
        self.join()


class Targets(PodsThatServe):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            cls.cluster.crds()
        except RuntimeError as error:
            raise unittest.SkipTest(f"the definitions cannot be obtained: {error}") from error

    def get(self, name, *words):
        return self.cluster.get(*words, "-n", name)

    def planner(self, name, gateway, replicas, target):
        return Planner(self, name, gateway, replicas, pools=lambda bounds: [{"name": "chat", "kubernetes": target, **bounds}])


class Groups(Targets):
    def make_pods(self, name):
        """What the controller of LeaderWorkerSets does."""
        groups = self.get(name, "leaderworkersets.leaderworkerset.x-k8s.io", "engines")["spec"]
        pods = {pod["metadata"]["name"]: pod["metadata"] for pod in self.get(name, "pods")["items"]}
        for group in range(groups["replicas"]):
            for worker in range(groups["leaderWorkerTemplate"]["size"]):
                pod_name = f"engines-{group}" + (f"-{worker}" if worker else "")
                if pod_name in pods:
                    continue
                pod = engine_pod(labels={LWS + "name": "engines", LWS + "group-index": str(group), LWS + "worker-index": str(worker)})
                pod["metadata"].update(name=pod_name, annotations={LWS + "size": "2"})
                if worker:
                    container = pod["spec"]["containers"][0]
                    container.update(command=["/bin/sleep"], args=["3600"])
                    del container["readinessProbe"]
                self.apply(name, {"apiVersion": "v1", "kind": "Pod", **pod})
        for pod_name, metadata in pods.items():
            if int(metadata["labels"][LWS + "group-index"]) >= groups["replicas"] and "deletionTimestamp" not in metadata:
                self.cluster.kubectl("delete", "pod", pod_name, "-n", name, "--wait=false")

    def test_groups_are_replicas_and_no_stream_is_cut(self):
        name = self.cluster.namespace(self, "groups")
        containers = engine_pod()["spec"]["containers"]
        self.apply(name, {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "engines"},
                          "spec": {"replicas": 3, "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": {"containers": containers}}}}})
        self.allow(name, rules_of("leaderworkerset.x-k8s.io", ["leaderworkersets"]))
        Controller(self, lambda: self.make_pods(name))
        gateway = self.gateway(name)
        until("3 leaders", lambda: self.phases(gateway) == ["serving"] * 3)
        planner = self.planner(name, gateway, 3, "leaderworkerset/engines")
        clients = Clients(gateway.port, 6)
        until("first streams", lambda: len(clients.streams) > 6)
        for replicas in (1, 2, 1):
            self.reaches(planner, gateway, replicas)
        broken = clients.end()
        print(f"{len(clients.streams)} streams to groups, {len(broken)} broken", file=sys.stderr)
        self.assertEqual(broken, [])
        until("the first group only", lambda: [replica["id"] for replica in gateway.overview()["replicas"]] == ["engines-0"])
        until("2 pods", lambda: sorted(pod["metadata"]["name"] for pod in self.get(name, "pods")["items"]) == ["engines-0", "engines-0-1"])
        self.assertEqual([(event["from"], event["to"]) for event in planner.events("scaled")][-2:], [(1, 2), (2, 1)])


class Graphs(Targets):
    ADAPTER, GRAPH = "dynamographdeploymentscalingadapters.nvidia.com", "dynamographdeployments.nvidia.com"

    def copy_numbers(self, name):
        """What Dynamo's operator does: adapters to graphs, graphs to Deployments."""
        graphs = self.get(name, self.GRAPH)["items"]
        for adapter in self.get(name, self.ADAPTER)["items"]:
            wanted = adapter["spec"]["replicas"]
            if graphs and graphs[0]["spec"]["components"][1]["replicas"] != wanted:
                self.patch_graph(name, wanted)
            if adapter.get("status", {}).get("replicas") != wanted:
                selector = ",".join(f"{key}={value}" for key, value in sorted(GRAPH_LABELS.items()))
                self.cluster.kubectl("patch", self.ADAPTER, adapter["metadata"]["name"], "-n", name, "--subresource=status", "--type=merge",
                                     "-p", json.dumps({"status": {"replicas": wanted, "selector": selector}}))
        for graph in self.get(name, self.GRAPH)["items"]:
            wanted = graph["spec"]["components"][1]["replicas"]
            if self.replicas(name) != wanted:
                self.cluster.kubectl("scale", "deployment", "engines", "-n", name, f"--replicas={wanted}")

    def patch_graph(self, name, replicas):
        self.cluster.kubectl("patch", self.GRAPH, "graph", "-n", name, "--type=json", "-p", json.dumps(
            [{"op": "add", "path": "/spec/components/1/replicas", "value": replicas}]))

    def begin_graph(self, name, replicas):
        self.cluster.namespace(self, name)
        self.apply(name, owner_of(engine_pod(labels=GRAPH_LABELS), replicas))
        self.apply(name, {"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {"name": "graph"},
                          "spec": {"components": [{"name": "Frontend", "type": "frontend", "replicas": 1},
                                                  {"name": "Decode", "type": "decode", "replicas": replicas}]}})
        self.allow(name, rules_of("nvidia.com", ["dynamographdeploymentscalingadapters"], ["dynamographdeployments"]))
        Controller(self, lambda: self.copy_numbers(name))
        gateway = self.gateway(name)
        until(f"{replicas} pods", lambda: self.phases(gateway) == ["serving"] * replicas)
        return gateway

    def add_adapter(self, name):
        self.apply(name, {"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentScalingAdapter",
                          "metadata": {"name": "graph-decode"},
                          "spec": {"replicas": self.desired(name), "dgdRef": {"name": "graph", "componentName": "Decode"}}})

    def desired(self, name):
        return self.get(name, self.GRAPH, "graph")["spec"]["components"][1]["replicas"]

    def wanted_by_adapter(self, name):
        return self.get(name, self.ADAPTER, "graph-decode")["spec"]["replicas"]

    def dynamo(self, name, component, replicas, graph="graph"):
        """Scales by Dynamo's own client."""
        done = subprocess.run([dynamo_planner.PYTHON, "-B", dynamo_planner.__file__, "scale", name, graph, component, str(replicas)],
                              env={**os.environ, "KUBECONFIG": self.cluster.kubeconfig}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=120, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    def test_a_component_is_scaled_in_the_graph_and_then_by_its_adapter(self):
        gateway = self.begin_graph("graphs", 2)
        planner = self.planner("graphs", gateway, 2, "dynamographdeployment/graph/Decode")
        clients = Clients(gateway.port, 6)
        until("first streams", lambda: len(clients.streams) > 6)
        for replicas in (3, 1, 2):
            self.reaches(planner, gateway, replicas)
        self.add_adapter("graphs")
        until("the selector of the adapter", lambda: self.get("graphs", self.ADAPTER, "graph-decode").get("status"))
        for replicas in (3, 1):
            self.reaches(planner, gateway, replicas)
        broken = clients.end()
        print(f"{len(clients.streams)} streams to a graph, {len(broken)} broken", file=sys.stderr)
        self.assertEqual(broken, [])
        self.assertEqual(self.wanted_by_adapter("graphs"), 1)
        # A way down may take several steps.
        self.assertEqual([target for target, _ in itertools.groupby(event["target"].split(".")[0] for event in planner.events("scaled"))],
                         ["dynamographdeployments", "dynamographdeploymentscalingadapters"])
        self.assertEqual(planner.held("manual"), [])

    def test_dynamos_own_client_agrees(self):
        cause = dynamo_planner.install()
        if cause:
            print(f"SKIPPED: Dynamo's own client was not compared: {cause}", file=sys.stderr)
            self.skipTest(cause)
        gateway = self.begin_graph("compared", 2)
        # Dynamo's client and the planner write the same number, first to the graph, then to the adapter.
        self.assertEqual(self.dynamo("compared", "Decode", 3), {"desired": 3})
        until("3 pods", lambda: self.phases(gateway) == ["serving"] * 3)
        planner = self.planner("compared", gateway, 3, "dynamographdeployment/graph/Decode")
        self.reaches(planner, gateway, 2)
        self.assertEqual(self.desired("compared"), 2)
        self.assertEqual(self.dynamo("compared", "Decode", 2), {"desired": 2})
        time.sleep(3)
        self.assertEqual(planner.held("manual"), [], "the number has not changed")
        self.add_adapter("compared")
        until("the selector of the adapter", lambda: self.get("compared", self.ADAPTER, "graph-decode").get("status"))
        self.reaches(planner, gateway, 3)
        self.assertEqual(self.wanted_by_adapter("compared"), 3)

        # Another number by Dynamo's client is the conflict of two planners: ours names it and does not fight.
        self.dynamo("compared", "Decode", 1)
        self.assertEqual(self.wanted_by_adapter("compared"), 1, "Dynamo's client writes to the adapter, too")
        held = until("a hold", lambda: planner.held("manual"))
        self.assertNotIn("penstock", held[0]["by"])
        self.assertEqual(self.wanted_by_adapter("compared"), 1)
        until("3 again after the hold", lambda: self.wanted_by_adapter("compared") == 3)

        # Without the adapter both fall back to the graph, and without the graph both report it.
        self.cluster.kubectl("delete", self.ADAPTER, "graph-decode", "-n", "compared")
        until("3 pods", lambda: self.phases(gateway) == ["serving"] * 3)
        self.reaches(planner, gateway, 4)
        self.assertEqual(self.dynamo("compared", "Decode", 4), {"desired": 4})
        self.assertEqual(self.dynamo("compared", "Nothing", 4), {"error": "KeyError"})
        self.assertEqual(self.dynamo("compared", "Decode", 4, graph="other"), {"error": "DynamoGraphDeploymentNotFoundError"})
        self.cluster.kubectl("delete", self.GRAPH, "graph", "-n", "compared")
        held = until("a hold", lambda: [event for event in planner.held("no_data") if "does not exist" in event["message"]])
        self.assertIn('"graph" component "Decode" does not exist in the namespace "compared"', held[0]["message"])


class BadTargets(Targets):
    def refused(self, name, target):
        gateway = self.gateway(name)
        return self.planner(name, gateway, 1, target)

    def test_targets_that_cannot_be_scaled_are_named_with_what_to_do(self):
        name = self.cluster.namespace(self, "refused")
        self.allow(name, [*ROLE, {"apiGroups": ["example.org", "nvidia.com", "policy"], "resources": ["*"], "verbs": ["*"]}])
        self.cluster.kubectl("create", "poddisruptionbudget", "chat", "-n", name, "--selector=app=engines", "--min-available=1")
        absent = self.refused(name, "example.org/v1/engines/chat")
        until("the absent definition", lambda: "the cluster does not serve engines.example.org v1; install its definition" in absent.log())
        without = self.refused(name, "policy/v1/poddisruptionbudgets/chat")
        until("the missing /scale", lambda: "or poddisruptionbudgets.policy have no /scale" in without.log())
        version = self.refused(name, "nvidia.com/v1alpha1/dynamographdeployments/graph/Decode")
        until("the absent version", lambda: "the cluster does not serve dynamographdeployments.nvidia.com v1alpha1" in version.log())
        gateway = self.gateway(name)
        until("the selector without pods", lambda: "has the labels fleet=engines; compare with" in gateway.log())


if __name__ == "__main__":
    main()
