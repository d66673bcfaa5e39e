"""`penstock allocate`: one plan, plans over a trace, and what is refused."""

import re

import cli_testing
from cli_testing import CliTest

EXAMPLES = cli_testing.Path(__file__).resolve().parents[2] / "docs" / "examples"

PLAN = """\
hardware:
  - {name: h100, price: 3.0}
  - {name: l40s, price: 1.0, gpus: 2}
budget: {gpus: 8}
deployments:
  - name: chat
    priority: 1
    demand: 20
    pools:
      - {hardware: h100, capacity: 5}
      - {hardware: l40s, capacity: 5}
  - name: mail
    demand: 10
    pools: [{hardware: l40s, capacity: 4.5}]
  - name: batch
    demand: 100
    pools: [{hardware: h100, capacity: 4}]
"""

TESTED = """\
hardware: [{name: h100, price: 3.0}]
budget: {gpus: 3}
deployments:
  - name: chat
    demand: 4
    shape: {input: 1000, output: 50}
    pools: [{hardware: h100}]
"""


def trace(rates_by_minute):
    """Requests that come evenly, so many a second in each minute."""
    rows = ["arrival_s,input_tokens,output_tokens"]
    for minute, rate in enumerate(rates_by_minute):
        rows += [f"{minute * 60 + i / rate:.3f},800,20" for i in range(60 * rate)]
    return "\n".join(rows) + "\n"


def turn_about(extra=""):
    return ("hardware: [{name: h100, price: 3.0}]\n"
            "budget: {gpus: 4}\n"
            f"{extra}"
            "deployments:\n"
            "  - {name: day, demand: {trace: day.csv}, pools: [{hardware: h100, capacity: 1, start_up: 1m}]}\n"
            "  - {name: night, demand: {trace: night.csv}, pools: [{hardware: h100, capacity: 1, start_up: 1m}]}\n")


class Plan(CliTest):
    def test_the_documented_example_comes_out_as_documented(self):
        self.write("a.yaml", PLAN)
        text = self.run_program("allocate", "a.yaml", "--json", "plan.json").stdout
        plan = self.read_json("plan.json")["plan"]
        self.assertEqual([(p["deployment"], p["pool"], p["replicas"], p["limited_by"]) for p in plan["pools"]],
                         [("chat", "h100", 4, ""), ("chat", "l40s", 0, ""), ("mail", "l40s", 2, "hardware_gpus"),
                          ("batch", "h100", 2, "gpu_budget")])
        self.assertEqual(plan["cost_per_hour"], 20)
        self.assertEqual(plan["gap"], 0)
        self.assertEqual([d["kept_rps"] for d in plan["deployments"]], [20, 9, 8])
        self.assertRegex(text, r"mail/l40s +l40s +2 +2 +2\.00 +no l40s left\n")
        self.assertRegex(text, r"batch/h100 +h100 +2 +2 +6\.00 +the GPU budget\n")
        self.assertRegex(text, r"chat +1 +1\.00 +20\.0 +20\.0 +100\.0 % ")
        self.assertRegex(text, r"GPUs of all kinds +8 +8 +4\.00 requests/s to class 0")
        self.assertIn("proven optimal", text)
        self.assertIn("Total: 8 GPUs, 20.00 USD per hour, and no plan of the same value is cheaper.", text)

    def test_equal_runs_give_equal_bytes(self):
        self.write("a.yaml", TESTED)
        one = self.run_program("allocate", "a.yaml", "--json", "one.json", "--jobs", 1).stdout
        two = self.run_program("allocate", "a.yaml", "--json", "two.json", "--jobs", 2).stdout
        self.assertEqual(one, two)
        self.assertEqual((self.folder / "one.json").read_text(), (self.folder / "two.json").read_text())

    def test_an_unknown_capacity_is_load_tested(self):
        self.write("a.yaml", TESTED)
        done = self.run_program("allocate", "a.yaml", "--json", "plan.json", "--progress")
        self.assertRegex(done.stderr, r"\d of 1  ")
        self.assertIn("(load-tested in simulation)", done.stdout)
        figure = self.read_json("plan.json")["capacities"][0]
        self.assertTrue(figure["load_tested"])
        self.assertGreater(figure["requests_per_s"], 0.5)
        # Twice as long a prompt takes more than twice as long: a replica carries less.
        self.write("b.yaml", TESTED.replace("input: 1000", "input: 2000"))
        self.run_program("allocate", "b.yaml", "--json", "longer.json")
        self.assertLess(self.read_json("longer.json")["capacities"][0]["requests_per_s"], figure["requests_per_s"])

    def test_a_loose_slo_does_not_take_an_overload_for_capacity(self):
        self.write("a.yaml", TESTED.replace("    shape", "    slo: {ttft: 2s, itl: 10s}\n    shape"))
        self.write("loose.yaml", TESTED.replace("    shape", "    slo: {ttft: 10m, itl: 10s}\n    shape"))
        self.run_program("allocate", "a.yaml", "--json", "plan.json")
        self.run_program("allocate", "loose.yaml", "--json", "loose.json")
        tight = self.read_json("plan.json")["capacities"][0]["requests_per_s"]
        loose = self.read_json("loose.json")["capacities"][0]["requests_per_s"]
        self.assertLess(loose, tight * 1.2)

    def test_prefill_and_decode_grow_together(self):
        self.write("a.yaml", "hardware: [{name: h100, price: 3.0, gpus: 9}]\n"
                             "deployments:\n"
                             "  - name: chat\n"
                             "    demand: 100\n"
                             "    pools:\n"
                             "      - {name: decode, role: decode, hardware: h100, capacity: 6}\n"
                             "      - {name: prefill, role: prefill, hardware: h100, capacity: 3}\n")
        self.run_program("allocate", "a.yaml", "--json", "plan.json")
        replicas = {p["pool"]: p["replicas"] for p in self.read_json("plan.json")["plan"]["pools"]}
        self.assertEqual(replicas, {"prefill": 6, "decode": 3})

    def test_a_rate_on_the_command_line_counts(self):
        self.write("a.yaml", PLAN)
        self.run_program("allocate", "a.yaml", "--rate", "chat=0", "--rate", "batch=12", "--json", "plan.json")
        plan = self.read_json("plan.json")["plan"]
        self.assertEqual([d["kept_rps"] for d in plan["deployments"]], [0, 9, 12])
        self.assertEqual(plan["pools"][3]["limited_by"], "")

    def test_max_min_shows_the_least_share(self):
        self.write("a.yaml", "objective: max-min\n" + PLAN.replace("priority: 1", "priority: 0"))
        text = self.run_program("allocate", "a.yaml", "--json", "plan.json").stdout
        self.assertIn("lowest share/weight", text)
        self.assertAlmostEqual(self.read_json("plan.json")["plan"]["classes"][0]["level"], 0.24)  # six h100 for batch

    def test_the_current_plan_stays_if_the_gain_is_small(self):
        previous = "".join(f"  - {{deployment: {d}, pool: {p}, replicas: {n}}}\n" for d, p, n in
                           [("chat", "h100", 4), ("chat", "l40s", 0), ("mail", "l40s", 2), ("batch", "h100", 2)])
        self.write("a.yaml", PLAN.replace("demand: 20", "demand: 19.9") + "previous:\n" + previous)
        self.run_program("allocate", "a.yaml", "--json", "plan.json")
        replicas = [p["replicas"] for p in self.read_json("plan.json")["plan"]["pools"]]
        self.assertEqual(replicas, [4, 0, 2, 2])


