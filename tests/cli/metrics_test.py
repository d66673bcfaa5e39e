#!/usr/bin/env python3
"""`penstock replay --metrics`: the planner's Prometheus series as they stand at the end of each run."""

import re

import cli_testing
from cli_testing import CliTest

# A load that one replica cannot carry for long.
BUSY = "synthetic:rate=16,duration=5m,input=3000,output=200"
FLAGS = ["--policy", "penstock,hpa-rate,static", "--max-replicas", "6", "--start-up", "30s"]
SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')


class Metrics(CliTest):
    def replay(self, *flags):
        self.run_program("replay", BUSY, *FLAGS, "--metrics", "out.prom", *flags)
        return (self.folder / "out.prom").read_text()

    def samples(self, text):
        """{(name, labels): value}; every line must be a head, in front of its family, or a sample."""
        self.assertTrue(text.endswith("\n"))
        samples, families, family = {}, set(), None
        for line in text.splitlines():
            head = re.fullmatch(r"# (HELP|TYPE) ([a-z_]+) (.+)", line)
            if head:
                if head[1] == "HELP":
                    family = head[2]
                    self.assertNotIn(family, families)
                    families.add(family)
                else:
                    self.assertEqual(head[2], family)
                    self.assertIn(head[3], ("gauge", "counter"))
                continue
            sample = SAMPLE.fullmatch(line)
            self.assertTrue(sample, line)
            self.assertEqual(sample[1], family)
            key = (sample[1], tuple(LABEL.findall(sample[2])))
            self.assertNotIn(key, samples)
            samples[key] = float(sample[3])
        return samples

    def test_every_policy_has_its_series_and_they_agree_with_the_report(self):
        samples = self.samples(self.replay("--json", "out.json"))

        def value(name, policy, **labels):
            found = [sample for (series, has), sample in samples.items()
                     if series == name and {"policy": policy, **labels}.items() <= dict(has).items()]
            self.assertEqual(len(found), 1, (name, policy, labels))
            return found[0]

        for result in self.read_json("out.json")["results"]:
            policy = result["policy"]
            self.assertAlmostEqual(value("penstock_slo_attainment_ratio", policy), result["slo_attainment"])
            self.assertEqual(value("dynamo_planner_sla_target_ttft_ms", policy), 2000)
            # A scrape after the last decision lacks what came after it, and before the first.
            self.assertLessEqual(value("dynamo_planner_gpu_hours", policy), result["gpu_hours"])
            self.assertGreater(value("dynamo_planner_gpu_hours", policy), 0.8 * result["gpu_hours"])
            if policy == "static":
                continue
            target = value("penstock_target_replicas", policy)
            self.assertEqual(value("dynamo_planner_predicted_num_decode_replicas", policy), target)
            self.assertEqual(target, result["decisions"][-1]["target"])
            states = [sample for (name, has), sample in samples.items()
                      if name == "dynamo_planner_load_scaling_decision" and dict(has)["policy"] == policy]
            self.assertEqual(sorted(states), [0] * 10 + [1])

    def test_same_seed_same_bytes(self):
        first = self.replay("--jobs", 1)
        self.assertEqual(self.replay("--jobs", 2), first)

    def test_its_file_is_checked_before_the_first_run(self):
        self.assert_refused("replay", BUSY, "--metrics", "no/out.prom", says="create the folder first", code=1)
        self.assert_refused("replay", BUSY, "--metrics", "x", "--json", "x", says="the same file as")


if __name__ == "__main__":
    cli_testing.main()
