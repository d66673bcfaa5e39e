#!/usr/bin/env python3
"""`penstock check`, `up`, `workload`, and the pages of help."""

import json
import os
import unittest
from pathlib import Path

import cli_testing
from cli_testing import CliTest, azure, mooncake

ROOT = Path(__file__).resolve().parents[2]


class Help(CliTest):
    def test_every_command_has_a_page(self):
        page = self.run_program("--help").stdout
        for command in ("replay", "up", "workload", "check"):
            self.assertIn(command, page)
            own = self.run_program(command, "--help").stdout
            self.assertTrue(own.startswith(f"Usage: penstock {command}"))
            self.assertEqual(own, self.run_program("help", command).stdout)

    def test_replay_shows_groups_defaults_policies_and_examples(self):
        page = self.run_program("replay", "--help").stdout
        for part in ("Workload:", "Fleet:", "Engine:", "--kv-blocks COUNT", "[2000]", "[ttft=2s,itl=50ms,goal=0.99]",
                     "clairvoyant",
                     "Examples:"):
            self.assertIn(part, page)
        self.assertLessEqual(max(map(len, page.splitlines())), 140)

    def test_version(self):
        self.assertRegex(self.run_program("--version").stdout, r"\Apenstock \d+\.\d+\.\d+\n\Z")

    def test_no_command_shows_the_help_and_fails(self):
        done = self.run_program(code=2)
        self.assertIn("Commands:", done.stderr)

    def test_the_reference_page_is_what_the_program_says(self):
        page = self.run_program("replay", "--options-markdown").stdout
        self.assertEqual((ROOT / "docs/reference/replay-options.md").read_text(), page)


class Check(CliTest):
    def test_a_good_file(self):
        self.write("p.yaml", "trace: a.csv\npolicy: all\nreplicas: 2\nmax_replicas: 8\n")
        done = self.run_program("check", "p.yaml")
        self.assertRegex(done.stdout, r"\Ap\.yaml: ok, 1 trace, \d+ policies, replicas default 1\.\.8 from 2\n\Z")

    def test_every_problem_with_its_line_and_column(self):
        self.write("p.yaml", "replicas: 9\nmax_replicas: 8\nslo: {ttft: 0s}\n")
        done = self.run_program("check", "p.yaml", code=2)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.splitlines(),
                         ["p.yaml:3:13: slo.ttft: must be longer than 0",
                          "p.yaml:1:11: replicas: must be at most max_replicas (8), is 9"])

    def test_contradictions_of_the_slo_and_the_planner(self):
        self.write("p.yaml", "slo: {segments: [{name: chat, tenat: x}]}\nplanner: {predictor: seasonale, gpu_budget: 8}\n")
        self.assertEqual(self.run_program("check", "p.yaml", code=2).stderr.splitlines(),
                         ["p.yaml:1:31: slo.segments[0].tenat: is no known key; did you mean tenant?"])
        self.write("p.yaml", "slo: {segments: [{name: chat, ttft: 1s}]}\nplanner: {predictor: seasonale, gpu_budget: 1}\n"
                   "pools: [{gpus: 2, price: 3}]\n")
        lines = self.run_program("check", "p.yaml", code=2).stderr.splitlines()
        self.assertEqual([line.split(";")[0] for line in lines],
                         ["p.yaml:1:18: slo.segments[0]: selects nothing",
                          "p.yaml:2:22: planner.predictor: no predictor is called 'seasonale'",
                          "p.yaml:2:45: planner.gpu_budget: must be at least the 2 GPUs of the pools' min_replicas, is 1"])

    def test_engines_formats_and_described_traffic_are_looked_up(self):
        self.write("p.yaml", "trace: [missing.csv, 'synthetic:colour=red']\nformat: moncake\nengine: {model: linaer}\n")
        lines = self.run_program("check", "p.yaml", code=2).stderr.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertTrue(all(line.startswith("p.yaml: ") for line in lines))

    def test_a_file_that_is_not_there(self):
        self.assert_refused("check", "missing.yaml", says="missing.yaml: cannot be opened")

    def test_takes_one_file(self):
        self.assert_refused("check", says="takes one FILE, there are 0")


class Workload(CliTest):
    def test_table(self):
        done = self.run_program("workload", self.write("trace.jsonl", mooncake(requests=61)))
        self.assertRegex(done.stdout, r"(?m)^requests +61$")
        self.assertRegex(done.stdout, r"(?m)^format +mooncake$")
        self.assertRegex(done.stdout, r"(?m)^prompt tokens p50/p95/p99/max +1,200 / 1,200 / 1,200 / 1,200$")

    def test_json_and_several_traces(self):
        self.write("a.jsonl", mooncake(requests=10))
        done = self.run_program("workload", "a.jsonl", "built-in", "--json")
        first, built_in, together = json.loads(done.stdout)["workloads"]
        self.assertEqual((first["name"], first["requests"], built_in["format"]), ("a.jsonl", 10, "built-in"))
        self.assertEqual(together["requests"], 10 + built_in["requests"])

    def test_skipped_rows_are_shown(self):
        self.write("some.csv", azure(["2023-11-16 18:17:03.1,10,5", "2023-11-16 18:17:04.1,0,5"]))
        done = self.run_program("workload", "some.csv", "--skip-bad-rows")
        self.assertRegex(done.stdout, r"(?m)^bad rows left out +1$")
        self.assertIn("skipped: some.csv:3: ", done.stdout)

    def test_bad_input(self):
        self.assert_refused("workload", self.write("empty.csv", ""), says="empty.csv")
        self.assert_refused("workload", says="there is no trace to read")


class Up(CliTest):
    def test_writes_the_report_and_says_where(self):
        done = self.run_program("up")
        self.assertEqual(self.files(), ["report", "report/penstock-report.html"])
        self.assertTrue(done.stdout.endswith("report: report/penstock-report.html\n"))
        self.assertRegex(done.stdout, r"(?m)^clairvoyant ")
        self.assertEqual(done.stderr, "")

    def test_opens_the_report_only_where_there_is_a_display(self):
        opener = self.folder / "xdg-open"
        opener.write_text("#!/bin/sh\nprintf '%s' \"$1\" > opened.part && mv opened.part opened\n")
        opener.chmod(0o755)
        path = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
        flags = ["up", "--html", "page.html"]
        self.run_program(*flags, environment={"PATH": path})
        self.assertNotIn("opened", self.files())
        self.run_program(*flags, environment={"PATH": path, "DISPLAY": ":0"})
        for _ in range(100):
            if "opened" in self.files():
                break
            cli_testing.pause()
        self.assertEqual(os.path.realpath((self.folder / "opened").read_text()), os.path.realpath(self.folder / "page.html"))


if __name__ == "__main__":
    cli_testing.main()
