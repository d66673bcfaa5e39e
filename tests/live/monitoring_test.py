#!/usr/bin/env python3
"""The rules and the dashboard of packaging/monitoring: in promtool, and in a Prometheus that scrapes a gateway and a planner."""

import json
import os
import re
import subprocess
import tempfile
import time
import unittest
import urllib.parse
from pathlib import Path

from live_testing import PROGRAM, SECONDS, Gateway, Stream, ask, complete, config_file, until
from monitoring_series import CASES, ENGINE, HEALTHY, VLLM, rule_tests
from planner_testing import Home, Planner, until_routed, until_serving
from prometheus_test import CONTROL_PLANE, ExposingReplica, Prometheus
from real_clients import prometheus_folder

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "packaging" / "monitoring" / "penstock-rules.yaml"
DASHBOARD = ROOT / "packaging" / "monitoring" / "penstock-dashboard.json"
# Labels of targets and of Prometheus' own series ALERTS.
LABELS_OF_PROMETHEUS = {"namespace", "job", "instance", "alertname", "alertstate", "severity"}
WORDS = {"by", "without", "on", "ignoring", "group_left", "group_right", "and", "or", "unless", "offset", "bool", "inf", "nan"}
ROUNDS_MAX = 100  # of requests and queries until all panels have data
VARIABLES = {"$__rate_interval": "1m", "$__range": "1h", "$namespace": ".*", "$model": ".*", "$pool": ".*", "$dimension": ".*"}
# Series that this fleet has not: no forecast without data, no Kubernetes, no exporter of GPU figures, no policy, no problem.
ABSENT = re.compile("predicted|penstock_overload_actions|penstock_replicas_asked|penstock_replicas_pending|penstock_pool_held|"
                    "penstock_start_up|penstock_gpu_util|penstock_gpu_memory|penstock_leader|next_phase|penstock_kv_full|ALERTS|"
                    "penstock_replica_problem|penstock_diagnosis|penstock_forecast_error|changes\\(|penstock_decision_evidence|"
                    "slo_burn_rate|penstock_candidate|penstock_decisions_total\\{limited_by|"
                    "penstock_queue_oldest|gpu_cost_usd_per_million_output")
# Series of the reference page that a planner of aggregated pools has under a condition, which the page or its own docs name: prefill
# pools, roles that change, a forecast, trials, objectives and traffic without a stream, several planners, Kubernetes, deferral, a trend,
# exporters of GPU figures, a queue.
CONDITIONAL = re.compile("dynamo_planner_(num_prefill|predicted_|estimated_|engine_(prefill|decode)_)|wva_|"
                         "penstock_(leader|replicas_switching|role_switches|next_phase|forecast_error|replica_capacity|candidate_|slo_e2e|"
                         "unstreamed_|pool_held|replicas_asked|replicas_pending|scale_conflicts|start_up|gateway_deferr|kv_full|"
                         "gpu_utilisation|gpu_memory|gpu_cost_per_million)")


class CapturedReplica(ExposingReplica):
    """A replica that serves no request and exposes what a vLLM exposed once: two sequences that run at once, and a queue."""

    def __init__(self, test):
        self.text = (ROOT / "tests/engines/captured/vllm.txt").read_text()
        super().__init__(test, 0, 0)

    def metrics(self):
        return self.text


def promtool(*words):
    return subprocess.run([os.path.join(prometheus_folder(), "promtool"), *words], capture_output=True, text=True,
                          timeout=4 * SECONDS, check=False)


def rules():
    """Expressions by the name of their rule, and the names of the alerts. The file has one layout, so that no YAML library is needed."""
    found, name = {}, None
    lines = RULES.read_text().splitlines()
    for number, line in enumerate(lines):
        if rule := re.match(r"      - (?:record|alert): (\S+)$", line):
            name = rule[1]
        elif expression := re.match(r"        expr: (.+)$", line):
            words = [expression[1]]
            if words == [">-"]:
                words = []
                for more in lines[number + 1:]:
                    if not more.startswith(" " * 10):
                        break
                    words.append(more.strip())
            assert name not in found, name
            found[name] = " ".join(words)
    return found


def panels():
    return json.loads(DASHBOARD.read_text())["panels"]


