#!/usr/bin/env python3
"""A real Prometheus reads all that Penstock shows it, and evaluates the rules that the documentation offers."""

import http.server
import json
import os
import re
import socket
import subprocess
import tempfile
import threading
import unittest
import urllib.parse

from live_testing import PROGRAM, SECONDS, Engine, Gateway, ask, complete, config_file, until
from planner_testing import Home, Planner, until_routed, until_serving
from real_clients import prometheus_folder

RULES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "reference", "token-rules.yaml")
# A gateway, a planner and its engines.
CONTROL_PLANE = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ['{rules}']
scrape_configs:
  - {{job_name: gateway, static_configs: [{{targets: ['127.0.0.1:{gateway}']}}]}}
  - {{job_name: planner, static_configs: [{{targets: ['127.0.0.1:{planner}']}}]}}
  - {{job_name: engines, metrics_path: /metrics/engines, static_configs: [{{targets: ['127.0.0.1:{planner}']}}]}}
"""
CONFIG = CONTROL_PLANE + """\
  - {{job_name: engine, static_configs: [{{targets: ['{engine}']}}]}}
"""


GATEWAYS = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - {{job_name: gateways, static_configs: [{{targets: ['127.0.0.1:{first}', '127.0.0.1:{second}']}}]}}
"""

PLANNER = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - {{job_name: planner, static_configs: [{{targets: ['127.0.0.1:{planner}']}}]}}
  - {{job_name: engines, metrics_path: /metrics/engines, static_configs: [{{targets: ['127.0.0.1:{planner}']}}]}}
  - {{job_name: epp, metrics_path: /metrics/epp, static_configs: [{{targets: ['127.0.0.1:{gateway}']}}]}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Prometheus:
    """A server of its own, ended with the test."""

    def __init__(self, test, port, config, *flags):
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "prometheus.yml")
        with open(path, "w") as file:
            file.write(config)
        self.port = port
        log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [os.path.join(prometheus_folder(), "prometheus"), f"--config.file={path}",
             f"--storage.tsdb.path={folder.name}/data", f"--web.listen-address=127.0.0.1:{self.port}", *flags],
            stdout=log, stderr=subprocess.STDOUT)
        test.addCleanup(log.close)
        test.addCleanup(self.process.wait, SECONDS)
        test.addCleanup(self.process.kill)
        until("a Prometheus that is ready", self.ready)

    def ready(self):
        assert self.process.poll() is None, "it ended"
        try:
            return ask(self.port, "GET", "/-/ready")[0] == 200
        except OSError:
            return False

    def value(self, query):
        """Of a query with one result; none: there is not one."""
        answer = json.loads(ask(self.port, "GET", "/api/v1/query?query=" + urllib.parse.quote(query))[2])
        assert answer["status"] == "success", answer
        result = answer["data"]["result"]
        return float(result[0]["value"][1]) if len(result) == 1 else None


class ExposingReplica:
    """A replica that serves no request and exposes the figures of a vLLM."""

    def __init__(self, test, queued, running):
        self.queued, self.running, self.exposes = queued, running, True
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = {"/health": "{}", "/v1/models": '{"data": [{"id": "m", "object": "model"}]}',
                        "/metrics": outer.metrics() if outer.exposes else None}.get(self.path)
                body = (body or "").encode()
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        test.addCleanup(self.server.server_close)
        test.addCleanup(self.server.shutdown)

    def metrics(self):
        names = {"num_requests_waiting": self.queued, "num_requests_running": self.running, "kv_cache_usage_perc": "NaN"}
        lines = [f'vllm:{name}{{model_name="m",engine="0"}} {value}' for name, value in names.items()]
        return "\n".join([*lines, 'vllm:cache_config_info{block_size="16",num_gpu_blocks="1000",engine="0"} 1', ""])


