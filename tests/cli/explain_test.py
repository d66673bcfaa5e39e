#!/usr/bin/env python3
"""Decision logs: `penstock replay --decision-log`, `penstock explain`, and reports on intervals."""

import json
import os
import re
import sqlite3
import subprocess

import cli_testing
from cli_testing import CliTest

# A load that one replica cannot carry for long, then next to none.
BUSY = "synthetic:rate=16,duration=6m,input=3000,output=200"
FLAGS = ["--policy", "dynamo-latency,hpa-rate,static", "--max-replicas", "6", "--start-up", "30s"]


class DecisionLog(CliTest):
    def setUp(self):
        super().setUp()
        self.log = "log.jsonl"

    def replay(self, *flags):
        return self.run_program("replay", BUSY, *FLAGS, *flags)

    def entries(self, name="log.jsonl"):
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def test_every_change_of_the_report_is_in_the_log_with_its_evidence(self):
        self.replay("--decision-log", self.log, "--json", "out.json")
        entries = self.entries()
        for result in self.read_json("out.json")["results"]:
            changes = [(e["at_s"], e["current"], e["target"], e["reason"], e["limited_by"]) for e in entries
                       if e["policy"] == result["policy"] and e["current"] != e["target"]]
            self.assertEqual(changes, [(d["at_s"], d["current"], d["target"], d["reason"], d["limited_by"])
                                       for d in result["decisions"]])
        self.assertGreater(len([e for e in entries if e["current"] < e["target"]]), 0)
        self.assertGreater(len([e for e in entries if e["current"] == e["target"]]), 0)
        for entry in entries:
            self.assertTrue(entry["would_change"])
            if entry["current"] != entry["target"]:
                self.assertTrue(all(e["name"] and e["unit"] for e in entry["evidence"]) and entry["evidence"])

    def test_both_kinds_of_log_have_the_same_content(self):
        self.replay("--decision-log", self.log)
        self.replay("--decision-log", "log.sqlite")
        entries = self.entries()
        rows = sqlite3.connect(self.folder / "log.sqlite").execute(
            "select at_ns / 1e9, policy, pool, current, target, reason from decisions order by id")
        self.assertEqual(rows.fetchall(), [(e["at_s"], e["policy"], e["pool"], e["current"], e["target"], e["reason"])
                                           for e in entries])
        for flags in ([], ["--at", "3m"], ["--policy", "hpa-rate"]):
            self.assertEqual(self.run_program("explain", self.log, *flags).stdout,
                             self.run_program("explain", "log.sqlite", *flags).stdout)

    def test_the_current_decision_is_explained_with_its_successor(self):
        self.replay("--decision-log", self.log)
        ups = [e for e in self.entries() if e["policy"] == "dynamo-latency" and e["current"] < e["target"]]
        at, after = ups[0]["at_s"], ups[1]["at_s"]
        page = self.run_program("explain", self.log, "--policy", "dynamo-latency", "--at", f"{at:.0f}s").stdout
        self.assertIn(f"grows from {ups[0]['current']} to {ups[0]['target']} replicas, because the load is above", page)
        self.assertIn("Based on:", page)
        self.assertIn("kv_load_max", page)
        self.assertIn("What would change this decision:", page)
        self.assertIn(f"it grows from {ups[1]['current']} to {ups[1]['target']} replicas", page)
        self.assertNotIn("hpa-rate", page)
        self.assertGreater(after, at)

    def test_before_the_first_decision_the_start_is_shown(self):
        self.replay("--decision-log", self.log)
        page = self.run_program("explain", self.log, "--at", "0s").stdout
        self.assertIn("no decision yet; the run started with 1 replica.", page)

    def test_without_a_time_the_decisions_are_listed(self):
        self.replay("--decision-log", self.log)
        page = self.run_program("explain", self.log, "--policy", "dynamo-latency", "--holds").stdout
        listed = [line for line in page.splitlines()[1:] if line]
        self.assertEqual(len(listed), len([e for e in self.entries() if e["policy"] == "dynamo-latency"]))
        short = self.run_program("explain", self.log, "--policy", "dynamo-latency").stdout.splitlines()
        self.assertEqual([line for line in short if "→" in line], [line for line in page.splitlines() if "→" in line])
        holds = [line for line in short if "=" in line]
        more = sum(int(re.search(r"and ([0-9,]+) more", line)[1].replace(",", "")) for line in holds if "more hold" in line)
        self.assertEqual(len(holds) + more, len([line for line in listed if "=" in line]))
        self.assertFalse(any("=" in one and "=" in other for one, other in zip(short[1:], short[2:])))
        self.assertRegex(page, r"(?m)^ +\d+s  1 → 2  load_above_target$")

    def test_a_candidate_table_shows_each_fleet_that_was_tried(self):
        self.write("tried.jsonl", json.dumps({
            "at_s": 60, "policy": "penstock", "pool": "decode", "current": 2, "target": 3, "reason": "slo_at_risk",
            "limited_by": "", "evidence": [], "would_change": "more load", "candidates": [
                {"replicas": {"prefill": 1, "decode": n}, "slo_attainment": kept, "ttft_attainment": 1.0,
                 "itl_attainment": kept, "chosen": n == 3} for n, kept in ((4, 1.0), (3, 0.993), (2, 0.61))]}) + "\n")
        page = self.run_program("explain", "tried.jsonl", "--at", "2m").stdout
        self.assertRegex(page, r"prefill +decode +SLO attainment +TTFT met +ITL met\n"
                               r" +1 +2 +61\.0 % +100\.0 % +61\.0 %\n"
                               r" +1 +3 +99\.3 % +100\.0 % +99\.3 % +chosen\n"
                               r" +1 +4 +100\.0 %")
        self.assertIn("What would change this decision: scales up when the SLO attainment of 3 replicas is too low (simulated: 99.3 %)",
                      re.sub(r"\n {4}(?=\S)", " ", page))
        self.assertLessEqual(max(map(len, page.splitlines())), 100)

    def test_a_diagnosis_names_the_settings_of_the_engine_that_may_help(self):
        entry = {"at_s": 60, "policy": "penstock", "pool": "chat", "current": 2, "target": 3, "reason": "slo_at_risk", "limited_by": "",
                 "evidence": [], "candidates": [], "would_change": "more load", "diagnosis": "TTFT is bad"}
        for cause, settings in (("kv_pressure", ["keep a part of the KV cache free: fewer sequences at once (vLLM --max-num-seqs, SGLang --max-running-requests, ",
                                                 "compare FP8, "]),
                                ("cold_start", ["keep the weights on a local NVMe of the nodes: "]), ("queue", [])):
            self.write("one.jsonl", json.dumps({**entry, "cause": cause}) + "\n")
            page = re.sub(r"\n {4}(?=\S)", " ", self.run_program("explain", "one.jsonl", "--at", "2m").stdout)
            found = re.findall(r"(?m)^  Engine setting that may help: (.*)", page)
            self.assertEqual(len(found), len(settings), page)
            for line, begin in zip(found, settings):
                self.assertTrue(line.startswith(begin), line)

    def test_a_log_of_policies_that_never_decide_is_empty_and_says_so(self):
        self.run_program("replay", BUSY, "--policy", "static", "--decision-log", self.log)
        self.assertEqual(self.entries(), [])
        self.assert_refused("explain", self.log, says="is empty: no decision was written to it")

    def test_errors_among_the_answers_of_decide_are_skipped_and_counted(self):
        good = json.dumps({"at_s": 5, "pools": [{"ready": 1}], "requests": []})
        self.write("observations.jsonl", good + "\n{\n" + good.replace("5", "10") + "\n")
        answers = self.run_program("decide", "observations.jsonl", "--policy", "static", code=2).stdout
        self.write("answers.jsonl", answers)
        done = self.run_program("explain", "answers.jsonl")
        self.assertIn("0 changes, 2 holds", done.stdout)
        self.assertEqual(done.stderr, "penstock: answers.jsonl: skipped 1 line with an error instead of a decision\n")

    def test_the_last_run_of_a_planner_is_shown_and_an_earlier_one_on_request(self):
        def entry(at_s, target, **more):
            return json.dumps({"at_s": at_s, "policy": "p", "pool": "a", "current": 1, "target": target,
                               "reason": "panic", "limited_by": "", "evidence": [], "candidates": [],
                               "would_change": "x", **more}) + "\n"
        first, second = {"started": "2026-11-29T03:42:09Z"}, {"started": "2026-11-29T04:00:00.250000000Z"}
        self.write("runs.jsonl", entry(5, 2) + entry(5, 3, **first) + entry(90, 4, **first) + entry(5, 5, **second))
        done = self.run_program("explain", "runs.jsonl", "--at", "2m")
        self.assertIn("p, pool a, at 2m: 5 replicas.", done.stdout)
        self.assertEqual(done.stderr, "penstock: runs.jsonl: run 3 of 3, started at 2026-11-29T04:00:00.250000000Z; "
                                      "select another one with --run\n")
        done = self.run_program("explain", "runs.jsonl", "--at", "1m", "--run", "2")
        self.assertIn("p, pool a, at 1m: 3 replicas.", done.stdout)
        self.assertIn("Next change: at 1m30s it grows from 1 to 4 replicas", done.stdout)
        self.assertIn("run 2 of 3, started at 2026-11-29T03:42:09Z", done.stderr)
        done = self.run_program("explain", "runs.jsonl", "--run", "1")
        self.assertIn("p, pool a: 1 change, 0 holds", done.stdout)
        self.assertIn("run 1 of 3, started at an unknown time;", done.stderr)
        self.assert_refused("explain", "runs.jsonl", "--run", "4", says="--run: must be from 1 to 3, is '4'")

    def test_a_log_can_come_from_a_pipe(self):
        self.replay("--decision-log", self.log)
        self.replay("--decision-log", "log.sqlite")
        page = self.run_program("explain", self.log).stdout
        program = cli_testing.PROGRAM
        fifo = str(self.folder / "fifo")
        os.mkfifo(fifo)
        for command in ('cat log.jsonl | "$0" explain -', 'cat log.jsonl | "$0" explain /dev/stdin',
                        f'cat log.jsonl > "{fifo}" & timeout 60 "$0" explain "{fifo}"', '"$0" explain - < log.jsonl'):
            done = subprocess.run(["bash", "-c", command, program], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, page, ""), command)
        done = subprocess.run(["bash", "-c", 'cat log.sqlite | "$0" explain -', program], cwd=self.folder,
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr),
                         (2, "penstock: -: is an SQLite database, which cannot be read from a pipe; give its file\n"))

    def test_same_seed_same_bytes(self):
        for name in ("a", "b"):
            self.replay("--decision-log", f"{name}.jsonl", "--jobs", 1 if name == "a" else 2)
            self.replay("--decision-log", f"{name}.sqlite")
        for kind in ("jsonl", "sqlite"):
            self.assertEqual((self.folder / f"a.{kind}").read_bytes(), (self.folder / f"b.{kind}").read_bytes())


