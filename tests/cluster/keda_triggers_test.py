#!/usr/bin/env python3
"""KEDA's operator and adapter act on the ScaledObjects of `penstock manifests`: targets of Prometheus, times of the calendar, and the fallback."""

import http.server
import pathlib
import subprocess
import tempfile
import threading
import time
import unittest

from cluster_testing import Cluster, folder_of_programs, keda_is_built, long, main
from keda_test import deployment, hours_from_now
from live_testing import PROGRAM, config_file, until
from prometheus_test import Prometheus, free_port
from real_clients import prometheus_folder

WITH_KEDA = True
REPLICAS_MAX = 20
PACE = ("--polling-interval", "1s", "--scale-up", "20/1s", "--scale-up-window", "0s", "--scale-down", "20/1s", "--scale-down-window", "0s",
        "--rate-window", "5s")
TARGETS = {"token-out-rate": 100, "ttft-p95": 2, "slo-burn-rate": 1}  # Each with its value per replica.
SCRAPE = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - {{job_name: planner, static_configs: [{{targets: ['{planner}']}}]}}
"""


class Metrics:
    """Metrics as a planner exports them, by which each target of the pool needs a number of replicas. None: it has no series."""

    TTFT_PER_S = 10

    def __init__(self, test):
        self.replicas = dict.fromkeys(TARGETS, 0)
        self.tokens, self.counted_at = 0.0, time.time()
        self.ttft = dict.fromkeys(range(1, REPLICAS_MAX + 1), 0.0)  # First tokens by the replicas that their time needs.
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                body = outer.text().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        test.addCleanup(server.server_close)
        test.addCleanup(server.shutdown)
        self.address = f"127.0.0.1:{server.server_port}"

    def text(self):
        now = time.time()
        passed, self.counted_at = now - self.counted_at, now
        rate, ttft = self.replicas["token-out-rate"], self.replicas["ttft-p95"]
        # A measured rate varies: that of a third of a replica less needs the same number.
        self.tokens += passed * TARGETS["token-out-rate"] * max(0, rate - 1 / 3)
        if ttft:
            self.ttft[ttft] += passed * self.TTFT_PER_S
        own = 'pool="chat",replica="engine-0"'
        lines = [f"tokens_out_total{{{own}}} {self.tokens}", f"llm_queue_depth{{{own}}} 0",
                 f'penstock_decision_evidence{{name="burn_rate",pool="chat"}} {self.replicas["slo-burn-rate"]}']
        if ttft is not None:
            count = 0.0
            for needed, tokens in self.ttft.items():
                count += tokens
                lines.append(f'llm_ttft_seconds_bucket{{{own},le="{needed * TARGETS["ttft-p95"]}"}} {count}')
            lines += [f'llm_ttft_seconds_bucket{{{own},le="+Inf"}} {count}', f"llm_ttft_seconds_count{{{own}}} {count}"]
        return "\n".join([*lines, ""])


class KedaTriggers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    def apply(self, name, text):
        path = pathlib.Path(tempfile.mkdtemp(dir=self.cluster.run), "objects.yaml")
        path.write_text(text, encoding="utf-8")
        done = subprocess.run([folder_of_programs() / "kubectl", "--kubeconfig", self.cluster.kubeconfig, "apply", "--server-side",
                               "--validate=strict", "-n", name, "-f", path], capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, f"{done.stderr}\n{text}")

    def start(self, name, *flags):
        """A pool with a Prometheus of its own, and the metrics that it scrapes."""
        metrics, port = Metrics(self), free_port()
        prometheus = Prometheus(self, port, SCRAPE.format(planner=metrics.address))
        self.cluster.namespace(self, name)
        self.cluster.kubectl("apply", "--server-side", "-n", name, "-f", "-", given=deployment(1))
        config = config_file(self, pools=[{"name": "chat", "max_replicas": REPLICAS_MAX}], prometheus={"url": f"http://127.0.0.1:{port}"})
        targets = [word for each in ("token-out-rate=100", "ttft-p95=2s", "slo-burn-rate=1") for word in ("--target", each)]
        self.apply(name, subprocess.run([PROGRAM, "manifests", "autoscalers", config, "--namespace", name, "--autoscaler", "keda", *targets,
                                         *PACE, *flags], capture_output=True, text=True, check=True).stdout)
        return metrics, prometheus

    def replicas(self, name):
        return self.cluster.get("deployment", "chat", "-n", name)["spec"]["replicas"]

    def condition(self, name, kind):
        conditions = self.cluster.get("scaledobject", "chat", "-n", name).get("status", {}).get("conditions", [])
        return next((each["status"] for each in conditions if each["type"] == kind), "Unknown")

    @long
    def test_the_largest_of_all_targets_and_of_the_calendar_counts_and_the_fallback_holds(self):
        if not keda_is_built():
            self.skipTest("KEDA is not built (k8s-testbed.sh build keda)")
        try:
            prometheus_folder()
        except SystemExit as error:
            self.skipTest(f"Debian's Prometheus cannot be obtained: {error}")
        name = "keda-triggers"
        metrics, prometheus = self.start(name, "--cron", f"Etc/UTC; {hours_from_now(-2)}; {hours_from_now(2)}; 3", "--cron",
                                         f"Etc/GMT+5; {hours_from_now(8)}; {hours_from_now(10)}; 9", "--fallback", "2:5")
        until("the replicas of the calendar", lambda: self.replicas(name) == 3)
        until("a healthy ScaledObject", lambda: self.condition(name, "Ready") == "True")
        read = self.cluster.get("hpa", "-n", name)["items"][0]["spec"]["metrics"]
        self.assertEqual(len(read), len(TARGETS) + 2)
        self.assertEqual({each["external"]["target"]["type"] for each in read}, {"AverageValue"})
        for wanted, target in zip((6, 8, 10), TARGETS):
            metrics.replicas[target] = wanted
            until(f"the replicas of {target}", lambda wanted=wanted: self.replicas(name) == wanted)
        metrics.replicas = dict.fromkeys(TARGETS, 0)
        until("the replicas of the calendar again", lambda: self.replicas(name) == 3)

        # Without series nothing shrinks, and the fallback asks for its number.
        metrics.replicas["ttft-p95"] = None
        until("the replicas of the fallback", lambda: self.replicas(name) == 5)
        until("a condition that shows it", lambda: self.condition(name, "Fallback") == "True")
        until("an object that is ready all the same", lambda: self.condition(name, "Ready") == "True")
        metrics.replicas["ttft-p95"], metrics.replicas["token-out-rate"] = 0, 7
        until("the replicas of the rate", lambda: self.replicas(name) == 7)
        until("no fallback", lambda: self.condition(name, "Fallback") == "False")
        # It never takes away replicas that serve.
        prometheus.process.kill()
        until("the fallback of a server that is gone", lambda: self.condition(name, "Fallback") == "True")
        ended = time.monotonic() + 5
        while time.monotonic() < ended:
            self.assertGreaterEqual(self.replicas(name), 7)
            time.sleep(0.2)


if __name__ == "__main__":
    main()
