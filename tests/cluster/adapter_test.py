#!/usr/bin/env python3
"""Autoscalers of `penstock manifests autoscalers` on a real control plane, without a planner that decides: engines under `penstock load`, a real
Prometheus that scrapes what `penstock plan` exports of them, and prometheus-adapter or KEDA between Prometheus and the HPA."""

import base64
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "live"))

import prometheus_adapter  # noqa: E402
from cluster_testing import alone, folder_of_programs, keda_is_built, long, main  # noqa: E402
from live_testing import PROGRAM, SECONDS, Program, ask, config_file, until  # noqa: E402
from pods_testing import PodsThatServe, engine_pod, owner_of  # noqa: E402
from prometheus_test import Prometheus, free_port  # noqa: E402
from real_clients import prometheus_folder  # noqa: E402

WITH_KEDA = True
VALUES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples" / "prometheus-adapter.yaml"
API = "v1beta1.custom.metrics.k8s.io"
STEP = "linear:20,0,0.001,0"  # 20 ms a token: 50 tokens/s of each stream.
# Rates fall within their window when the series end, so that the HPA has to look back further.
RATE_WINDOW_S, DOWN_WINDOW_S = 10, 15
STREAMS, PER_REPLICA, REPLICAS_MAX = 12, 250, 6  # 600 tokens/s, of which a replica is to have 250: 3 replicas.
RULES = ("--target", f"token-out-rate={PER_REPLICA}", "--target", "token-in-rate=100000", "--target", "kv-utilization=0.9", "--target",
         "queue-depth=100", "--rate-window", f"{RATE_WINDOW_S}s", "--scale-up", "4/1s", "--scale-up-window", "0s", "--scale-down", "4/1s",
         "--scale-down-window", f"{DOWN_WINDOW_S}s")
METRICS = {"llm_token_out_rate", "llm_token_in_rate", "llm_kv_utilization", "llm_pod_queue_depth"}
STEADY_S = 5
# What the operator of Prometheus makes of the planner's PodMonitor, with the rules that it takes from the PrometheusRule.
SCRAPE = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ['{rules}']
scrape_configs:
  - job_name: podMonitor/{namespace}/penstock-planner/1
    metrics_path: /metrics/engines
    static_configs:
      - targets: ['127.0.0.1:{planner}']
        labels: {{namespace: {namespace}, pod: penstock-planner-0, container: planner, endpoint: http}}