class BadInput(CliTest):
    def setUp(self):
        super().setUp()
        self.good = json.dumps({"at_s": 1, "policy": "p", "pool": "a", "current": 1, "target": 2, "reason": "panic",
                                "limited_by": "", "evidence": [], "candidates": [], "would_change": "x"}) + "\n"
        self.write("good.jsonl", self.good)

    def test_invalid_logs_are_reported_with_their_line(self):
        self.write("bad.jsonl", self.good + "{nonsense\n")
        self.assert_refused("explain", "bad.jsonl", says="bad.jsonl:2: is not a JSON object")
        self.write("type.jsonl", self.good.replace('"target": 2', '"target": "two"'))
        self.assert_refused("explain", "type.jsonl", says="type.jsonl:1: target: must be a count of replicas")
        self.assert_refused("explain", "missing.jsonl", says="missing.jsonl: cannot be opened: no such file or directory")
        self.assert_refused("explain", ".", says=".: cannot be read")

    def test_an_incomplete_last_line_is_left_out_and_reported(self):
        self.write("cut.jsonl", self.good + self.good + self.good[:40])
        done = self.run_program("explain", "cut.jsonl")
        self.assertEqual(done.stderr, "penstock: cut.jsonl:3: the last line is incomplete and is left out\n")
        self.assertEqual(done.stdout, self.run_program("explain", self.write("whole.jsonl", self.good + self.good)).stdout)
        self.write("only.jsonl", self.good[:40])
        self.assert_refused("explain", "only.jsonl", says="only.jsonl: has no complete line")

    def test_other_databases_are_refused(self):
        other = sqlite3.connect(self.folder / "other.sqlite")
        other.execute("create table t(x)")
        other.close()
        self.assert_refused("explain", "other.sqlite", says="other.sqlite: is an SQLite database, but not a decision log")
        self.write("cut.sqlite", (self.folder / "other.sqlite").read_bytes()[:60])
        self.assert_refused("explain", "cut.sqlite", says="cut.sqlite: ")

    def test_names_and_times_that_are_not_there(self):
        self.assert_refused("explain", "good.jsonl", "--policy", "q", says="--policy: the log has no decision of 'q'")
        self.assert_refused("explain", "good.jsonl", "--pool", "q", says="it has those of a")
        self.assert_refused("explain", "good.jsonl", "--at", "noon", says="--at: ")
        self.assert_refused("explain", says="takes one FILE, there are 0")
        self.assert_refused("explain", "good.jsonl", "--when", "3s", says="--when: unknown flag of `penstock explain`")

    def test_outputs_are_checked_before_the_first_run(self):
        self.assert_refused("replay", BUSY, "--decision-log", "log.txt",
                            says="--decision-log: must end in .jsonl or .sqlite")
        self.assert_refused("replay", BUSY, "--decision-log", "no/log.jsonl", says="create the folder first",
                            code=1)
        self.assert_refused("replay", BUSY, "--decision-log", "x.jsonl", "--json", "x.jsonl",
                            says="the same file as json")
        self.assert_refused("replay", "good.jsonl", "--decision-log", "good.jsonl",
                            says="would overwrite good.jsonl")
        self.assert_refused("replay", BUSY, "--report-dir", "good.jsonl", says="good.jsonl: is not a folder", code=1)
        self.assert_refused("replay", BUSY, "--report-dir", "r", "--report-interval", "0s",
                            says="must be longer than 0")
        self.assert_refused("replay", BUSY, "--report-dir", "r", "--report-interval", "10ms",
                            says="choose a longer one")


class IntervalReports(CliTest):
    def test_each_policy_gets_a_page_for_each_interval(self):
        self.run_program("replay", "synthetic:rate=2,duration=10m,input=800,output=60", "--policy",
                         "static,dynamo-latency", "--report-dir", "reports", "--report-interval", "4m")
        names = sorted(path.name for path in (self.folder / "reports").iterdir())
        self.assertEqual(len(names), 6)
        for policy in ("static", "dynamo-latency"):
            self.assertIn(f"{policy}-001-0s-4m.html", names)
            self.assertIn(f"{policy}-002-4m-8m.html", names)
        page = (self.folder / "reports" / "static-002-4m-8m.html").read_text()
        self.assertTrue(page.startswith("<!"))
        self.assertIn("4m to 8m of the run", page)


if __name__ == "__main__":
    cli_testing.main()
