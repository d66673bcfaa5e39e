#!/usr/bin/env python3
"""`penstock plan` from end to end: it runs engines behind a gateway, and whatever is killed, users notice nothing."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import unittest

from live_testing import KILL, PROGRAM, SECONDS, STOP, Engine, Gateway, Stream, ask, chat, complete, until
from many_streams import ManyStreams
from planner_testing import TOKEN, Home, Planner, rows_of, until_routed, until_serving

STATIC = ("--policy", "static")
TWO = "  - {name: chat, replicas: 2, min_replicas: 1, max_replicas: 3}"
SLOW = ", model: 'linear:20,0,0.001,0'"  # 20 ms a token


class PlanTest(unittest.TestCase):
    def run_to_end(self, *words):
        return subprocess.run([PROGRAM, "plan", *words], capture_output=True, text=True, timeout=SECONDS, check=False)

    def test_starts_and_ends_the_requested_engines(self):
        home = Home(self, TWO)
        gateway = home.gateway(self)
        planner = home.planner(self, gateway, *STATIC)
        until_serving(home, 2)
        until_routed(gateway, 2)
        self.assertEqual(complete(gateway.port)[0], 200)
        pool = planner.pool()
        self.assertEqual((pool["target"], pool["ready"]), (2, 2))
        self.assertEqual(len(home.engines()), 2)
        planner.signal(STOP)
        self.assertEqual(planner.wait(), 0)
        self.assertEqual(home.engines(), {})
        self.assertEqual(home.serving(), [])

    def test_keep_leaves_engines_running(self):
        home = Home(self)
        gateway = home.gateway(self)
        planner = home.planner(self, gateway, *STATIC, "--keep-engines")
        until_serving(home, 1)
        before = home.engines()
        planner.signal(STOP)
        self.assertEqual(planner.wait(), 0)
        self.assertEqual(home.engines(), before)
        self.assertEqual(complete(gateway.port)[0], 200)

    def test_grows_under_load_and_shrinks_afterwards(self):
        home = Home(self, engine=", max_sequences: 8, model: 'linear:20,0,0.001,0'")
        gateway = home.gateway(self)
        planner = home.planner(self, gateway)
        until_serving(home, 1)
        until_routed(gateway, 1)
        streams = ManyStreams(self, gateway.port, 60, 100, timeout_s=3 * SECONDS)
        until("more replicas", lambda: planner.pool()["ready"] > 1)
        self.assertEqual(streams.join(), [])

        def shrunk():
            return [entry for entry in planner.state()["decisions"] if entry["target"] < entry["current"]]

        until("a decision to shrink", shrunk)
        until("fewer engines", lambda: len(home.engines()) <= shrunk()[-1]["target"])
        self.assertTrue(shrunk()[-1]["sentence"])
        self.assertEqual(complete(gateway.port)[0], 200)

    def test_a_new_replica_has_hot_prefixes_before_its_first_request(self):
        home = Home(self)
        gateway = home.gateway(self)
        first = home.planner(self, gateway, *STATIC)
        until_serving(home, 1)

        def shared(question):
            return {"model": "penstock-sim", "max_tokens": 2, "messages": [
                {"role": "system", "content": "You are the clerk of a shop. " * 100},
                {"role": "user", "content": question}]}

        for i in range(4):
            self.assertEqual(ask(gateway.port, "POST", "/v1/chat/completions", shared(f"question {i}"))[0], 200)
        (prefix,) = json.loads(ask(gateway.admin, "GET", "/penstock/v1/prefixes?model=penstock-sim",
                                    Authorization=f"Bearer {TOKEN}")[2])["prefixes"]
        self.assertNotIn("question", prefix["body"])
        first.signal(KILL)
        first.wait()
        home.write_config("  - {name: chat, replicas: 2, min_replicas: 2, max_replicas: 2}")
        home.planner(self, gateway, *STATIC)
        until_serving(home, 2)
        with open(home.path("replicas.json")) as file:
            new = max(json.load(file)["replicas"], key=lambda each: each["id"])
        answer = ask(int(new["url"].rsplit(":", 1)[1]), "POST", "/v1/chat/completions", shared("my first"))[2]
        usage = json.loads(answer)["usage"]
        self.assertGreaterEqual(usage["prompt_tokens_details"]["cached_tokens"], prefix["tokens"], usage)

    def test_each_of_two_models_has_a_planner_that_sees_its_own_traffic(self):
        engine = ", max_sequences: 8, model: 'linear:20,0,0.001,0'"
        busy = Home(self, engine=engine)
        quiet = Home(self, "  - {name: code, replicas: 1, min_replicas: 1, max_replicas: 3}", engine, model="coder")
        gateway = Gateway(self, "--config", busy.config, "--replicas-file",
                          busy.path("replicas.json") + "," + quiet.path("replicas.json"))
        of_busy, of_quiet = busy.planner(self, gateway), quiet.planner(self, gateway)
        until_serving(busy, 1)
        until_serving(quiet, 1)
        until_routed(gateway, 2)
        streams = ManyStreams(self, gateway.port, 60, 100, timeout_s=3 * SECONDS)
        until("more replicas", lambda: of_busy.pool()["ready"] > 1)
        until("as many at the gateway", lambda: len(gateway.overview()["replicas"]) > 2)
        self.assertEqual(streams.join(), [])
        self.assertEqual(quiet.stages(), {"serving": 1})
        points = json.loads(ask(of_quiet.port, "GET", "/api/points")[2])
        self.assertEqual([point["arrivals_per_s"] for point in points if point["arrivals_per_s"]], [])
        status, fields, _ = ask(gateway.port, "POST", "/v1/chat/completions", {**chat(4), "model": "coder"})
        self.assertEqual((status, fields["x-penstock-replica"]), (200, "code-1"))
        until("that request", lambda: any(point["arrivals_per_s"] for point in
                                          json.loads(ask(of_quiet.port, "GET", "/api/points")[2])))

    def test_observe_only_never_acts_on_other_engines(self):
        engine = Engine(self, "--speed", "50")
        gateway = Gateway(self, engine.url).ready()
        home = Home(self, TWO)
        planner = Planner(self, "--config", home.config, "--state-dir", home.path("unused"), "--gateway",
                          f"127.0.0.1:{gateway.admin}")
        until("the engine's figures", lambda: [each for each in planner.pool()["replicas"] if each["sample"]])
        until("a decision", lambda: planner.state()["decisions"])
        self.assertEqual(planner.state()["mode"], "observe")
        # Only the state of the policy; no engine was started there.
        self.assertLessEqual(set(os.listdir(home.path("unused"))), {"policy.json"})
        self.assertEqual(home.engines(), {})
        engine.signal(KILL)
        self.assertEqual(ask(planner.port, "GET", "/health")[0], 200)

    def test_observes_engines_by_their_names(self):
        engine = Engine(self)
        gateway = Gateway(self, f"http://localhost:{engine.port}").ready()
        planner = Planner(self, "--gateway", f"127.0.0.1:{gateway.admin}")
        until("the engine's figures", lambda: [each for each in planner.pool()["replicas"] if each["sample"]])
        engine.signal(KILL)
        until("word of its silence", lambda: planner.has_event(f"localhost:{engine.port} cannot be read", warning=True))
        until("its log line", lambda: " telemetry_unavailable " in planner.log())
        self.assertEqual(planner.log().count(" telemetry_unavailable "), 1)

    def test_a_planner_without_its_gateway_is_never_green(self):
        engine = Engine(self, "--speed", "50")
        gateway = Gateway(self, engine.url).ready()
        home = Home(self, TWO)
        planner = Planner(self, "--config", home.config, "--gateway", f"127.0.0.1:{gateway.admin}")
        until("data", lambda: planner.state()["data"]["state"] == "known")
        until("a target", lambda: 'penstock_target_replicas{pool="chat"} 1' in planner.metrics())
        gateway.signal(KILL)
        gateway.wait()
        until("word of it", lambda: "penstock_gateway_up 0" in planner.metrics())
        until("an unknown state", lambda: planner.state()["data"]["state"] == "no_gateway")
        state, metrics = planner.state(), planner.metrics()
        self.assertEqual(state["diagnosis"]["cause"], "unknown")
        self.assertEqual((state["pools"][0]["target"], state["pools"][0]["ready"], state["slo"]["attainment"]), (None,) * 3)
        self.assertEqual(state["decisions"][0]["reason"], "no_data")
        self.assertIn('penstock_diagnosis{pool="chat",cause="unknown"} 1', metrics)
        for name in ("penstock_target_replicas", "dynamo_planner_predicted_num_decode_replicas", "penstock_replicas"):
            self.assertNotRegex(metrics, f"(?m)^{name}[ {{]")
        self.assertTrue(planner.has_event("the gateway does not answer", warning=True))
        until("its log line", lambda: " data_unknown " in planner.log())
        self.assertEqual(planner.log().count(" data_unknown "), 1)

    def test_a_wrong_gateway_address_is_logged_and_exports_no_target(self):
        planner = Planner(self, "--gateway", "127.0.0.1:1")
        until("word of it", lambda: " gateway_unreachable " in planner.log() and " data_unknown " in planner.log())
        until("a decision", lambda: planner.state()["decisions"])
        self.assertEqual([(each["reason"], each["cause"]) for each in planner.state()["decisions"]], [("no_data", "unknown")])
        self.assertNotRegex(planner.metrics(), r"(?m)^penstock_target_replicas\{")

    def test_after_a_kill_during_a_start_the_next_planner_continues(self):
        home = Home(self, TWO, start_up="4s")
        gateway = home.gateway(self)
        first = home.planner(self, gateway, *STATIC)
        until("two engines", lambda: len(home.engines()) == 2 and home.stages() == {"starting": 2})
        before = home.engines()
        first.signal(KILL)
        first.wait()
        home.planner(self, gateway, *STATIC)
        until_serving(home, 2)
        self.assertEqual(home.engines(), before)
        self.assertEqual(complete(gateway.port)[0], 200)

    def test_after_a_kill_before_the_state_is_saved_the_next_planner_finds_the_engine(self):
        home = Home(self)
        gateway = home.gateway(self)
        first = home.planner(self, gateway, *STATIC)
        until_serving(home, 1)
        first.signal(KILL)
        first.wait()
        before = home.engines()
        fleet = home.fleet()
        fleet["replicas"][0].update({"stage": "requested", "process": None})
        with open(home.path("fleet.json"), "w") as file:
            json.dump(fleet, file)
        home.planner(self, gateway, *STATIC)
        until_serving(home, 1)
        self.assertEqual(home.engines(), before)
        self.assertEqual([each["id"] for each in home.fleet()["replicas"]], [1])

    def test_after_a_kill_during_a_drain_the_next_planner_continues_and_no_stream_breaks(self):
        home = Home(self, TWO, engine=SLOW)
        gateway = home.gateway(self)
        first = home.planner(self, gateway, *STATIC)
        until_serving(home, 2)
        until_routed(gateway, 2)
        streams = ManyStreams(self, gateway.port, 40, 300)
        until("tokens on all streams", lambda: streams.begun() == 40)
        self.assertEqual(len(streams.replicas()), 2)
        first.signal(KILL)
        first.wait()
        home.write_config("  - {name: chat, replicas: 1, min_replicas: 1, max_replicas: 1}", SLOW)
        second = home.planner(self, gateway, *STATIC)
        until("one that drains", lambda: home.stages() == {"serving": 1, "draining": 1})
        second.signal(KILL)
        second.wait()
        before = home.engines()
        self.assertEqual(len(before), 2)
        home.planner(self, gateway, *STATIC)
        self.assertEqual([complete(gateway.port, 2, f"meanwhile {i}")[0] for i in range(5)], [200] * 5)
        self.assertGreater(streams.open(), 0)
        self.assertEqual(streams.join(), [])
        until("one replica", lambda: home.stages() == {"serving": 1} and len(home.engines()) == 1)
        self.assertLessEqual(set(home.engines()), set(before))

    def test_a_killed_engine_is_replaced_and_reported(self):
        home = Home(self)
        gateway = home.gateway(self)
        planner = home.planner(self, gateway, *STATIC)
        until_serving(home, 1)
        (pid,) = home.engines()
        os.kill(pid, KILL)
        until("another engine", lambda: home.serving() == ["chat-2"])
        until("an answer", lambda: complete(gateway.port)[0] == 200)
        self.assertTrue(planner.has_event("signal 9", warning=True), planner.state()["events"])
        self.assertNotIn(pid, home.engines())

    def test_an_engine_asleep_takes_the_place_of_one_that_is_killed(self):
        home = Home(self, "  - {name: chat, replicas: 1, min_replicas: 1, max_replicas: 3, wake_time: 200ms, asleep: 1}",
                    start_up="1s")
        gateway = home.gateway(self)
        planner = home.planner(self, gateway, *STATIC)
        until("an engine that is asleep", lambda: planner.pool()["asleep"] == 1)
        until("an engine that is awake", lambda: home.serving() == ["chat-1"])  # The gateway does not list the other.
        self.assertEqual(complete(gateway.port)[0], 200)
        (pid,) = [number for number, name in home.engines().items() if name == "chat-1"]
        os.kill(pid, KILL)
        until("the woken engine", lambda: home.serving() == ["chat-2"])
        until("an answer", lambda: complete(gateway.port)[0] == 200)
        until("another engine that is asleep", lambda: planner.pool()["asleep"] == 1)

    def test_sighup_puts_bounds_and_the_slo_in_force_and_names_what_needs_a_restart(self):
        home = Home(self)
        gateway = home.gateway(self, "--log-level", "debug")
        planner = home.planner(self, gateway)
        until_serving(home, 1)
        with open(home.config) as file:
            before = file.read()
        with open(home.config, "w") as file:
            file.write(before.replace("replicas: 1, min_replicas: 1, max_replicas: 3",
                                      "min_replicas: 2, max_replicas: 2")
                       .replace("ttft: 2s", "ttft: 1s").replace("block_size: 16", "block_size: 32"))
        planner.signal(signal.SIGHUP)
        until("a line", lambda: " config_reloaded " in planner.log())
        (applied,) = [line for line in planner.log().splitlines() if " config_reloaded " in line]
        for key in ("slo.ttft", "pools[0].min_replicas", "pools[0].max_replicas"):
            self.assertIn(key, applied)
        (pending,) = [line for line in planner.log().splitlines() if " restart_needed " in line]
        self.assertIn("engine.block_size", pending)
        self.assertNotIn("gateway", pending)
        self.assertNotIn("replicas", pending)
        until_serving(home, 2)
        self.assertEqual(planner.state()["slo"]["ttft_ms"], 1000)
        # The gateway has read the same file, and names only its own keys.
        until("a reload", lambda: " config_reloaded " in gateway.log())
        self.assertNotIn("pools", "".join(line for line in gateway.log().splitlines() if "reload" in line))
        self.assertNotIn("restart_needed", gateway.log())

    def test_an_invalid_file_changes_nothing_at_sighup(self):
        home = Home(self)
        planner = home.planner(self, home.gateway(self))
        until_serving(home, 1)
        with open(home.config) as file:
            before = file.read()
        for text, error in ((before.replace("replicas: 1, min_replicas: 1", "replicas: 2, min_replicas: 2").replace("ttft: 2s", "ttft: -2s"),
                             "slo.ttft"), ("pools: [", "penstock.yaml:")):
            with open(home.config, "w") as file:
                file.write(text)
            lines = planner.log().count(" config_reload_failed ")
            planner.signal(signal.SIGHUP)
            until("a line", lambda: planner.log().count(" config_reload_failed ") > lines)
            self.assertIn(error, planner.log())
        self.assertEqual(planner.pool()["target"], 1)
        self.assertNotIn(" config_changed ", planner.log())
        with open(home.config, "w") as file:
            file.write(before.replace("replicas: 1, min_replicas: 1", "replicas: 2, min_replicas: 2"))
        planner.signal(signal.SIGHUP)
        until_serving(home, 2)

    def test_changed_files_are_read_again_without_a_signal_also_through_a_link(self):
        home = Home(self)
        token = home.path("page-token")
        with open(token, "w") as file:
            file.write("first")
        with open(home.config) as file:
            before = file.read()
        after = before.replace("replicas: 1, min_replicas: 1", "replicas: 2, min_replicas: 2")
        for name, text in (("1", before), ("2", after)):  # As Kubernetes mounts a ConfigMap.
            os.mkdir(home.path(name))
            with open(os.path.join(home.path(name), "penstock.yaml"), "w") as file:
                file.write(text)
        os.symlink("1", home.path("data"))
        os.remove(home.config)
        os.symlink("data/penstock.yaml", home.config)
        planner = home.planner(self, home.gateway(self), "--dashboard-token-file", token)
        until_serving(home, 1)
        os.symlink("2", home.path("data.new"))
        os.replace(home.path("data.new"), home.path("data"))
        until_serving(home, 2)
        self.assertEqual(planner.log().count(" config_reloaded "), 1)
        with open(token, "w") as file:
            file.write("second")
        until("the new token", lambda: ask(planner.port, "GET", "/api/state", authorization="Bearer second")[0] == 200)

    def test_sighup_reads_tokens_again(self):
        home = Home(self)
        token = home.path("page-token")
        with open(token, "w") as file:
            file.write("first")
        planner = home.planner(self, home.gateway(self), "--dashboard-token-file", token)
        until_serving(home, 1)

        def status(key):
            return ask(planner.port, "GET", "/api/state", authorization=f"Bearer {key}")[0]

        self.assertEqual((status("first"), status("second")), (200, 401))
        with open(token, "w") as file:
            file.write("second")
        planner.signal(signal.SIGHUP)
        until("the new token", lambda: status("second") == 200)
        self.assertEqual(status("first"), 401)

    def test_users_are_served_without_a_planner(self):
        home = Home(self, TWO)
        gateway = home.gateway(self)
        planner = home.planner(self, gateway, *STATIC)
        until_serving(home, 2)
        until_routed(gateway, 2)
        planner.signal(KILL)
        planner.wait()
        self.assertEqual([complete(gateway.port, 2, f"prompt {i}")[0] for i in range(30)], [200] * 30)

    def test_metrics_are_strict_and_have_both_families(self):
        home = Home(self)
        gateway = home.gateway(self)
        planner = home.planner(self, gateway)
        until_serving(home, 1)
        for i in range(5):
            self.assertEqual(complete(gateway.port, 4, f"prompt {i}")[0], 200)
        until("a decision", lambda: planner.metrics())
        for port, prefixes in ((planner.port, ("dynamo_planner_", "penstock_")), (gateway.admin, ("penstock_",))):
            names = parse_strictly(self, ask(port, "GET", "/metrics")[2])
            for prefix in prefixes:
                self.assertTrue(any(name.startswith(prefix) for name in names), names)

    def test_events_send_states_and_points(self):
        home = Home(self)
        planner = home.planner(self, home.gateway(self), *STATIC)
        connection = http.client.HTTPConnection("127.0.0.1", planner.port, timeout=SECONDS)
        connection.request("GET", "/events")
        answer = connection.getresponse()
        self.assertEqual(answer.headers["Content-Type"], "text/event-stream")
        self.addCleanup(connection.close)
        seen = {}
        while not {"points", "state", "point"} <= set(seen):
            lines = dict(line.split(": ", 1) for line in iter(lambda: answer.readline().decode().rstrip("\n"), ""))
            if "event" in lines:
                seen[lines["event"]] = json.loads(lines["data"])
        self.assertEqual(seen["state"]["pools"][0]["name"], "chat")
        self.assertIn("arrivals_per_s", seen["point"])

    def test_the_events_answer_head_and_end(self):
        planner = Planner(self, "--gateway", "127.0.0.1:1")
        connection = http.client.HTTPConnection("127.0.0.1", planner.port, timeout=SECONDS)
        self.addCleanup(connection.close)
        answers = []
        # One after the other on one connection, which an answer that does not end would keep for itself.
        for method in ("HEAD", "POST"):
            connection.request(method, "/events")
            answers.append(connection.getresponse())
            self.assertEqual(answers[-1].status, {"HEAD": 200, "POST": 405}[method])
            answers[-1].read()
        self.assertEqual(answers[0].headers["Content-Type"], "text/event-stream")
        self.assertEqual(answers[1].headers["Allow"], "GET, HEAD")

    def test_without_a_live_page_metrics_stay(self):
        home = Home(self)
        gateway = home.gateway(self)
        port = home.own_ports[0]
        planner = Planner(self, "--config", home.config, "--engines", "local", "--state-dir", home.folder, "--ports",
                          home.ports, "--gateway", f"127.0.0.1:{gateway.admin}", *STATIC, "--dashboard", "0",
                          "--metrics-listen", f"127.0.0.1:{port}", page=False)
        until_serving(home, 1)
        until("the figures of the fleet", lambda: "penstock_target_replicas{" in ask(port, "GET", "/metrics")[2])
        self.assertEqual([ask(port, "GET", path)[0] for path in ("/health", "/metrics/engines", "/", "/api/state")],
                         [200, 200, 404, 404])
        planner.signal(STOP)
        self.assertEqual(planner.wait(), 0)

    def test_a_port_in_use_is_reported_before_anything_starts(self):
        home = Home(self)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            done = self.run_to_end("--config", home.config, "--engines", "local", "--state-dir", home.folder, "--ports",
                                   home.ports, "--dashboard", f"127.0.0.1:{port}")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(str(port), done.stderr)
        self.assertEqual(home.engines(), {})

    def test_an_invalid_state_folder_is_reported(self):
        home = Home(self)
        with open(home.path("file"), "w"):
            pass
        done = self.run_to_end("--config", home.config, "--engines", "local", "--state-dir", home.path("file"),
                               "--dashboard", "127.0.0.1:0")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"\Apenstock: [^\n]*/file[^\n]*\n\Z")

    def test_a_policy_that_needs_a_capacity_is_refused_without_it(self):
        done = self.run_to_end("--policy", "keda-tokens", "--capacity", "requests_per_s=2.5,concurrency=12",
                               "--dashboard", "127.0.0.1:0")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("keda-tokens has to know what one replica carries, and lacks input_tokens_per_s, output_tokens_per_s",
                      done.stderr)
        planner = Planner(self, "--gateway", "127.0.0.1:1", "--policy", "hpa-rate", "--capacity", "requests_per_s=2.5")
        self.assertEqual(planner.state()["policy"], "hpa-rate")

    def test_two_planners_do_not_share_a_state_folder(self):
        home = Home(self)
        gateway = home.gateway(self)
        home.planner(self, gateway, *STATIC)
        until_serving(home, 1)
        done = self.run_to_end("--config", home.config, "--engines", "local", "--state-dir", home.folder, "--gateway",
                               f"127.0.0.1:{gateway.admin}", "--dashboard", "127.0.0.1:0", *STATIC)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("another planner", done.stderr)
        self.assertEqual(len(home.engines()), 1)

    def test_decisions_can_be_read_by_explain_run_by_run(self):
        for kind in ("sqlite", "jsonl"):
            home = Home(self)
            log = home.path(f"decisions.{kind}")
            gateway = home.gateway(self)
            for run in (1, 2):
                planner = home.planner(self, gateway, "--decision-log", log)
                until_serving(home, 1)
                until("a decision", lambda: planner.state()["decisions"])
                planner.signal(STOP)
                self.assertEqual(planner.wait(), 0)
                done = subprocess.run([PROGRAM, "explain", log], capture_output=True, text=True, timeout=SECONDS, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("chat", done.stdout)
                self.assertRegex(done.stderr, r"run 2 of 2, started at 20\d\d-" if run == 2 else "^$")
            if kind == "sqlite":
                self.assertTrue(rows_of(log, "select name from sqlite_master where type = 'table'"))


SERIES = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\n"])*",?)*\})? '
                    r"([-+]?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|Inf)|NaN)")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}


def parse_strictly(test, text):
    """The families of Prometheus' text; each has HELP and TYPE, stands in one piece, and no series comes twice."""
    test.assertTrue(text.endswith("\n"))
    families, series, family, kind = [], set(), None, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family, kind = line.split(" ")[2], None
            test.assertNotIn(family, families)
            families.append(family)
        elif line.startswith("# TYPE "):
            test.assertEqual(line.split(" ")[2], family)
            kind = line.split(" ")[3]
            test.assertIn(kind, ("counter", "gauge", "histogram", "summary"))
        else:
            found = SERIES.fullmatch(line)
            test.assertIsNotNone(found, line)
            test.assertIn(found[1], [family + suffix for suffix in SUFFIXES.get(kind, ("",))], line)
            test.assertNotIn((found[1], found[2]), series)
            series.add((found[1], found[2]))
    return families


if __name__ == "__main__":
    unittest.main()
