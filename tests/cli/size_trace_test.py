#!/usr/bin/env python3
"""`penstock size TRACE`: the smallest fleet of each engine for recorded traffic, as text and as JSON."""

import json
import re

import cli_testing
from cli_testing import CliTest

TRACE = ("synthetic:rate=6,duration=3m,input=1500,output=150",)
GRID = ("--engine", "roofline:llama-3.1-8b", "--gpu-types", "h100=2.5,l40s=0.9", "--tensor-parallel", "1", "--autoscaled", 0)
SLO = ("--slo", "ttft=1s,itl=30ms,goal=95%")


class SizeTrace(CliTest):
    def size(self, *words):
        return json.loads(self.run_program("size", *TRACE, *words, "--json", "-", "--quiet").stdout)

    def attainment(self, engine, replicas):
        fleet = ("--replicas", replicas, "--min-replicas", replicas, "--max-replicas", replicas)
        done = self.run_program("replay", *TRACE, "--engine", engine["engine"], *fleet, *SLO, "--policy", "static", "--no-answer",
                                "--quiet", "--json", "-")
        return json.loads(done.stdout)["results"][0]["slo_attainment"]

    def test_a_replay_of_the_fleet_reaches_the_goal_and_of_one_fewer_does_not(self):
        made = self.size(*GRID, *SLO)
        reached = [each for each in made["engines"] if each["reaches_goal"]]
        self.assertTrue(reached)
        several = [each for each in reached if each["replicas"] > 1]
        self.assertTrue(several, made)
        for each in several:
            self.assertGreaterEqual(self.attainment(each, each["replicas"]), 0.95)
            self.assertLess(self.attainment(each, each["replicas"] - 1), 0.95)
            self.assertAlmostEqual(each["best"]["slo_attainment"], self.attainment(each, each["replicas"]))
            self.assertEqual(each["one_fewer"]["replicas"], each["replicas"] - 1)
            self.assertTrue(0.0 < each["utilisation"] <= 1.0, each)
            self.assertAlmostEqual(each["usd_per_hour"], each["replicas"] * each["price_per_gpu_hour"])

    def test_the_table_is_sorted_by_cost_and_does_not_depend_on_the_jobs(self):
        words = (*TRACE, *GRID, *SLO)
        page = self.run_program("size", *words, "--jobs", 1).stdout
        self.assertEqual(self.run_program("size", *words, "--jobs", 3).stdout, page)
        self.assertRegex(page, r"(?m)^engine +cas +GPUs")
        self.assertRegex(page, r"is the cheapest that reaches 95\.0 %, at ")
        self.assertLessEqual(max(map(len, page.splitlines())), 120)
        made = self.size(*GRID, *SLO)
        costs = [each["best"]["cost_usd"] for each in made["engines"] if each["reaches_goal"]]
        self.assertEqual(costs, sorted(costs))
        self.assertEqual(made["command"].split()[:2], ["penstock", "size"])

    def test_what_rules_an_engine_out_has_a_figure(self):
        made = {each["label"]: each for each in self.size("--engine", "roofline:llama-3.1-70b", "--gpu-types", "h100,l4", "--tensor-parallel", "1,2",
                                                          "--slo", "ttft=1s,itl=2ms,goal=95%", "--max-replicas", 2)["engines"]}
        self.assertEqual({each["ruled_out"] for each in made.values()}, {"weights", "itl"})
        self.assertIn("GiB of weights a GPU do not fit", made["l4 tp=1 bf16"]["why"])
        self.assertRegex(made["h100_sxm tp=2 bf16"]["why"], r"^0\.0 % of the requests keep it at best, with \d replicas?.*; the p95 is \d")
        self.assertIsNone(made["h100_sxm tp=2 bf16"]["replicas"])
        page = self.run_program("size", *TRACE, "--engine", "roofline:llama-3.1-70b,h100,tp=2", "--slo", "ttft=1s,itl=2ms", "--max-replicas", 2).stdout
        self.assertRegex(" ".join(page.split()), r"Does not reach the goal h100_sxm tp=2 bf16: ITL: .* No candidate reaches 99\.0 %\. The closest is")

    def test_prompts_beyond_the_kv_cache_are_counted(self):
        page = self.run_program("size", *TRACE, "--engine", "polynomial", "--kv-blocks", 2, "--block-size", 16).stdout
        self.assertRegex(" ".join(page.split()), r"polynomial: memory: the KV cache of a replica holds 33 tokens, and [\d,]+ of [\d,]+ requests "
                                                 r"\(100\.0 %\) do not fit; the longest has [\d,]+ tokens: choose more GPUs")
        self.assertRegex(" ".join(page.split()), r"No candidate reaches 99\.0 %\. The closest is polynomial with 1 replica \(1 GPU\) at 0\.0 %: choose more GPUs")

    def test_a_kv_cache_beyond_the_memory_of_one_engine_rules_that_one_out(self):
        engines = ("--engine", "roofline:llama-3.1-8b", "--gpu-types", "h100,l40s", "--tensor-parallel", 1, "--autoscaled", 0, "--slo", "ttft=1s,itl=30ms")
        made = {each["label"]: each for each in self.size(*engines, "--kv-blocks", 500)["engines"]}
        self.assertEqual(made["h100_sxm tp=1 bf16"]["ruled_out"], "none")
        self.assertEqual(made["l40s tp=1 bf16"]["ruled_out"], "kv_cache")
        self.assertRegex(made["l40s tp=1 bf16"]["why"], r"^500 blocks of 512 tokens do not fit the GPUs, which hold \d+ tokens .*; leave it out for \d+ tokens$")
        config = self.folder / "penstock.yaml"
        config.write_text("engine: {kv_blocks: 500}\n")
        page = " ".join(self.run_program("size", *TRACE, "--config", config, *engines).stdout.split())
        self.assertIn("l40s tp=1 bf16: memory: 500 blocks of 512 tokens do not fit the GPUs", page)
        page = " ".join(self.run_program("size", *TRACE, *engines, "--kv-blocks", 100_000).stdout.split())
        self.assertIn("h100_sxm tp=1 bf16: memory: 100000 blocks", page)
        self.assertIn("No candidate can serve the trace", page)

    def test_gpus_that_do_not_divide_the_heads_rule_an_engine_out(self):
        words = ("--engine", "roofline:llama-3.1-8b,l40s", "--autoscaled", 0, *SLO, "--tensor-parallel")
        made = {each["label"]: each for each in self.size(*words, "1,3")["engines"]}
        self.assertEqual((made["l40s tp=1 bf16"]["ruled_out"], made["l40s tp=3 bf16"]["ruled_out"]), ("none", "heads"))
        self.assertIn("must divide the 32 attention heads of llama-3.1-8b, is 3", made["l40s tp=3 bf16"]["why"])
        page = " ".join(self.run_program("size", *TRACE, *words, "3").stdout.split())
        self.assertIn("l40s tp=3 bf16: tensor parallelism: must divide the 32 attention heads", page)
        self.assertIn("No candidate can serve the trace: choose numbers of GPUs that divide the attention heads of the model.", page)
        self.assert_refused("replay", *TRACE, "--engine", "roofline:llama-3.1-8b,h100,tp=3", says="roofline: tp: must divide the 32 attention heads")

    def test_each_engine_may_have_a_price(self):
        linear = "linear:8,0.1,0.05,0.00005"
        made = {each["engine"]: each for each in self.size("--engine", "polynomial@4.5", "--engine", linear, "--price", 2, "--autoscaled", 0, *SLO)["engines"]}
        self.assertEqual((made["polynomial"]["price_per_gpu_hour"], made["polynomial"]["has_own_price"]), (4.5, True))
        self.assertEqual((made[linear]["price_per_gpu_hour"], made[linear]["has_own_price"]), (2, False))
        made = {each["label"]: each for each in self.size("--engine", "roofline:llama-3.1-8b@3", *GRID[2:3], "h100,l40s=0.9", *GRID[4:], *SLO)["engines"]}
        self.assertEqual([made[f"{gpu} tp=1 bf16"]["price_per_gpu_hour"] for gpu in ("h100_sxm", "l40s")], [3, 0.9])
        self.assert_refused("size", *TRACE, "--engine", "polynomial@1", "--engine", "polynomial@2", says="--engine: polynomial has two prices")
        self.assert_refused("size", *TRACE, "--engine", "polynomial@x", says="step-time model 'polynomial@x': is unknown")

    def test_autoscaling_is_compared_on_the_cheapest(self):
        made = self.size("--engine", "roofline:llama-3.1-8b,l40s,tp=1", "--engine", "polynomial", "--autoscaled", 1, *SLO)
        autoscaled = [each["autoscaled"] for each in made["engines"] if each["autoscaled"]]
        self.assertEqual(len(autoscaled), 1)
        self.assertIsNotNone(made["engines"][0]["autoscaled"])
        self.assertGreater(autoscaled[0]["gpu_hours"], 0.0)

    def test_an_engine_of_a_file_is_a_candidate_and_its_values_count(self):
        config = self.folder / "penstock.yaml"
        config.write_text("trace: [built-in]\nto: 3m\nprice: 4\nslo: {goal: 0.9}\nengine: {model: 'roofline:llama-3.1-8b,h100,tp=1'}\n")
        made = json.loads(self.run_program("size", "--config", config, "--autoscaled", 0, "--json", "-", "--quiet").stdout)
        self.assertEqual((made["slo_goal"], made["workload"], len(made["engines"])), (0.9, "built-in", 1))
        self.assertEqual(made["engines"][0]["price_per_gpu_hour"], 4)

    def test_wrong_flags_are_refused(self):
        engine = ("--engine", "roofline:llama-3.1-8b,h100")
        for words, says in (((*TRACE,), "--engine: is missing; write roofline:MODEL,GPU"),
                            ((*TRACE, *engine, "--rate", 2), "--rate: has no effect on a trace, whose requests are the load"),
                            ((*engine, "--from", "1h"), "--from: needs a trace"),
                            ((*engine, *engine), "--engine: is given more than once"),
                            (("no-such.csv", *engine), "no-such.csv"),
                            ((*TRACE, *engine, "--gpu-types", "h100=x"), "--gpu-types: price of h100:"),
                            ((*TRACE, *engine, "--gpu-types", "h100x"), "GPU 'h100x' is not in the catalogue"),
                            ((*TRACE, *engine, "--tensor-parallel", "x"), "--tensor-parallel: "),
                            ((*TRACE, "--engine", "polynomial", "--precisions", "fp8"), "polynomial: is no roofline"),
                            ((*TRACE, *engine, "--json", "/no/such/folder/x.json"), "/no/such/folder")):
            code = 1 if "--json" in words else 2
            done = self.run_program("size", *words, code=code)
            self.assertIn(says, done.stderr)
        two = self.folder / "two.yaml"
        two.write_text("trace: [built-in]\npools: [{role: prefill}, {role: decode}]\n")
        self.assert_refused("size", "--config", two, *engine, says="--config: has several pools")

    def test_help_shows_both_forms(self):
        page = self.run_program("size", "--help").stdout
        for part in ("Usage: penstock size [TRACE]… [FLAG…]", "--gpu-types NAME[=PRICE],…", "--rate-scale", "--jobs", "--config FILE"):
            self.assertIn(part, page)
        self.assertEqual(len(re.findall(r"(?m)^  --engine ", page)), 1)


if __name__ == "__main__":
    cli_testing.main()
