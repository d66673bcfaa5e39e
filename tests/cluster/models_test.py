#!/usr/bin/env python3
"""One planner scales the Deployments of two models under one budget of GPUs, behind one gateway, while clients stream from both."""

import json
import sys

from cluster_testing import long, main
from live_testing import until
from pods_testing import Clients, Planner, PodsThatServe, engine_pod, owner_of

NAME, BUDGET, TOKENS = "models", 4, 100
STEP = "linear:20,0,0.001,0"  # 20 ms a token.
ENGINE = {"max_sequences": 4, "block_size": 16, "kv_blocks": 12288, "model": STEP}
MODELS = {"chat": "chat-8b", "mail": "mail-8b"}


class PlannerOfModels(Planner):
    def write(self, replicas, most=None):
        deployments = [{"name": name, "model": model, "priority": int(name == "chat"), "pools": [
            {"kubernetes": f"deployment/{name}", "min_replicas": replicas, "max_replicas": BUDGET}]} for name, model in MODELS.items()]
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump({"deployments": deployments, "budget": {"gpus": BUDGET}, **self.sections}, file)


class Models(PodsThatServe):
    def wanted(self):
        return {name: self.replicas(NAME, name) for name in MODELS}

    def of_models(self, gateway):
        """How many pods of each model serve."""
        serving = [replica["id"] for replica in gateway.overview()["replicas"] if replica["phase"] == "serving"]
        return {name: sum(pod.startswith(name) for pod in serving) for name in MODELS}

    @long
    def test_the_class_that_is_served_first_gets_the_gpus_of_the_other_and_no_stream_is_cut(self):
        self.cluster.namespace(self, NAME)
        for name, model in MODELS.items():
            self.apply(NAME, owner_of(engine_pod(name, grace_s=1, flags=("--model-name", model, "--engine", STEP, "--max-sequences", "4")), 1))
        gateway = self.gateway(NAME)
        until("a pod of each model", lambda: self.of_models(gateway) == {"chat": 1, "mail": 1})
        self.allow(NAME)
        planner = PlannerOfModels(self, NAME, gateway, 1, slo={"ttft": "2s", "itl": "50ms", "goal": 0.99}, start_up="2s", engine=ENGINE, planner={
            "tick_interval": "1s", "throughput_interval": "4s", "stabilisation": "10s", "memory": "60s"})

        mail = Clients(gateway.port, 16, TOKENS, model="mail-8b")
        until("all free GPUs for mail", lambda: self.of_models(gateway) == {"chat": 1, "mail": 3})
        chat = Clients(gateway.port, 16, TOKENS, model="chat-8b")
        until("the GPUs of mail for chat", lambda: self.of_models(gateway) == {"chat": 3, "mail": 1})
        broken = mail.end() + chat.end()
        writes = self.cluster.scale_writes(NAME)
        print(f"{len(mail.streams)} and {len(chat.streams)} streams, {len(broken)} broken; {len(writes)} writes of /scale", file=sys.stderr)
        self.assertEqual(broken, [])
        self.assertLessEqual(sum(self.wanted().values()), BUDGET)
        limited = [event for event in planner.events("decision") if event.get("limited_by") == "gpu_budget"]
        self.assertTrue(limited, "no decision was limited by the budget")
        # The other model grows only by what is free.
        replicas = {name: 1 for name in MODELS}
        for write in writes:
            if write["status"] == 200:
                replicas[write["name"]] = write["replicas"]
                self.assertLessEqual(sum(replicas.values()), BUDGET, replicas)


if __name__ == "__main__":
    main()
