#!/usr/bin/env python3
"""A planner observes engines without a gateway: `penstock observe` makes their traffic from their metrics."""

import json
import pathlib
import subprocess
import tempfile
import unittest

from live_testing import PROGRAM, Engine, Program, ask, config_file, until
from planner_testing import Planner

RATE, SECONDS = 8.0, 20
LOAD = ("--rate", str(RATE / 2), "--duration", f"{SECONDS}s", "--input-tokens", "200..600", "--output-tokens", "40..80", "--quiet")


class Observer(Program):
    def __init__(self, test, *words):
        super().__init__(test, "observe", *words, "--listen", "127.0.0.1:0", ready=r"observer ready on http://127\.0\.0\.1:(\d+), ")
        self.port = self.ports[0]

    def overview(self):
        return json.loads(ask(self.port, "GET", "/penstock/v1/overview")[2])

    def events(self, kind):
        page = json.loads(ask(self.port, "GET", "/penstock/v1/traffic?after=0")[2])
        return [event for event in page["events"] if event[0] == kind]


class Observe(unittest.TestCase):
    def load(self, *engines):
        """A client of each engine, as a router that Penstock does not know would send requests. Returns their results."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        paths = [f"{folder.name}/{index}.json" for index in range(len(engines))]
        clients = [subprocess.Popen([PROGRAM, "load", engine.url, *LOAD, "--seed", str(index), "--json", path])
                   for index, (engine, path) in enumerate(zip(engines, paths))]
        for client in clients:
            self.assertEqual(client.wait(120), 0)
        return [json.loads(pathlib.Path(path).read_text()) for path in paths]

    def test_a_planner_sees_the_requests_of_engines_behind_another_router(self):
        engines = [Engine(self, "--port", "0", name=name) for name in ("a", "b")]
        observer = Observer(self, *(engine.url for engine in engines))
        until("engines that can be read", lambda: ask(observer.port, "GET", "/ready")[0] == 200)
        config = config_file(self, pools=[{"name": "default", "replicas": 2, "max_replicas": 4}],
                             planner={"tick_interval": "1s"})
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        planner = Planner(self, "--config", config, "--gateway", f"127.0.0.1:{observer.port}", "--state-dir", folder.name)
        results = self.load(*engines)
        sent, tokens = (sum(of(each) for each in results) for of in (lambda each: each["requests"]["ok"], lambda each: each["prompt_tokens"]))
        until("ends of all requests", lambda: len(observer.events("end")) >= sent - 2)
        arrivals, ends = observer.events("arrival"), observer.events("end")
        # The first ones may have come before their length was known.
        self.assertLessEqual(len(arrivals), sent)
        self.assertGreaterEqual(len(arrivals), sent - 4)
        prompts = sum(event[6] for event in arrivals) / len(arrivals)
        answers = sum(event[6] for event in ends) / len(ends)
        self.assertAlmostEqual(prompts / (tokens / sent), 1.0, delta=0.2)
        self.assertTrue(40 < answers < 80, answers)
        first = observer.events("first_token")
        self.assertTrue(all(0 < event[4] < 2000 for event in first))
        self.assertEqual({event[3] for event in ends}, {"completed"})
        self.assertEqual({event[4] for event in ends}, {engine.url[7:] for engine in engines})

        pool = until("the traffic of the last minute", lambda: (planner.pool()["ready"] == 2) and planner.pool())
        self.assertEqual(pool["ready"], 2)
        state = planner.state()
        self.assertTrue(state["decisions"], state.keys())
        self.assertIn("data_known", planner.log())

    def test_an_engine_that_cannot_be_read_is_not_ready(self):
        engines = [Engine(self, "--port", "0", name=name) for name in ("a", "b")]
        observer = Observer(self, *(engine.url for engine in engines))
        until("both", lambda: sum(each["healthy"] for each in observer.overview()["replicas"]) == 2)
        engines[1].process.kill()
        until("one", lambda: sum(each["healthy"] for each in observer.overview()["replicas"]) == 1)
        self.assertEqual(len(observer.overview()["replicas"]), 2)

    def test_a_name_stands_for_its_addresses(self):
        engine = Engine(self, "--port", "0")
        observer = Observer(self, f"http://localhost:{engine.port}")
        until("the engine", lambda: any(each["healthy"] for each in observer.overview()["replicas"]))

    def test_wrong_urls_and_addresses_are_refused(self):
        for words, says in ((("ftp://a",), "ftp://a"), (("http://127.0.0.1:9", "--listen", "nowhere"), "--listen"), ((), "URL")):
            with self.subTest(words=words):
                done = subprocess.run([PROGRAM, "observe", *words], capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main()
