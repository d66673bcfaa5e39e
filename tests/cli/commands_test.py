#!/usr/bin/env python3
"""`penstock check`, `workload`, and the pages of help."""

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import unittest
from pathlib import Path

import cli_testing
from cli_testing import PROGRAM, CliTest, azure, mooncake

ROOT = Path(__file__).resolve().parents[2]


class Help(CliTest):
    def test_every_command_has_a_page(self):
        page = self.run_program("--help").stdout
        listed = re.findall(r"(?m)^  ([a-z]+) {2,}\S", page)
        for command in ("replay", "explain", "decide", "up", "workload", "usage", "check", "allocate", "profile",
                        "engine", "gateway", "plan"):
            self.assertIn(command, listed)
        for command in listed:
            own = self.run_program(command, "--help").stdout
            self.assertTrue(own.startswith(f"Usage: penstock {command}"))
            self.assertEqual(own, self.run_program("help", command).stdout)
            self.assertNotRegex(own, r"\d good|bad input")

    def test_replay_shows_groups_defaults_policies_and_examples(self):
        page = self.run_program("replay", "--help").stdout
        for part in ("Workload:", "Fleet:", "Engine:", "--kv-blocks COUNT", "[2000]", "[ttft=2s,itl=50ms,e2e=none,goal=0.99]",
                     "clairvoyant",
                     "Examples:"):
            self.assertIn(part, page)
        self.assertLessEqual(max(map(len, page.splitlines())), 140)

    def test_plan_shows_its_own_defaults_and_texts(self):
        page = re.sub(r"\n {30,}", " ", self.run_program("plan", "--help").stdout)
        self.assertRegex(page, r"--block-size .* \[16\]")
        self.assertRegex(page, r"--kv-blocks .* \[12288\]")
        self.assertIn("--policy NAME                   autoscaling policy [penstock]", page)
        self.assertNotIn("to compare", page)
        self.assertNotIn("a replay always", page)

    def test_plan_refuses_policies_of_replays(self):
        for policy in ("all", "clairvoyant"):
            self.assert_refused("plan", "--policy", policy, "--dashboard", "0", "--metrics-listen", "0",
                                says=f"--policy: '{policy}' is for `penstock replay` only; name one policy")
        self.assert_refused("plan", "--policy", "penstock:goal=95%", "--dashboard", "0", "--metrics-listen", "0",
                            says="'penstock:goal=95%' is for `penstock replay` and `penstock decide`; give the goal with --slo goal=SHARE")

    def test_version(self):
        self.assertRegex(self.run_program("--version").stdout, r"\Apenstock \d+\.\d+\.\d+( \([0-9a-f]{10}\))?\n\Z")

    def test_a_dash_writes_to_standard_output_and_the_table_to_standard_error(self):
        self.write("t.jsonl", mooncake())
        done = self.run_program("replay", "t.jsonl", "--policy", "static", "--json", "-")
        self.assertEqual(json.loads(done.stdout)["results"][0]["policy"], "static")
        self.assertIn("attainment", done.stderr.replace("-\n", ""))
        quiet = self.run_program("replay", "t.jsonl", "--policy", "static", "--json", "-", "--quiet")
        self.assertEqual(json.loads(quiet.stdout)["results"][0]["policy"], "static")
        self.assertEqual(quiet.stderr, "")
        self.assertEqual(self.run_program("replay", "t.jsonl", "--policy", "static", "--quiet").stdout, "")
        profile = self.run_program("profile", "--engine", "polynomial", "--json", "-")
        self.assertIn("prefill_ttft_ms", json.loads(profile.stdout))
        self.assertEqual(self.files(), ["t.jsonl"])
        self.assert_refused("replay", "t.jsonl", "--json", "-", "--csv", "-", says="names the same file as json")

    def test_a_narrow_terminal_gets_a_narrow_table(self):
        self.write("t.jsonl", mooncake())
        here, there = pty.openpty()
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        process = subprocess.Popen([PROGRAM, "replay", "t.jsonl", "--policy", "static,hpa-rate"], cwd=self.folder, stdout=there,
                                   stderr=subprocess.DEVNULL, env={**os.environ, "NO_COLOR": "1"})
        os.close(there)
        text = b""
        with contextlib.suppress(OSError):  # A terminal whose program has ended answers EIO.
            while chunk := os.read(here, 65536):
                text += chunk
        os.close(here)
        self.assertEqual(process.wait(240), 0)
        lines = text.decode().splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertTrue(any("more columns in a wider terminal" in line for line in lines), lines)

    def test_no_command_shows_the_help_and_fails(self):
        done = self.run_program(code=2)
        self.assertIn("Commands:", done.stderr)

    def test_the_reference_pages_are_up_to_date(self):
        for command in ("replay", "gateway"):
            page = self.run_program(command, "--options-markdown").stdout
            self.assertEqual((ROOT / f"docs/reference/{command}-options.md").read_text(), page)


