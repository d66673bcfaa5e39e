#!/usr/bin/env python3
"""Objects made for llm-d's workload-variant-autoscaler: the planner publishes what their HPA reads, and follows their annotations."""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "live"))

from cluster_testing import Cluster, main  # noqa: E402
from live_testing import Engine, Gateway, Program, ask, config_file, until  # noqa: E402

NAMESPACE = "wva"


def deployment():
    pod = {"metadata": {"labels": {"app": "chat"}},
           "spec": {"containers": [{"name": "engine", "image": "engine"}], "tolerations": [{"operator": "Exists"}],
                    "nodeSelector": {"type": "kwok"},
                    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                        "weight": 1, "preference": {"matchExpressions": [
                            {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H100-80GB-HBM3"]}]}}]}}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "chat"}}, "template": pod}}


def autoscaler(most, cost="10.0"):
    """config/samples/hpa/annotations/hpa.yaml of WVA 0.9, with other numbers."""
    metric = {"name": "wva_desired_replicas",
              "selector": {"matchLabels": {"variant_name": "chat-variant", "exported_namespace": NAMESPACE}}}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "chat-hpa", "annotations": {
                "llm-d.ai/managed": "true", "llm-d.ai/model-id": "penstock-sim", "llm-d.ai/variant-cost": cost}},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"},
                     "minReplicas": 2, "maxReplicas": most,
                     "metrics": [{"type": "External", "external": {"metric": metric, "target": {"type": "AverageValue", "averageValue": "1"}}}]}}


class Wva(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.close)

    def apply(self, document):
        self.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-n", NAMESPACE, "-f", "-", given=document)

    def test_the_series_of_an_hpa_and_its_annotations(self):
        self.cluster.namespace(self, NAMESPACE)
        engine = Engine(self)
        gateway = Gateway(self, "--config", config_file(self, gateway={"anonymous": True, "replicas": [{"url": engine.url}]})).ready()
        self.apply(deployment())
        self.apply(autoscaler(9))
        config = config_file(self, pools=[{"name": "pool", "kubernetes": "deployment/chat", "max_replicas": 7}],
                             planner={"tick_interval": "1s"},
                             gateway={"anonymous": True, "kubernetes": {"selector": "app=chat", "namespace": NAMESPACE,
                                                                        "kubeconfig": self.cluster.kubeconfig}})
        planner = Program(self, "plan", "--engines", "kubernetes", "--mode", "observe", "--config", config,
                          "--gateway", f"127.0.0.1:{gateway.admin}", "--dashboard", "127.0.0.1:0", "--wva-metrics",
                          ready=r"planner ready, .*:(\d+)")

        def metrics():
            return ask(planner.ports[0], "GET", "/metrics")[2]

        def value(name, labels=None):
            found = re.search(rf"^{name}\{{([^}}]*)\}} (\S+)$", metrics(), re.MULTILINE)
            if found and labels:
                self.assertEqual(found[1], labels)
            return float(found[2]) if found else None

        labels = f'variant_name="chat-variant",namespace="{NAMESPACE}",accelerator_type="NVIDIA-H100-80GB-HBM3"'
        until("the current replicas", lambda: value("wva_current_replicas", labels) == 2)
        # The HPA gives the lower bound. The configuration gives the upper one, and the difference is one line.
        until("the lower bound", lambda: value("penstock_min_replicas") == 2)
        self.assertEqual(value("penstock_max_replicas"), 7)
        until("the warning", lambda: "maxReplicas 9 of HorizontalPodAutoscaler \\\"chat-hpa\\\" is ignored: the configuration gives max_replicas 7"
              in planner.log() or "the configuration gives max_replicas 7" in planner.log())
        self.assertEqual(planner.log().count("the configuration gives max_replicas 7"), 1)
        # Annotations are followed.
        self.apply(autoscaler(9, "dear"))
        until("the fault", lambda: 'must be a number of at least 0, is' in planner.log())
        document = autoscaler(9)
        document["spec"]["minReplicas"] = 3
        self.apply(document)
        until("the next lower bound", lambda: value("penstock_min_replicas") == 3)
        # Without the gateway nothing is known, and no series claims 0.
        gateway.signal(9)
        until("no desired replicas", lambda: "wva_desired_replicas{" not in metrics())
        until("no current replicas", lambda: "wva_current_replicas{" not in metrics())
        # The planner has written nothing.
        managers = {each["manager"] for each in self.cluster.get("deployment", "chat", "-n", NAMESPACE, "--show-managed-fields")
                    ["metadata"]["managedFields"]}
        self.assertNotIn("penstock", managers)


if __name__ == "__main__":
    main()
