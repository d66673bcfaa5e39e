#!/usr/bin/env python3
"""`penstock profile`: a model as a table and as a file that reads back, and what a replay says of a profile's ranges."""

import json
import re

import cli_testing
from cli_testing import CliTest, mooncake


def capacities(text):
    """Requests a second by role, from the table."""
    rates = {}
    for role in ("aggregated", "prefill", "decode"):
        row = re.search(rf"(?m)^  {role} +([\d.]+|none)(k?)", text)
        rates[role] = None if row[1] == "none" else float(row[1]) * (1000 if row[2] else 1)
    return rates


class Profile(CliTest):
    def test_help(self):
        page = self.run_program("profile", "--help").stdout
        for part in ("--engine", "--slo", "--input TOKENS", "--output TOKENS", "--cached SHARE", "--json FILE"):
            self.assertIn(part, page)
        self.assertNotIn("--policy", page)

    def test_table(self):
        text = self.run_program("profile", "--engine", "linear:10,1,0.01,0").stdout
        # 10 + 0.01 · 512, and nothing for its own first token; 32,768 tokens take four steps.
        self.assertRegex(text, r"(?m)^  TTFT +11\.3 ms +15\.1 ms +30\.5 ms +91\.9 ms +368 ms$")
        self.assertRegex(text, r"(?m)^  64 +74\.0 ms +74\.0 ms +74\.0 ms +74\.0 ms$")
        rates = capacities(text)
        self.assertLess(rates["aggregated"], rates["decode"])
        self.assertLess(rates["aggregated"], rates["prefill"])

    def test_capacity_follows_slo_traffic_and_engine(self):
        usual = capacities(self.run_program("profile").stdout)["aggregated"]
        for words in (("--slo", "itl=25ms"), ("--input", 6000), ("--output", 900), ("--kv-blocks", 50)):
            self.assertLess(capacities(self.run_program("profile", *words).stdout)["aggregated"], usual, words)
        self.assertGreater(capacities(self.run_program("profile", "--cached", "50%").stdout)["aggregated"], usual)

    def test_an_slo_that_nothing_keeps(self):
        rates = capacities(self.run_program("profile", "--slo", "itl=5ms").stdout)
        self.assertIsNone(rates["aggregated"])
        self.assertIsNone(rates["decode"])
        self.assertIsNotNone(rates["prefill"])

    def test_the_kv_cache_is_that_of_the_gpus_and_its_assumptions_are_printed(self):
        page = self.run_program("profile", "--engine", "roofline:llama-3.1-8b,l4").stdout
        self.assertIn("KV cache of 24,064 tokens", page)
        self.assertIn("estimated KV cache of a replica: 24,150 tokens; 0.92 of 22.03 GiB a GPU, less 15.0 GiB of weights", page)
        text = self.assert_refused("profile", "--engine", "roofline:llama-3.1-8b,l4", "--kv-blocks", "2000",
                                   says="--kv-blocks: 2000 blocks of 512 tokens do not fit the GPUs")
        self.assertIn("leave it out for 24151 tokens", text)
        self.assert_refused("profile", "--engine", "roofline:llama-3.1-70b,h100",
                            says="131.4 GiB of weights a GPU do not fit 72.9 GiB (0.92 of 79.19 GiB)")
        self.assert_refused("profile", "--engine", "roofline:lama-3.1-8b,h100", says="nearest: llama-3.1-8b, ")

    def test_what_is_written_reads_back(self):
        for engine in ("polynomial", "linear:8,0.1,0.05,0.00005", "roofline:llama-3.1-8b,h100"):
            cache = ("--kv-blocks", "800")
            first = self.run_program("profile", "--engine", engine, *cache, "--json", "engine.json").stdout
            self.assertEqual(self.read_json("engine.json")["engine"].split(",")[0], engine.split(",")[0])
            again = self.run_program("profile", "--engine", "engine.json", *cache).stdout
            for role, rate in capacities(first).items():
                self.assertAlmostEqual(capacities(again)[role] / rate, 1, delta=0.12, msg=f"{engine} {role}")
            self.assertAlmostEqual(capacities(again)["decode"] / capacities(first)["decode"], 1, delta=0.03)

    def test_a_replay_takes_it_as_its_engine(self):
        trace = self.write("trace.jsonl", mooncake(requests=200, gap_ms=100))
        self.run_program("profile", "--json", "engine.json")
        figures = []
        for engine in ("polynomial", "engine.json"):
            self.run_program("replay", trace, "--engine", engine, "--policy", "static", "--json", "out.json")
            result = self.read_json("out.json")["results"][0]
            figures.append((result["ttft_ms"]["mean"], result["itl_ms"]["mean"]))
        for model, table in zip(*figures):
            self.assertAlmostEqual(table / model, 1, delta=0.05)

    def test_bad_input(self):
        self.assert_refused("profile", "--input", "0", says="--input: ")
        self.assert_refused("profile", "--output", "many", says="--output: ")
        self.assert_refused("profile", "--cached", "100%", says="--cached: must be below 1")
        self.assert_refused("profile", "--engine", "missing.json", says="missing.json: cannot be opened")
        self.assert_refused("profile", "--json", "missing/engine.json", says="missing", code=1)


