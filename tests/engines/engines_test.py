#!/usr/bin/env python3
"""The same scenarios behind `penstock gateway` and `penstock plan` for engines of each kind: engines_test.py [KIND...]

Exit code 77: none of the kinds is installed."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

for folder in ("live", "browser"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder))

import chromium  # noqa: E402
import kinds  # noqa: E402
from observe_test import Observer  # noqa: E402
from live_testing import Gateway, Stream, ask, config_file, series, until  # noqa: E402
from relay import Relay  # noqa: E402
from overload import RATE, Overload, evidence, replicas_needed  # noqa: E402
from planner_testing import Planner  # noqa: E402

SKIPPED = 77
SLOW_BROWSER_S = 120  # The engines use all cores.
LONG = 3000  # Tokens of an answer that does not end by itself during a test.
RUNNING = re.compile(r"^(?:vllm:num_requests_running|dynamo_frontend_inflight_requests|llamacpp:requests_processing)(?:\{.*\})? (\S+)", re.M)
USUAL_RATE, USUAL_TOKENS, OVERLOAD_TOKENS = 2, 64, 192
TRIAL_ERROR_MAX, BUSY_LOAD = 3, 2  # Percentage points; processes for each core.
CHECK_S = 400  # Until the planner has compared a trial with what it observed.
PROFILE_PROMPT, PROFILE_S, PROFILE_ERROR_MAX = 512, 400, 0.25
GENERATED = re.compile(r"^(?:vllm:generation_tokens_total|dynamo_frontend_output_tokens_total|llamacpp:tokens_predicted_total)(?:\{.*\})? (\S+)", re.M)


class Scenarios:
    """Engines start once for all tests of a kind; each test has a gateway of its own."""

    kind = None

    @classmethod
    def setUpClass(cls):
        cls.replicas = []
        try:
            for _ in range(cls.kind.replicas):
                cls.replicas.append(cls.kind.start())
            for replica in cls.replicas:
                replica.wait(cls.kind.is_ready)
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        for replica in cls.replicas:
            replica.close()

    def listed(self):
        replicas = [{"url": replica.url} for replica in self.replicas]
        if self.kind.kv_events:
            for listed, replica in zip(replicas, self.replicas):
                listed["kv_events"] = replica.kv_events
        return replicas

    def credentials(self):
        if not self.kind.api_key:
            return {}
        os.environ["PENSTOCK_TEST_ENGINE_KEY"] = self.kind.api_key
        return {"credentials": {"api_key_env": "PENSTOCK_TEST_ENGINE_KEY"}}

    def config(self, tenants=()):
        gateway = {"replicas": self.listed(), "health_interval": "200ms", "anonymous": True, **self.credentials()}
        if tenants:
            gateway.update(anonymous=False, isolation="tenant")
            return config_file(self, gateway=gateway, tenants=[{"name": name, "keys": [f"sk-{name}"]} for name in tenants])
        return config_file(self, gateway=gateway, model=self.kind.model, slo={"ttft": "10s", "itl": "500ms"})

    def gateway(self, tenants=()):
        self.file = self.config(tenants)
        gateway = Gateway(self, "--config", self.file).ready()
        until("all replicas", lambda: self.eligible(gateway) == len(self.replicas))
        return gateway

    @staticmethod
    def eligible(gateway):
        return sum(each["eligible"] for each in gateway.overview()["replicas"])

    @staticmethod
    def usage(gateway, key):
        return sum(row[key] for row in gateway.overview()["usage"])

    def complete(self, gateway, tokens=16, prompt="hello", model=None, **fields):
        body = {"model": model or self.kind.model, "max_tokens": tokens, "ignore_eos": True,
                "messages": [{"role": "user", "content": prompt}]}
        status, head, text = ask(gateway.port, "POST", "/v1/chat/completions", body, **fields)
        self.assertEqual(status, 200, text)
        return json.loads(text), head

    def cached_tokens(self, gateway, prompt, **fields):
        details = self.complete(gateway, 4, prompt, **fields)[0]["usage"].get("prompt_tokens_details") or {}
        return details.get("cached_tokens") or 0

    def stream(self, gateway, tokens):
        stream = Stream(gateway.port, tokens, model=self.kind.model)
        self.addCleanup(stream.connection.close)
        return stream

    def figure(self, pattern):
        """Sum over all replicas of a figure that the engines themselves expose."""
        # llm-d's simulator answers one of a hundred scrapes with 500.
        texts = [until("metrics", lambda: self.scrape(replica)) for replica in self.replicas]
        return sum(float(value) for text in texts for value in pattern.findall(text))

    def times(self):
        """As vLLM counts them: seconds and number of the gaps between tokens, seconds and tokens of prompts."""
        return [self.figure(re.compile(rf"^vllm:{name}(?:\{{.*\}})? (\S+)", re.M)) for name in (
            "inter_token_latency_seconds_sum", "inter_token_latency_seconds_count", "request_prefill_time_seconds_sum",
            "prompt_tokens_total")]

    @staticmethod
    def scrape(replica):
        status, text = replica.get("/metrics")
        return text if status == 200 else None

    # ---- scenarios -------------------------------------------------------------------------------------------------

    def test_requests_and_streams_are_served_and_counted(self):
        gateway = self.gateway()
        answer, _ = self.complete(gateway)
        self.assertEqual(answer["usage"]["completion_tokens"], 16)
        stream = self.stream(gateway, 24).join()
        self.assertEqual((stream.status, stream.fault), (200, None))
        self.assertTrue(stream.text.endswith("data: [DONE]\n\n"), stream.text[-200:])
        until("both in the ledger", lambda: self.usage(gateway, "completed") == 2)
        self.assertEqual(self.usage(gateway, "output_tokens"), 16 + 24)
        self.assertEqual(gateway.overview()["problems"], [])

    def test_messages_of_anthropics_api_are_served_and_counted(self):
        if not self.kind.serves_messages:
            self.skipTest(f"{self.kind.name} does not serve /v1/messages")
        gateway = self.gateway()
        prompt = {"model": self.kind.model, "messages": [{"role": "user", "content": f"a message of its own {time.time()} " * 40}],
                  "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]}
        status, _, text = ask(gateway.port, "POST", "/v1/messages/count_tokens", prompt)
        self.assertEqual(status, 200, text)
        prompt_tokens = json.loads(text)["input_tokens"]
        body = {**prompt, "max_tokens": 16}
        status, _, text = ask(gateway.port, "POST", "/v1/messages", body)
        self.assertEqual(status, 200, text)
        whole = json.loads(text)["usage"]
        status, _, text = ask(gateway.port, "POST", "/v1/messages", {**body, "stream": True})
        self.assertEqual(status, 200, text)
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        self.assertEqual((events[0]["type"], events[-1]["type"]), ("message_start", "message_stop"))
        streamed = events[-2]["usage"]
        self.assertEqual(events[-2]["type"], "message_delta")
        for usage in (whole, streamed):
            parts = [usage.get(name) or 0 for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")]
            self.assertEqual(sum(parts), prompt_tokens)
        self.assertGreater(streamed["cache_read_input_tokens"], 0, "the replica of the first message has its prompt")
        until("all in the ledger", lambda: self.usage(gateway, "completed") == 3)
        self.assertEqual(self.usage(gateway, "output_tokens"), whole["output_tokens"] + streamed["output_tokens"])
        self.assertEqual(self.usage(gateway, "prompt_tokens"), 2 * prompt_tokens + 1, "the count costs one token")
        status, _, text = ask(gateway.port, "POST", "/v1/messages", prompt)
        self.assertEqual((status, json.loads(text)["error"]["type"]), (400, "invalid_request_error"))
        self.assertEqual(gateway.overview()["problems"], [])

    def test_all_models_and_adapters_are_served(self):
        gateway = self.gateway()
        listed = {entry["id"] for entry in json.loads(ask(gateway.port, "GET", "/v1/models")[2])["data"]}
        self.assertLessEqual(set(self.kind.models), listed)
        for name in self.kind.models:
            with self.subTest(name):
                self.assertEqual(self.complete(gateway, 4, model=name)[0]["usage"]["completion_tokens"], 4)

    def test_a_prompt_is_found_in_the_cache_of_its_replica(self):
        if not self.kind.counts_cached_tokens:
            self.skipTest(f"{self.kind.name} does not count cached tokens of single requests")
        gateway = self.gateway()
        prompt = f"a prompt of its own {time.time()} " * 40
        self.assertLess(self.cached_tokens(gateway, prompt), self.cached_tokens(gateway, prompt))

    def test_kv_events_missed_in_a_gap_are_requested_again(self):
        if not self.kind.kv_replay:
            self.skipTest(f"{self.kind.name} does not send KV events again")
        engine, *others = self.replicas

        class Reader:
            """A gateway that receives the KV events of the engine through a relay of its own."""

            def __init__(self, test, replay, others):
                self.relay = Relay(test, engine.kv_events)
                listed = [{"url": engine.url, "kv_events": self.relay.endpoint, **replay}] + others
                self.gateway = Gateway(test, "--config", config_file(test, gateway={
                    "replicas": listed, "anonymous": True, **test.credentials()})).ready()
                until("all replicas", lambda: test.eligible(self.gateway) == len(listed))

            def figures(self):
                text = ask(self.gateway.admin, "GET", "/metrics")[2]
                return {name: sum(series(text, f"penstock_kv_event_messages_{name}_total").values())
                        for name in ("received", "rejected", "lost", "replayed")}

            def chosen_for_prefix(self):
                text = ask(self.gateway.admin, "GET", "/metrics")[2]
                return sum(value for labels, value in series(text, "penstock_routing_decisions_total").items()
                           if 'reason="prefix"' in labels)

        whole = Reader(self, {"kv_events_replay": engine.kv_events_replay}, [{"url": other.url} for other in others])
        broken = Reader(self, {}, [])

        def prompt():
            self.complete(broken.gateway, 2, f"a prompt of its own {time.time()} " * 40)

        def is_found(text):
            """Whether the gateway chooses the replica because it has the prompt."""
            before = whole.chosen_for_prefix()
            self.complete(whole.gateway, 2, text)
            return whole.chosen_for_prefix() > before

        def have_received():
            prompt()
            return whole.figures()["received"] and broken.figures()["received"]

        until("the first events", have_received)
        known = f"a prompt of the engine {time.time()} " * 40
        while engine.url not in self.complete(whole.gateway, 2, known)[1]["x-penstock-replica"]:
            known = f"a prompt of the engine {time.time()} " * 40
        # The load alone may choose the same replica.
        until("the prompt at its replica", lambda: is_found(known))
        before = [until("all of them", lambda: self.settled(reader.figures)) for reader in (whole, broken)]
        for reader in (whole, broken):
            reader.relay.cut()
        for _ in range(3):
            prompt()
        status, text = engine.post("/reset_prefix_cache", Authorization=f"Bearer {self.kind.api_key}")
        self.assertEqual(status, 200, text)
        prompt()  # The engine tells that its cache is empty with the next events.
        for reader in (whole, broken):
            reader.relay.restore()

        def sees_the_gap():
            prompt()
            return broken.figures()["lost"] and whole.figures()["replayed"] > before[0]["replayed"]

        until("a gap", sees_the_gap)
        after = [until("all of them", lambda: self.settled(reader.figures)) for reader in (whole, broken)]
        gained = [{name: now[name] - then[name] for name in now} for then, now in zip(before, after)]
        self.assertEqual((gained[0]["lost"], gained[0]["rejected"], gained[1]["replayed"]), (0, 0, 0), gained)
        self.assertGreaterEqual(gained[0]["replayed"], 4, gained)
        self.assertGreaterEqual(gained[1]["lost"], 4, gained)
        self.assertEqual(gained[0]["received"], gained[1]["received"] + gained[1]["lost"], gained)
        # One of the missed events told that the engine's cache is empty.
        self.assertFalse(is_found(known))
        until("the prompt at its replica again", lambda: is_found(known))

    @staticmethod
    def settled(figures):
        """The figures if they do not change for a second."""
        first = figures()
        time.sleep(1)
        return figures() == first and first

    def test_tenants_share_no_cache(self):
        if not self.kind.honours_cache_salt:
            self.skipTest(f"{self.kind.name} has one cache for all tenants")
        gateway = self.gateway(("alice", "bob"))
        prompt = f"a prompt of both tenants {time.time()} " * 40
        first = self.cached_tokens(gateway, prompt, Authorization="Bearer sk-alice")
        self.assertGreater(self.cached_tokens(gateway, prompt, Authorization="Bearer sk-alice"), first)
        self.assertLessEqual(self.cached_tokens(gateway, prompt, Authorization="Bearer sk-bob"), first)

    def test_a_client_that_leaves_frees_the_slot(self):
        gateway = self.gateway()
        before = self.figure(GENERATED)
        stream = self.stream(gateway, LONG)
        until("the first event", lambda: stream.text)
        until("a running request", lambda: self.figure(RUNNING) == 1)
        stream.leave()
        until("a free slot", lambda: self.figure(RUNNING) == 0)
        self.assertLess(self.figure(GENERATED) - before, LONG, "the engine finished the answer")
        until("the outcome", lambda: self.usage(gateway, "cancelled") == 1)
        self.assertEqual(gateway.open_requests(), 0)

    def test_a_queue_is_seen_by_gateway_and_planner(self):
        gateway = self.gateway()
        planner = Planner(self, "--config", self.file, "--gateway", f"127.0.0.1:{gateway.admin}", "--mode", "observe")
        slots = kinds.SLOTS * len(self.replicas) * getattr(self.kind, "workers", 1)
        streams = [self.stream(gateway, LONG) for _ in range(slots + 4)]

        def samples():
            return [each["sample"] for each in planner.pool()["replicas"] if each["sample"]]

        until("open requests at the gateway", lambda: gateway.open_requests() == slots + 4)
        until("running requests at the planner", lambda: sum(each["running"] for each in samples()) > 0)
        until("a queue at the planner", lambda: sum(each["queued"] or 0 for each in samples()) >= 1)
        for stream in streams:
            stream.leave()
        until("no queue", lambda: sum((each["queued"] or 0) + each["running"] for each in samples()) == 0)
        text = ask(planner.port, "GET", "/metrics/engines")[2]
        label = f'model_id="{self.kind.model}"'
        self.assertRegex(text, rf"(?m)^llm_queue_depth\{{.*{label}.*\}} 0")

    def test_an_observer_sees_the_requests_of_another_router(self):
        if not self.kind.is_observed:
            self.skipTest("it has no counter of requests")
        gateway = self.gateway()  # The other router.
        self.complete(gateway)    # Lengths are known from the first request on.
        observer = Observer(self, *(replica.url for replica in self.replicas))
        until("all engines", lambda: sum(each["healthy"] for each in observer.overview()["replicas"]) == len(self.replicas))
        prompt, count, before = "Of all that was written. " * 20, 12, self.figure(GENERATED)
        used = [self.complete(gateway, 16, f"{number}. {prompt}")[0]["usage"] for number in range(count)]
        until("their ends", lambda: len(observer.events("end")) >= count - 1)
        arrivals, ends = observer.events("arrival"), observer.events("end")
        # An engine without a request so far does not show how long prompts are.
        self.assertIn(len(arrivals), range(count - len(self.replicas), count + 1))
        self.assertEqual({event[3] for event in ends}, {"completed"})
        self.assertEqual({event[3] for event in arrivals}, {self.kind.model})
        self.assertTrue(all(0 < event[4] < 60_000 for event in observer.events("first_token")))
        prompts = sum(each["prompt_tokens"] for each in used) / count
        seen = sum(event[6] for event in arrivals) / len(arrivals)
        self.assertTrue(0.4 * prompts < seen < 2.5 * prompts, (seen, prompts))
        self.assertEqual(self.figure(GENERATED) - before, 16 * count)
        answers = sum(event[6] for event in ends) / len(ends)
        self.assertTrue(8 <= answers <= 32, answers)

    def test_a_gateway_that_drains_ends_its_streams(self):
        gateway = self.gateway()
        stream = self.stream(gateway, 100)
        until("the first event", lambda: stream.text)
        gateway.signal(signal.SIGTERM)
        stream.join()
        self.assertTrue(stream.text.endswith("data: [DONE]\n\n"), stream.text[-200:])
        self.assertNotIn("truncated", stream.text)
        self.assertEqual(gateway.wait(), 0, gateway.log())

    def test_a_killed_engine_truncates_its_streams_and_returns_after_a_restart(self):
        gateway = self.gateway()
        stream = self.stream(gateway, LONG)
        busy = until("a replica that has it",
                     lambda: [each["url"] for each in gateway.overview()["replicas"] if each["open_requests"]])
        (replica,) = [each for each in self.replicas if each.url in busy]
        until("the first event", lambda: stream.text)
        replica.server.kill()
        stream.join()
        self.assertIn('"truncated"', stream.text[-400:])
        self.assertNotIn("[DONE]", stream.text)
        until("the outcome", lambda: self.usage(gateway, "truncated") == 1)
        until("that the replica is left out", lambda: self.eligible(gateway) == len(self.replicas) - 1)
        for _ in range(3 if len(self.replicas) > 1 else 0):
            self.assertNotIn(replica.url, self.complete(gateway, 2)[1]["x-penstock-replica"])
        replica.server.start()
        replica.wait(self.kind.is_ready)
        until("the replica again", lambda: self.eligible(gateway) == len(self.replicas))
        for _ in range(2 * len(self.replicas)):
            self.complete(gateway, 2)

    def test_a_profile_is_measured_and_read(self):
        if not self.kind.is_profiled:
            self.skipTest(f"the profile of {self.kind.name} is not among the scenes")
        replica = self.replicas[0]
        folder = tempfile.TemporaryDirectory(prefix="penstock-profile-")
        self.addCleanup(folder.cleanup)
        file = os.path.join(folder.name, "engine.json")
        environment = {**os.environ, "OPENAI_API_KEY": self.kind.api_key or ""}

        def run(*words):
            return subprocess.run([kinds.PROGRAM, "profile", *map(str, words), "--input", "200", "--output", "64", "--slo",
                                   "ttft=10s,itl=500ms"], env=environment, capture_output=True, text=True, timeout=2 * PROFILE_S)

        # Other programs disturb a run, and the same command continues it.
        for _ in range(4):
            done = run(replica.url, "--model", self.kind.model, "--max-prompt", PROFILE_PROMPT, "--max-concurrency",
                       2 * kinds.SLOTS, "--duration", f"{PROFILE_S}s", "--json", file)
            if "slow the endpoint down" not in done.stderr:
                break
        if done.returncode and os.getloadavg()[0] > BUSY_LOAD * os.cpu_count():
            self.skipTest(f"the machine is busy: {done.stderr.splitlines()[-1]}")
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        limit = f"the endpoint runs at most {kinds.SLOTS} sequences at once"
        if limit not in done.stdout and os.getloadavg()[0] > BUSY_LOAD * os.cpu_count():
            self.skipTest(f"the machine is busy: {done.stdout.splitlines()[0]}")
        self.assertIn(limit, done.stdout)
        with open(file, encoding="utf-8") as written:
            profile = json.load(written)
        self.assertEqual((profile["endpoint"], profile["model"]), (replica.url, self.kind.model))
        read = run("--engine", file)
        self.assertEqual(read.returncode, 0, read.stderr)
        # The same two sequences as the engine itself times them.
        gap_s, gaps, *_ = self.times()
        streams = [Stream(replica.port, 256, model=self.kind.model, Authorization=f"Bearer {self.kind.api_key}",
                          Content_Type="application/json") for _ in range(kinds.SLOTS)]
        for stream in streams:
            self.assertEqual((stream.join().status, stream.fault), (200, None), stream.text)
        after_s, after, *_ = self.times()
        measured_ms = 1000 * (after_s - gap_s) / (after - gaps)
        points = zip(profile["decode_active_kv_tokens"], profile["decode_context_length"], profile["decode_itl"])
        of_two = [(length, ms) for kv, length, ms in points if round(kv / length) == kinds.SLOTS]
        length, profiled_ms = min(of_two)
        print(f"ITL of {kinds.SLOTS} sequences: {profiled_ms:.1f} ms by the profile (context {length:.0f}), {measured_ms:.1f} ms by the "
              f"engine", flush=True)
        if os.getloadavg()[0] > BUSY_LOAD * os.cpu_count():
            print("SKIPPED: error of the profile: the machine is busy", flush=True)
        else:
            self.assertLess(abs(profiled_ms / measured_ms - 1), PROFILE_ERROR_MAX)

    def test_an_overload_asks_for_the_replicas_that_are_needed(self):
        if not self.kind.overloads:
            self.skipTest(f"the overload of {self.kind.name} is not among the scenes")
        if os.environ.get("PENSTOCK_SHORT"):
            self.skipTest("an overload takes seven minutes: make test-engines runs it")
        scene = Overload(self, self.listed(), self.kind.model, **self.credentials())
        scene.start_load(USUAL_RATE, USUAL_TOKENS)
        checked, _ = scene.first("a check of the trials", lambda decision: evidence(decision, "trial_error") is not None, CHECK_S)
        print(f"attainment of two replicas: {evidence(checked, 'observed_attainment'):.3f} observed, "
              f"{evidence(checked, 'trial_attainment'):.3f} in the trial", flush=True)
        before = self.times()
        scene.start_load(RATE, OVERLOAD_TOKENS)
        # The load of before may have had another cause.
        grown, after_s = scene.first("a larger target because of the queue", lambda decision: decision["cause"] == "queue" and
                                     decision["target"] > len(self.replicas))
        print(f"target {grown['target']} after {after_s:.0f} s of overload, cause {grown['cause']}", flush=True)
        last, _ = scene.first("charts of some length", lambda decision: decision["at_s"] > scene.began_s + 100)
        chromium.PATIENCE_S = SLOW_BROWSER_S
        if page := chromium.open_live_page(self, scene.planner.port):
            time.sleep(3)  # The charts get their first points.
            chromium.write_picture(page)
        gap_s, gaps, prompt_s, prompts = (after - first for after, first in zip(self.times(), before))
        itl_ms, prompt_ms = 1000 * gap_s / gaps, 1000 * prompt_s / prompts
        least = max(1, int(RATE * OVERLOAD_TOKENS * itl_ms / 1000 / kinds.SLOTS))
        needed, _ = replicas_needed(f"linear:{itl_ms},0,{prompt_ms},0", round(scene.prompt_tokens()), OVERLOAD_TOKENS,
                                    kinds.SLOTS, (least, 2 * least + 4))
        planned, learned_ms = evidence(last, "load_based_target"), evidence(last, "estimated_itl")
        print(f"{needed} replicas are needed at the measured ITL of {itl_ms:.1f} ms; {planned:.0f} are planned, target "
              f"{last['target']}; ITL {learned_ms:.1f} ms learned; trial error {evidence(last, 'trial_error'):.1f} points", flush=True)
        self.assertEqual([each["target"] for each in scene.decisions() if each["target"] < each["current"]], [])
        self.assertGreaterEqual(last["target"], min(needed, grown["target"]))
        # No trial contains the stalls of engines that share their cores with other programs.
        if os.getloadavg()[1] > BUSY_LOAD * os.cpu_count():
            print("SKIPPED: error of the trials: the machine is busy", flush=True)
        else:
            self.assertLessEqual(evidence(checked, "trial_error"), TRIAL_ERROR_MAX)


def main(names):
    chosen = [kinds.named(name) for name in names] or [kind() for kind in kinds.KINDS]
    lines, failed, ran = [], False, False
    for kind in chosen:
        missing = kind.missing()
        if missing:
            lines.append(f"SKIPPED: engine {kind.name}: {missing}")
            continue
        ran = True
        case = type(f"{kind.name}", (Scenarios, unittest.TestCase), {"kind": kind})
        began = time.monotonic()
        result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(unittest.defaultTestLoader.loadTestsFromTestCase(case))
        bad = len(result.failures) + len(result.errors)
        failed = failed or bad > 0
        lines.append(f"engine {kind.name}: {max(0, result.testsRun - bad - len(result.skipped))} passed, {bad} failed, "
                     f"{len(result.skipped)} skipped in {time.monotonic() - began:.0f} s")
    print("\n".join(lines), flush=True)
    return 1 if failed else 0 if ran else SKIPPED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
