#!/usr/bin/env python3
"""What `penstock manifests` writes, applied to a real API server with strict validation; and the Role is all that the gateway needs.

The definitions of others (PodMonitor) are those of k8s-testbed.sh crds; that of KEDA is taken out of its Go module."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

from cluster_testing import Cluster, definition_modules, folder_of_module, folder_of_programs, main
from live_testing import PROGRAM, Gateway, config_file, until

KEDA = "scaledobjects.keda.sh"
DOCUMENTS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples"
KUSTOMIZATION = DOCUMENTS / "kustomize" / "kustomization.yaml"
EXAMPLES = {
    "aggregated": {"slo": {"ttft": "2s"}, "pools": [{"name": "chat", "max_replicas": 8}],
                   "gateway": {"kubernetes": {"selector": "app=chat"}}},
    "disaggregated": {"pools": [{"name": "prefill", "role": "prefill"}, {"name": "decode", "role": "decode"}],
                      "gateway": {"drain_time": "10m", "ledger": "/var/lib/penstock/usage.sqlite",
                                  "kubernetes": {"selector": "app in (prefill, decode)", "namespace": "default"}}},
    "tenants": {"tenants": [{"name": "shop", "keys": ["sk-\u00e4\"'\\: #"]}], "pools": [{"name": "chat"}],
                "gateway": {"admin_token_file": "/etc/penstock-secrets/token", "admin_listen": "127.0.0.1:9000"}},
}


class Manifests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        try:
            cls.cluster.crds()
            cls.without = []
        except RuntimeError as error:
            print(f"NOT CHECKED: PodMonitor, because its definition cannot be obtained: {error}", file=sys.stderr)
            cls.without = ["PodMonitor"]
        if folder := folder_of_module(definition_modules()[0]):
            cls.cluster.kubectl("apply", "--server-side", "-f", str(folder / "config/crd/bases/keda.sh_scaledobjects.yaml"))
            cls.cluster.kubectl("wait", "--for=condition=Established", "crd/scaledobjects.keda.sh", "--timeout=30s")
        cls.ca = cls.file("-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n")

    def setUp(self):
        self.namespace = self.cluster.namespace(self, "llm-" + os.urandom(3).hex())

    @classmethod
    def file(cls, text):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=cls.cluster.run, delete=False, encoding="utf-8") as file:
            file.write(text)
        return file.name

    def manifests(self, program, configuration, *flags):
        path = self.file(json.dumps(configuration))
        done = subprocess.run([PROGRAM, "manifests", program, path, "--namespace", self.namespace, *flags], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def apply(self, text, *flags):
        """Applies YAML as kubectl reads it, and returns the kinds."""
        done = subprocess.run([folder_of_programs() / "kubectl", "--kubeconfig", self.cluster.kubeconfig, "apply", "--server-side",
                               "--validate=strict", *flags, "-o", "name", "-f", "-"], input=text, capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, f"{done.stderr}\n{text}")
        return [line.split("/")[0].split(".")[0] for line in done.stdout.splitlines()]

    def test_a_strict_dry_run_accepts_all(self):
        for name, configuration in EXAMPLES.items():
            monitor = [] if "PodMonitor" in self.without else ["--pod-monitor"]
            for program, flags in (("gateway", ["--replicas", "1"]), ("planner", []),
                                   ("planner", ["--autoscaler", "hpa", "--ca", self.ca])):
                with self.subTest(name=name, program=program, flags=flags):
                    kinds = self.apply(self.manifests(program, configuration, *flags, *monitor), "--dry-run=server")
                    for kind in ("deployment", "service", "serviceaccount", "poddisruptionbudget", *(["podmonitor"] if monitor else [])):
                        self.assertIn(kind, kinds)

    def test_a_strict_dry_run_accepts_engines(self):
        pools = [{"name": "llm-batch", "class": "batch", "engine": {"queue_delay": "5ms"}}, {"name": "llm-interactive"}]
        split = [{"name": "prefill", "role": "prefill"}, {"name": "decode", "role": "decode", "gpus": 2}]
        flags = ["--node-pool", "pool=gpu-warm", "--warm-nodes", "1"]
        triton = ["--engine", "triton", "--tokenizer", "t", "--model", "/weights/repository", "--weights-claim", "models"]
        settings = {"queue_order": "priority", "preemption_order": "priority", "watermark": 0.01, "prefill_share": 0.3}
        ordered = [{**pool, "engine": settings} for pool in pools]
        trtllm = ["--engine", "trtllm", "--gpu-memory-utilization", "0.85", "--max-model-len", "32768"]
        for named, more in ((pools, []), (pools, ["--engine", "sglang", "--weights-path", "/mnt/nvme"]), (pools, triton), (pools, trtllm),
                            (ordered, ["--max-model-len", "32768"]), (ordered, ["--engine", "sglang"]), (split, ["--weights-claim", "models"]),
                            (pools, ["--gpu-resource", "nvidia.com/mig-3g.40gb"]), (pools, ["--min-available", "2"]),
                            (pools, ["--min-available", "llm-batch:80%"])):
            with self.subTest(pools=named[0], more=more):
                configuration = {"model": "llama", "pools": named, "gateway": {"kubernetes": {"selector": "app=llm"}}}
                kinds = self.apply(self.manifests("engines", configuration, *flags, *more), "--dry-run=server")
                self.assertEqual(kinds.count("configmap"), 2 if more[1:2] in (["triton"], ["trtllm"]) else 0)
                self.assertEqual(kinds.count("deployment"), 4)  # Engines and placeholders of two pools.
                for kind in ("service", "poddisruptionbudget", "priorityclass"):
                    self.assertIn(kind, kinds)

    def test_a_strict_dry_run_accepts_what_the_examples_write(self):
        """Each command of the first comment of an example, in a namespace of this test."""
        environment = {**os.environ, **dict.fromkeys(("SHOP_KEY", "NIGHTLY_KEY", "ENGINE_KEY", "ADMIN_TOKEN"), "k")}
        definitions = self.cluster.kubectl("get", "crds", "-o", "name")
        count = 0
        for path in sorted(DOCUMENTS.glob("*.yaml")):
            comment = re.match(r"(#.*\n)*", path.read_text(encoding="utf-8"))[0]
            for line in re.sub(r"(?m)^#", "", comment).replace("\\\n", " ").splitlines():
                words = shlex.split(line.split("|")[0]) if line.strip().startswith("penstock manifests") else []
                if not words or ("keda" in words and KEDA not in definitions) or (self.without and "--pod-monitor" in words):
                    continue
                with self.subTest(words=words):
                    words = [str(path) if word.startswith("docs/examples/") else word for word in words[1:]]
                    done = subprocess.run([PROGRAM, *words, "--namespace", self.namespace], capture_output=True, text=True, check=False,
                                          env=environment)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertTrue(self.apply(done.stdout, "--dry-run=server"))
                    count += 1
        self.assertGreater(count, 7)

    def test_gateways_of_two_namespaces_may_follow_the_pods_of_a_third(self):
        configuration = {"gateway": {"kubernetes": {"selector": "app=engines", "namespace": self.namespace}}}
        users = []
        for _ in range(2):
            own = self.cluster.namespace(self, "own-" + os.urandom(3).hex())
            self.apply(self.manifests("gateway", configuration, "--namespace", own))
            users.append(f"system:serviceaccount:{own}:penstock-gateway")
        for user in users:
            with self.subTest(user=user):
                self.assertEqual(self.cluster.kubectl("auth", "can-i", "watch", "pods", "--as", user, "-n", self.namespace).strip(), "yes")

    def test_the_gateway_selects_the_pods_of_engines(self):
        configuration = {"model": "llama", "pools": [{"name": "prefill", "role": "prefill"}, {"name": "decode", "role": "decode"}],
                         "gateway": {"kubernetes": {"selector": "app in (prefill, decode)", "namespace": self.namespace}}}
        self.apply(self.manifests("engines", configuration))
        until("a pod of each pool", lambda: [
            (pod["metadata"]["labels"]["penstock/pool"], pod["metadata"]["labels"]["llm-d.ai/role"])
            for pod in sorted(self.cluster.get("pods", "-n", self.namespace, "-l", "app in (prefill, decode)")["items"],
                              key=lambda pod: pod["metadata"]["name"])] == [("decode", "decode"), ("prefill", "prefill")])

    def test_the_operator_of_prometheus_accepts_the_rules(self):
        if "PodMonitor" in self.without:
            self.skipTest("its definitions cannot be obtained")
        if "prometheusrules.monitoring.coreos.com" not in self.cluster.kubectl("get", "crds", "-o", "name"):
            self.skipTest("the definition of PrometheusRule is missing")
        text = self.manifests("planner", EXAMPLES["aggregated"], "--prometheus-rule")
        self.assertIn("prometheusrule", self.apply(text, "--dry-run=server"))

    def test_kustomize_changes_what_was_written(self):
        """As in docs/examples/kustomize: kubectl builds it, and the API server accepts the result."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.cluster.run))
        (folder / "kustomization.yaml").write_text(KUSTOMIZATION.read_text(encoding="utf-8"), encoding="utf-8")
        for program, flags in (("gateway", ["--replicas", "2"]), ("planner", [])):
            (folder / f"{program}.yaml").write_text(self.manifests(program, EXAMPLES["aggregated"], *flags), encoding="utf-8")
        built = self.cluster.kubectl("kustomize", str(folder))
        self.assertEqual(self.apply(built, "--dry-run=server").count("deployment"), 2)
        self.assertEqual(built.count("image: registry.example/llm/penstock:0.1.0"), 2)
        self.assertEqual(built.count("node-pool: system"), 1)
        self.assertIn("replicas: 2", built)

    def test_a_strict_dry_run_accepts_autoscalers(self):
        example = {"pools": [{"name": "batch", "class": "batch", "max_replicas": 40}, {"name": "chat", "max_replicas": 40}]}
        flags = ["--target", "token-out-rate=8000", "--target", "kv-utilization=0.75", "--target", "ttft-p95=2s", "--target", "slo-burn-rate=1",
                 "--scale-up", "200%/60s", "--scale-up-window", "0s",
                 "--scale-down", "1/30m", "--scale-down-window", "1h"]
        definitions = self.cluster.kubectl("get", "crds", "-o", "name")
        rule = ["--prometheus-rule"] if "prometheusrules.monitoring.coreos.com" in definitions else []
        kinds = self.apply(self.manifests("autoscalers", example, "--autoscaler", "hpa", *flags, *rule), "--dry-run=server")
        self.assertEqual(kinds, ["horizontalpodautoscaler"] * 2 + ["prometheusrule"] * len(rule))
        if KEDA in definitions:
            text = self.manifests("autoscalers", example, "--autoscaler", "keda", *flags, "--polling-interval", "10s", "--cooldown", "120s",
                                  "--fallback", "chat:3:2:static", "--cron", "Europe/Berlin; 0 8 * * 1-5; 0 18 * * 1-5; 6")
            self.assertEqual(self.apply(text, "--dry-run=server"), ["scaledobject"] * 2)

    def test_a_mistake_would_be_found(self):
        text = self.manifests("gateway", {}).replace("replicas: 1", "replicaz: 1")
        with self.assertRaisesRegex(AssertionError, "replicaz"):
            self.apply(text, "--dry-run=server")

    def test_scaled_objects_have_what_keda_defines(self):
        if KEDA not in self.cluster.kubectl("get", "crds", "-o", "name"):
            print("NOT CHECKED: ScaledObject, because the Go module of KEDA cannot be obtained", file=sys.stderr)
            return
        self.apply(self.manifests("planner", EXAMPLES["aggregated"], "--autoscaler", "keda"), "--dry-run=server")
        for policy in ("keda-tokens", "hpa-rate", "hpa-concurrency", "penstock"):
            with self.subTest(policy=policy):
                done = subprocess.run([PROGRAM, "replay", "synthetic:rate=2,duration=60s,input=500,output=50", "--policy", policy,
                                       "--max-replicas", "4", "--emit", "keda", "--namespace", self.namespace],
                                      capture_output=True, text=True, check=True)
                self.assertEqual(self.apply(done.stdout, "--dry-run=server"), ["scaledobject"])

    def test_the_configuration_arrives_as_it_is(self):
        path = self.file("# \u00e4 \"quoted\" 'text' #\n\ngateway:\n  # ---\n  drain_time: 30s   \nmodel: \"a: b\"\n")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        done = subprocess.run([PROGRAM, "manifests", "gateway", path, "--namespace", self.namespace, "--name", "as-it-is"], capture_output=True,
                              text=True, check=True)
        self.apply(done.stdout)
        self.assertEqual(self.cluster.get("configmap", "as-it-is", "-n", self.namespace)["data"]["penstock.yaml"], text)

    def test_the_role_is_enough_for_the_gateway_and_no_wider(self):
        configuration = {"gateway": {"kubernetes": {"selector": "app=engines"}}}
        text = self.manifests("gateway", configuration)
        self.apply(text)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "engine", "labels": {"app": "engines"}},
               "spec": {"containers": [{"name": "engine", "image": "engine"}], "nodeSelector": {"type": "kwok"},
                        "tolerations": [{"operator": "Exists"}]}}
        self.cluster.kubectl("apply", "-n", self.namespace, "-f", "-", given=pod)
        token = self.cluster.kubectl("create", "token", "penstock-gateway", "-n", self.namespace).strip()
        admin = json.loads(self.cluster.kubectl("config", "view", "--raw", "-o", "json"))
        kubeconfig = self.file(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "a", "clusters": [{"name": "c", "cluster": admin["clusters"][0]["cluster"]}],
            "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u", "namespace": self.namespace}}],
            "users": [{"name": "u", "user": {"token": token}}]}))
        configuration["gateway"]["kubernetes"]["kubeconfig"] = kubeconfig
        gateway = Gateway(self, "--config", config_file(self, **configuration))
        until("a ready pod", lambda: any(each["type"] == "Ready" and each["status"] == "True"
                                         for each in self.cluster.get("pod", "engine", "-n", self.namespace)["status"].get("conditions", [])))
        # Nothing listens at its address, so that its model stays unknown and the gateway shows no replica.
        until("the pod", lambda: "replica_added replica=engine" in gateway.log())
        user = f"system:serviceaccount:{self.namespace}:penstock-gateway"
        allowed = self.cluster.kubectl("auth", "can-i", "--list", "--as", user, "-n", self.namespace, "--no-headers")
        rules = [line.split() for line in allowed.splitlines() if line.startswith("pods")]
        self.assertEqual([rule[-1] for rule in rules], ["watch]"])
        for verb, resource in (("delete", "pods"), ("patch", "pods"), ("get", "secrets"), ("list", "configmaps")):
            done = subprocess.run([folder_of_programs() / "kubectl", "--kubeconfig", self.cluster.kubeconfig, "auth", "can-i", verb, resource,
                                   "--as", user, "-n", self.namespace], capture_output=True, text=True, check=False)
            self.assertEqual(done.stdout.strip(), "no", f"{verb} {resource}")
        # Without the Role it is not: the test would notice a gateway that another permission serves.
        self.cluster.kubectl("delete", "role", "penstock-gateway", "-n", self.namespace)
        self.cluster.kubectl("delete", "pod", "engine", "-n", self.namespace)
        other = Gateway(self, "--config", config_file(self, **configuration))
        until("the refusal", lambda: 'add to the Role' in other.log())


if __name__ == "__main__":
    main()
