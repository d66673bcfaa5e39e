#!/usr/bin/env python3
"""What engines of others publish and report: forward pass metrics, KV events, and workers behind one address."""

import threading
import time
import unittest

from fake_replica import FakeReplica, plain
from live_testing import Engine, Gateway, ask, complete, config_file, series, until
from many_streams import ManyStreams
from planner_testing import Home, Planner

WORKERS = b"""dynamo_frontend_queued_requests{model="m"} 0
dynamo_frontend_inflight_requests{model="m"} 0
dynamo_frontend_model_total_kv_blocks{model="m"} 8192
dynamo_frontend_model_kv_cache_block_size{model="m"} 16
dynamo_frontend_model_max_num_seqs{model="m"} 256
dynamo_frontend_worker_active_decode_blocks{dp_rank="0",worker_id="13239416738698942800",worker_type="decode"} 0
dynamo_frontend_worker_active_decode_blocks{dp_rank="0",worker_id="14707549495232457309",worker_type="decode"} 0
"""


class FrontEnd(FakeReplica):
    """Dynamo's front end of two workers, each of which needs half a second for a prompt."""

    def __init__(self, test):
        super().__init__(test, None)
        self.workers = threading.Semaphore(2)

    def _answer(self, connection):
        with connection:
            try:
                request = self._read(connection)
                if request.startswith(b"GET /metrics"):
                    return connection.sendall(plain(200, WORKERS))
                if request.startswith(b"GET /v1/models"):
                    return connection.sendall(plain(200, b'{"data":[{"id":"m"}]}'))
                if not request.startswith(b"POST"):
                    return connection.sendall(plain(200))
                with self.workers:
                    time.sleep(0.5)
                usage = b'{"prompt_tokens":3250,"completion_tokens":1,"total_tokens":3251}'
                connection.sendall(plain(200, b'{"choices":[{"text":"a","finish_reason":"length"}],"usage":%b}' % usage,
                                         b"Content-Type: application/json"))
            except OSError:
                pass


class ForwardPassTest(unittest.TestCase):
    def test_the_planner_receives_the_iterations_of_an_observed_engine(self):
        engine = Engine(self, "--fpm-port", "0", "--engine", "linear:20,0,0.001,0")
        gateway = Gateway(self, engine.url).ready()
        home = Home(self)
        log = home.path("decisions.jsonl")
        planner = Planner(self, "--config", home.config, "--state-dir", home.path("state"), "--gateway",
                          f"127.0.0.1:{gateway.admin}", "--decision-log", log)
        replica = lambda: planner.pool()["replicas"][0]
        until("the engine in the planner's state", lambda: planner.pool()["replicas"])
        until("messages of its iterations", lambda: (replica()["fpm"] or {}).get("received", 0) > 3)
        streams = ManyStreams(self, gateway.port, 8, 100)
        self.assertEqual(streams.join(), [])
        # The error of the learned step times needs iterations in several intervals.
        def has_error():
            complete(gateway.port, tokens=50)
            with open(log) as file:
                return "step_time_error" in file.read()

        until("the error of the learned step times", has_error)
        fpm = replica()["fpm"]
        self.assertEqual((fpm["rejected"], fpm["lost"]), (0, 0))
        text = ask(planner.port, "GET", "/metrics/engines")[2]
        self.assertGreater(list(series(text, "penstock_fpm_messages_received_total").values())[0], 100)

    def test_a_configured_endpoint_reaches_the_planner(self):
        engine = Engine(self, "--fpm-port", "0")
        endpoint = engine.info()["fpm_endpoint"]
        config = config_file(self, gateway={"anonymous": True,
                                            "replicas": [{"url": engine.url, "fpm": endpoint, "workers": 3}]})
        gateway = Gateway(self, "--config", config).ready()
        listed = gateway.overview()["replicas"][0]
        self.assertEqual((listed["fpm"], listed["workers"]), ([endpoint], 3))
        planner = Planner(self, "--gateway", f"127.0.0.1:{gateway.admin}")
        until("three workers", lambda: planner.pool()["ready"] == 3)
        self.assertEqual(len(planner.pool()["replicas"]), 3)


class WorkersTest(unittest.TestCase):
    def test_limits_hold_for_each_worker_of_a_front_end(self):
        front_end = FrontEnd(self)
        gateway = Gateway(self, front_end.url).ready()
        until("its workers", lambda: gateway.overview()["replicas"][0]["workers"] == 2)
        results, most = [], 0

        def complete_prompt(number):
            body = {"model": "m", "prompt": f"{number} prompts ".ljust(13000, "x"), "max_tokens": 1}
            results.append(ask(gateway.port, "POST", "/v1/completions", body)[0])

        threads = [threading.Thread(target=complete_prompt, args=(number,)) for number in range(30)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            most = max(most, gateway.overview()["replicas"][0]["prefill_tokens"])
        self.assertEqual(results, [200] * 30)
        self.assertGreater(most, 32768)
        self.assertLessEqual(most, 2 * 32768)


class KvEventsTest(unittest.TestCase):
    def test_messages_of_kv_events_are_counted(self):
        engine = Engine(self, "--kv-events-port", "0", "--block-size", "256")
        config = config_file(self, gateway={"anonymous": True, "replicas": [
            {"url": engine.url, "kv_events": engine.info()["kv_events_endpoint"]}]})
        gateway = Gateway(self, "--config", config).ready()

        def received():
            complete(gateway.port, prompt=f"{time.time()} " * 500)
            text = ask(gateway.admin, "GET", "/metrics")[2]
            self.assertEqual(list(series(text, "penstock_kv_event_messages_rejected_total").values()), [0])
            self.assertEqual(list(series(text, "penstock_kv_event_messages_lost_total").values()), [0])
            return list(series(text, "penstock_kv_event_messages_received_total").values())[0] > 2

        until("messages of KV events", received)

    def test_a_publisher_of_something_else_is_reported_once(self):
        engine = Engine(self, "--fpm-port", "0")
        config = config_file(self, gateway={"anonymous": True, "replicas": [
            {"url": engine.url, "kv_events": engine.info()["fpm_endpoint"]}]})
        gateway = Gateway(self, "--config", config).ready()
        until("rejected messages", lambda: list(series(ask(gateway.admin, "GET", "/metrics")[2],
                                                       "penstock_kv_event_messages_rejected_total").values())[0] > 1)
        self.assertEqual(gateway.log().count(" kv_events_rejected "), 1)


if __name__ == "__main__":
    unittest.main()