NOT_COMPARED = "p.yaml: values that cannot be read were not compared with others"


class Check(CliTest):
    def test_a_good_file(self):
        self.write("p.yaml", "trace: a.csv\npolicy: all\nreplicas: 2\nmax_replicas: 8\n")
        done = self.run_program("check", "p.yaml")
        self.assertRegex(done.stdout, r"\Ap\.yaml: ok, 1 trace, \d+ policies, replicas default 1\.\.8 from 2\n\Z")

    def test_every_problem_with_its_line_and_column(self):
        self.write("p.yaml", "replicas: 9\nmax_replicas: 8\nfrom: 2h\nto: 1h\n")
        done = self.run_program("check", "p.yaml", code=2)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.splitlines(),
                         ["p.yaml:4:5: to: must be later than from (2h), is 1h",
                          "p.yaml:1:11: replicas: must be at most max_replicas (8), is 9"])
        self.write("p.yaml", "slo: {ttft: 0s}\nreplica: 9\n")
        self.assertEqual(self.run_program("check", "p.yaml", code=2).stderr.splitlines(),
                         ["p.yaml:1:13: slo.ttft: must be longer than 0, is '0s'",
                          "p.yaml:2:1: replica: unknown key; did you mean replicas?", NOT_COMPARED])

    def test_a_value_that_cannot_be_read_does_not_hide_others_that_are_invalid(self):
        self.write("p.yaml", "slo: {ttft: 2s, itl: 50}\ngateway:\n  listen: 99999\n  replicas: [{url: 'ftp://a'}]\n"
                   "planner: {schedules: [{cron: '61 * * * *', length: 1h, replicas: 3}]}\ntrace: 'synthetic:colour=red'\n"
                   "engine: {model: linaer}\n")
        lines = self.run_program("check", "p.yaml", code=2).stderr.splitlines()
        self.assertEqual(sorted(line.split(": ")[1] for line in lines[:-1]),
                         ["engine.model", "gateway.listen", "gateway.replicas[0].url", "planner.schedules[0].cron", "slo.itl", "trace"],
                         lines)
        self.assertEqual(lines[-1], NOT_COMPARED)
        self.write("p.yaml", "slo: {itl: 50}\nplanner: {schedules: [{length: 1h, replicas: 3}]}\ngateway: {replicas: [{model: m}]}\n")
        lines = self.run_program("check", "p.yaml", code=2).stderr.splitlines()
        self.assertEqual([line.split(": ")[1] for line in lines[:-1]],
                         ["slo.itl", "planner.schedules[0]", "gateway.replicas[0]"], lines)
        self.write("p.yaml", "replicas: 9\nmax_replicas: 8\ngateway: {listen: 99999}\n")
        lines = self.run_program("check", "p.yaml", code=2).stderr.splitlines()
        self.assertEqual([line.split(": ")[1] for line in lines], ["replicas", "gateway.listen"], lines)

    def test_errors_of_all_kinds_are_reported_in_one_run(self):
        self.write("p.yaml", "slo: {ttft: 2}\npolcy: all\nreplicas: 9\nmax_replicas: 8\nplanner: {warm_trace: missing.csv}\n"
                   "tenants: [{name: shop, key_files: [missing.key]}]\n")
        lines = self.run_program("check", "p.yaml", code=2).stderr.splitlines()
        self.assertEqual([line.split(": ")[1] for line in lines],
                         ["slo.ttft", "polcy", "replicas", "planner.warm_trace", "tenants[0].key_files[0]", NOT_COMPARED.split(": ")[1]], lines)

    def test_contradictions_of_the_slo_and_the_planner(self):
        self.write("p.yaml", "slo: {segments: [{name: chat, tenat: x}]}\nplanner: {predictor: seasonale, gpu_budget: 8}\n")
        self.assertEqual(self.run_program("check", "p.yaml", code=2).stderr.splitlines(),
                         ["p.yaml:1:31: slo.segments[0].tenat: unknown key; did you mean tenant?",
                          "p.yaml:2:22: planner.predictor: unknown predictor 'seasonale'; did you mean seasonal? there are constant, linear, seasonal, arima, kalman, "
                          "decomposition or auto",
                          NOT_COMPARED])
        self.write("p.yaml", "slo: {segments: [{name: chat, ttft: 1s}]}\nplanner: {predictor: seasonale, gpu_budget: 1}\n"
                   "pools: [{gpus: 2, price: 3}]\n")
        lines = self.run_program("check", "p.yaml", code=2).stderr.splitlines()
        self.assertEqual([line.split(";")[0] for line in lines],
                         ["p.yaml:1:18: slo.segments[0]: selects nothing",
                          "p.yaml:2:22: planner.predictor: unknown predictor 'seasonale'",
                          "p.yaml:2:45: planner.gpu_budget: must be at least the 2 GPUs of the pools' min_replicas, is 1"])

    def test_engines_formats_and_synthetic_traffic_are_validated(self):
        self.write("p.yaml", "format: moncake\n")
        self.assertIn("p.yaml:1:9: format: ", self.run_program("check", "p.yaml", code=2).stderr)
        self.write("p.yaml", "trace: [missing.csv, 'synthetic:colour=red']\nengine: {model: linaer}\n")
        lines = self.run_program("check", "p.yaml", code=2).stderr.splitlines()
        self.assertEqual([line.split(": ")[:2] for line in lines],
                         [["p.yaml:1:22", "trace[1]"], ["p.yaml:2:17", "engine.model"]])

    def test_check_prints_what_is_protected_and_what_happens_under_overload(self):
        self.write("p.yaml", "slo: {ttft: 1s, goal: 98%, segments: [{name: long, class: interactive, prompt_min: 16000, ttft: 10s}]}\n"
                   "pools: [{role: prefill, max_replicas: 6}, {role: decode, min_replicas: 2, max_replicas: 8}]\n"
                   "planner: {gpu_budget: 12}\nclasses: {batch: {queue_time: 0s}}\n"
                   "tenants: [{name: shop, keys: [k], tokens_per_minute: 20000, over_budget: queue}, {name: free, keys: [l]},\n"
                   " {name: crawler, keys: [m], class: batch, tier: -1, overload: shed}]\n")
        lines = [" ".join(line.split()) for line in self.run_program("check", "p.yaml", "--overload").stdout.splitlines()]
        for line in ("long 10 s 50 ms – 98.0 % class interactive, prompts of 16,000 tokens or more", "general 1 s 50 ms – 98.0 % all others",
                     "TTFT prefill prefill, 1 to 6 replicas", "ITL decode decode, 2 to 8 replicas",
                     "All pools together have at most 12 GPUs.",
                     "1 class batch, tenant crawler shed 503 engines_full at once",
                     "2 class batch shed 503 engines_full at once",
                     "last class interactive degrade wait for up to 10 s; at most 512 output tokens while more than 131,072 interactive tokens wait",
                     "tenant shop above 20.0k tokens per minute queue as its class",
                     "batch that sheds or drops send none to a replica with 8,192 prompt tokens in flight, or from 85.0 % of its KV cache"):
            self.assertIn(line, lines)
        self.assertFalse(any("tenant free" in line for line in lines))

    def test_a_file_of_the_gateway(self):
        self.write("g.yaml", "gateway: {listen: '127.0.0.1:9000', replicas: [{url: 'http://a:1'}, {url: 'http://b:1'}]}\n"
                   "tenants: [{name: shop, keys: [sk-shop]}]\n")
        self.assertEqual(self.run_program("check", "g.yaml").stdout,
                         "g.yaml: ok, gateway on 127.0.0.1:9000, 2 replicas, 1 tenant, 0 models\n")

    def test_one_file_for_both(self):
        self.write("p.yaml", "pools: [{name: chat, max_replicas: 4}]\nslo: {ttft: 1s}\nmodels: [{name: m}]\n")
        self.assertRegex(self.run_program("check", "p.yaml").stdout,
                         r"\Ap\.yaml: ok, replicas chat 1\.\.4 from 1; "
                         r"gateway on 127\.0\.0\.1:8000, 0 replicas, 0 tenants, 1 model\n\Z")

    def test_problems_of_both_are_each_reported_once(self):
        self.write("p.yaml", "replicas: 010\nslo: {ttft: 2}\ngatway: {}\nclasses: {batch: {queue_time: 5}}\n")
        lines = self.run_program("check", "p.yaml", code=2).stderr.splitlines()
        self.assertEqual(sorted(line.split(":")[1] for line in lines[:-1]), ["1", "2", "3", "4"], lines)

    def test_check_validates_files_of_the_gateway(self):
        self.write("good.key", "sk-from-file\n")
        tenants = "tenants: [{name: shop, key_files: [good.key], key_envs: PENSTOCK_TEST_KEY}]\n"
        self.write("p.yaml", tenants)
        self.assertIn("1 tenant", self.run_program("check", "p.yaml", environment={"PENSTOCK_TEST_KEY": "sk-env"}).stdout)
        cases = [(tenants, "p.yaml: tenants[0].key_envs: the environment variable 'PENSTOCK_TEST_KEY' is not set"),
                 ("tenants: [{name: shop, key_files: [missing.key]}]\n", "p.yaml: tenants[0].key_files[0]: missing.key: cannot be opened"),
                 ("tenants: [{name: a, keys: [sk-one]}, {name: b, keys: [sk-one]}]\n",
                  "p.yaml: tenants[1].keys[0]: an API key is given twice: to tenant b, and to tenant a as tenants[0].keys[0]; give"),
                 ("tenants: [{name: a, key_files: [good.key]}, {name: b, keys: [sk-two], key_files: good.key}]\n",
                  "p.yaml: tenants[1].key_files: an API key is given twice: to tenant b, and to tenant a as tenants[0].key_files[0]"),
                 ("gateway: {tls: {certificate: c.pem, key: k.pem}}\n", "p.yaml: gateway.tls.certificate: c.pem: cannot be used"),
                 ("gateway: {admin_token_file: none}\n", "p.yaml: gateway.admin_token_file: none: cannot be opened"),
                 ("gateway: {admin_token_env: PENSTOCK_NO_SUCH}\n", "p.yaml: gateway.admin_token_env: PENSTOCK_NO_SUCH: the environment variable is not set"),
                 ("gateway: {warm_up_prompts: none.jsonl}\n", "p.yaml: gateway.warm_up_prompts: none.jsonl: cannot be opened"),
                 ("gateway: {peers: 'https://a', peer_ca_file: none}\n", "p.yaml: gateway.peer_ca_file: none: "),
                 ("gateway: {credentials: {api_key_file: none}}\n", "p.yaml: gateway.credentials: the API key file none cannot be read"),
                 ("gateway: {kubernetes: {selector: a=b, kubeconfig: none}}\n", "p.yaml: gateway.kubernetes: none: cannot be opened"),
                 ("gateway: {replicas_dns: nowhere}\n", "p.yaml: gateway.replicas_dns: "),
                 ("gateway: {replicas_dns: 'https://engines:8000'}\n", "p.yaml: gateway.replicas_dns: \"https://engines:8000\" is not a name and a port"),
                 ("gateway: {listen: ':8000', admin_listen: '127.0.0.1:8000'}\n", "p.yaml: gateway.admin_listen: must have another port than "
                  "gateway.listen (:8000), is '127.0.0.1:8000'"),
                 ("gateway: {listen: here}\n", "p.yaml: gateway.listen: must be address:port, is 'here'"),
                 ("gateway: {replicas: [{url: 'ftp://a'}]}\n", "p.yaml: gateway.replicas[0].url: ")]
        for text, says in cases:
            self.write("p.yaml", text)
            lines = self.run_program("check", "p.yaml", code=2).stderr.splitlines()
            self.assertEqual(len(lines), 1, lines)
            self.assertRegex(lines[0], r"\Ap\.yaml:1:\d+: ")
            self.assertTrue(re.sub(r"yaml:\d+:\d+", "yaml", lines[0]).startswith(says), lines[0])
            self.assertNotIn("sk-", lines[0])

    def test_check_validates_what_a_planner_reads(self):
        self.write("p.yaml", "planner:\n  dynamo_discovery: nowhere\n  gpu_exporters: [node]\n  nats:\n    token_file: none\n"
                   "prometheus:\n  url: http://127.0.0.1:9090\n  token_file: none\n")
        lines = self.run_program("check", "p.yaml", code=2).stderr.splitlines()
        self.assertEqual(sorted(re.match(r"p\.yaml:(\d+):\d+: ([\w.\[\]]+): ", line).groups() for line in lines),
                         [("2", "planner.dynamo_discovery"), ("3", "planner.gpu_exporters[0]"), ("5", "planner.nats.token_file"), ("7", "prometheus")])
        self.write("p.yaml", "prometheus: {url: 'http://127.0.0.1:9090'}\n")  # `penstock manifests autoscalers` needs no more.
        self.run_program("check", "p.yaml")

    def test_a_value_that_is_left_out_is_reported_in_its_line(self):
        self.write("p.yaml", "slo: {ttft: 1s}\ngateway:\n\n\nplanner: {}\n")
        self.assertIn("p.yaml:2:1: gateway: must be a section, is nothing", self.run_program("check", "p.yaml", code=2).stderr)

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
        done = self.run_program("workload", "a.jsonl", "built-in", "--json", "-")
        first, built_in, together = json.loads(done.stdout)["workloads"]
        self.assertEqual((first["name"], first["requests"], built_in["format"]), ("a.jsonl", 10, "built-in"))
        self.assertEqual(together["requests"], 10 + built_in["requests"])

    def test_a_trace_may_be_standard_input(self):
        done = self.run_program("workload", "-", "--json", "-", given=mooncake(requests=10))
        self.assertEqual(json.loads(done.stdout)["workloads"][0]["requests"], 10)
        refused = self.run_program("workload", "-", code=2, given="")
        self.assertIn("penstock: -: ", refused.stderr)

    def test_requests_at_one_time_have_no_rate(self):
        done = self.run_program("workload", self.write("one.jsonl", mooncake(requests=1)))
        for rate in ("requests per second", "prompt tokens per second", "output tokens per second"):
            self.assertRegex(done.stdout, rf"(?m)^{rate} +–$")
        two = self.run_program("workload", self.write("two.jsonl", mooncake(requests=2, gap_ms=1000)))
        self.assertRegex(two.stdout, r"(?m)^requests per second +2\.00$")
        done = self.run_program("workload", "one.jsonl", "--json", "-")
        self.assertIsNone(json.loads(done.stdout)["workloads"][0]["requests_per_s"])

    def test_skipped_rows_are_shown(self):
        self.write("some.csv", azure(["2023-11-16 18:17:03.1,10,5", "2023-11-16 18:17:04.1,0,5"]))
        done = self.run_program("workload", "some.csv", "--skip-bad-rows")
        self.assertRegex(done.stdout, r"(?m)^invalid rows skipped +1$")
        self.assertIn("skipped: some.csv:3: ", done.stdout)

    def test_bad_input(self):
        self.assert_refused("workload", self.write("empty.csv", ""), says="empty.csv")
        self.assert_refused("workload", says="there is no trace to read")


