#!/usr/bin/env python3
"""Replicas that others start are warmed up by the gateway before they get requests."""

import json
import os
import tempfile
import unittest

from live_testing import Engine, Gateway, ask, chat, config_file, series, until

OWN = ["You are the assistant of the shop. " * 40, "You translate contracts. " * 40]


def served(engine):
    return sum(series(ask(engine.port, "GET", "/metrics")[2], "vllm:request_success_total").values())


class WarmUpTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.replicas = os.path.join(folder.name, "replicas.json")
        prompts = os.path.join(folder.name, "prompts.jsonl")
        with open(prompts, "w") as file:
            for text in OWN:
                file.write(json.dumps({"messages": [{"role": "user", "content": text}]}) + "\n")
        self.first = Engine(self, name="first")
        self.write(self.first)
        config = config_file(self, gateway={"warm_up": True, "warm_up_prompts": prompts})
        self.gateway = Gateway(self, "--config", config, "--replicas-file", self.replicas).ready()

    def write(self, *engines):
        with open(self.replicas + ".new", "w") as file:
            json.dump({"version": 1, "replicas": [{"id": f"engine-{engine.port}", "url": engine.url, "model": "penstock-sim", "state": "serving"}
                                                for engine in engines]}, file)
        os.replace(self.replicas + ".new", self.replicas)

    def state(self, engine):
        states = [replica["phase"] for replica in self.gateway.overview()["replicas"] if replica["id"] == f"engine-{engine.port}"]
        return states[0] if states else "none"

    def test_a_new_replica_has_the_own_prompts_in_its_cache_before_it_serves(self):
        self.assertEqual(served(self.first), 0)  # Of the first list: it may have served before.
        second = Engine(self, name="second")
        self.write(self.first, second)
        until("the second replica serves", lambda: self.state(second) == "serving")
        self.assertEqual(served(second), len(OWN))
        status, _, text = ask(second.port, "POST", "/v1/chat/completions", chat(4, OWN[0] + "and now?"))
        self.assertEqual(status, 200, text)
        usage = json.loads(text)["usage"]
        self.assertGreater(usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"] // 2, usage)

    def test_a_hot_prefix_of_clients_follows_the_own_prompts(self):
        shared = "The documents of this conversation are as follows. " * 60
        for client in range(6):
            self.assertEqual(ask(self.gateway.port, "POST", "/v1/chat/completions", chat(2, f"{shared}question {client}"))[0], 200)
        second = Engine(self, name="second")
        self.write(self.first, second)
        until("the second replica serves", lambda: self.state(second) == "serving")
        self.assertGreater(served(second), len(OWN))
        _, _, text = ask(second.port, "POST", "/v1/chat/completions", chat(2, f"{shared}another question"))
        usage = json.loads(text)["usage"]
        self.assertGreater(usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"] // 2, usage)


if __name__ == "__main__":
    unittest.main()