def expressions():
    """Expressions of the dashboard by the title of their panel."""
    board = json.loads(DASHBOARD.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for annotation in board["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]
    for variable in board["templating"]["list"]:
        if query := re.match(r"label_values\((.+), (\w+)\)$", variable.get("definition", "")):
            yield variable["name"], f"group by ({query[2]}) ({query[1]})"


def without_variables(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


def selectors(expression):
    """Names of series with the labels that matchers name, and the labels of all clauses by, on and the like."""
    texts = re.sub(r'"[^"]*"', '""', expression)
    clauses = {label for labels in re.findall(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^()]*)\)", texts)
               for label in re.split(r"\s*,\s*", labels.strip()) if label}
    rest = re.sub(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\([^()]*\)", " ", texts)
    rest = re.sub(r"\[[^]]*\]", "", rest)
    series = []
    for name, labels in re.findall(r"(?<![\w.:])([a-zA-Z_:][\w:]*)(?!\s*\()(?![\w:])\s*(\{[^}]*\})?", re.sub(r"\boffset \w+", "", rest)):
        if name not in WORDS:
            series.append((name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels))))
    return series, clauses


def exposed(*texts):
    """Label names of each series of these expositions."""
    found = {}
    for text in texts:
        for name in re.findall(r"(?m)^# TYPE (\S+) ", text):
            found.setdefault(name, set())
        for name, labels in re.findall(r"(?m)^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$", text):
            found.setdefault(name, set()).update(re.findall(r'(\w+)="(?:[^"\\]|\\.)*"', labels))
    for name, labels in list(found.items()):
        if name.endswith("_bucket"):
            found[name.removesuffix("_bucket")] |= labels - {"le"}  # As a native histogram.
    return found


def reference():
    """The same of the reference page of the planner's metrics, and of what a gateway shows in few states only."""
    found = {"penstock_replica_problem": {"replica", "code"}, "penstock_overload_actions_total": {"class", "tenant", "action"}}
    for name, labels in re.findall(r"(?m)^\| `(\w+)` \| \w+ \| ([^|]*) \|", (ROOT / "docs/reference/metrics.md").read_text()):
        found[name] = {label for label in labels.strip().split(", ") if label} | {"model"}  # That of several deployments.
    return found


