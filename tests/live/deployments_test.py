#!/usr/bin/env python3
"""Two models under one budget of GPUs: the higher class takes GPUs from the lower one, and no request fails."""

import json
import os
import signal
import subprocess
import unittest

from live_testing import PROGRAM, SECONDS, STOP, Stream, ask, until
from planner_testing import Home

STREAMS = 30
TOKENS = 400  # Of 20 ms each.
CONFIG = """
start_up: 0s
price: 2.5
engine: {{block_size: 16, kv_blocks: 12288, model: 'linear:20,0,0.001,0'}}
slo: {{ttft: 2s, itl: 50ms, goal: 0.99}}
planner: {{throughput_interval: 4s, tick_interval: 1s, stabilisation: 3s, failure_cooldown: 1s, manual_hold: 1s}}
budget: {{gpus: 4}}
deployments:
  - {{name: chat, model: chat-8b, priority: 1, max_replicas: 3, planner: {{warm_pool: {spare}}}}}
  - {{name: mail, model: mail-8b, max_replicas: 3, replicas: 3, planner: {{warm_pool: 2}}}}
gateway: {{anonymous: true, health_interval: 500ms, routing: {{slow_start: 0s}}}}
classes: {{interactive: {{queue_time: 60s}}}}
"""


def write(home, spare):
    with open(home.config, "w") as file:
        file.write(CONFIG.format(spare=spare))


def stages(home, pool):
    count = {}
    for replica in home.fleet()["replicas"]:
        if replica["pool"] == pool and replica["stage"] not in ("stopped", "failed"):
            count[replica["stage"]] = count.get(replica["stage"], 0) + 1
    return count


def state(planner, name):
    return json.loads(ask(planner.port, "GET", f"/api/state?deployment={name}")[2])


class DeploymentsTest(unittest.TestCase):
    def serve(self, spare=0):
        home = Home(self)
        write(home, spare)
        gateway = home.gateway(self)
        log = home.path("decisions.jsonl")
        planner = home.planner(self, gateway, "--decision-log", log)
        until("one chat replica and three of mail", lambda: os.path.exists(home.path("fleet.json")) and
              stages(home, "chat") == {"serving": 1} and stages(home, "mail") == {"serving": 3})
        until("four replicas that the gateway may choose",
              lambda: sum(each["eligible"] for each in gateway.overview()["replicas"]) == 4)
        return home, gateway, planner, log

    def test_a_higher_class_takes_gpus_from_a_lower_one(self):
        home, gateway, planner, log = self.serve()
        streams = [Stream(gateway.port, TOKENS, f"mail {number}", model="mail-8b") for number in range(STREAMS)]
        until("tokens on all streams", lambda: all(stream.tokens() > 0 for stream in streams))
        self.assertEqual(len({stream.replica for stream in streams}), 3)
        write(home, spare=2)
        planner.signal(signal.SIGHUP)

        most = chats = 0

        def has_its_gpus():
            nonlocal most, chats
            chats += 1  # A policy decides on traffic.
            self.assertTrue(Stream(gateway.port, 2, f"chat {chats}", model="chat-8b").join().whole(2))
            alive = stages(home, "chat"), stages(home, "mail")
            most = max(most, sum(alive[0].values()) + sum(alive[1].values()))
            return alive == ({"serving": 3}, {"serving": 1})

        until("mail drains", lambda: not has_its_gpus() and stages(home, "mail").get("draining", 0) > 0)
        until("chat has three replicas and mail one", has_its_gpus)
        self.assertLessEqual(most, 4, "no more GPUs than there are")
        for stream in streams:
            self.assertTrue(stream.join().whole(TOKENS), (stream.status, stream.fault, stream.tokens()))
        answer = Stream(gateway.port, 4, model="chat-8b").join()
        self.assertTrue(answer.whole(4), answer.text)

        mail = state(planner, "mail")
        self.assertEqual((mail["deployment"], mail["deployments"], mail["model"]), ("mail", ["chat", "mail"], "mail-8b"))
        self.assertEqual([pool["name"] for pool in mail["pools"]], ["mail"])
        limited = next(each for each in mail["decisions"] if each["limited_by"] == "gpu_budget")
        self.assertIn("limited by gpu_budget: 1 of 3 replicas; 4 of 4 GPUs used: chat", limited["diagnosis"])
        self.assertEqual(state(planner, "chat")["pools"][0]["target"], 3)
        self.assertEqual(ask(planner.port, "GET", "/api/state?deployment=fax")[0], 404)
        metrics = planner.metrics()
        self.assertIn('penstock_target_replicas{model="chat-8b",pool="chat"} 3', metrics)
        self.assertIn('penstock_target_replicas{model="mail-8b",pool="mail"} 1', metrics)

        with open(home.config) as file:
            config = file.read()
        with open(home.config, "w") as file:
            file.write(config.replace("price: 2.5", "price: 3").replace("name: mail,", "name: mail, price: 4,"))
        planner.signal(signal.SIGHUP)
        until("the new prices", lambda: [state(planner, name)["pools"][0]["price_per_gpu_hour"] for name in ("chat", "mail")] == [3, 4])

        planner.signal(STOP)
        self.assertEqual(planner.wait(), 0)
        for name in ("policy-chat.json", "policy-mail.json", "history-chat.jsonl"):
            self.assertTrue(os.path.exists(home.path(name)), name)
        explained = subprocess.run([PROGRAM, "explain", log, "--pool", "mail", "--at", "1h"], capture_output=True, text=True,
                              timeout=SECONDS)
        self.assertEqual(explained.returncode, 0, explained.stderr)
        self.assertIn("limited by the GPU budget", explained.stdout)
        self.assertIn("limited by gpu_budget", " ".join(explained.stdout.split()))

    def test_a_planner_that_starts_again_continues(self):
        home, gateway, planner, _ = self.serve()
        planner.signal(signal.SIGKILL)
        planner.wait()
        before = set(home.engines())
        again = home.planner(self, gateway)
        until("data of both", lambda: all(state(again, name)["data"]["state"] == "known" for name in ("chat", "mail")))
        self.assertEqual(set(home.engines()), before)
        again.signal(STOP)
        self.assertEqual(again.wait(), 0)
        self.assertEqual(home.engines(), {})


if __name__ == "__main__":
    unittest.main()
