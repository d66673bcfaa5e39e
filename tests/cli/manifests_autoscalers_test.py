#!/usr/bin/env python3
"""`penstock manifests autoscalers`, and the commands in docs/examples with their numbers. PENSTOCK_UPDATE_GOLDEN=1 rewrites the golden files."""

import os
import re
import shlex
from pathlib import Path

import cli_testing
from cli_testing import CliTest

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).resolve().parent / "golden"
TARGET = ("--target", "token-out-rate=8000")


def example_commands(name):
    """The words of each `penstock manifests` in the first comment of an example, without the pipe to kubectl."""
    comment = re.match(r"(#.*\n)+", (ROOT / "docs/examples" / name).read_text())[0]
    text = re.sub(r"(?m)^#", "", comment).replace("\\\n", " ")
    return [shlex.split(line.split("|")[0])[1:] for line in text.splitlines() if line.strip().startswith("penstock ")]


class Autoscalers(CliTest):
    def manifests(self, *flags, text="pools: [{name: mail, class: batch}, {name: chat}]\n", kind="keda"):
        self.write("penstock.yaml", text)
        return self.run_program("manifests", "autoscalers", "penstock.yaml", "--autoscaler", kind, *flags).stdout

    def example(self, name, index):
        words = example_commands(name)[index]
        return self.run_program(*(str(ROOT / word) if word.startswith("docs/") else word for word in words)).stdout

    def assert_golden(self, name, text):
        path = GOLDEN / f"manifests-{name}.yaml"
        text = text.replace(f"{ROOT}/", "")
        if os.environ.get("PENSTOCK_UPDATE_GOLDEN"):
            path.write_text(text)
        self.assertEqual(text, path.read_text())

    def assert_numbers(self, text, *lines):
        """Each text is in the document, whatever the indentation and the quotes."""
        plain = re.sub(r"\n +", "\n", text).replace('"', "")
        for line in lines:
            if f"\n{line}\n" not in f"{plain}\n":
                self.fail(f"{line!r} is not in the manifests")

    def test_the_hpa_of_the_example_has_the_numbers_of_the_page(self):
        text = self.example("token-rates.yaml", 0)
        self.assert_golden("autoscalers-hpa", text)
        self.assertEqual(re.findall(r"(?m)^  name: (\S+)$", text), ["llm-batch", "llm-interactive", "llm-token-rates"])
        self.assert_numbers(
            text, "minReplicas: 1\nmaxReplicas: 40", "name: llm_token_out_rate\ntarget:\ntype: AverageValue\naverageValue: 8000",
            "name: llm_kv_utilization\ntarget:\ntype: AverageValue\naverageValue: 0.75",
            "scaleUp:\nstabilizationWindowSeconds: 0\npolicies:\n- type: Percent\nvalue: 200\nperiodSeconds: 60",
            "scaleDown:\nstabilizationWindowSeconds: 300\npolicies:\n- type: Percent\nvalue: 50\nperiodSeconds: 60")
        for record in ("llm:token_in_rate:1m", "llm:token_out_rate:1m", "llm:kv_utilization", "llm_token_out_rate", "llm_kv_utilization"):
            self.assertIn(f"- record: {record}", text)

    def test_the_scaled_objects_of_the_examples_have_the_numbers_of_the_page(self):
        tokens, queue = self.example("token-rates.yaml", 1), self.example("queue-depth.yaml", 0)
        self.assert_golden("autoscalers-keda", queue)
        self.assert_numbers(tokens, "minReplicaCount: 1\nmaxReplicaCount: 40\npollingInterval: 30\ncooldownPeriod: 300\ntriggers:",
                            "threshold: 8000", "threshold: 0.85")
        self.assertIn("[30s]", tokens)
        self.assert_numbers(
            queue, "minReplicaCount: 2\nmaxReplicaCount: 20\npollingInterval: 10\ncooldownPeriod: 120", "threshold: 15",
            "threshold: 5000", "scaleUp:\nstabilizationWindowSeconds: 30\npolicies:\n- type: Pods\nvalue: 3\nperiodSeconds: 60",
            "scaleDown:\nstabilizationWindowSeconds: 300\npolicies:\n- type: Pods\nvalue: 1\nperiodSeconds: 120")
        self.assertNotIn("PrometheusRule", queue)

    def test_the_engines_of_the_examples_have_the_settings_of_the_page(self):
        vllm, triton, large = self.example("token-rates.yaml", 2), self.example("token-rates.yaml", 3), self.example("queue-depth.yaml", 1)
        for text in (vllm, triton, large):
            self.assert_numbers(text, "minAvailable: 80%")
            self.assertNotIn("20%", text)
        self.assert_numbers(vllm, "- --gpu-memory-utilization\n- 0.9", "- --max-num-seqs\n- 512", "nvidia.com/mig-2g.20gb: 1",
                            "nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB", "nvidia.com/mig.strategy: mixed", "claimName: models-pvc",
                            "name: llm-interactive-warm")
        self.assert_numbers(triton, "preferred_batch_size: [ 1, 2, 4, 8, 16, 32 ]\nmax_queue_delay_microseconds: 3000",
                            "max_queue_delay_microseconds: 5000", "memory: 32Gi")
        self.assert_numbers(large, "- --enable-prefix-caching", "- --max-num-batched-tokens\n- 8192")

    def test_the_examples_name_series_that_penstock_exposes(self):
        exposed = (ROOT / "src/telemetry/token_metrics.cpp").read_text()
        text = "".join(self.example(*each) for each in (("token-rates.yaml", 0), ("token-rates.yaml", 1), ("queue-depth.yaml", 0)))
        series = set(re.findall(r"(\w+)\{pool=", text)) | set(re.findall(r"[( ](\w+)\[\dm\]", text))
        self.assertLessEqual({"tokens_out_total", "tokens_in_total", "llm_kv_cache_usage_ratio", "llm_queue_depth"}, series)
        for name in series:
            self.assertIn(f'"{name.removesuffix("_bucket")}"', exposed)

    def test_the_values_of_prometheus_adapter_have_each_metric_of_an_hpa(self):
        every = ("token-in-rate=1", "token-out-rate=1", "kv-utilization=1", "queue-depth=1", "ttft-p95=2s", "slo-burn-rate=1")
        text = self.manifests(*(word for target in every for word in ("--target", target)), "--prometheus-rule", kind="hpa")
        metrics = set(re.findall(r"metric:\n +name: (\S+)", text))
        self.assertEqual(len(metrics), len(every))
        self.assertEqual(metrics, set(re.findall(r"- record: (\w+)\n", text)))
        rule = re.search(r'__name__=~"([^"]+)"', (ROOT / "docs/examples/prometheus-adapter.yaml").read_text())[1]
        self.assertEqual(metrics, set(rule.split("|")))

    def test_a_value_of_one_pool_replaces_that_of_all(self):
        text = self.manifests(*TARGET, "--target", "mail:token-out-rate=500", "--scale-up", "4/1m", "--scale-up", "mail:50%/30s")
        mail, chat = text.split("\n---\n")
        self.assert_numbers(chat, "threshold: 8000", "- type: Pods\nvalue: 4\nperiodSeconds: 60")
        self.assert_numbers(mail, "threshold: 500", "- type: Percent\nvalue: 50\nperiodSeconds: 30")
        self.assertNotIn("8000", mail)

    def test_pools_of_the_same_name_in_other_namespaces_are_not_added(self):
        for kind in ("keda", "hpa"):
            text = self.manifests(*TARGET, "--namespace", "llm", "--prometheus-rule", kind=kind)
            self.assertIn(r'tokens_out_total{pool=\"chat\",namespace=~\"llm|\"}', text)
            text = self.manifests(*TARGET, "--namespace", "llm", "--planner-namespace", "monitoring", "--prometheus-rule", kind=kind)
            self.assertIn(r'tokens_out_total{pool=\"chat\",namespace=~\"monitoring|\"}', text)

    def test_a_pool_scales_on_ttft_and_the_burn_rate_beside_its_load(self):
        flags = (*TARGET, "--target", "chat:ttft-p95=1500ms", "--target", "slo-burn-rate=1", "--rate-window", "2m", "--namespace", "llm")
        mail, chat = self.manifests(*flags).split("\n---\n")
        self.assert_numbers(chat, "name: ttft-p95\nmetricType: AverageValue", "threshold: 1.5", "name: slo-burn-rate\nmetricType: AverageValue", "threshold: 1")
        self.assertIn(r'rate(llm_ttft_seconds_bucket{pool=\"chat\",namespace=~\"llm|\"}[120s])', chat)
        self.assertIn(r'penstock_decision_evidence{name=\"burn_rate\",pool=\"mail\",namespace=~\"llm|\"}', mail)
        self.assertNotIn("ttft", mail)
        self.assertNotIn("too small", mail)
        self.assert_numbers(self.manifests(*flags, kind="hpa"), "name: llm_ttft_p95_seconds\ntarget:\ntype: AverageValue\naverageValue: 1.5")
        self.assertIn("# Pool mail shrinks whenever its latency is good, and may then be too small: add a --target of its load.\n",
                      self.manifests("--target", "chat:queue-depth=4", "--target", "mail:ttft-p95=2s"))

    def test_a_fallback_asks_for_the_replicas_that_there_are(self):
        pools = "pools: [{name: mail, class: batch, max_replicas: 8}, {name: chat, min_replicas: 2, max_replicas: 8}]\n"
        self.assertNotIn("fallback", self.manifests(*TARGET, text=pools))
        mail, chat = self.manifests(*TARGET, "--fallback", "3", text=pools).split("\n---\n")
        self.assert_numbers(mail, "fallback:\nfailureThreshold: 3\nreplicas: 1\nbehavior: currentReplicasIfHigher")
        self.assert_numbers(chat, "fallback:\nfailureThreshold: 3\nreplicas: 2\nbehavior: currentReplicasIfHigher")
        mail, chat = self.manifests(*TARGET, "--fallback", "5:6:static", "--fallback", "mail:none", text=pools).split("\n---\n")
        self.assertNotIn("fallback", mail)
        self.assert_numbers(chat, "fallback:\nfailureThreshold: 5\nreplicas: 6\ntriggers:")
        planner = self.run_program("manifests", "planner", "penstock.yaml", "--autoscaler", "keda", "--fallback", "chat:3:6",
                                   "--cron", "chat:Etc/UTC; 0 8 * * *; 0 9 * * *; 3").stdout
        self.assert_numbers(planner, "fallback:\nfailureThreshold: 3\nreplicas: 6\nbehavior: currentReplicasIfHigher", "- type: cron")
        self.assertEqual((planner.count("fallback:"), planner.count("type: cron")), (1, 1))

    def test_times_of_the_calendar_are_triggers_of_cron(self):
        text = ("pools: [{name: mail, class: batch, max_replicas: 8}, {name: chat, max_replicas: 8}]\n"
                "planner:\n  utc_offset: +02:00\n  schedules:\n    - {cron: '0 20 * * 1-5', length: 12h, pool: chat, replicas: 6}\n"
                "    - {cron: '*/30 8 * * *', length: 5m, pool: mail, replicas: 2}\n")
        made = self.manifests(*TARGET, "--cron", "mail:Europe/Berlin; 0 8 * * *; 0 9 * * *; 3", text=text)
        mail, chat = made.split("\n---\n")
        self.assert_numbers(chat, "- type: cron\nmetadata:\ntimezone: Etc/GMT-2\nstart: 0 20 * * 1-5\nend: 0 8 * * 2-6\ndesiredReplicas: 6")
        self.assert_numbers(mail, "- type: cron\nmetadata:\ntimezone: Europe/Berlin\nstart: 0 8 * * *\nend: 0 9 * * *\ndesiredReplicas: 3")
        self.assertIn("# KEDA's cron scaler cannot have the schedule '*/30 8 * * *' of planner.schedules: it has several starts a day; give --cron.\n", made)
        self.assertEqual(made.count("type: cron"), 2)
        self.assertIn("# A HorizontalPodAutoscaler has no planner.schedules", self.manifests(*TARGET, text=text, kind="hpa"))

    def test_what_is_not_given_is_left_to_kubernetes(self):
        self.assertNotIn("advanced", self.manifests(*TARGET))
        self.assertNotIn("behavior", self.manifests(*TARGET, kind="hpa"))
        text = self.manifests(*TARGET, "--scale-down-window", "0s")
        self.assertNotIn("scaleUp", text)
        self.assertNotIn("policies", text)

    def test_only_the_planner_starts_a_first_replica(self):
        zero = "models: [{name: m}]\npools: [{name: mail, class: batch}, {name: chat, min_replicas: 0}]\n"
        self.write("zero.yaml", zero)
        says = "zero.yaml:2:64: pools[1].min_replicas: is 0, and a {} starts no first replica; write 1, or let the planner scale it"
        for kind, which in (("keda", "trigger on the load of replicas"), ("hpa", "HorizontalPodAutoscaler")):
            self.assert_refused("manifests", "autoscalers", "zero.yaml", "--autoscaler", kind, *TARGET, says=says.format(which))
        self.write("ca.pem", "-----BEGIN CERTIFICATE-----\n")
        self.assert_refused("manifests", "planner", "zero.yaml", "--autoscaler", "hpa", "--ca", "ca.pem", says=says.format("HorizontalPodAutoscaler"))
        text = self.run_program("manifests", "planner", "zero.yaml", "--autoscaler", "keda", "--fallback", "3").stdout
        self.assertEqual(re.findall(r"minReplicaCount: (\d+)", text), ["1", "0"])
        self.assertEqual(re.findall(r"(?m)^ *replicas: (\d+)$", text.split("kind: ScaledObject", 1)[1]), ["1", "1"], "a fallback starts a replica")

    def test_what_kubernetes_refuses_is_one_line(self):
        self.write("g.yaml", "pools: [{name: chat}]\n")
        for flags, says in (((), "--autoscaler: is missing; as --autoscaler keda, or hpa"),
                            (("--autoscaler", "keda"), "--target: is missing for the pool 'chat'"),
                            (("--autoscaler", "keda", "--target", "chat:rps=1"), "--target: 'rps=1' must be METRIC=NUMBER"),
                            (("--autoscaler", "keda", "--target", "kv-utilization=75"), "needs a number from 0.001 to 1 "),
                            (("--autoscaler", "keda", *TARGET, "--scale-up", "200%"), "--scale-up: '200%' must be AMOUNT/PERIOD"),
                            (("--autoscaler", "keda", *TARGET, "--scale-down", "1/1h"), "a period that must be whole seconds from 1s to 1800s"),
                            (("--autoscaler", "keda", *TARGET, "--scale-up", "0/60s"), "a number of pods or of percent"),
                            (("--autoscaler", "keda", *TARGET, "--scale-up-window", "2h"), "--scale-up-window: '2h' must be whole seconds"),
                            (("--autoscaler", "keda", *TARGET, "--polling-interval", "500ms"), "--polling-interval"),
                            (("--autoscaler", "hpa", *TARGET, "--cooldown", "60s"), "--cooldown: is of --autoscaler keda"),
                            (("--autoscaler", "hpa", *TARGET, "--planner-namespace", "a.b"), "--planner-namespace"),
                            (("--autoscaler", "keda", "--target", "ttft-p95=2"), "needs a duration from 1ms to 1h after the '='; "),
                            (("--autoscaler", "keda", "--target", "slo-burn-rate=5000"), "needs a number from 0.001 to 1000 "),
                            (("--autoscaler", "keda", *TARGET, "--fallback", "three"), "--fallback: 'three' must be FAILURES from 0 to 1000, with or without :REPLICAS above 0; as 3, 3:6, 3:6:static or none"),
                            (("--autoscaler", "keda", *TARGET, "--fallback", "3:0"), "with or without :REPLICAS above 0"),
                            (("--autoscaler", "keda", *TARGET, "--fallback", "3:400"), "--fallback: asks for 400 replicas of the pool 'chat', whose max_replicas is "),
                            (("--autoscaler", "keda", *TARGET, "--cron", "8-18=6"), "must be TIMEZONE; START; END; REPLICAS"),
                            (("--autoscaler", "keda", *TARGET, "--cron", "Etc/UTC; 0 25 * * *; 0 9 * * *; 2"), "--cron: 'Etc/UTC; 0 25 * * *; 0 9 * * *; 2' is refused: "),
                            (("--autoscaler", "hpa", *TARGET, "--fallback", "3:1"), "--fallback: is of --autoscaler keda"),
                            (("--autoscaler", "hpa", *TARGET, "--image", "x"), "--image: is not a flag of `penstock manifests autoscalers`")):
            self.assert_refused("manifests", "autoscalers", "g.yaml", *flags, says=says)
        self.assert_refused("manifests", "planner", "g.yaml", *TARGET, says="--target: is not a flag of `penstock manifests planner`")
        self.assert_refused("manifests", "planner", "g.yaml", "--cron", "x", says="--cron: is of --autoscaler keda")
        self.assert_refused("manifests", "gateway", "g.yaml", "--fallback", "3:1", says="--fallback: is not a flag of `penstock manifests gateway`")


if __name__ == "__main__":
    cli_testing.main()
