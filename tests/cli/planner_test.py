#!/usr/bin/env python3
"""Penstock's planner through the command line: phases, targets, segments, schedules, the budget, what decisions say."""

import collections
import json
import re

import cli_testing
from cli_testing import CliTest, azure

# A load that one replica cannot carry.
BUSY = "synthetic:rate=16,duration=6m,input=3000,output=200"
# One that it carries easily.
STEADY = "synthetic:rate=10,duration=40m,input=3000,output=200"
QUIET = "synthetic:rate=2,duration=6m,input=800,output=60"
FLAGS = ["--policy", "penstock", "--max-replicas", "6", "--start-up", "30s"]


class Planner(CliTest):
    def explain(self, *flags):
        """The page with each sentence on one line."""
        return re.sub(r"\n {4}(?=\S)", " ", self.run_program("explain", "log.jsonl", *flags).stdout)

    def replay(self, *flags, trace=BUSY):
        """The result, and every decision in the order of the log."""
        self.run_program("replay", *([trace] if trace else []), *FLAGS, "--decision-log", "log.jsonl", "--json",
                         "out.json", *flags)
        entries = [json.loads(line) for line in (self.folder / "log.jsonl").read_text().splitlines()]
        result, = self.read_json("out.json")["results"]
        return result, entries

    def replay_yaml(self, yaml, trace=QUIET):
        self.write("p.yaml", yaml)
        return self.replay("--config", "p.yaml", trace=trace)


class Phases(Planner):
    def test_observe_changes_nothing_and_reports_the_plan(self):
        result, entries = self.replay("--phase", "observe", "--replicas", "2", "--warm-pool", "3")
        self.assertEqual(result["decisions"], [])
        self.assertEqual({(e["current"], e["target"], e["reason"], e["phase"]) for e in entries},
                         {(2, 2, "observe_only", "observe")})
        self.assertTrue(any(e["candidates"] for e in entries))

    def test_guardrails_report_the_plan(self):
        result, entries = self.replay("--phase", "guardrails")
        self.assertEqual(result["decisions"], [])
        self.assertGreater(max(e["next_phase_target"] for e in entries), 1)
        self.assertIn("the target would be", self.run_program("explain", "log.jsonl", "--at", "6m").stdout)

    def test_every_other_phase_scales(self):
        for phase in ("throughput", "load", "phase-specific", "cost"):
            result, entries = self.replay("--phase", phase, "--throughput-interval", "30s")
            self.assertGreater(max(d["target"] for d in result["decisions"]), 1, phase)
            self.assertEqual({e["phase"] for e in entries}, {phase})
            self.assertEqual(phase == "cost", all(e.get("next_phase_target") is None for e in entries))

    def test_a_loop_can_be_switched_off(self):
        for flags in (["--load-interval", "0s", "--throughput-interval", "30s"], ["--throughput-interval", "0s"]):
            result, _ = self.replay(*flags)
            self.assertGreater(max(d["target"] for d in result["decisions"]), 1, flags)


class Targets(Planner):
    def test_throughput_scales_by_load_and_tries_nothing(self):
        for target in ("throughput", "latency"):
            result, entries = self.replay("--target", target)
            self.assertIn("load_above_target", {d["reason"] for d in result["decisions"]})
            self.assertFalse(any(e["candidates"] for e in entries))
            self.assertNotIn("cheapest_that_keeps_slo", {e["reason"] for e in entries})

    def test_a_segment_with_a_stricter_target_needs_a_larger_fleet(self):
        rows = [f"2024-05-10 00:{i // 240:02}:{i // 4 % 60:02}.{i % 4 * 250:03},{2000 if i % 4 else 200},40"
                for i in range(1440)]
        self.write("mixed.csv", azure(rows))
        strict = "slo: {ttft: 5s, itl: 100ms, segments: [{name: chat, prompt_max: 400, ttft: 150ms, itl: 7ms}]}\n"
        plain, _ = self.replay_yaml("slo: {ttft: 5s, itl: 100ms}\n", trace="mixed.csv")
        parted, _ = self.replay_yaml(strict, trace="mixed.csv")
        self.assertGreater(parted["gpu_hours"], plain["gpu_hours"])

    def test_a_target_without_an_slo_refuses_slo_options(self):
        self.write("p.yaml", "slo: {segments: [{name: chat, prompt_max: 400, ttft: 1s}]}\nplanner: {target: throughput}\n")
        self.assert_refused("replay", QUIET, *FLAGS, "--config", "p.yaml", says="planner.target: must be sla")