class Ranges(CliTest):
    def replay(self, **lengths):
        profile = {"prefill_isl": [128, 4096], "prefill_ttft_ms": [5, 100], "decode_active_kv_tokens": [200, 1e6, 200, 1e6],
                   "decode_context_length": [200, 200, 8000, 8000], "decode_itl": [5, 30, 5, 30]}
        self.write("engine.json", json.dumps(profile))
        trace = self.write("trace.jsonl", mooncake(requests=50, **lengths))
        self.run_program("replay", trace, "--engine", "engine.json", "--policy", "static", "--json", "out.json")
        return self.read_json("out.json")["notes"]

    def test_traffic_beyond_the_profile_is_noted(self):
        notes = self.replay(input_length=9000)
        self.assertEqual(len(notes), 2)
        self.assertRegex(notes[0], r"^profile of the default pool: prompts up to \d+ tokens, the profile ends at 4096: "
                                   r"step times beyond are extrapolated$")
        self.assertIn("contexts up to", notes[1])

    def test_traffic_within_is_not(self):
        self.assertEqual(self.replay(input_length=1200), [])


class Limits(CliTest):
    STATED = {"max_kv_tokens": 102400, "max_sequences": 64}

    def notes(self, stated, *flags):
        profile = {"prefill_isl": [128, 4096], "prefill_ttft_ms": [5, 100], "decode_active_kv_tokens": [200, 1e6, 200, 1e6],
                   "decode_context_length": [200, 200, 8000, 8000], "decode_itl": [5, 30, 5, 30], **stated}
        self.write("engine.json", json.dumps(profile))
        trace = self.write("trace.jsonl", mooncake(requests=50, input_length=1200))
        self.run_program("replay", trace, "--engine", "engine.json", "--policy", "static", "--json", "out.json", *flags)
        return self.read_json("out.json")["notes"]

    def test_a_replay_uses_those_of_the_profile(self):
        self.assertEqual(self.notes(self.STATED), ["limits of a replica: KV cache of 102,400 tokens from the profile; "
                                                   "64 sequences at once from the profile"])

    def test_flags_come_first(self):
        self.assertEqual(self.notes(self.STATED, "--kv-blocks", "100", "--max-sequences", "8"),
                         ["limits of a replica: KV cache of 51,200 tokens as given, the profile states 102,400; "
                          "8 sequences at once as given, the profile states 64"])

    def test_limits_of_the_measurement_are_not_used(self):
        self.assertEqual(self.notes({"max_sequences": 64, "max_sequences_from": "measurement"}),
                         ["limits of a replica: 256 sequences at once as given or by default, because 64 is the limit of the "
                          "measurement of the profile"])

    def test_commands_print_them(self):
        self.notes(self.STATED)
        page = self.run_program("profile", "--engine", "engine.json").stdout
        self.assertIn("KV cache of 102,400 tokens, 64 sequences at once,", page)


if __name__ == "__main__":
    cli_testing.main()