"""


class Load:
    """`penstock load` until it is ended, and 10 minutes at the most."""

    def __init__(self, test, port):
        self.report = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([PROGRAM, "load", f"http://127.0.0.1:{port}", "--concurrency", str(STREAMS), "--duration", "10m",
                                         "--input-tokens", "20", "--output-tokens", "200", "--json", "-"],
                                        stdout=self.report, stderr=subprocess.DEVNULL)
        test.addCleanup(self.report.close)
        test.addCleanup(self.end)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(SECONDS)


class LoadAutoscalers(PodsThatServe):
    def begin_chain(self, name, kind):
        """Pods that serve, a planner that exports their metrics, a Prometheus that scrapes them, and the objects that act on them."""
        try:
            prometheus_folder()
        except SystemExit as error:
            self.skipTest(f"Debian's Prometheus cannot be obtained: {error}")
        try:
            self.cluster.crds()
        except RuntimeError as error:
            self.skipTest(f"the definition of PrometheusRule cannot be obtained: {error}")
        gateway = self.start(name, 1, flags=("--engine", STEP))
        self.planner = Program(self, "plan", "--config", config_file(self, pools=[{"name": "chat"}]), "--gateway", f"127.0.0.1:{gateway.admin}",
                               "--dashboard", "127.0.0.1:0", ready=r"planner ready, .*:(\d+)")
        until("metrics of an engine", lambda: 'tokens_out_total{' in ask(self.planner.ports[0], "GET", "/metrics/engines")[2])
        port = free_port()
        config = config_file(self, pools=[{"name": "chat", "kubernetes": "deployment/engines", "min_replicas": 1, "max_replicas": REPLICAS_MAX}],
                             prometheus={"url": f"http://127.0.0.1:{port}"})
        written = subprocess.run([PROGRAM, "manifests", "autoscalers", config, "--namespace", name, "--autoscaler", kind, "--prometheus-rule",
                                  *RULES], capture_output=True, text=True, check=True).stdout
        applied = subprocess.run([folder_of_programs() / "kubectl", "--kubeconfig", self.cluster.kubeconfig, "apply", "--server-side",
                                  "--validate=strict", "-f", "-"], input=written, capture_output=True, text=True, check=False, timeout=SECONDS)
        self.assertEqual(applied.returncode, 0, applied.stderr)
        rules = pathlib.Path(tempfile.mkdtemp(dir=self.cluster.run), "rules.yaml")
        rules.write_text(json.dumps(self.cluster.get("prometheusrule", "llm-token-rates", "-n", name)["spec"]), encoding="utf-8")
        self.prometheus = Prometheus(self, port, SCRAPE.format(rules=rules, namespace=name, planner=self.planner.ports[0]))
        return gateway

    def hpa(self, name):
        return self.cluster.get("hpa", "-n", name)["items"][0]

    def is_active(self, name):
        conditions = self.hpa(name)["status"].get("conditions") or []
        return next((each["status"] == "True" for each in conditions if each["type"] == "ScalingActive"), None)

    def grows_and_shrinks(self, name, gateway):
        """Under load the number of replicas is that of the rate, and one after it."""
        until("an HPA that has its metrics", lambda: self.is_active(name))
        self.assertEqual(self.replicas(name), 1)
        began = time.monotonic()
        load = Load(self, gateway.port)
        until("more replicas", lambda: self.replicas(name) > 1)
        print(f"{name}: {self.replicas(name)} replicas {time.monotonic() - began:.1f} s after the load began", flush=True)

        def rate():
            return self.prometheus.value(f'sum(rate(tokens_out_total{{pool="chat"}}[{RATE_WINDOW_S}s]))') or 0

        def is_steady():
            # Where the machine is slow, streams are, too. The tolerance of the HPA is 10 %.
            time.sleep(STEADY_S / 10)
            needed = rate() / PER_REPLICA
            return math.ceil(0.9 * needed) <= self.replicas(name) <= math.ceil(1.1 * needed)

        until("the replicas that the rate needs", lambda: all(is_steady() for _ in range(10)))
        print(f"{name}: {self.replicas(name)} replicas at {rate():.0f} tokens/s", flush=True)
        recorded = self.prometheus.value(f'llm:token_out_rate:1m{{pool="chat",namespace="{name}"}}')
        self.assertIsNotNone(recorded, "the recording rules have no namespace")
        load.end()
        began = time.monotonic()
        until("one replica", lambda: self.replicas(name) == 1)
        print(f"{name}: one replica {time.monotonic() - began:.1f} s after the load ended", flush=True)
        load.report.seek(0)
        self.assertEqual(json.load(load.report)["requests"]["errors"], 0)

    def holds_without_metrics(self, name, gateway):
        """Under load the planner ends: its metrics end with it, and what is unknown is not zero."""
        Load(self, gateway.port)
        until("more replicas", lambda: self.replicas(name) > 1)
        held = self.replicas(name)
        self.planner.signal(signal.SIGKILL)
        self.planner.wait()
        until("an HPA without metrics", lambda: self.is_active(name) is False)
        ended = time.monotonic() + RATE_WINDOW_S + DOWN_WINDOW_S
        while time.monotonic() < ended:
            self.assertGreaterEqual(self.replicas(name), held)
            time.sleep(0.5)

    def adapter(self):
        """prometheus-adapter with the rules of the values file, registered as its chart does."""
        places = dict(re.findall(r"(LLM_TESTBED_\w+)=(\S+)", self.cluster.testbed("env")))
        folder, port = pathlib.Path(tempfile.mkdtemp(dir=self.cluster.run)), free_port()
        # As the chart's template: the list `custom` is the list `rules` of the adapter.
        (folder / "config.yaml").write_text("rules:\n" + VALUES.read_text(encoding="utf-8").split("\n  custom:\n")[1], encoding="utf-8")
        kubeconfig = self.cluster.kubeconfig
        with open(folder / "log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [prometheus_adapter.PROGRAM, f"--config={folder}/config.yaml", f"--prometheus-url=http://127.0.0.1:{self.prometheus.port}/",
                 "--bind-address=127.0.0.1", f"--secure-port={port}", f"--tls-cert-file={places['LLM_TESTBED_LOOPBACK_CERT']}",
                 f"--tls-private-key-file={places['LLM_TESTBED_LOOPBACK_KEY']}", f"--lister-kubeconfig={kubeconfig}",
                 f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}", "--metrics-relist-interval=1s",
                 "--metrics-max-age=10s"], stdout=log, stderr=subprocess.STDOUT)
        self.addCleanup(process.wait, SECONDS)
        self.addCleanup(process.kill)
        service = {"name": "prometheus-adapter", "namespace": "default", "port": port}
        self.cluster.kubectl("apply", "--server-side", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": service["name"], "namespace": service["namespace"]},
             "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}},
            {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": API},
             "spec": {"service": service, "group": "custom.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100,
                      "versionPriority": 100, "caBundle": base64.b64encode(pathlib.Path(places["LLM_TESTBED_CA"]).read_bytes()).decode()}}]})
        self.addCleanup(self.cluster.kubectl, "delete", "service", service["name"], "-n", service["namespace"], check=False)
        self.addCleanup(self.cluster.kubectl, "delete", "apiservice", API, check=False)

        def is_available():
            assert process.poll() is None, (folder / "log").read_text()[-3000:]
            conditions = self.cluster.get("apiservice", API)["status"].get("conditions", [])
            return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)

        until("the API of custom metrics", is_available)

    @alone
    @long
    def test_an_hpa_follows_the_token_rate_by_prometheus_adapter(self):
        if not prometheus_adapter.PROGRAM.exists():
            self.skipTest(f"prometheus-adapter is not built ({os.path.relpath(prometheus_adapter.__file__)} install)")
        name = "adapter"
        gateway = self.begin_chain(name, "hpa")
        self.adapter()
        self.grows_and_shrinks(name, gateway)
        # Each metric of the HPA has a value of this API.
        shown = {each["pods"]["metric"]["name"] for each in self.hpa(name)["status"]["currentMetrics"] if each["type"] == "Pods"}
        self.assertEqual(shown, METRICS)
        values = json.loads(self.cluster.kubectl("get", "--raw", f"/apis/custom.metrics.k8s.io/v1beta1/namespaces/{name}/pods/*/llm_token_out_rate"))
        self.assertTrue(values["items"])
        for value in values["items"]:
            self.assertEqual((value["describedObject"]["kind"], value["describedObject"]["namespace"]), ("Pod", name))
        self.holds_without_metrics(name, gateway)

    @long
    def test_an_hpa_follows_the_token_rate_by_keda(self):
        if not keda_is_built():
            self.skipTest("KEDA is not built (k8s-testbed.sh build keda)")
        name = "keda-rates"
        gateway = self.begin_chain(name, "keda")
        self.grows_and_shrinks(name, gateway)
        self.holds_without_metrics(name, gateway)


if __name__ == "__main__":
    main()
