#!/usr/bin/env python3
"""A HorizontalPodAutoscaler of a real control plane follows the targets of `penstock plan`, by its external metrics."""

import base64
import json
import os
import re
import signal
import time
import unittest

from cluster_testing import Cluster, alone, limit_s, main
from live_testing import Engine, Gateway, Program, ask, config_file, until

NAMESPACE = "testbed"  # For which the certificate of the testbed is valid.
SYNC_S = 1  # Of the HPA, in this control plane.
METRIC = "penstock_target_replicas"
PATH = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{NAMESPACE}/{METRIC}"


def deployment():
    pod = {"metadata": {"labels": {"app": "chat"}},
           "spec": {"containers": [{"name": "engine", "image": "engine"}],
                    "tolerations": [{"operator": "Exists"}], "nodeSelector": {"type": "kwok"}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "chat"}}, "template": pod}}


def autoscaler():
    no_delay = {"stabilizationWindowSeconds": 0, "tolerance": "0",
                "policies": [{"type": "Percent", "value": 900, "periodSeconds": 1}]}
    metric = {"name": METRIC, "selector": {"matchLabels": {"pool": "chat"}}}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "chat"},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"},
                     "minReplicas": 1, "maxReplicas": 40,
                     "behavior": {"scaleUp": no_delay, "scaleDown": no_delay},
                     "metrics": [{"type": "External", "external": {
                         "metric": metric, "target": {"type": "AverageValue", "averageValue": "1"}}}]}}


def registration(port, ca):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "penstock-planner", "namespace": NAMESPACE},
               "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}}
    api = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
           "metadata": {"name": "v1beta1.external.metrics.k8s.io"},
           "spec": {"service": {"name": "penstock-planner", "namespace": NAMESPACE, "port": port},
                    "group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100,
                    "versionPriority": 100, "caBundle": base64.b64encode(ca).decode()}}
    return {"apiVersion": "v1", "kind": "List", "items": [service, api]}


@alone
class Hpa(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        printed = cls.cluster.testbed("env")
        cls.places = dict(re.findall(r"(LLM_TESTBED_\w+)=(\S+)", printed))

    def configure(self, replicas):
        """The planner wants exactly so many."""
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump({"pools": [{"name": "chat", "min_replicas": replicas, "max_replicas": replicas}],
                       "planner": {"tick_interval": "1s"}, "gateway": {"anonymous": True}}, file)

    def planner(self, replicas):
        """A planner whose one pool has this many replicas, and the port of its external metrics."""
        self.config = config_file(self)
        self.configure(replicas)
        planner = Program(self, "plan", "--config", self.config, "--gateway", f"127.0.0.1:{self.gateway.admin}",
                          "--dashboard", "127.0.0.1:0", "--external-metrics", "127.0.0.1:0",
                          "--external-metrics-certificate", self.places["LLM_TESTBED_LOOPBACK_CERT"],
                          "--external-metrics-key", self.places["LLM_TESTBED_LOOPBACK_KEY"],
                          "--kubeconfig", self.cluster.kubeconfig, ready="planner ready, .*:(\\d+)")
        text = until("the address", lambda: re.search(r"https://127\.0\.0\.1:(\d+)", planner.log().split("external metrics")[-1]))
        return planner, int(text[1])

    def raw(self):
        try:
            return self.cluster.kubectl("get", "--raw", PATH + "?labelSelector=pool%3Dchat")
        except Exception:  # kubectl's own error; the API is not there yet, or it does not know the target.
            return ""

    def give_metrics_back(self):
        """One program serves external metrics in a cluster: KEDA's adapter does again, if it runs."""
        self.cluster.kubectl("delete", "apiservice", "v1beta1.external.metrics.k8s.io")
        if os.path.exists(self.cluster.run + "/keda-apiservice.yaml"):
            self.cluster.kubectl("apply", "--server-side", "-f", self.cluster.run + "/keda-apiservice.yaml")

    def replicas(self):
        return self.cluster.get("deployment", "chat", "-n", NAMESPACE)["spec"]["replicas"]

    def test_the_hpa_follows_the_target_and_holds_while_it_is_unknown(self):
        self.cluster.namespace(self, NAMESPACE)
        self.addCleanup(self.give_metrics_back)
        engine = Engine(self)
        self.gateway = Gateway(self, "--config", config_file(
            self, gateway={"anonymous": True, "replicas": [{"url": engine.url}]})).ready()
        planner, port = self.planner(10)
        with open(self.places["LLM_TESTBED_CA"], "rb") as file:
            self.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=registration(port, file.read()))
        until("the metric", lambda: '"value":"10"' in self.raw())
        self.cluster.kubectl("apply", "-n", NAMESPACE, "--server-side", "-f", "-", given=deployment())
        self.cluster.kubectl("apply", "-n", NAMESPACE, "--server-side", "-f", "-", given=autoscaler())
        until("10 replicas", lambda: self.replicas() == 10)

        # Steps of one are within the HPA's default tolerance of 10 %.
        for replicas in (11, 23, 22):
            begun = time.time()
            self.configure(replicas)
            planner.signal(signal.SIGHUP)
            until("the target", lambda: f'{METRIC}{{pool="chat"}} {replicas}\n' in ask(planner.ports[0], "GET", "/metrics")[2])
            decided, limit = time.time(), limit_s(3 * SYNC_S)
            took = max(0, until("/scale", lambda: self.cluster.scaled_at(NAMESPACE, replicas, begun)) - decided)
            print(f"{replicas} replicas {took:.1f} s after the decision", flush=True)
            self.assertLess(took, limit)
            until(f"{replicas} replicas", lambda: self.replicas() == replicas)

        # Without the gateway the target is unknown: the HPA says so and changes nothing.
        self.gateway.signal(signal.SIGKILL)
        until("no metric", lambda: self.raw() == "")

        def is_inactive():
            conditions = self.cluster.get("hpa", "chat", "-n", NAMESPACE)["status"].get("conditions", [])
            return any(each["type"] == "ScalingActive" and each["status"] == "False" for each in conditions)

        until("an inactive HPA", is_inactive)
        self.assertEqual(self.replicas(), 22)


if __name__ == "__main__":
    main()