class StandardDescriptors(CliTest):
    """A descriptor that the caller has closed is not that of the next file."""

    GATEWAY = ("gateway", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--access-log", "access.log")

    def run_shell(self, redirections):
        return subprocess.run(["sh", "-c", f'exec "$@" {redirections}', "sh", PROGRAM, *self.GATEWAY], cwd=self.folder, capture_output=True,
                              text=True, timeout=30, check=False)

    def test_output_goes_into_no_other_file(self):
        done = self.run_shell(">&-")
        self.assertEqual(done.returncode, 1)
        self.assertIn("penstock: standard output: cannot write: Bad file descriptor", done.stderr)
        self.assertEqual((self.folder / "access.log").read_text(), "")

    def test_the_log_goes_into_no_other_file(self):
        self.assertEqual(self.run_shell(">/dev/full 2>&-").returncode, 1)
        self.assertEqual((self.folder / "access.log").read_text(), "")


class Gateway(CliTest):
    def test_the_api_and_the_admin_address_are_two(self):
        for api, admin in (("127.0.0.1:18000", "127.0.0.1:18000"), (":18000", "127.0.0.1:18000"), ("127.0.0.1:18000", "[::]:18000")):
            self.assert_refused("gateway", "http://127.0.0.1:1", "--listen", api, "--admin-listen", admin,
                                says=f"--admin-listen: must have another port than gateway.listen ({api}), is '{admin}'")

    def test_a_name_of_replicas_that_is_none(self):
        self.assert_refused("gateway", "--replicas-dns", "nowhere", says="--replicas-dns: ")


class Plan(CliTest):
    def test_parts_of_tls_that_would_leave_the_page_open(self):
        for flags, says in ((("--dashboard-client-ca", "ca.pem"), "--dashboard-client-ca: has no effect without a certificate"),
                            (("--dashboard-tls-key", "key.pem"), "--dashboard-tls-certificate: is missing"),
                            (("--dashboard-tls-certificate", "c.pem"), "--dashboard-tls-key: is missing")):
            self.assert_refused("plan", "--dashboard", "127.0.0.1:0", *flags, says=says)

    def test_too_few_ports_for_an_engine(self):
        self.assert_refused("plan", "--engines", "local", "--ports", "9000-9001", says="--ports: must have three ports for each engine")

    def test_what_engines_of_a_kind_cannot_do(self):
        self.write("p.yaml", "wake_time: 1s\nasleep: 1\npools: [{name: a, prompt_max: 9, kubernetes: deployment/a}, {name: b}]\n")
        done = self.run_program("plan", "--config", "p.yaml", "--engines", "kubernetes", code=2)
        self.assertIn("penstock: p.yaml:2:9: asleep: needs --engines local", done.stderr)
        self.assertIn("penstock: p.yaml:3:61: pools[1].kubernetes: is missing", done.stderr)


class Load(CliTest):
    def test_two_outputs_do_not_share_a_file(self):
        self.assert_refused("load", "http://127.0.0.1:1", "--rate", "1", "--json", "out", "--html", "out", says="--html: names the same file as --json, 'out'")


class Up(CliTest):
    def test_the_page_says_what_it_serves_and_where(self):
        page = self.run_program("up", "--help").stdout
        for part in ("--dashboard ADDRESS", "[127.0.0.1:8080]", "--no-load", "--disaggregated", "--max-replicas COUNT",
                     "sk-demo", "Ctrl-C"):
            self.assertIn(part, page)

    def test_bad_flags_start_nothing(self):
        self.assert_refused("up", "--listen", "nowhere", says="--listen: must be address:port, is 'nowhere'")
        self.assert_refused("up", "--duration", "long", says="--duration: ")
        self.assert_refused("up", "--peek", "3", says="--peek")
        for flags, says in ((("--peak", "x"), "--peak: must be a number"), (("--trough", "20"), "--trough: must be at most the peak"),
                            (("--ports", "x"), "--ports: must be like 9000-9899"), (("--listen", "127.0.0.1:0"), "--listen: needs a port"),
                            (("--config", "-"), "--config: cannot be standard input"),
                            (("--config", "p.yaml", "--max-replicas", "2"), "--max-replicas: has no effect with --config"),
                            (("--config", "p.yaml", "--disaggregated"), "--disaggregated: has no effect with --config"),
                            (("--config", "none.yaml"), "none.yaml: cannot be opened")):
            self.assert_refused("up", *flags, says=says)

    def test_a_bad_configuration_starts_nothing(self):
        for text, says in (("replicas: x\n", "p.yaml:1:11: replicas: must be a whole number"),
                           ("gateway: {tls: {certificate: a.pem, key: b.pem}}\n", "gateway.tls.certificate: `penstock up` sends requests by plain HTTP"),
                           ("gateway: {admin_tls: {certificate: a.pem, key: b.pem}}\n", "gateway.admin_tls.certificate: `penstock up` sends")):
            self.write("p.yaml", text)
            self.assert_refused("up", "--config", "p.yaml", says=says)


if __name__ == "__main__":
    cli_testing.main()