class OverTime(CliTest):
    def setUp(self):
        super().setUp()
        self.write("day.csv", trace([4] * 20 + [1] * 21))
        self.write("night.csv", trace([1] * 20 + [4] * 21))

    def test_a_shared_budget_follows_the_demand(self):
        self.write("a.yaml", turn_about())
        text = self.run_program("allocate", "a.yaml", "--json", "runs.json").stdout
        runs = self.read_json("runs.json")
        self.assertEqual((runs["every_s"], runs["minutes"]), (300, 35))
        self.assertEqual([i["first_minute"] for i in runs["shared"]["intervals"]], list(range(5, 40, 5)))
        for run in (runs["shared"], runs["apart"], runs["at_peak"]):
            self.assertEqual([d["name"] for d in run["deployments"]], ["day", "night"])
            for deployment in run["deployments"]:
                self.assertLessEqual(deployment["kept"], deployment["requests"] * 1.000001)
        kept = {name: sum(d["kept"] for d in runs[name]["deployments"]) for name in ("shared", "apart", "at_peak")}
        self.assertGreater(kept["shared"], kept["apart"])
        self.assertLess(runs["shared"]["gpu_hours"], 4 * 35 / 60 + 1e-9)
        self.assertRegex(text, r"7 plans, one every 5 min, over 35 min; [\d,]+ requests\.")
        self.assertRegex(text, r"shared, replanned +\d")
        self.assertRegex(text, r"split by mean demand, planned separately +\d")

    def test_the_interval_can_be_set(self):
        self.write("a.yaml", turn_about("every: 10m\n"))
        self.run_program("allocate", "a.yaml", "--json", "runs.json")
        self.assertEqual([i["first_minute"] for i in self.read_json("runs.json")["shared"]["intervals"]], [10, 20, 30])

    def test_a_given_demand_lasts_as_long_as_the_trace(self):
        self.write("a.yaml", turn_about().replace("{trace: night.csv}", "2"))
        self.run_program("allocate", "a.yaml", "--json", "runs.json")
        self.assertAlmostEqual(self.read_json("runs.json")["shared"]["deployments"][1]["requests"], 2 * 60 * 35)

    def test_a_trace_that_is_too_short_or_not_there_is_refused(self):
        self.write("a.yaml", turn_about("every: 30m\n"))
        self.assert_refused("allocate", "a.yaml", says="a.yaml:5:33: deployments[0].demand.trace: must last two "
                                                       "intervals, 60 minutes, has 40")
        self.write("b.yaml", turn_about().replace("night.csv", "nigth.csv"))
        self.assert_refused("allocate", "b.yaml", says="b.yaml:5:35: deployments[1].demand.trace: nigth.csv: cannot be")