class PrometheusTest(unittest.TestCase):
    def observe(self, replicas, prometheus, **options):
        """A planner that reads telemetry of the replicas from the server."""
        source = {"url": f"http://127.0.0.1:{prometheus.port}", "interval": "500ms", "window": "4s", **options}
        config = config_file(self, gateway={"replicas": [{"url": f"http://{each.address}"} for each in replicas]},
                             model="m", prometheus=source)
        gateway = Gateway(self, "--config", config).ready()
        return Planner(self, "--config", config, "--gateway", f"127.0.0.1:{gateway.admin}")

    @staticmethod
    def samples(planner):
        return {each["url"].removeprefix("http://"): each["sample"] for each in planner.pool()["replicas"]}

    def scraping(self, replicas):
        targets = ", ".join(f"'{each.address}'" for each in replicas)
        return Prometheus(self, free_port(), "global: {scrape_interval: 1s}\nscrape_configs:\n"
                          f"  - {{job_name: vllm, static_configs: [{{targets: [{targets}]}}]}}\n")

    def test_the_planner_reads_engines_from_a_prometheus_server(self):
        replicas = [ExposingReplica(self, 40, 2), ExposingReplica(self, 0, 1)]
        planner = self.observe(replicas, self.scraping(replicas), preset="vllm", matchers='job="vllm"')

        def seen():
            return {name: (sample["queued"], sample["running"]) for name, sample in self.samples(planner).items() if sample}

        until("both replicas", lambda: seen() == {replicas[0].address: (40, 2), replicas[1].address: (0, 1)})
        sample = self.samples(planner)[replicas[0].address]
        self.assertEqual(sample["kv_capacity_tokens"], 16000)
        self.assertIsNone(sample["kv_usage"])  # NaN is not 0.
        until("the matched series", lambda: "prometheus_matched" in planner.log())
        self.assertIn(replicas[0].address, planner.log())
        replicas[0].queued = 7
        until("the change", lambda: seen()[replicas[0].address] == (7, 2))
        # A target that is not scraped any more has no fresh values, and its figures do not become 0.
        replicas[0].exposes = False
        until("the event", lambda: planner.has_event("Prometheus has no fresh series of it", True))
        self.assertEqual(seen()[replicas[0].address], (7, 2))
        age = self.samples(planner)[replicas[0].address]["age_s"]
        until("an older sample", lambda: self.samples(planner)[replicas[0].address]["age_s"] > age)

    def test_queries_of_single_signals_and_their_errors(self):
        replicas = [ExposingReplica(self, 5, 3)]
        queries = [{"signal": "queued_requests", "query": 'sum by (instance) (vllm:num_requests_waiting{job="vllm"})'},
                   {"signal": "running_requests", "query": "sum by (instance) (vllm:num_requests_running)"},
                   {"signal": "kv_usage", "query": "sum by (vllm:kv_cache_usage_perc)"}]
        planner = self.observe(replicas, self.scraping(replicas), queries=queries)
        until("the figures", lambda: (self.samples(planner).get(replicas[0].address) or {}).get("queued") == 5)
        until("the error", lambda: "prometheus_failed" in planner.log())
        self.assertRegex(planner.log(), r"kv_usage.*1:\d+: parse error")
        self.assertIn("sum by (vllm:kv_cache_usage_perc)", planner.log())

    def test_all_metrics_can_be_scraped_and_the_rules_hold(self):
        home = Home(self, "  - {name: chat, replicas: 1, min_replicas: 1, max_replicas: 1}")
        gateway = home.gateway(self)
        planner = home.planner(self, gateway)
        until_serving(home, 1)
        until_routed(gateway, 1)
        (engine,) = gateway.overview()["replicas"]
        prometheus = Prometheus(self, home.own_ports[0], CONFIG.format(
            rules=os.path.abspath(RULES), gateway=gateway.admin, planner=planner.port,
            engine=engine["url"].removeprefix("http://")))

        def ask_and_see(query, condition):
            complete(gateway.port, 20)
            value = prometheus.value(query)
            return value is not None and condition(value)

        until("four targets that are read", lambda: prometheus.value("sum(up)") == 4)
        by = 'pool="chat"'
        for query, condition in (
                (f"llm:token_out_rate:1m{{{by}}}", lambda rate: rate > 0),
                (f"llm:token_in_rate:1m{{{by}}}", lambda rate: rate > 0),
                (f"llm:kv_utilization{{{by}}}", lambda share: 0 <= share <= 1),
                (f"llm:queue_depth{{{by}}}", lambda depth: depth >= 0),
                (f"llm:ttft_seconds:p95_5m{{{by}}}", lambda p95: 0 < p95 < 60),
                (f"llm:tpot_seconds:p95_5m{{{by}}}", lambda p95: 0 < p95 < 60),
                # What an autoscaler asks for, and the same from the engine itself.
                ('sum(llm_queue_depth{model_id="penstock-sim",job="engines"})', lambda depth: depth >= 0),
                ('sum(tokens_out_total{job="engines"}) - sum(tokens_out_total{job="engine"})', lambda off: abs(off) < 1000),
                ("sum(dynamo_planner_num_decode_replicas)", lambda replicas: replicas == 1)):
            with self.subTest(query):
                until(query, lambda: ask_and_see(query, condition))

        texts = {(port, path): ask(port, "GET", path)[2] for port, path in (
            (gateway.admin, "/metrics"), (gateway.admin, "/metrics/epp"), (planner.port, "/metrics"),
            (planner.port, "/metrics/engines"), (planner.port, "/metrics/llm"), (int(engine["url"].rsplit(":", 1)[1]), "/metrics"))}
        for place, text in texts.items():
            done = subprocess.run([os.path.join(prometheus_folder(), "promtool"), "check", "metrics"], input=text,
                                  capture_output=True, text=True, timeout=SECONDS)
            # It exits with 3 where it only has advice on names: those of vLLM, llm-d, Dynamo and recording rules.
            self.assertIn(done.returncode, (0, 3), f"{place}: {done.stdout}{done.stderr}")
            for advice in (done.stdout + done.stderr).splitlines():
                self.assertRegex(advice, "^(vllm:|llm_d_epp_|dynamo_planner_|latency_p95_)", place)

        def own_names(place):
            return set(re.findall("^# TYPE (penstock_[a-z0-9_]+) ", texts[place], re.M))

        # Prometheus adds up series of one name; only their versions may be counted together.
        of_gateway, of_planner = own_names((gateway.admin, "/metrics")), own_names((planner.port, "/metrics"))
        self.assertGreater(min(len(of_gateway), len(of_planner)), 20)
        self.assertEqual(of_gateway & (of_planner | own_names((planner.port, "/metrics/engines"))), {"penstock_build_info"})

    def two_gateways(self, *flags):
        """The slow gateway has the upper half of all values, so that no mean over gateways gives the quantiles."""
        gateways = [Gateway(self, Engine(self, "--engine", f"linear:{step},0,0.05,0", name=f"e{step}").url).ready()
                    for step in (28, 88)]
        config = GATEWAYS.format(first=gateways[0].admin, second=gateways[1].admin)
        return gateways, Prometheus(self, free_port(), config, *flags)

    def load(self, gateways):
        """The reports of load generators that each send 12 requests."""
        with tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, f"{gateway.port}.json") for gateway in gateways]
            loads = [subprocess.Popen(
                [PROGRAM, "load", f"http://127.0.0.1:{gateway.port}", "--concurrency", "3", "--requests", "12",
                 "--input-tokens", "400", "--output-tokens", "20", "--json", file],
                stdout=subprocess.DEVNULL) for gateway, file in zip(gateways, files)]
            for load in loads:
                self.assertEqual(load.wait(SECONDS), 0)
            reports = []
            for file in files:
                with open(file) as opened:
                    reports.append(json.load(opened))
        return reports

    def test_histograms_of_several_gateways_are_summed(self):
        gateways, prometheus = self.two_gateways()
        seen = self.load(gateways)
        until("all gaps", lambda: prometheus.value("sum(penstock_request_itl_seconds_count)") == 2 * 12 * 19)
        bounds = sorted(float(bound) for bound in set(re.findall(
            r'penstock_request_itl_seconds_bucket\{.*le="([0-9.e+-]+)"', ask(gateways[0].admin, "GET", "/metrics")[2])))
        for name, figure in (("itl", "gap_ms"), ("tpot", "itl_ms")):
            family = f"penstock_request_{name}_seconds"
            for quantile, figures in ((0.25, seen[0]), (0.75, seen[1])):
                value = prometheus.value(f"histogram_quantile({quantile}, sum by (le) ({family}_bucket))")
                expected = figures[figure]["p50"] / 1000
                above = next(bound for bound in bounds if bound >= expected)
                below = max([bound for bound in bounds if bound < expected], default=0)
                print(f"{name} {quantile}: {value:.4f} s of Prometheus, {expected:.4f} s of the load generator")
                self.assertLessEqual(abs(value - expected), above - below)
        for name in ("ttft", "e2e", "queue"):
            self.assertEqual(prometheus.value(f"sum(penstock_request_{name}_seconds_count)"), 24, name)
        # Each value of the gateway is below that of the client, which is behind it.
        for name, figure in (("ttft", "ttft_ms"), ("e2e", "latency_ms")):
            mean = prometheus.value(f"sum(penstock_request_{name}_seconds_sum) / sum(penstock_request_{name}_seconds_count)")
            self.assertLessEqual(mean * 1000, sum(figures[figure]["mean"] for figures in seen) / 2)

    def test_native_histograms_of_several_gateways_are_summed(self):
        gateways, prometheus = self.two_gateways("--enable-feature=native-histograms")
        for gateway in gateways:
            complete(gateway.port, 2)

        def count(name):
            return prometheus.value(f"histogram_count(sum(penstock_request_{name}_seconds))")

        # A rate counts what comes after the first scrape of a series.
        until("a scrape of both", lambda: count("e2e") == 2)
        seen = self.load(gateways)
        until("all requests", lambda: count("e2e") == 2 + 24)
        self.assertIsNone(prometheus.value("sum(penstock_request_ttft_seconds_bucket)"), "native buckets replace the others")
        self.assertEqual(count("queue"), 2 + 24)
        for name, figure in (("ttft", "ttft_ms"), ("itl", "gap_ms"), ("tpot", "itl_ms"), ("e2e", "latency_ms")):
            for quantile, figures in ((0.25, seen[0]), (0.75, seen[1])):
                value = prometheus.value(
                    f"histogram_quantile({quantile}, sum(rate(penstock_request_{name}_seconds[1m])))")
                expected = figures[figure]["p50"] / 1000
                print(f"{name} {quantile}: {value:.4f} s of Prometheus, {expected:.4f} s of the load generator")
                # A bucket is 9 % wide, and the client measures behind the gateway.
                self.assertLessEqual(abs(value - expected), 0.1 * expected + 0.005, name)
        # Counters, gauges and summaries come in the same format.
        self.assertEqual(prometheus.value('sum(penstock_requests_total{outcome="completed"})'), 2 + 24)
        self.assertEqual(prometheus.value("sum(penstock_ttft_seconds_count)"), count("ttft"))
        self.assertGreater(prometheus.value('max(penstock_ttft_seconds{quantile="0.5"})'), 0)

    def test_a_planner_exposes_the_same_in_both_formats(self):
        home = Home(self, "  - {name: chat, replicas: 1, min_replicas: 1, max_replicas: 1}")
        gateway = home.gateway(self)
        planner = home.planner(self, gateway)
        until_serving(home, 1)
        until_routed(gateway, 1)
        native, text = (Prometheus(self, port, PLANNER.format(planner=planner.port, gateway=gateway.admin), *flags)
                        for port, flags in ((home.own_ports[0], ["--enable-feature=native-histograms"]), (free_port(), [])))
        for server in (native, text):
            until("three targets that are read", lambda server=server: server.value("sum(up)") == 3)

        def names(server):
            complete(gateway.port, 20)
            listed = json.loads(ask(server.port, "GET", "/api/v1/label/__name__/values")[2])["data"]
            return {name for name in listed if not re.match("penstock_request_.*_seconds", name)}

        # Prometheus cannot compute quantiles from the classic buckets of engines if it lacks them.
        until("the histograms of engines", lambda: "llm_ttft_seconds_bucket" in names(native))
        until("the histograms for llm-d", lambda: "llm_d_epp_request_ttft_seconds_bucket" in names(native))
        until("the same series", lambda: names(native) == names(text))

    def test_the_rules_are_valid(self):
        done = subprocess.run([os.path.join(prometheus_folder(), "promtool"), "check", "rules", RULES],
                              capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("7 rules found", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