class Schedules(Planner):
    SCHEDULE = ('planner:\n  start_time: 2026-01-05T07:58:00Z\n  schedules:\n'
                '    - {cron: "%s", length: 1h, replicas: 4}\n')

    def test_a_scheduled_floor_is_ready_when_it_begins(self):
        result, _ = self.replay_yaml(self.SCHEDULE % "0 8 * * *")
        raised = [d for d in result["decisions"] if d["target"] >= 4]
        self.assertTrue(raised)
        self.assertLessEqual(raised[0]["at_s"], 90)  # the start-up time before 08:00
        self.assertGreater(raised[0]["at_s"], 5)
        self.assertEqual(raised[0]["reason"], "schedule")
        result, _ = self.replay_yaml(self.SCHEDULE % "0 9 * * *")
        self.assertFalse([d for d in result["decisions"] if d["target"] >= 4])

    def test_a_cron_that_cannot_be_read_is_an_error_with_its_place(self):
        self.write("p.yaml", self.SCHEDULE % "61 8 * * *")
        place = "p.yaml:4:14: planner.schedules[0].cron: minute must be 0-59, is 61"
        self.assertIn(place, self.assert_refused("replay", QUIET, *FLAGS, "--config", "p.yaml", says=place))
        self.assertEqual(self.run_program("check", "p.yaml", code=2).stderr, place + "\n")

    def test_check_reports_every_bad_cron_and_a_missing_warm_trace(self):
        self.write("p.yaml", "planner:\n  warm_trace: missing.csv\n  schedules:\n"
                   '    - {cron: "0 8 * *", length: 1h, replicas: 4}\n'
                   '    - {cron: "0 8 * * *", length: 1h, replicas: 4}\n'
                   '    - {cron: "0 25 * * *", length: 1h, replicas: 4}\n')
        done = self.run_program("check", "p.yaml", code=2)
        self.assertEqual(done.stdout, "")
        self.assertEqual([line[:line.index(":", line.index("planner."))] for line in done.stderr.splitlines()],
                         ["p.yaml:4:14: planner.schedules[0].cron", "p.yaml:6:14: planner.schedules[2].cron",
                          "p.yaml:2:15: planner.warm_trace"])
        self.assertIn("missing.csv: cannot be opened", done.stderr)

    def test_check_accepts_what_can_be_read(self):
        self.write("past.csv", azure(f"2024-05-10 00:{i // 60:02}:{i % 60:02},500,40" for i in range(600)))
        self.write("p.yaml", self.SCHEDULE % "0 8 * * 1-5" + "  warm_trace: past.csv\n")
        self.assertIn("p.yaml: ok", self.run_program("check", "p.yaml").stdout)

    def test_policies_without_schedules_and_a_late_clairvoyant_are_named(self):
        self.write("p.yaml", "planner: {warm_pool: 1}\n")
        trace = "synthetic:rate=40,duration=4m,input=3000,output=200"
        page = " ".join(self.run_program("replay", trace, "--config", "p.yaml", "--policy", "clairvoyant,static", "--start-up", "3m",
                                         "--max-replicas", 4).stdout.split())
        self.assertRegex(page, r"clairvoyant: its SLO attainment of [0-9.]+ % misses the goal of 99\.0 %")
        self.assertIn("the warm pool is part of the policy penstock, and not of clairvoyant, static", page)