class MonitoringTest(unittest.TestCase):
    maxDiff = None

    def test_the_rules_are_valid(self):
        done = promtool("check", "rules", RULES)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"{len(rules())} rules found", done.stdout)

    def test_the_metrics_of_pods_for_an_hpa_have_namespace_and_pod(self):
        """The PrometheusRule of docs/examples/token-rates.yaml, as promtool evaluates it."""
        done = subprocess.run([PROGRAM, "manifests", "autoscalers", str(ROOT / "docs/examples/token-rates.yaml"), "--namespace", "llm", "--planner-namespace", "monitoring", "--autoscaler", "hpa",
                               "--target", "token-out-rate=8000", "--target", "kv-utilization=0.75", "--prometheus-rule"],
                              capture_output=True, text=True, check=True)
        with tempfile.TemporaryDirectory() as folder:
            path, test = os.path.join(folder, "rules.yaml"), os.path.join(folder, "test.yaml")
            with open(path, "w") as file:
                file.write(re.sub("(?m)^  ", "", done.stdout.split("\nspec:\n")[-1]))
            labels = 'model_name="llama",pool="llm-batch",namespace="monitoring",pod="penstock-planner-0"'
            replica = [f'{{{labels},replica="llm-batch-{number}"}}' for number in (0, 1)]
            elsewhere = replica[1].replace('namespace="monitoring"', 'namespace="staging"')
            named = ['{namespace="llm",pod="llm-batch-%d",pool="llm-batch"}' % number for number in (0, 1)]
            with open(test, "w") as file:
                json.dump({"rule_files": [path], "evaluation_interval": "15s", "tests": [{
                    "interval": "15s",
                    "input_series": [{"series": f"tokens_out_total{replica[0]}", "values": "0+120000x20"},
                                     {"series": f"tokens_out_total{replica[1]}", "values": "0+15000x20"},
                                     {"series": f"tokens_out_total{elsewhere}", "values": "0+99000x20"},
                                     {"series": "llm_kv_cache_usage_ratio" + replica[0].replace("model_name", "model_id"), "values": "0.75x20"}],
                    "promql_expr_test": [
                        {"expr": "llm_token_out_rate", "eval_time": "4m",
                         "exp_samples": [{"labels": f"llm_token_out_rate{named[0]}", "value": 8000}, {"labels": f"llm_token_out_rate{named[1]}", "value": 1000}]},
                        {"expr": "llm_kv_utilization", "eval_time": "4m", "exp_samples": [{"labels": f"llm_kv_utilization{named[0]}", "value": 0.75}]},
                        {"expr": "llm:token_out_rate:1m", "eval_time": "4m",
                         "exp_samples": [{"labels": 'llm:token_out_rate:1m{model_name="llama",namespace="%s",pool="llm-batch"}' % namespace, "value": value}
                                         for namespace, value in (("monitoring", 9000), ("staging", 6600))]}]}]}, file)
            for words in (("check", "rules", path), ("test", "rules", test)):
                done = promtool(*words)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_query_of_keda_counts_a_replica_of_two_planners_once(self):
        """As while the pod of a planner is replaced; a pool of that name in another namespace does not count."""
        done = subprocess.run([PROGRAM, "manifests", "autoscalers", str(ROOT / "docs/examples/token-rates.yaml"), "--namespace", "llm", "--autoscaler", "keda",
                               "--target", "token-out-rate=8000"], capture_output=True, text=True, check=True)
        query = json.loads(re.search(r'query: (".*llm-batch.*")', done.stdout)[1])
        series = [f'tokens_out_total{{pool="llm-batch",namespace="{namespace}",pod="{pod}",replica="llm-batch-{replica}"}}'
                  for namespace, pod in (("llm", "planner-a"), ("llm", "planner-b"), ("staging", "planner-a")) for replica in (0, 1)]
        with tempfile.TemporaryDirectory() as folder:
            test = os.path.join(folder, "test.yaml")
            with open(test, "w") as file:
                json.dump({"rule_files": [], "evaluation_interval": "15s", "tests": [{
                    "interval": "15s", "input_series": [{"series": name, "values": "0+15000x20"} for name in series],
                    "promql_expr_test": [{"expr": query, "eval_time": "4m", "exp_samples": [{"labels": "{}", "value": 2000}]}]}]}, file)
            done = promtool("test", "rules", test)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_latency_counts_once_for_each_replica_and_is_unknown_without_first_tokens(self):
        """As the triggers of KEDA and the metrics of pods have it; with two planners that export the same replicas."""
        flags = ("--namespace", "llm", "--target", "ttft-p95=2s", "--target", "slo-burn-rate=1", "--prometheus-rule")
        def manifests(kind):
            return subprocess.run([PROGRAM, "manifests", "autoscalers", str(ROOT / "docs/examples/token-rates.yaml"), "--autoscaler", kind, *flags],
                                  capture_output=True, text=True, check=True).stdout
        ttft, burn = [json.loads(query) for query in re.findall(r'query: (".*llm-batch.*")', manifests("keda"))]
        def engine(replica, planner, tokens, waiting):
            labels = f'pool="llm-batch",namespace="llm",pod="{planner}",model_id="m",replica="{replica}"'
            counts = {f'llm_ttft_seconds_bucket{{{labels},le="1"}}': tokens, f'llm_ttft_seconds_bucket{{{labels},le="2"}}': 2 * tokens,
                      f'llm_ttft_seconds_bucket{{{labels},le="+Inf"}}': 2 * tokens, f"llm_ttft_seconds_count{{{labels}}}": 2 * tokens}
            return [{"series": f"llm_queue_depth{{{labels}}}", "values": f"{waiting}x20"}] + \
                [{"series": name, "values": f"0+{count}x20"} for name, count in counts.items()]
        def fleet(tokens, waiting):
            return sum((engine(f"llm-batch-{i}", planner, tokens, waiting) for i in (0, 1) for planner in ("a", "b")), [])
        evidence = [{"series": f'penstock_decision_evidence{{pool="llm-batch",namespace="llm",pod="{planner}",name="burn_rate"}}', "values": "4x20"} for planner in "ab"]
        def of_pods(name, value):
            return [{"labels": f'{name}{{namespace="llm",pod="llm-batch-{i}",pool="llm-batch"}}', "value": value} for i in (0, 1)]
        with tempfile.TemporaryDirectory() as folder:
            path, test = os.path.join(folder, "rules.yaml"), os.path.join(folder, "test.yaml")
            with open(path, "w") as file:
                file.write(re.sub("(?m)^  ", "", manifests("hpa").split("\nspec:\n")[-1]))
            with open(test, "w") as file:
                json.dump({"rule_files": [path], "evaluation_interval": "15s", "tests": [
                    {"interval": "15s", "input_series": series, "promql_expr_test": [{"expr": query, "eval_time": "4m", "exp_samples": samples}]}
                    for series, query, samples in (
                        (fleet(5, 0), ttft, [{"labels": "{}", "value": 2 * 1.9}]), (fleet(0, 0), ttft, [{"labels": "{}", "value": 0}]),
                        (fleet(0, 3), ttft, []), (evidence, ttft, []),
                        (evidence + fleet(5, 0), burn, [{"labels": "{}", "value": 2 * 4}]), (fleet(5, 0), burn, []),
                        (fleet(5, 0), "llm_ttft_p95_seconds", of_pods("llm_ttft_p95_seconds", 1.9)),
                        (evidence + fleet(5, 0), "llm_slo_burn_rate", of_pods("llm_slo_burn_rate", 4)))]}, file)
            done = promtool("test", "rules", test)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_queries_of_the_gpu_bill_are_right_over_restarts(self):
        """Two planners count the same cost, then both restart, one as another pod. A third one is of another namespace."""
        page = (ROOT / "docs/explain-the-gpu-bill.md").read_text()
        by_tenant, by_pool = re.findall(r"(?ms)^```promql\n(.*?)^```", page)
        def of(name, labels, pod, namespace="llm"):
            return f'{name}{{{labels},namespace="{namespace}",pod="{pod}"}}'
        # 1 USD an hour of shop and 2 of lab, from the start of the series.
        series, day = [], 24 * 60
        for tenant, rate in (("shop", 1 / 60), ("lab", 2 / 60)):
            labels, name = f'tenant="{tenant}",model="m"', "penstock_tenant_gpu_cost_usd_total"
            series += [(of(name, labels, "planner-a"), f"0+{rate}x{day} _x{day}"),
                       (of(name, labels, "planner-b"), f"0+{rate}x{day} 0+{rate}x{day}"),
                       (of(name, labels, "planner-c"), f"_x{day} 0+{rate}x{day}")]
        series.append((of("penstock_tenant_gpu_cost_usd_total", 'tenant="shop",model="m"', "planner-d", "other"), f"0+{10 / 60}x{2 * day}"))
        series += [(of("penstock_gpu_cost_usd_total", 'pool="chat"', pod), f"0+0.05x{day} 0+0.05x{day}") for pod in ("planner-a", "planner-b")]
        queries = [(by_tenant, [{"labels": '{tenant="shop",model="m"}', "value": 528}, {"labels": '{tenant="lab",model="m"}', "value": 96}]),
                   (by_pool, [{"labels": '{pool="chat"}', "value": 144}])]
        with tempfile.TemporaryDirectory() as folder:
            test = os.path.join(folder, "test.yaml")
            with open(test, "w") as file:
                json.dump({"rule_files": [], "evaluation_interval": "1m", "tests": [{
                    "interval": "1m", "input_series": [{"series": name, "values": values} for name, values in series],
                    "promql_expr_test": [{"expr": f"round({query}, 2)", "eval_time": "49h", "exp_samples": samples} for query, samples in queries]}]}, file)
            done = promtool("test", "rules", test)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_alerts_fire_on_faults_and_on_nothing_else(self):
        self.assertEqual({alert for case in CASES for alert in case[1]}, {name for name in rules() if name.startswith("Penstock")},
                         "alerts without a case")
        with tempfile.TemporaryDirectory() as folder:
            names = []
            for number, tests in enumerate(rule_tests(str(RULES))):
                names.append(os.path.join(folder, f"{number}.yaml"))
                with open(names[-1], "w") as file:
                    json.dump(tests, file)
            done = promtool("test", "rules", *names)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_alert_has_a_severity_and_a_runbook(self):
        parts = re.split(r"(?m)^      - (?:record|alert): ", RULES.read_text())[1:]
        runbooks = (ROOT / "docs/alerts.md").read_text()
        for part in parts:
            name = part.splitlines()[0]
            if ":" in name:
                continue
            with self.subTest(name):
                self.assertRegex(part, r"\n        labels: \{severity: (critical|warning|info)\}\n")
                self.assertRegex(part, r"\n          summary: \w.*\n          description: .*\n")
                self.assertIn(f"/alerts.md#{name.lower()}\n", part)
                runbook = re.search(rf"(?ms)^### {name}\n(.*?)(?=^##|\Z)", runbooks)
                self.assertIsNotNone(runbook, "no runbook")
                self.assertEqual(re.findall(r"(?m)^- \*\*([\w ]+):\*\*", runbook[1]), ["Meaning", "Impact", "Look at", "Do"])
        self.assertEqual(set(re.findall(r"(?m)^### (Penstock\w+)$", runbooks)), {name for name in rules() if ":" not in name})

    def test_the_dashboard_has_one_place_for_each_panel(self):
        cells, numbers = set(), set()
        for panel in panels():
            at = panel["gridPos"]
            self.assertLessEqual(at["x"] + at["w"], 24, panel["title"])
            mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            self.assertFalse(cells & mine, panel["title"])
            cells |= mine
            self.assertNotIn(panel["id"], numbers)
            numbers.add(panel["id"])
            for target in panel.get("targets", ()):
                self.assertEqual(target["datasource"]["uid"], "${datasource}", panel["title"])

    def test_names_and_labels_are_those_of_a_real_fleet(self):
        home = Home(self, "  - {name: chat, replicas: 1, min_replicas: 1, max_replicas: 2}")
        with open(home.config, "a") as file:
            file.write("tenants: [{name: nightly, keys: [sk-nightly], tokens_per_minute: 1000}]\n")
        gateway = home.gateway(self, "--ledger", home.path("usage.sqlite"), "--access-log", home.path("access.log"))
        planner = home.planner(self, gateway)
        until_serving(home, 1)
        until_routed(gateway, 1)
        prometheus = Prometheus(self, home.own_ports[0], CONTROL_PLANE.format(rules=RULES, gateway=gateway.admin, planner=planner.port))
        until("three targets that are read", lambda: prometheus.value("sum(up)") == 3)

        def result(expression):
            answer = json.loads(ask(prometheus.port, "GET", "/api/v1/query?query=" + urllib.parse.quote(expression))[2])
            self.assertEqual(answer["status"], "success", f"{expression}: {answer}")
            return answer["data"]["result"]

        # All that this fleet can show is shown: panels with a wrong label would stay empty.
        missing = [(title, without_variables(expression)) for title, expression in expressions()]
        missing = [each for each in missing if not ABSENT.search(each[1])]
        self.assertGreater(len(missing), 70)

        def nothing_is_missing():
            complete(gateway.port, 20)
            complete(gateway.port, 20, Authorization="Bearer sk-nightly")  # It is soon over its budget.
            stream = Stream(gateway.port, 20)
            stream.thread.join()
            stream.connection.close()
            missing[:] = [each for each in missing if not result(each[1])]
            return not missing

        for _ in range(ROUNDS_MAX):
            if nothing_is_missing():
                break
            time.sleep(0.5)
        self.assertEqual(missing, [], "panels without data")
        for _, expression in expressions():
            result(without_variables(expression))
        until("rules that were evaluated", lambda: prometheus.value('penstock:request_ttft_seconds:p95_5m{class="interactive"}'))
        answer = json.loads(ask(prometheus.port, "GET", "/api/v1/rules")[2])
        found = [rule for group in answer["data"]["groups"] for rule in group["rules"]]
        self.assertEqual(sorted(rule["name"] for rule in found), sorted(rules()))
        self.assertEqual([(rule["name"], rule["lastError"]) for rule in found if rule.get("lastError")], [])

        # A second gateway has a replica with a problem.
        broken = Gateway(self, "--config", config_file(self, gateway={"replicas": [{"url": "http://127.0.0.1:1"}],
                                                                          "peers": ["http://127.0.0.1:1"]}, model="m"))
        until("a problem", lambda: "penstock_replica_problem{" in ask(broken.admin, "GET", "/metrics")[2])
        known = exposed(ask(gateway.admin, "GET", "/metrics")[2], ask(planner.port, "GET", "/metrics")[2],
                        ask(planner.port, "GET", "/metrics/engines")[2], ask(broken.admin, "GET", "/metrics")[2])
        self.assertEqual(known["penstock_replica_problem"], reference()["penstock_replica_problem"])
        for name, labels in reference().items():
            known.setdefault(name, set()).update(labels)
        known["ALERTS"] = set().union(*known.values())
        of_rules = [name for name in rules() if ":" in name]
        all_labels = known["ALERTS"] | LABELS_OF_PROMETHEUS
        used = [*rules().items(), *expressions()]
        self.assertGreater(len(used), 150)
        for title, expression in used:
            series, clauses = selectors(expression)
            with self.subTest(title, expression=expression):
                self.assertTrue(series)
                self.assertLessEqual(clauses, all_labels)
                names = set()
                for name, labels in series:
                    if name in of_rules:
                        labels -= {"model", "class"}
                    else:
                        self.assertIn(name, known)
                        names |= known[name]
                        labels -= known[name]
                    self.assertLessEqual(labels, LABELS_OF_PROMETHEUS, name)
                if all(name not in of_rules for name, _ in series):
                    self.assertLessEqual(clauses, names | LABELS_OF_PROMETHEUS)

    def test_each_series_of_the_reference_page_is_exposed(self):
        home = Home(self)
        gateway = home.gateway(self)
        planner = home.planner(self, gateway)
        until_serving(home, 1)
        until_routed(gateway, 1)
        missing = []

        def nothing_is_missing():
            stream = Stream(gateway.port, 20)
            stream.thread.join()
            stream.connection.close()
            found = set(re.findall(r"(?m)^(\w+?)(?:_bucket|_sum|_count)?[{ ]", planner.metrics()))
            missing[:] = [name for name in reference() if name not in found and not CONDITIONAL.match(name)
                          and name not in ("penstock_replica_problem", "penstock_overload_actions_total")]
            return not missing

        for _ in range(ROUNDS_MAX):
            if nothing_is_missing():
                break
            time.sleep(0.5)
        self.assertEqual(missing, [])
        state = planner.state()["slo"]
        self.assertEqual((state["ttft_attainment"], state["itl_attainment"]), (1.0, 1.0))

    def test_the_series_of_the_alerts_on_engines_exist_in_front_of_vllm(self):
        replica = CapturedReplica(self)
        config = config_file(self, gateway={"replicas": [{"url": f"http://{replica.address}"}]}, model="m",
                             planner={"tick_interval": "1s"})
        gateway = Gateway(self, "--config", config).ready()
        planner = Planner(self, "--config", config, "--gateway", f"127.0.0.1:{gateway.admin}")
        names = {series.split("{")[0] for series in HEALTHY if f"{{{ENGINE}}}" in series}
        absent = {series.split("{")[0] for series in VLLM} - {"batch_merge_efficiency"}  # It is learned here.

        def engines():
            return ask(planner.port, "GET", "/metrics/engines")[2]

        until("the number of sequences that the engine runs", lambda: re.search(r"(?m)^batch_merge_efficiency\{.*\} 1$", engines()))
        found = exposed(engines())
        self.assertLessEqual(names - absent, set(found))
        self.assertFalse(absent & set(found))
        self.assertFalse({name for name in found if name.startswith("kv_cache_bytes")})
        for name in names - absent:
            self.assertLessEqual({"model_name", "pool", "replica"}, found[name], name)
        for line in ("num_preemptions_total{.*} 0", "prefix_cache_queries_total{.*} 3289", "prefix_cache_hits_total{.*} 2560"):
            self.assertRegex(engines(), f"(?m)^{line}$")
        self.assertEqual(planner.pool()["replicas"][0]["sample"]["batch_merge_efficiency"], 1)
        self.assertRegex(planner.metrics(), r'(?m)^penstock_build_info\{version="[\d.]+"\} 1$')
        self.assertRegex(ask(gateway.admin, "GET", "/metrics")[2], r'(?m)^penstock_build_info\{version="[\d.]+"\} 1$')

    def test_values_of_labels_are_documented(self):
        text = " ".join(path.read_text() for path in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/reference").glob("*.md")]
                        if path.name != "alerts.md")
        sources = " ".join(path.read_text() for path in (ROOT / "src").glob("**/*.cpp") if not path.name.endswith("_test.cpp"))
        for title, expression in [*rules().items(), *expressions()]:
            for label, values in re.findall(r'(\w+)(?:=~|!~|!=|=)"([^"]+)"', expression):
                if label in LABELS_OF_PROMETHEUS or values.startswith("$") or label == "quantile":
                    continue
                for value in values.split("|"):
                    with self.subTest(title, label=label, value=value):
                        self.assertRegex(text + sources, rf'["`]{re.escape(value)}["`]|\b{re.escape(value)}\b')
                        self.assertIn(f'"{value}"', sources)


if __name__ == "__main__":
    unittest.main(verbosity=2)
