#!/usr/bin/env python3
"""Bad input ends with one clear line that says where and what, exit code 2, and no file left behind."""

import gzip
import json
import lzma
import shlex

import cli_testing
from cli_testing import CliTest, azure, mooncake

OUTPUTS = ["--json", "out.json", "--csv", "out.csv", "--html", "out.html"]


class BadTraces(CliTest):
    def assert_trace_refused(self, name, content, says, *flags):
        return self.assert_refused("replay", self.write(name, content), "--policy", "static", *OUTPUTS, *flags, says=says)

    def test_unknown_format(self):
        self.assert_trace_refused("trace.xml", "<requests/>\n<request/>\n", "trace.xml")

    def test_unknown_name_of_a_format(self):
        self.assert_trace_refused("trace.jsonl", mooncake(), "moncake", "--format", "moncake")

    def test_empty_file(self):
        self.assert_trace_refused("empty.csv", "", "empty.csv")

    def test_header_without_rows(self):
        self.assert_trace_refused("header.csv", azure([]), "header.csv")

    def test_zero_length(self):
        self.assert_trace_refused("zero.csv", azure(["2023-11-16 18:17:03.1,10,5", "2023-11-16 18:17:04.1,0,5"]), "zero.csv:3: ")

    def test_negative_length(self):
        self.assert_trace_refused("negative.jsonl", mooncake(2) + json.dumps(
            {"timestamp": 9000, "input_length": -5, "output_length": 3, "hash_ids": [1]}) + "\n", "negative.jsonl:3: ")

    def test_foreign_columns_name_the_option_that_reads_them(self):
        foreign = "Request Time;Prompt Tok;Completion Tok\n18/11/2026 09:00:00;100;20\n18/11/2026 09:00:05;90;30\n"
        message = self.assert_trace_refused("foreign.csv", foreign, "foreign.csv:1: unknown columns")
        options = shlex.split(message[message.index("--columns"):])
        read = self.run_program("workload", "foreign.csv", *options, "--json", "-")
        self.assertEqual(json.loads(read.stdout)["workloads"][0]["span_s"], 5)

    def test_times_in_doubt_name_the_option_that_confirms_the_guess(self):
        doubtful = "timestamp,input_tokens,output_tokens\n0,100,20\n250,90,30\n"
        message = self.assert_trace_refused("doubtful.csv", doubtful, "the guess is ms")
        options = message[message.index("--time-format"):].split(",")[0].split()
        read = self.run_program("workload", "doubtful.csv", *options, "--json", "-")
        self.assertEqual(json.loads(read.stdout)["workloads"][0]["span_s"], 0.25)

    def test_times_that_go_back(self):
        self.assert_trace_refused("back.csv", azure(["2023-11-16 18:17:03.1,10,5", "2023-11-16 18:17:02.1,10,5"]), "back.csv:3: ")

    def test_row_that_is_no_json(self):
        self.assert_trace_refused("broken.jsonl", mooncake(2) + "{\"timestamp\": 1\n", "broken.jsonl:3: ")

    def test_truncated_compressed_files(self):
        for name, compress in (("cut.jsonl.gz", gzip.compress), ("cut.jsonl.xz", lzma.compress)):
            with self.subTest(name):
                whole = compress(mooncake(2000).encode())
                self.assert_trace_refused(name, whole[:len(whole) // 2], name)

    def test_damaged_compressed_file(self):
        damaged = bytearray(lzma.compress(mooncake(2000).encode()))
        damaged[len(damaged) // 2] ^= 0xFF
        self.assert_trace_refused("damaged.jsonl.xz", bytes(damaged), "damaged.jsonl.xz")

    def test_file_that_is_not_there(self):
        self.assert_refused("replay", "missing.csv", *OUTPUTS, says="missing.csv")

    def test_a_folder_is_no_trace(self):
        (self.folder / "folder").mkdir()
        self.assert_refused("replay", "folder", *OUTPUTS, says="folder")

    def test_unreadable_file(self):
        # No process, not even of root, can read the start of a process's memory.
        self.assert_refused("replay", "/proc/self/mem", *OUTPUTS, says="/proc/self/mem: cannot be read")

    def test_empty_window(self):
        self.assert_trace_refused("trace.jsonl", mooncake(), "trace.jsonl", "--from", "10h")

    def test_bad_rows_are_left_out_on_request(self):
        self.write("some.csv", azure(["2023-11-16 18:17:03.1,10,5", "2023-11-16 18:17:04.1,0,5", "2023-11-16 18:17:05.1,9,5"]))
        done = self.run_program("replay", "some.csv", "--skip-bad-rows", "--policy", "static", "--json", "out.json")
        self.assertIn("skipped: 1 invalid row", done.stdout)
        self.assertEqual(self.read_json("out.json")["results"][0]["requests"], 2)

    def test_a_time_that_is_days_too_late_is_a_warning(self):
        self.write("late.csv", "arrival_s,input_tokens,output_tokens\n0,10,5\n1,10,5\n172801,10,5\n")
        says = "penstock: warning: late.csv:4: no request arrives for 2.0 days, and the run takes as long; correct the time of the row if it is wrong, " \
               "or end before it with --to 2s\n"
        for words in (("workload", "late.csv"), ("replay", "late.csv", "--policy", "static")):
            self.assertEqual(self.run_program(*words).stderr, says)
        for words in (("replay", "late.csv", "--policy", "static", "--to", "2s"), ("replay", "late.csv", "--policy", "static", "--quiet")):
            self.assertEqual(self.run_program(*words).stderr, "")

    def test_words_of_synthetic_traffic(self):
        self.assert_refused("replay", "synthetic:rate=5,colour=red", *OUTPUTS, says="colour")


class BadFlags(CliTest):
    def setUp(self):
        super().setUp()
        self.trace = self.write("trace.jsonl", mooncake())

    def test_contradictions(self):
        for flags, says in ((["--replicas", "9", "--max-replicas", "8"], "--replicas: must be at most max_replicas (8), is 9"),
                            (["--from", "1h", "--to", "1h"], "--to: must be later than from (1h), is 1h"),
                            (["--pool", "role=prefill"], "one prefill and one decode pool"),
                            (["--min-replicas", "4", "--max-replicas", "2"], "must be at least min_replicas (4), is 2"),
                            (["--slo", "ttft=0s"], "--slo ttft: must be longer than 0"),
                            (["--json", "same", "--csv", "same"], "names the same file as json")):
            with self.subTest(flags):
                self.assert_refused("replay", self.trace, *OUTPUTS, *flags, says=says)

    def test_values_that_cannot_be_read(self):
        for flags, says in ((["--replicas", "0"], "--replicas: must be at least min_replicas (1), is 0"),
                            (["--replicas", "-1"], "--replicas: must be a whole number"),
                            (["--rate-scale", "-1"], "--rate-scale: must be from"),
                            (["--start-up", "120"], "--start-up: needs a unit"),
                            (["--score-from", "2h"], "penstock: --score-from: no request arrives after 2 h; the last one arrives at"),
                            (["--rate-scale", "2", "--rate-scale-spread", "1h"],
                             "its copies cannot be moved by 3600 s; use a spread of at most half of its"),
                            (["--policy", "hpa-rat"], "did you mean hpa-rate?"),
                            (["--policy", "kpa:up=0.3"], "unknown setting 'up'; utilisation (from 0.05 to 3)"),
                            (["--policy", "keda-tokens:utilisation=7"], "utilisation must be a number from 0.05 to 3, is '7'"),
                            (["--policy", "schedule"], "the policy schedule lacks its file; schedule:FILE"),
                            (["--policy", "schedule:nowhere.csv"],
                             "--policy: schedule file 'nowhere.csv' cannot be opened: No such file or directory"),
                            (["--engine", "linaer:1,2,3,4"], "linaer"),
                            (["--engine", "linear:1,2"], "linear"),
                            (["--replicas"], "--replicas"),
                            (["--json", "--csv", "x.csv"], "--json: needs a value"),
                            (["--replcas", "3"], "did you mean --replicas?"),
                            (["--repl", "3"], "did you mean --replicas?"),
                            (["--skip-bad-rows=no"], "--skip-bad-rows: takes no value"),
                            (["--router=kvv"], "--router: must be live, kv")):
            with self.subTest(flags):
                self.assert_refused("replay", self.trace, *flags, says=says)

    def test_a_live_planner_names_the_policies_that_it_has(self):
        self.write("p.yaml", "pools: [{name: chat}]\n")
        stderr = self.assert_refused("plan", "--config", "p.yaml", "--policy", "hpa-rat", says="--policy: unknown policy 'hpa-rat'; name one of penstock, static, hpa-rate, ")
        for name in ("clairvoyant", "schedule", " all"):
            self.assertNotIn(name, stderr)
        self.assert_refused("plan", "--config", "p.yaml", "--policy", "all", says="--policy: 'all' is for `penstock replay` only")

    def test_no_trace_at_all(self):
        self.assert_refused("replay", "--policy", "static", says="there is no trace to read; name a file")

    def test_unknown_command(self):
        self.assert_refused("rpelay", self.trace, says="did you mean replay?")

    def test_an_slo_that_no_replica_keeps(self):
        slo = ["--slo", "ttft=1us,itl=1us"]
        self.assert_refused("replay", self.trace, "--policy", "static,hpa-rate", *slo, *OUTPUTS, says="beyond one replica")
        self.run_program("replay", self.trace, "--policy", "static,dynamo-latency", *slo)

    def test_profile_with_a_hole(self):
        profile = {"prefill_isl": [100, 1000], "prefill_ttft_ms": [10, None], "decode_active_kv_tokens": [1, 2],
                   "decode_itl": [5, 6], "decode_context_length": [100, 100]}
        self.write("profile.json", json.dumps(profile))
        self.assert_refused("replay", self.trace, "--engine", "profile.json", *OUTPUTS, says="profile.json")

    def test_profile_that_is_not_there(self):
        self.assert_refused("replay", self.trace, "--engine", "missing.npz", *OUTPUTS, says="missing.npz")


class BadClusters(CliTest):
    """Gateway, planner and doctor refuse the same."""

    PODS = {"selector": "app=chat", "namespace": "llm", "kubeconfig": "kubeconfig"}

    def kubeconfig(self, user=None, server="https://127.0.0.1:1", **cluster):
        return json.dumps({"current-context": "a", "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
                           "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": user or {}}]})

    def configuration(self, *targets):
        pools = [{"name": f"p{i}", "role": role, **({"kubernetes": target} if target else {})}
                 for i, (target, role) in enumerate(zip(targets, ("prefill", "decode") if len(targets) == 2 else ("aggregated",)))]
        return self.write("p.yaml", json.dumps({"gateway": {"anonymous": True, "kubernetes": self.PODS}, "pools": pools}))

    def assert_refused_by_all(self, says, only=("gateway", "plan", "doctor")):
        words = {"gateway": ("--config", "p.yaml", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"),
                 "plan": ("--config", "p.yaml", "--engines", "kubernetes", "--dashboard", "127.0.0.1:0"), "doctor": ("p.yaml",)}
        for program in only:
            with self.subTest(program=program):
                self.assert_refused(program, *words[program], says=says)

    def test_a_kubeconfig_that_cannot_be_used(self):
        self.configuration("deployment/chat")
        self.assert_refused_by_all("kubeconfig: cannot be opened")
        for content, says in (("clusters: [", "kubeconfig:2:1: is not valid YAML"), ("{}", "current-context"),
                              (self.kubeconfig({"exec": {"command": "aws"}}), "kubectl create token"),
                              (self.kubeconfig({"username": "a", "password": "b"}), "kubeconfig:"),
                              (self.kubeconfig({"tokenFile": "none"}), "none"),
                              (self.kubeconfig({"client-certificate-data": "eA==", "client-key-data": "eA=="}), "client-certificate-data"),
                              (self.kubeconfig(**{"certificate-authority-data": "eA=="}), "certificate-authority-data"),
                              (self.kubeconfig({"token": "a"}, server="http://127.0.0.1:1"), "kubeconfig:")):
            with self.subTest(content=content):
                self.write("kubeconfig", content)
                self.assert_refused_by_all(says)

    def test_targets_that_cannot_be_scaled(self):
        self.write("kubeconfig", self.kubeconfig())
        self.configuration("deployment/chat", "apps/v1/deployments/chat")
        self.assert_refused_by_all('pools[1].kubernetes: two pools have the target deployments.apps "chat"; give each pool an object of its own')
        self.configuration("chat")
        self.assert_refused_by_all("pools[0].kubernetes: ")
        self.configuration(None)
        self.assert_refused_by_all("pools[0].kubernetes: is missing; name the object to scale", ("plan",))


class BadOutputs(CliTest):
    """The environment's faults end with 1, before anything is run."""

    def setUp(self):
        super().setUp()
        self.trace = self.write("trace.jsonl", mooncake())

    def test_folder_that_is_not_there(self):
        text = self.assert_refused("replay", "built-in", "--policy", "all", "--html", "nowhere/out.html",
                                   says="nowhere/out.html: cannot write", code=1)
        self.assertIn("create the folder first", text)

    def test_output_that_is_a_folder(self):
        (self.folder / "folder").mkdir()
        self.assert_refused("replay", self.trace, "--json", "folder", says="folder: cannot write", code=1)

    def test_folder_that_takes_no_files(self):
        # No process, not even of root, can create a file there. The other output is written.
        done = self.run_program("replay", self.trace, "--quiet", "--json", "/proc/out.json", "--html", "out.html", code=1)
        self.assertRegex(done.stderr, r"\Apenstock: /proc/out\.json: cannot write[^\n]*\n\Z")
        self.assertEqual((done.stdout, self.files()), ("", ["out.html", "trace.jsonl"]))

    def test_output_that_would_overwrite_the_trace(self):
        self.assert_refused("replay", self.trace, "--json", "./trace.jsonl", says="would overwrite trace.jsonl")
        self.assertEqual((self.folder / "trace.jsonl").read_text(), mooncake())

    def test_a_failed_run_leaves_the_old_report_alone(self):
        self.write("out.json", "old")
        self.assert_refused("replay", "missing.csv", "--json", "out.json", says="missing.csv")
        self.assertEqual((self.folder / "out.json").read_text(), "old")


if __name__ == "__main__":
    cli_testing.main()
