#!/usr/bin/env python3
"""KEDA's operator and adapter act on the ScaledObjects of `penstock manifests`: targets of Prometheus, times of the calendar, and the fallback."""

import http.server
import json
import pathlib
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse

from cluster_testing import Cluster, folder_of_programs, keda_is_built, long, main
from keda_test import deployment, hours_from_now
from live_testing import PROGRAM, config_file, until

WITH_KEDA = True
REPLICAS_MAX = 20
PACE = ("--polling-interval", "1s", "--scale-up", "20/1s", "--scale-up-window", "0s", "--scale-down", "20/1s", "--scale-down-window", "0s")
# What is in the query of each target, and its value per replica.
TARGETS = {"tokens_out_total": ("token-out-rate=100", 100), "llm_ttft_seconds_bucket": ("ttft-p95=2s", 2), "burn_rate": ("slo-burn-rate=1", 1)}


class Answers:
    """A server with the API of Prometheus that answers each target of a pool with a number; None: it has no series."""

    def __init__(self, test):
        self.values, self.fails, self.queries = dict.fromkeys(TARGETS, 0), False, set()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)["query"][0]
                outer.queries.add(query)
                value = next(outer.values[part] for part in TARGETS if part in query)
                result = [] if value is None else [{"metric": {}, "value": [time.time(), str(value)]}]
                body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()
                self.send_response(500 if outer.fails else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        test.addCleanup(server.server_close)
        test.addCleanup(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_port}"


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

    def start(self, name, answers, *flags):
        self.cluster.namespace(self, name)
        self.cluster.kubectl("apply", "--server-side", "-n", name, "-f", "-", given=deployment(1))
        config = config_file(self, pools=[{"name": "chat", "max_replicas": REPLICAS_MAX}], prometheus={"url": answers.url})
        targets = [word for target, _ in TARGETS.values() for word in ("--target", target)]
        self.apply(name, subprocess.run([PROGRAM, "manifests", "autoscalers", config, "--namespace", name, "--autoscaler", "keda", *targets,
                                         *PACE, *flags], capture_output=True, text=True, check=True).stdout)

    def replicas(self, name):
        return self.cluster.get("deployment", "chat", "-n", name)["spec"]["replicas"]

    def condition(self, name, kind):
        conditions = self.cluster.get("scaledobject", "chat", "-n", name).get("status", {}).get("conditions", [])
        return next((each["status"] for each in conditions if each["type"] == kind), "Unknown")

    @long
    def test_the_largest_of_all_targets_and_of_the_calendar_counts_and_the_fallback_holds(self):
        if not keda_is_built():
            self.skipTest("KEDA is not built (k8s-testbed.sh build keda)")
        name, answers = "keda-triggers", Answers(self)
        self.start(name, answers, "--cron", f"Etc/UTC; {hours_from_now(-2)}; {hours_from_now(2)}; 3", "--cron",
                   f"Etc/GMT+5; {hours_from_now(8)}; {hours_from_now(10)}; 9", "--fallback", "2:5")
        until("the replicas of the calendar", lambda: self.replicas(name) == 3)
        until("a healthy ScaledObject", lambda: self.condition(name, "Ready") == "True")
        metrics = self.cluster.get("hpa", "-n", name)["items"][0]["spec"]["metrics"]
        self.assertEqual(len(metrics), len(TARGETS) + 2)
        self.assertEqual({each["external"]["target"]["type"] for each in metrics}, {"AverageValue"})
        for wanted, (part, (target, per_replica)) in zip((6, 8, 10), TARGETS.items()):
            answers.values[part] = wanted * per_replica
            until(f"the replicas of {target}", lambda wanted=wanted: self.replicas(name) == wanted)
        answers.values = dict.fromkeys(TARGETS, 0)
        until("the replicas of the calendar again", lambda: self.replicas(name) == 3)
        self.assertEqual(len(answers.queries), len(TARGETS))

        # Without series nothing shrinks, and the fallback asks for its number.
        answers.values["llm_ttft_seconds_bucket"] = None
        until("the replicas of the fallback", lambda: self.replicas(name) == 5)
        until("a condition that shows it", lambda: self.condition(name, "Fallback") == "True")
        self.assertEqual(self.condition(name, "Ready"), "True")
        answers.values["llm_ttft_seconds_bucket"], answers.values["tokens_out_total"] = 0, 700
        until("the replicas of the rate", lambda: self.replicas(name) == 7)
        until("no fallback", lambda: self.condition(name, "Fallback") == "False")
        # It never takes away replicas that serve.
        answers.fails = True
        until("the fallback of a server that fails", lambda: self.condition(name, "Fallback") == "True")
        ended = time.monotonic() + 5
        while time.monotonic() < ended:
            self.assertGreaterEqual(self.replicas(name), 7)
            time.sleep(0.2)


if __name__ == "__main__":
    main()