class Stages(Planner):
    def test_the_warm_pool_adds_to_the_plan(self):
        plain, _ = self.replay(trace=QUIET)
        warm, entries = self.replay("--warm-pool", "2", trace=QUIET)
        self.assertEqual(max([1] + [d["target"] for d in plain["decisions"]]) + 2,
                         max(d["target"] for d in warm["decisions"]))
        self.assertIn("warm_pool", {e["reason"] for e in entries})

    def test_the_gpu_budget_limits_growth(self):
        result, entries = self.replay("--gpus", "2", "--gpu-budget", "5")
        self.assertEqual(max(d["target"] for d in result["decisions"]), 2)
        self.assertIn("gpu_budget", {e["limited_by"] for e in entries})

    def test_a_gpu_budget_below_the_smallest_fleet_is_refused(self):
        text = self.assert_refused("replay", BUSY, *FLAGS, "--gpus", "2", "--min-replicas", "3", "--replicas", "3",
                                   "--gpu-budget", "5", says="--gpu-budget: must be")
        self.assertIn("at least the 6 GPUs", text)

    def test_a_warm_trace_initialises_forecasts(self):
        def expected_at_first(entries):
            return next((e["forecast"]["requests_per_s"] for e in entries if e.get("forecast")), None)

        rows = [f"2024-05-10 {i // 3600:02}:{i // 60 % 60:02}:{i % 60:02},500,40" for i in range(7200)]
        self.write("past.csv", azure(rows))
        _, entries = self.replay("--warm-trace", "past.csv", trace=QUIET)
        _, cold = self.replay(trace=QUIET)
        self.assertIsNotNone(entries[0].get("forecast"))
        self.assertAlmostEqual(expected_at_first(entries), 1.0, delta=0.3)  # what the past had
        self.assertIsNone(cold[0].get("forecast"))
        self.assert_refused("replay", QUIET, *FLAGS, "--warm-trace", "missing.csv", says="missing.csv: cannot be opened")


class Explanation(Planner):
    def test_the_log_and_explain_show_phase_diagnosis_and_candidates(self):
        result, entries = self.replay()
        grown = [e for e in entries if e["target"] > e["current"]]
        self.assertTrue(grown)
        for entry in entries:
            self.assertEqual(entry["phase"], "cost")
            self.assertTrue(entry["cause"] and entry["diagnosis"])
        tried = [e for e in entries if e["candidates"]]
        self.assertTrue(tried)
        for entry in tried:
            self.assertEqual(sum(c["chosen"] for c in entry["candidates"]), 1)
        at = next(e["at_s"] for e in grown if e["candidates"])
        page = self.explain("--at", f"{at:.0f}s")
        for part in ("Phase cost.", "Diagnosis: ", "Simulated fleets", "chosen", "attainment_with_one_fewer_replica"):
            self.assertIn(part, page)

    def test_sentences_agree_with_their_tables(self):
        """Every claim of an explanation is computed again from the evidence and the simulated fleets below it."""
        claims = collections.Counter()
        for trace in (BUSY, STEADY, "built-in"):
            _, entries = self.replay(trace=trace)
            for entry in (e for e in entries if e["candidates"]):
                page = self.explain("--at", f"{entry['at_s'] * 1000:.0f}ms")
                reason = re.search(r"Decided at .*?: .*?, because (.*)\.\n", page)[1]
                figures = {each["name"]: each["value"] for each in entry["evidence"]}
                planned = max(figures.get("floor", 0), figures.get("load_based_target", 0))
                tried = {c["replicas"]["default"]: c["slo_attainment"] for c in entry["candidates"]}
                less = tried.get(entry["target"] - 1)
                if entry["limited_by"]:
                    self.assertIn("it is limited by", reason)
                    claims["limit"] += 1
                elif "cheapest simulated fleet" in reason:
                    self.assertEqual(entry["target"], planned, page)
                    if "at the forecast rate" in reason:
                        self.assertGreater(figures["expected_growth"], 1, page)
                        claims["forecast"] += 1
                    if "likely loads" in reason:
                        self.assertGreaterEqual(less, figures["attainment_needed"], page)
                        self.assertLess(figures["attainment_over_futures_with_one_fewer_replica"],
                                        figures["attainment_over_futures_needed"], page)
                        self.assertNotIn("would be enough", page)
                        claims["likely loads"] += 1
                    elif less is not None:
                        self.assertLess(less, figures["attainment_needed"], page)
                        claims["cheapest"] += 1
                elif "raised by" in reason:
                    self.assertGreater(entry["target"], planned, page)
        for claim in ("limit", "likely loads"):
            self.assertGreater(claims[claim], 0, claims)

    def test_same_seed_same_bytes(self):
        self.replay("--seed", "3")
        first = (self.folder / "log.jsonl").read_bytes()
        self.replay("--seed", "3")
        self.assertEqual((self.folder / "log.jsonl").read_bytes(), first)


if __name__ == "__main__":
    cli_testing.main()
