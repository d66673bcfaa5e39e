#!/usr/bin/env python3
"""`penstock size`: MIG instances, MPS or whole GPUs for a model and a load, as text and as JSON."""

import json
import re

import cli_testing
from cli_testing import CliTest

LLAMA = ("--engine", "roofline:llama-3.1-8b,h100", "--input", 1500, "--output", 200)


class Size(CliTest):
    def size(self, *words):
        return json.loads(self.run_program("size", *words, "--json", "-").stdout)

    def test_help(self):
        page = self.run_program("size", "--help").stdout
        for part in ("--engine ROOFLINE", "--rate", "--batch-efficiency-before", "--longest TOKENS", "--slo", "--isolated", "--json FILE"):
            self.assertIn(part, page)

    def test_a_page_names_the_choice_the_reason_and_what_does_not_serve(self):
        page = self.run_program("size", *LLAMA, "--rate", 1).stdout
        self.assertRegex(page, r"(?m)^Advice: 1 replica on a MIG instance 3g\.40gb \(0\.50 of 1 GPU\), at \d")
        self.assertIn("nvidia.com/mig-3g.40gb", page)
        self.assertRegex(page, r"(?m)^MIG 3g\.40gb +39\.2 GiB +42\.9 % +50\.0 % ")
        self.assertRegex(page, r"(?m)^  MIG 1g\.10gb: weights and overhead do not fit 8\.7 GiB$")
        self.assertLessEqual(max(map(len, page.splitlines())), 120)

    def test_a_file_that_cannot_be_written_does_not_cost_the_page(self):
        page = self.run_program("size", *LLAMA, "--rate", 1).stdout
        done = self.run_program("size", *LLAMA, "--rate", 1, "--json", "/dev/full", code=1)
        self.assertEqual(done.stdout, page)
        self.assertIn("penstock: /dev/full: cannot write: No space left on device", done.stderr)

    def test_the_json_has_all_choices(self):
        made = self.size(*LLAMA, "--rate", 1)
        self.assertEqual((made["model_class"], made["kv_bytes_per_token"], made["reason"]), ("small", 131072, "slice_suffices"))
        self.assertEqual([choice["placement"] for choice in made["choices"]], ["mig"] * 5 + ["mps"] * 3 + ["gpus"] * 4)
        self.assertIn(made["advice"], made["choices"])
        refused = made["choices"][0]
        self.assertEqual((refused["mig_profile"], refused["verdict"]), ("1g.10gb", "weights_do_not_fit"))
        self.assertNotIn("replicas", refused)
        for choice in made["choices"]:
            if choice["verdict"] == "serves":
                self.assertLessEqual(choice["utilisation"], 0.75)
                self.assertAlmostEqual(choice["utilisation"] * choice["replicas"] * choice["requests_per_s"], 1.0)

    def test_the_choice_follows_load_isolation_and_model(self):
        whole = self.size(*LLAMA, "--rate", 100)
        self.assertEqual((whole["advice"]["placement"], whole["reason"]), ("gpus", "fills_gpus"))
        large = self.size("--engine", "roofline:llama-3.1-70b,h100,precision=fp8", "--rate", 8)
        self.assertEqual((large["advice"]["gpus_per_replica"], large["reason"]), (2, "needs_gpus"))
        l40s = ("--engine", "roofline:llama-3.1-8b,l40s,precision=fp8", "--rate", 0.3)
        shared = self.size(*l40s)
        self.assertEqual((shared["advice"]["placement"], shared["reason"]), ("mps", "no_mig"))
        self.assertEqual((self.size(*l40s, "--isolated")["reason"], self.size(*l40s, "--isolated")["advice"]["placement"]),
                         ("isolation", "gpus"))
        none = self.size("--engine", "roofline:llama-3.1-405b,h100")
        self.assertEqual((none["advice"], none["reason"]), (None, "nothing_serves"))
        page = self.run_program("size", "--engine", "roofline:mixtral-8x7b,h200", "--rate", 1).stdout
        self.assertTrue(re.search(r"measure one\s+replica with penstock profile", page), page)

    def test_settings_of_the_engine_have_evidence_flags_and_a_source(self):
        def rules(*words):
            return {each["rule"]: each for each in self.size(*LLAMA, *words)["engine_advice"]}

        made = rules("--rate", 1)
        self.assertEqual(list(made), ["kv_reserve", "precision", "speculative_decoding", "weights_cache"])
        self.assertEqual(made["kv_reserve"]["settings"]["vllm"], "--max-num-seqs 76")  # 0.85 * 153,517 tokens of 1,700 each
        self.assertEqual(made["kv_reserve"]["settings"]["sglang"], "--max-running-requests 76")
        self.assertEqual(made["precision"]["settings"]["vllm"], "--quantization fp8")
        for each in made.values():
            self.assertTrue(each["evidence"] and each["source"].startswith("article on "), each)
        measured = ("--ttft-p95", "900ms", "--itl-p95", "30ms", "--measured-utilisation", 0.9)
        self.assertIn("max_queue_delay_microseconds", rules("--rate", 1, *measured)["queue_delay"]["settings"]["triton"])
        self.assertNotIn("queue_delay", rules("--rate", 1, *measured, "--slo", "ttft=1s"))
        self.assertIn("batch_efficiency", rules("--rate", 1, "--batch-efficiency", 0.3, "--batch-efficiency-before", 0.5))
        self.assertEqual(rules("--rate", 1, "--max-sequences", 16, "--input", 9000)["gpu_by_phase"]["settings"]["triton"], None)

    def test_a_cheaper_way_by_mps_is_named_with_the_reason_against_it(self):
        page = " ".join(self.run_program("size", *LLAMA, "--rate", 1, "--slo", "ttft=1s,itl=50ms").stdout.split())
        self.assertIn("MPS, 3 engines a GPU would need 0.33 GPUs. It is advised only where no MIG instance serves the load", page)
        self.assertNotIn("would need", self.size(*LLAMA, "--rate", 1, "--isolated")["why"])
        self.assertIn("MPS is advised only where no MIG instance serves", self.run_program("size", "--help").stdout)

    def test_a_cache_of_few_requests_is_the_last_resort(self):
        made = self.size(*LLAMA, "--rate", 0.1)
        page = self.run_program("size", *LLAMA, "--rate", 0.1).stdout
        small = [each for each in made["choices"] if each.get("mean_requests_at_once", 4) < 4]
        self.assertIn("1g.20gb", [each.get("mig_profile") for each in small])
        self.assertNotIn(made["advice"], small)
        self.assertRegex(page, r"(?m)^Holds fewer than 4 requests at once, advised only if nothing else serves\n"
                               r"  MIG 1g\.20gb: the KV cache holds 2\.5 requests of mean length$")

    def test_the_page_shows_the_evidence_of_a_setting(self):
        page = self.run_program("size", *LLAMA, "--rate", 1).stdout
        self.assertIn("\n    because 256 sequences of 1700 tokens need 435200 KV tokens, the cache has 153517\n    vLLM: --max-num-seqs 76\n", page)
        self.assertIn("40 to 60 % lower cost of GPU hours", page)

    def test_wrong_flags_are_refused(self):
        for words, says in (((), "--engine: is missing; write roofline:MODEL,GPU"),
                            (("--engine", "polynomial"), "--engine: must be a roofline"),
                            (("--engine", "roofline:llama-3.1-8b,h100,tp=2"), "--engine: must not have tp, pp or attention_ranks"),
                            (("--engine", "roofline:llama-3.1-8b,h100x"), "GPU 'h100x' is not in the catalogue"),
                            ((*LLAMA, "--longest", 1000), "--longest: must be at least the tokens of --input and --output"),
                            ((*LLAMA, "--utilisation", 0), "--utilisation: must be above 0"),
                            ((*LLAMA, "--rate", 0), "--rate: must be above 0"),
                            ((*LLAMA, "--rate", -1), "--rate: ")):
            self.assert_refused("size", *words, says=says)


if __name__ == "__main__":
    cli_testing.main()