class Refused(CliTest):
    def test_all_errors_are_reported_at_once(self):
        self.write("a.yaml", PLAN.replace("demand: 10\n", "demand: 10\n    wait: 1\n")
                   .replace("priority: 1", "priority: 1.5"))
        done = self.run_program("allocate", "a.yaml", code=2)
        self.assertEqual(done.stdout, "")
        self.assertIn("penstock: a.yaml:7:15: deployments[0].priority: must be a whole number", done.stderr)
        self.assertIn("deployments[1].wait: unknown key", done.stderr)

    def test_the_other_kind_of_file_is_one_error_that_names_the_command(self):
        self.assert_refused("allocate", EXAMPLES / "deployments.yaml",
                            says="is a configuration of gateway and planner; check it with `penstock check FILE`")
        done = self.run_program("check", EXAMPLES / "allocate.yaml", code=2)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\A[^\n]*allocate\.yaml: is the input of `penstock allocate`[^\n]*; run `penstock allocate FILE`\n\Z")

    def test_a_file_is_checked_outside_of_the_cluster_that_it_is_for(self):
        environment = {"KUBERNETES_SERVICE_HOST": "", "KUBECONFIG": "", "HOME": str(self.folder)}
        others = {"allocate.yaml", "prometheus-adapter.yaml", *(path.name for path in EXAMPLES.glob("envoy-*.yaml"))}
        for path in sorted(EXAMPLES.glob("*.yaml")):
            if path.name not in others:
                secrets = re.findall(r"(?:_env: |key_envs: \[)(\w+)", path.read_text())
                done = self.run_program("check", path, environment={**environment, **{name: f"secret-{name}-of-a-test" for name in secrets}})
                self.assertIn(": ok, ", done.stdout)

    def test_an_empty_file_has_one_line(self):
        self.write("empty.yaml", "")
        done = self.run_program("allocate", "empty.yaml", code=2)
        self.assertIn("empty.yaml:1:1: ", done.stderr)
        self.assertNotIn("empty.yaml:2:", done.stderr)

    def test_a_budget_below_the_minimum_fleet_reports_the_shortfall(self):
        self.write("a.yaml", PLAN.replace("capacity: 4}", "capacity: 4, min_replicas: 11}"))
        self.assert_refused("allocate", "a.yaml", says="a.yaml:4:16: budget.gpus: must hold min_replicas of every pool, "
                                                       "which take 11 GPUs, is 8: 3 short")

    def test_engines_that_are_unknown_and_slos_out_of_reach_are_refused_with_their_place(self):
        self.write("a.yaml", TESTED.replace("[{hardware: h100}]", "[{hardware: h100, engine: 'roofline:nothing'}]"))
        self.assert_refused("allocate", "a.yaml", says="a.yaml:7:38: deployments[0].pools[0].engine: ")
        self.write("b.yaml", TESTED.replace("    shape", "    slo: {ttft: 1us, itl: 1us}\n    shape"))
        text = self.assert_refused("allocate", "b.yaml", says="deployments[0]")
        self.assertIn("give the pool its capacity", text)
        self.assertNotIn("--", text)

    def test_outputs_and_flags_are_checked_first(self):
        self.write("a.yaml", PLAN)
        self.assert_refused("allocate", "a.yaml", "--json", "missing/plan.json", says="cannot write", code=1)
        self.assert_refused("allocate", "a.yaml", "--json", "a.yaml", says="would overwrite a.yaml")
        self.assert_refused("allocate", "a.yaml", "--rate", "chatt=1", says="did you mean chat?")
        self.assert_refused("allocate", "a.yaml", "--jobs", "0", says="--jobs: must be")
        self.assert_refused("allocate", "none.yaml", says="none.yaml: cannot be opened")

    def test_help_lists_it(self):
        self.assertIn("allocate", self.run_program("--help").stdout)
        self.assertIn("--rate NAME=RPS", self.run_program("allocate", "--help").stdout)


if __name__ == "__main__":
    cli_testing.main()
