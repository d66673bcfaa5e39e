#!/usr/bin/env python3
"""`penstock decide`: observations of another program in, decisions out, one JSON object on each line."""

import json
import random
import subprocess

import cli_testing
from cli_testing import PROGRAM, CliTest

FLEET = ["--max-replicas", "8", "--start-up", "30s"]


def observation(at_s, ready=2, requests=(), busy=0):
    replicas = [{"id": f"pod-{i}", "running_requests": busy, "queued_requests": 0, "kv_usage": 0.2} for i in range(ready)]
    return {"at_s": at_s, "pools": [{"replicas": replicas}], "requests": list(requests)}


def rising_load(ticks=60):
    """A rate that one replica carries, and from 150 s on one that needs several; all latencies are good."""
    rng = random.Random(7)
    number, lines, open_requests = 0, [], []
    for tick in range(1, ticks + 1):
        now, changed = 5.0 * tick, []
        for _ in range(5 * (1 if now < 150 else 20)):
            number += 1
            arrival = round(now - 5.0 * rng.random(), 3)
            request = {"id": number, "arrival_s": arrival, "prompt_tokens": rng.randint(1500, 4000)}
            open_requests.append((arrival + rng.uniform(2.0, 8.0), request, rng.randint(100, 400)))
            changed.append(request)
        ended = [one for one in open_requests if one[0] <= now]
        open_requests = [one for one in open_requests if one[0] > now]
        changed += [{**request, "ttft_ms": 300, "output_tokens": tokens, "ended_s": round(end, 3)}
                    for end, request, tokens in ended]
        lines.append(observation(now, requests=changed, busy=len(open_requests) // 2))
    return "".join(json.dumps(line) + "\n" for line in lines)


class Decide(CliTest):
    def decide(self, text, *flags, code=0):
        self.write("observations.jsonl", text)
        done = self.run_program("decide", "observations.jsonl", *FLEET, *flags, code=code)
        return [json.loads(line) for line in done.stdout.splitlines()], done

    def test_each_observation_gets_a_record_that_explain_reads(self):
        records, done = self.decide(rising_load(), "--policy", "llmd-slo")
        self.assertEqual([record["at_s"] for record in records], [5.0 * tick for tick in range(1, 61)])
        self.assertEqual({record["policy"] for record in records}, {"llmd-slo"})
        self.write("decisions.jsonl", done.stdout)
        self.assertIn("llmd-slo, pool default", self.run_program("explain", "decisions.jsonl").stdout)

    def test_the_planner_grows_for_a_load_that_its_trials_find_too_large(self):
        records, _ = self.decide(rising_load())
        before = [record["target"] for record in records if record["at_s"] < 150]
        self.assertLessEqual(max(before), 2)
        self.assertGreaterEqual(records[-1]["target"], 4)
        self.assertTrue(any(record["candidates"] for record in records))
        again, _ = self.decide(rising_load())
        self.assertEqual(records, again)

    def test_other_programs_get_an_answer_before_they_send_the_next_line(self):
        with subprocess.Popen([PROGRAM, "decide", *FLEET], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              bufsize=1) as process:
            for at_s in (5, 10, 15):
                print(json.dumps(observation(at_s)), file=process.stdin, flush=True)
                self.assertEqual(json.loads(process.stdout.readline())["at_s"], at_s)
            process.stdin.close()
            self.assertEqual(process.wait(60), 0)

    def test_a_broken_line_is_answered_and_ends_nothing(self):
        good = json.dumps(observation(5))
        lines = [good, "{", '{"at_s": NaN}', "", json.dumps(observation(4)), "x" * (17 << 20),
                 json.dumps({**observation(10), "pools": [{"ready": -1}]}), json.dumps(observation(10))]
        records, _ = self.decide("\n".join(lines), "--policy", "static", code=2)
        self.assertEqual([record.get("line") for record in records], [None, 2, 3, 5, 6, 7, None])
        self.assertEqual(records[1], {"error": "observation: invalid JSON at byte 2", "line": 2})
        self.assertIn("at_s: must be later than in line 1 (5 s), is 4 s", records[3]["error"])
        self.assertEqual(records[4]["error"], "observation: is longer than 16777216 bytes")
        self.assertIn("pools[0].ready: must be 0 to 10000, is -1", records[5]["error"])
        self.assertEqual(records[6]["at_s"], 10)

    def test_contradictions_are_warnings_and_a_jump_of_the_clock_holds(self):
        odd = observation(5)
        odd["pools"][0]["replicas"][0]["queued_prompt_tokens"] = 500
        records, done = self.decide(json.dumps(odd) + "\n" + json.dumps(observation(9000)) + "\n")
        self.assertEqual(done.stderr,
                         "penstock: observations.jsonl:1: pool default: queue_disagrees; the figures are ignored\n")
        self.assertEqual((records[1]["target"], records[1]["reason"]), (2, "no_data"))
        self.assertIn("the clock jumped by 8995 s", records[1]["diagnosis"])

    def test_settings_and_configuration_are_those_of_a_replay(self):
        self.write("p.yaml", "max_replicas: 3\nslo: {goal: 90%}\n")
        self.write("observations.jsonl", rising_load(36))
        done = self.run_program("decide", "observations.jsonl", "--config", "p.yaml", "--policy", "penstock:goal=0.999")
        self.assertEqual(max(json.loads(line)["target"] for line in done.stdout.splitlines()), 3)

    def test_a_policy_requires_only_the_capacity_that_it_divides_by(self):
        records, _ = self.decide(rising_load(), "--policy", "hpa-rate", "--capacity", "requests_per_s=2")
        self.assertGreater(max(record["target"] for record in records), 2)

    def test_decides_for_one_of_several_deployments(self):
        self.write("two.yaml", "planner: {tick_interval: 5s}\ndeployments:\n"
                               "  - {name: chat, model: a, max_replicas: 8}\n  - {name: mail, model: b, max_replicas: 4}\n")
        self.write("observations.jsonl", rising_load())
        done = self.run_program("decide", "observations.jsonl", "--config", "two.yaml", "--deployment", "mail", "--start-up", "30s")
        of_mail = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual({record["pool"] for record in of_mail}, {"mail"})
        self.assertEqual(max(record["target"] for record in of_mail), 4)
        self.assert_refused("decide", "--config", "two.yaml", says="--deployment: is needed, because the file has several; "
                                                                    "the deployments are chat or mail")
        self.assert_refused("decide", "--config", "two.yaml", "--deployment", "x", says="'x' is none")
        self.assert_refused("decide", "--deployment", "x", says="has no effect without deployments")

    def test_what_cannot_be_decided_is_refused_at_once(self):
        for policy in ("all", "clairvoyant", "schedule:x.csv"):
            self.assert_refused("decide", "--policy", policy, says="is for `penstock replay` only; name one policy")
        self.assert_refused("decide", "--policy", "hpa-rate", says="the policy hpa-rate has to know what one replica carries")
        self.assert_refused("decide", "--policy", "hpa-rate", "--capacity", "concurrency=4", says="and lacks requests_per_s; give")
        self.assert_refused("decide", "--policy", "penstock:gaol=1", says="--policy: 'penstock:gaol=1': unknown setting 'gaol'")
        self.assert_refused("decide", "--policy", "penstock,static",
                            says="--policy: unknown policy 'penstock,static'; name one of penstock, static, hpa-rate")
        self.assert_refused("decide", "missing.jsonl", says="missing.jsonl: cannot be opened: ")
        self.assert_refused("decide", ".", says=".: cannot be read: Is a directory")
        self.assert_refused("decide", "a", "b", says="takes one [FILE], there are 2")

    def test_the_example_of_the_documentation_works(self):
        page = (cli_testing.Path(__file__).resolve().parents[2] / "docs" / "decide.md").read_text()
        blocks = page.split("```json\n")[1:]
        lines = [line for block in blocks for line in block.split("```")[0].splitlines() if line.startswith('{"at_s": ')]
        inputs = [line for line in lines if '"pools"' in line]
        self.assertGreaterEqual(len(inputs), 2)
        for line in inputs:
            records, _ = self.decide(line + "\n", "--policy", "llmd-saturation-v2")
            self.assertEqual(records[0]["pool"], "default")


if __name__ == "__main__":
    cli_testing.main()
