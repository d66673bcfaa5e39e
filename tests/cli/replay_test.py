#!/usr/bin/env python3
"""`penstock replay` from end to end, with the real program on small traces."""

import csv
import io
import json
import re
import signal
import subprocess

import cli_testing
from cli_testing import CliTest, PROGRAM, mooncake, without_wall_speed

SMALL = ["--policy", "static,hpa-rate,dynamo-latency", "--replicas", "1", "--max-replicas", "4"]


def triggers(manifest):
    """Names and thresholds of the triggers of a ScaledObject."""
    return re.findall(r'(?s)name: ([\w-]+)\n +metricType: AverageValue\n.*?threshold: "([\d.]+)"', manifest)


class Replay(CliTest):
    def setUp(self):
        super().setUp()
        self.trace = self.write("trace.jsonl", mooncake())

    def test_prints_one_row_for_each_policy_best_first(self):
        done = self.run_program("replay", self.trace, *SMALL, "--frontier", "1..2")
        self.assertEqual(done.stderr, "")
        for name in ("static 1", "hpa-rate", "dynamo-latency", "static 2"):
            self.assertRegex(done.stdout, rf"(?m)^{name} ")
        self.assertIn("60 requests", done.stdout)
        self.assertIn("capacity of one replica (load-tested in simulation)", done.stdout)

    def test_json_holds_every_policy_and_the_whole_frontier(self):
        self.run_program("replay", self.trace, *SMALL, "--frontier", "1..3", "--json", "out.json")
        report = self.read_json("out.json")
        self.assertEqual(list(report), ["penstock", "headline", "answer", "workload", "options", "notes", "results", "frontier"])
        self.assertEqual({result["policy"] for result in report["results"]}, {"static", "hpa-rate", "dynamo-latency"})
        self.assertEqual(sorted(result["replicas"] for result in report["frontier"]), [1, 2, 3])
        for result in report["results"]:
            self.assertEqual(result["requests"], 60)
            self.assertEqual(result["completed"] + result["failed"], 60)
            self.assertLessEqual(result["ttft_ms"]["p50"], result["ttft_ms"]["p99"])
            self.assertTrue(0.0 <= result["slo_attainment"] <= 1.0)

    def test_the_gateway_permits_what_fits_the_kv_cache_of_an_engine(self):
        long = {"timestamp": 0, "input_length": 200_000, "output_length": 10, "hash_ids": list(range(391))}
        done = self.run_program("replay", self.write("long.jsonl", json.dumps(long) + "\n"), "--policy", "static", "--slo", "ttft=60s,itl=50ms",
                                "--no-answer", "--json", "out.json")
        (result,) = self.read_json("out.json")["results"]
        self.assertEqual((result["slo_attainment"], result["failures"]), (1.0, []), done.stdout)

    def test_a_request_has_the_class_of_its_tenant(self):
        rows = [f"{i / 10},500,20,{'nightly' if i % 3 == 0 else 'search'}" for i in range(60)]
        trace = self.write("classes.csv", "arrival_s,input_tokens,output_tokens,tenant\n" + "\n".join(rows) + "\n")
        config = self.write("penstock.yaml", """
            tenants: [{name: nightly, keys: [sk-n], class: batch}, {name: search, keys: [sk-s]}]
            slo: {ttft: 1s, itl: 50ms, segments: [{name: later, class: batch, ttft: 5m}]}
            """)
        for router in ("live", "kv"):
            self.run_program("replay", trace, "--config", config, "--router", router, "--policy", "static", "--no-answer", "--json", "out.json")
            (result,) = self.read_json("out.json")["results"]
            self.assertEqual([(each["name"], each["requests"]) for each in result["targets"]], [("general", 40), ("later", 20)])
            self.assertEqual({each["label"]: each["requests"] for each in result["segments"] if each["dimension"] == "traffic class"},
                             {"interactive": 40, "batch": 20})

    def test_a_fleet_that_may_have_no_replica_is_compared_with_fixed_fleets_of_some(self):
        """A minute of requests, an hour of pause, and five requests more."""
        times = [*range(60), *range(3660, 3665)]
        trace = self.write("pause.csv", "timestamp,input_tokens,output_tokens\n" + "".join(f"{at},200,20\n" for at in times))
        self.run_program("replay", trace, "--min-replicas", "0", "--max-replicas", "2", "--scale-to-zero-after", "5m", "--time-format", "s", "--policy", "penstock,keda-tokens",
                         "--json", "out.json")
        report = self.read_json("out.json")
        fixed = report["answer"]["cheapest_fixed"]
        self.assertEqual(fixed["replicas_by_pool"], [1])
        for result in report["results"]:
            self.assertEqual(result["failed"], 0, result["policy"])
            self.assertLess(result["gpu_hours"], 0.5 * fixed["gpu_hours"], result["policy"])
        reasons = {decision["reason"] for decision in report["results"][0]["decisions"]} | {decision["reason"] for decision in report["results"][1]["decisions"]}
        self.assertLessEqual({"scaled_to_zero", "first_replica"}, reasons)

    def test_ends_with_what_reaches_the_goal_at_the_lowest_cost(self):
        done = self.run_program("replay", self.trace, "--max-replicas", "4", "--json", "out.json")
        report = self.read_json("out.json")
        self.assertEqual({result["policy"] for result in report["results"]},
                         {"penstock", "static", "hpa-rate", "keda-tokens", "dynamo-latency"})
        answer = report["answer"]
        self.assertEqual(answer["goal"], 0.99)
        self.assertTrue(answer["cheapest_fixed"]["reaches_goal"])
        for kind in ("cheapest_rule", "penstock"):
            named = answer[kind]
            [result] = [each for each in report["results"] if each["label"] == named["label"]]
            self.assertEqual((named["gpu_hours"], named["slo_attainment"]), (result["gpu_hours"], result["slo_attainment"]))
        self.assertEqual(" ".join(done.stdout.split()[-len(answer["text"].split()):]), answer["text"])
        # A smaller fleet than the one that is named misses the goal.
        size = answer["cheapest_fixed"]["replicas"]
        self.assertEqual(answer["cheapest_fixed"]["replicas_by_pool"], [size])
        if size > 1:
            self.run_program("replay", self.trace, "--policy", "static", "--replicas", size - 1, "--no-answer", "--json", "less.json")
            self.assertLess(self.read_json("less.json")["results"][0]["slo_attainment"], 0.99)

    def test_the_fixed_fleet_of_two_pools_is_named_by_pool(self):
        self.run_program("replay", self.trace, "--policy", "static", "--pool", "role=prefill,max_replicas=3", "--pool",
                         "role=decode,max_replicas=3", "--json", "out.json")
        fixed = self.read_json("out.json")["answer"]["cheapest_fixed"]
        self.assertEqual(sum(fixed["replicas_by_pool"]), fixed["replicas"])
        self.assertRegex(fixed["label"], r"^\d prefill \+ \d decode$")

    def test_without_an_answer_no_fleet_is_searched(self):
        done = self.run_program("replay", self.trace, *SMALL, "--no-answer", "--json", "out.json")
        self.assertIsNone(self.read_json("out.json")["answer"])
        self.assertNotIn("cheapest fixed fleet", done.stdout)

    def test_emits_a_scaled_object_with_the_thresholds_of_the_load_test(self):
        capacity = "requests_per_s=2,input_tokens_per_s=2400,output_tokens_per_s=80,concurrency=4"
        done = self.run_program("replay", self.trace, "--policy", "keda-tokens,kpa", "--max-replicas", "4", "--capacity", capacity,
                                "--emit", "keda", "--namespace", "llm")
        self.assertIn("cheapest fixed fleet", done.stderr)
        for text in ("kind: ScaledObject\nmetadata:\n  name: default\n  namespace: llm\n", "minReplicaCount: 1\n  maxReplicaCount: 4\n",
                     'sum(rate(vllm:prompt_tokens_total{namespace=\\"llm\\",pod=~\\"default-.*\\"}[1m]))'):
            self.assertIn(text, done.stdout)
        self.assertEqual(triggers(done.stdout), [("prompt-tokens", "1800"), ("output-tokens", "60"), ("kv-cache", "0.75")])
        self.assertNotIn("fallback", done.stdout)

    def test_emits_pools_as_the_configuration_names_them(self):
        self.write("p.yaml", "prometheus: {url: 'http://prometheus:9090', preset: sglang, matchers: 'job=\"llm\"'}\n"
                   "pools:\n  - {role: prefill, kubernetes: statefulset/pre}\n  - {role: decode, max_replicas: 3}\n")
        done = self.run_program("replay", self.trace, "--config", "p.yaml", "--policy", "keda-tokens", "--emit", "keda")
        prefill, decode = done.stdout.split("\n---\n")
        self.assertIn("apiVersion: apps/v1\n    kind: StatefulSet\n    name: pre\n", prefill)
        self.assertIn('serverAddress: "http://prometheus:9090"\n', prefill)
        self.assertIn('query: "sum(rate(sglang:prompt_tokens_total{job=\\"llm\\"}[1m]))"\n', prefill)
        self.assertEqual([name for name, _ in triggers(prefill)], ["prompt-tokens"])
        self.assertEqual([name for name, _ in triggers(decode)], ["output-tokens", "kv-cache"])

    def test_emits_the_external_scaler_where_penstock_is_the_best_that_keda_can_run(self):
        done = self.run_program("replay", self.trace, "--policy", "penstock,kpa", "--max-replicas", "4", "--emit", "keda",
                                "--fallback", "3:2", "--cron", "Etc/UTC; 0 8 * * *; 0 18 * * *; 4")
        self.assertIn("  fallback:\n    failureThreshold: 3\n    replicas: 2\n    behavior: currentReplicasIfHigher\n", done.stdout)
        self.assertIn("type: cron\n", done.stdout)
        self.assertIn("type: external-push\n", done.stdout)
        self.assertIn('scalerAddress: "penstock-planner.default.svc:9090"\n', done.stdout)

    def test_says_why_keda_cannot_run_a_policy(self):
        self.assert_refused("replay", self.trace, "--policy", "kpa,dynamo-latency", "--emit", "keda",
                            says="--emit: KEDA can run none of the policies: kpa: its panic mode is in Knative's autoscaler")
        self.assert_refused("replay", self.trace, "--emit", "keda", "--namespace", "A b", says="--namespace: 'A b'")
        self.write("p.yaml", "prometheus: {preset: tgi}\npools: [{kubernetes: leaderworkerset/x}]\n")
        done = self.run_program("replay", self.trace, "--config", "p.yaml", "--emit", "keda", code=2)
        self.assertIn("no series of tgi are known for --emit keda; there are vllm or sglang", done.stderr)
        self.assertIn("another autoscaler can scale a Deployment or a StatefulSet, is 'leaderworkerset/x'", done.stderr)

    def test_csv_and_html_are_written(self):
        self.run_program("replay", self.trace, *SMALL, "--csv", "out.csv", "--html", "out.html")
        rows = list(csv.DictReader(io.StringIO((self.folder / "out.csv").read_text())))
        self.assertEqual(len(rows), 3)
        page = (self.folder / "out.html").read_text()
        self.assertTrue(page.startswith("<!"))
        self.assertNotIn("http-equiv=\"refresh\"", page)
        self.assertEqual(self.files(), ["out.csv", "out.html", "trace.jsonl"])

    def test_same_seed_same_bytes_however_many_jobs(self):
        flags = ["--policy", "all", "--max-replicas", "4", "--frontier", "1..4", "--crashes", "20", "--seed", "7"]
        for name, jobs in (("one", 1), ("two", 2), ("again", 2)):
            self.run_program("replay", self.trace, *flags, "--jobs", jobs, "--json", f"{name}.json", "--csv", f"{name}.csv",
                             "--html", f"{name}.html")
        for other in ("two", "again"):
            for kind in ("json", "html"):
                first, second = ((self.folder / f"{name}.{kind}").read_text() for name in ("one", other))
                self.assertEqual(without_wall_speed(first), without_wall_speed(second))

    def test_all_policies_include_clairvoyant(self):
        self.run_program("replay", self.trace, "--policy", "all", "--max-replicas", "3", "--json", "out.json")
        policies = {result["policy"] for result in self.read_json("out.json")["results"]}
        self.assertLess({"static", "kpa", "apa", "llmd-slo", "dynamo-throughput", "clairvoyant"}, policies)

    def test_a_clairvoyant_has_a_goal_and_reports_when_it_misses_it(self):
        names = ["clairvoyant:goal=95%", "clairvoyant:goal=0.8"]
        trace = "synthetic:rate=12,duration=6m,input=3000,output=200"
        done = self.run_program("replay", trace, "--policy", ",".join(names), "--start-up", "2m", "--max-replicas", 6,
                                "--no-answer", "--json", "out.json")
        results = {each["policy"]: each for each in self.read_json("out.json")["results"]}
        self.assertEqual([results[name]["goal"] for name in names], [0.95, 0.8])
        for name in names:
            missed = f"{name}: its SLO attainment of" in done.stdout
            self.assertEqual(results[name]["goal_kept"], results[name]["slo_attainment"] >= results[name]["goal"])
            self.assertEqual(results[name]["goal_kept"], not missed)
        self.assertLessEqual(results[names[1]]["gpu_hours"], results[names[0]]["gpu_hours"])

    def test_a_clairvoyant_is_not_dearer_than_a_row_that_reaches_its_goal(self):
        self.run_program("replay", "built-in", "--policy", "clairvoyant:goal=90%,static,keda-tokens,hpa-rate",
                         "--max-replicas", "6", "--replicas", "2", "--no-answer", "--json", "out.json")
        results = {each["policy"]: each for each in self.read_json("out.json")["results"]}
        own = results.pop("clairvoyant:goal=90%")
        self.assertTrue(own["goal_kept"])
        for other in results.values():
            if other["slo_attainment"] >= 0.9:
                self.assertLessEqual(own["gpu_hours"], other["gpu_hours"])

    def test_settings_of_a_policy_follow_its_name(self):
        names = ["hpa-rate", "hpa-rate:utilisation=0.3"]
        done = self.run_program("replay", "built-in", "--policy", ",".join(names), "--max-replicas", "8", "--no-answer",
                                "--json", "out.json")
        results = {each["policy"]: each for each in self.read_json("out.json")["results"]}
        self.assertEqual(set(results), set(names))
        self.assertGreater(results[names[1]]["gpu_hours"], results[names[0]]["gpu_hours"])
        self.assertRegex(done.stdout, r"(?m)^hpa-rate:utilisation=0\.3 ")

    def test_a_schedule_of_replicas_is_followed(self):
        plan = self.write("plan.csv", "time,replicas\n0,1\n10s,3\n20,2\n")
        self.run_program("replay", self.trace, "--policy", f"schedule:{plan}", "--max-replicas", "4", "--start-up", "0s",
                         "--json", "out.json", "--report-dir", "reports")
        (result,) = self.read_json("out.json")["results"]
        self.assertEqual((result["policy"], result["scaling_actions"]), (f"schedule:{plan}", 2))

    def test_static_keeps_the_initial_replicas(self):
        self.run_program("replay", self.trace, "--policy", "static", "--replicas", "3", "--json", "out.json")
        result = self.read_json("out.json")["results"][0]
        self.assertEqual((result["replicas"], result["peak_replicas"], result["scaling_actions"]), (3, 3, 0))

    def test_several_traces_run_together(self):
        self.run_program("replay", self.trace, self.write("more.jsonl", mooncake(requests=40)), "--policy", "static",
                         "--json", "out.json")
        self.assertEqual(self.read_json("out.json")["results"][0]["requests"], 100)

    def test_window_and_rate_choose_the_requests(self):
        self.run_program("replay", self.trace, "--policy", "static", "--from", "5s", "--to", "15s", "--rate-scale", "2",
                         "--json", "out.json")
        self.assertEqual(self.read_json("out.json")["results"][0]["requests"], 40)

    def test_the_first_minutes_are_served_and_not_scored(self):
        self.run_program("replay", self.trace, "--policy", "static", "--json", "whole.json")
        self.run_program("replay", self.trace, "--policy", "static", "--score-from", "10s", "--json", "scored.json")
        whole, scored = (self.read_json(f"{name}.json")["results"][0] for name in ("whole", "scored"))
        self.assertEqual((whole["requests"], scored["requests"]), (60, 40))
        self.assertAlmostEqual(whole["duration_s"] - scored["duration_s"], 10.0, places=6)
        self.assertAlmostEqual((whole["gpu_hours"] - scored["gpu_hours"]) * 3600, 10.0, places=6)
        self.assertEqual(self.read_json("scored.json")["workload"]["score_from_s"], 10)

    def test_copies_are_moved_by_the_given_spread(self):
        for spread in ("1s", "10s"):
            done = self.run_program("replay", self.trace, "--policy", "static", "--rate-scale", "2", "--rate-scale-spread",
                                    spread, "--json", f"{spread}.json")
            self.assertIn(f"(copies moved by up to {spread[:-1]} s)", done.stdout)
        self.assertNotEqual(self.read_json("1s.json")["results"][0]["series"]["arrivals_per_s"],
                            self.read_json("10s.json")["results"][0]["series"]["arrivals_per_s"])

    def test_batch_requests_wait_for_spare_capacity(self):
        words = ("replay", "built-in", "--to", "5m", "--batch-share", "50%", "--policy", "static", "--no-answer", "--json")
        self.run_program(*words, "at_once.json")
        [row] = self.read_json("at_once.json")["results"]
        self.assertEqual(row["gateway"]["deferral"]["sent_spare"], 0)
        self.run_program(*words, "deferred.json", "--defer-batch", "10m")
        [row] = self.read_json("deferred.json")["results"]
        self.assertGreater(row["gateway"]["deferral"]["sent_spare"], 0)
        self.assertEqual([target["name"] for target in row["targets"]], ["general", "batch"])

    def test_synthetic_traffic_needs_no_file(self):
        done = self.run_program("replay", "synthetic:rate=2,duration=60s,input=500,output=50", "--policy", "static")
        self.assertRegex(done.stdout, r"(?m)^static 1 ")

    def test_a_prompt_larger_than_the_kv_cache_is_counted_failed(self):
        large = self.write("large.jsonl", mooncake(requests=1, input_length=60000) + mooncake(requests=20).replace(
            '"timestamp": 0,', '"timestamp": 1,'))
        done = self.run_program("replay", large, "--policy", "static", "--kv-blocks", "50", "--json", "out.json")
        result = self.read_json("out.json")["results"][0]
        self.assertEqual(result["failures"], [{"reason": "prompt_exceeds_kv_cache", "requests": 1}])
        self.assertIn("prompt_exceeds_kv_cache", done.stdout)

    def test_prefill_and_decode_pools(self):
        self.run_program("replay", self.trace, "--policy", "static,hpa-rate", "--pool", "role=prefill,replicas=1",
                         "--pool", "role=decode,replicas=2", "--max-replicas", "4", "--frontier", "2..4", "--json", "out.json")
        report = self.read_json("out.json")
        self.assertEqual({result["replicas"] for result in report["results"]}, {3})
        self.assertEqual(sorted(result["replicas"] for result in report["frontier"]), [2, 3, 4])
        self.assertTrue(any("decode replica" in note for note in report["notes"]))

    def test_a_given_capacity_is_not_load_tested(self):
        done = self.run_program("replay", self.trace, "--policy", "hpa-rate", "--capacity",
                                "requests_per_s=2,input_tokens_per_s=2400,output_tokens_per_s=80,concurrency=4")
        self.assertIn("capacity of one replica (as given)", done.stdout)
        done = self.run_program("replay", self.trace, "--policy", "hpa-rate", "--capacity", "requests_per_s=2")
        self.assertIn("capacity of one replica (load-tested in simulation, requests_per_s as given): 2.00 requests/s", done.stdout)

    def test_flags_overrule_the_configuration(self):
        self.write("p.yaml", "trace: [trace.jsonl]\npolicy: [static]\nreplicas: 2\nslo:\n  ttft: 1s\n")
        self.run_program("replay", "--config", "p.yaml", "--replicas", "3", "--json", "out.json")
        report = self.read_json("out.json")
        self.assertEqual([result["replicas"] for result in report["results"]], [3])

    def test_the_command_in_the_report_repeats_the_run(self):
        name = self.write("it's a trace.jsonl", mooncake())
        self.run_program("replay", name, "--policy", "static", "--replicas", "2", "--json", "out.json")
        report = (self.folder / "out.json").read_text()
        self.assertIn("penstock replay 'it'\\\\''s a trace.jsonl' --policy static --replicas 2", report)

    def test_progress_goes_to_standard_error_alone(self):
        done = self.run_program("replay", self.trace, "--policy", "static", "--progress")
        self.assertIn("2 of 2", done.stderr)
        self.assertNotIn("[####", done.stdout)

    def test_interrupt_ends_quickly_with_130_and_leaves_no_file(self):
        flags = ["--policy", "all", "--max-replicas", "32", "--frontier", "1..64", "--json", "out.json"]
        running = subprocess.Popen([PROGRAM, "replay", "built-in", "--rate-scale", "50", "--progress", *flags],
                                   cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(running.stderr.read(1), b"\r", "the progress bar says that it is at work")
        running.send_signal(signal.SIGINT)
        output, _ = running.communicate(timeout=20)
        self.assertEqual((running.returncode, output), (130, b""))
        self.assertEqual(self.files(), ["trace.jsonl"])

    def test_a_file_that_cannot_be_written_costs_neither_the_table_nor_the_others(self):
        words = ("replay", "synthetic:rate=2,duration=1m,input=300,output=20", "--policy", "static", "--replicas", 1)
        good = self.run_program(*words, "--html", "good.html")
        done = self.run_program(*words, "--html", "/dev/full", "--csv", "/dev/./full", "--json", "out.json", "--metrics",
                                "out.prom", code=1)
        self.assertEqual(len(done.stdout.splitlines()), len(good.stdout.splitlines()))
        self.assertIn("A fixed fleet of 1 replica is the cheapest", done.stdout)
        for name in ("/dev/full", "/dev/./full"):
            self.assertIn(f"penstock: {name}: cannot write: No space left on device", done.stderr)
        self.assertEqual([each["policy"] for each in self.read_json("out.json")["results"]], ["static"])
        self.assertIn("out.prom", self.files())
        self.run_program(*words, "--quiet", "--json", "/dev/full", code=1)


TWO = """policy: [penstock, keda-tokens]
max_replicas: 4
start_up: 10s
planner: {throughput_interval: 30s, tick_interval: 5s, memory: 2m, stabilisation: 20s}
budget: {gpus: 5}
deployments:
  - {name: chat, model: a, priority: 1, trace: "synthetic:rate=1..9,shape=step,at=3m,duration=5m,input=9000,output=150"}
  - {name: mail, model: b, trace: "synthetic:rate=5,duration=4m,input=9000,output=150"}
"""


class Deployments(CliTest):
    def test_the_example_is_replayed_within_its_budget(self):
        example = cli_testing.Path(__file__).resolve().parents[2] / "docs/examples/deployments.yaml"
        self.run_program("check", example)
        done = self.run_program("replay", "--config", example, "--policy", "penstock", "--to", "20m", "--json", "out.json")
        report = self.read_json("out.json")
        [policy] = report["policies"]
        self.assertEqual([each["name"] for each in report["deployments"]], ["chat", "mail"])
        self.assertTrue(policy["limited_by_budget"])
        self.assertLessEqual(policy["peak_gpus"], 8)
        self.assertEqual([each["available"] for each in policy["resources"]], [8])
        self.assertEqual(policy["requests"], sum(each["workload"]["requests"] for each in report["deployments"]))
        self.assertAlmostEqual(policy["gpu_hours"], sum(each["results"][0]["gpu_hours"] for each in report["deployments"]))
        for name in ("chat", "mail", "all"):
            self.assertRegex(done.stdout, rf"(?m)^penstock +{name} ")

    def test_the_page_and_the_csv_have_all_deployments(self):
        self.write("p.yaml", TWO)
        self.run_program("replay", "--config", "p.yaml", "--policy", "static", "--html", "out.html", "--csv", "out.csv")
        header, *rows = (self.folder / "out.csv").read_text().splitlines()
        self.assertTrue(header.startswith("deployment,set,policy,"))
        self.assertEqual([row.split(",")[0] for row in rows], ["chat", "mail"])
        data = re.search(r'id="report-data">(.*?)</script>', (self.folder / "out.html").read_text(), re.S).group(1)
        self.assertEqual([each["name"] for each in json.loads(data)["deployments"]], ["chat", "mail"])

    def test_a_short_budget_limits_penstock_and_explain_says_so(self):
        self.write("p.yaml", TWO)
        done = self.run_program("replay", "--config", "p.yaml", "--json", "out.json", "--decision-log", "log.jsonl")
        report = self.read_json("out.json")
        policies = {policy["policy"]: policy for policy in report["policies"]}
        self.assertLessEqual(policies["penstock"]["peak_gpus"], 5)
        self.assertGreater(policies["keda-tokens"]["peak_gpus"], 5, "the rule of others does not know the budget")
        self.assertIn("exceeds the budget", done.stdout)
        uses = {each["name"]: {result["policy"]: result["budget_use"] for result in each["results"]}
                for each in report["deployments"]}
        self.assertGreater(uses["mail"]["penstock"]["limited_s"], 0)
        self.assertEqual(uses["mail"]["keda-tokens"]["limited_s"], 0)
        explained = self.run_program("explain", "log.jsonl", "--policy", "penstock", "--pool", "mail").stdout
        self.assertIn("limited by gpu_budget", " ".join(explained.split()))
        again = self.run_program("replay", "--config", "p.yaml", "--jobs", "1", "--json", "again.json", "--quiet")
        self.assertEqual(again.stdout, "")
        self.assertEqual((self.folder / "again.json").read_bytes(), (self.folder / "out.json").read_bytes())

    def test_a_trace_of_the_command_line_is_that_of_all(self):
        self.write("p.yaml", TWO)
        trace = self.write("trace.jsonl", mooncake())
        self.run_program("replay", trace, "--config", "p.yaml", "--policy", "static", "--json", "out.json")
        self.assertEqual([each["workload"]["requests"] for each in self.read_json("out.json")["deployments"]], [60, 60])

    def test_what_takes_one_deployment_is_refused_with_its_line(self):
        self.write("p.yaml", TWO)
        self.assert_refused("replay", "--config", "p.yaml", "--metrics", "x.txt",
                            says="--metrics: the file of metrics takes one deployment, there are 2")
        self.assert_refused("replay", "--config", "p.yaml", "--policy", "clairvoyant",
                            says="--policy: the policy clairvoyant takes one deployment, there are 2")
        self.assert_refused("replay", "--config", "p.yaml", "--emit", "keda", says="--emit: takes one deployment")
        self.assert_refused("decide", "--config", "p.yaml", says="--deployment: is needed, because the file has several")
        self.write("q.yaml", "deployments:\n  - {name: chat, model: a, trace: built-in}\n  - {name: mail, model: b}\n")
        self.assert_refused("replay", "--config", "q.yaml", says="q.yaml:3:5: deployments[1]: needs the key trace; name a file")
        self.write("q.yaml", "deployments:\n  - {name: chat, model: a, trace: gone.csv}\n  - {name: mail, model: b, trace: built-in}\n")
        self.assert_refused("replay", "--config", "q.yaml", says="gone.csv: ")


if __name__ == "__main__":
    cli_testing.main()
