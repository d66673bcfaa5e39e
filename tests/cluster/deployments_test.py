#!/usr/bin/env python3
"""One planner scales the Deployments of two models under one budget of GPUs, with the Role that `penstock manifests` writes: while load moves
from one to the other, the pods of both never have more GPUs than the budget, and no stream is cut.

Exit code 77: there is no testbed."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time

from cluster_testing import long, main
from live_testing import PROGRAM, Program, ask, until
from pods_testing import Clients, PodsThatServe, engine_pod, owner_of

BUDGET = 8
GPUS = {"chat": 2, "mail": 1}
TOKENS = 100  # Of a stream, which takes about 2 s.
CLIENTS = 8
# A replica counts as full with a few streams, so that the clients of a model want all its replicas.
VELOCITY = {"input_tokens_per_s": 1000000, "output_tokens_per_s": 20}


class Planner(Program):
    def __init__(self, test, configuration, gateway, kubeconfig):
        super().__init__(test, "plan", "--engines", "kubernetes", "--policy", "token-velocity:hold=5", "--config", configuration,
                         "--kubeconfig", kubeconfig, "--gateway", f"127.0.0.1:{gateway.admin}", "--dashboard", "127.0.0.1:0",
                         "--state-dir", tempfile.mkdtemp(dir=test.cluster.run),
                         ready=r"planner ready, acting on Kubernetes, live page on http://127\.0\.0\.1:(\d+)")
        self.port = self.ports[0]

    def decisions(self, deployment):
        return json.loads(ask(self.port, "GET", f"/api/state?deployment={deployment}")[2])["decisions"]


class UsedGpus:
    """The GPUs of all pods that exist, also of those that end, as often as the API server answers."""

    def __init__(self, test, name):
        self.test, self.name = test, name
        self.seen, self.ended = [], threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended.is_set():
            pods = [pod["metadata"]["labels"]["app"] for pod in self.test.cluster.get("pods", "-n", self.name)["items"]]
            self.seen.append({app: pods.count(app) for app in GPUS})
            time.sleep(0.2)

    def end(self):
        self.ended.set()
        self.thread.join()
        return self.seen


class TwoModels(PodsThatServe):
    def begin_two(self, name):
        self.cluster.namespace(self, name)
        for app in GPUS:
            self.apply(name, owner_of(engine_pod(app, flags=("--model-name", app + "-8b", "--engine", "linear:20,0,0,0")), 1))
        gateway = self.gateway(name)
        until("a pod of each model", lambda: self.phases(gateway) == ["serving"] * 2)
        path = os.path.join(self.cluster.run, f"{name}.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"start_up": "1s", "capacity": VELOCITY, "budget": {"gpus": BUDGET},
                       "deployments": [{"name": app, "model": app + "-8b", "pools": [
                           {"kubernetes": "deployment/" + app, "gpus": gpus, "max_replicas": 6 // gpus}]} for app, gpus in GPUS.items()],
                       "gateway": {"anonymous": True, "kubernetes": {"selector": "fleet=engines", "namespace": name, "port": self.port}}}, file)
        written = subprocess.run([PROGRAM, "manifests", "planner", path, "--namespace", name], capture_output=True, text=True, check=True).stdout
        roles = [part for part in written.split("\n---\n") if "\nkind: Role\n" in part]
        self.assertEqual(len(roles), 1, written)
        roles_file = os.path.join(self.cluster.run, f"{name}-role.yaml")
        with open(roles_file, "w", encoding="utf-8") as file:
            file.write(roles[0])
        self.cluster.kubectl("apply", "-n", name, "-f", roles_file)
        return gateway, Planner(self, path, gateway, self.cluster.account(name, "planner"))

    def of_both(self, name):
        return {app: self.replicas(name, app) for app in GPUS}

    @long
    def test_gpus_move_with_the_load_and_are_never_more_than_the_budget(self):
        name = "two-models"
        gateway, planner = self.begin_two(name)
        used = UsedGpus(self, name)
        chat = Clients(gateway.port, CLIENTS, TOKENS, "chat {} turn {}", "chat-8b")
        until("all replicas of chat", lambda: self.of_both(name) == {"chat": 3, "mail": 1})
        mail = Clients(gateway.port, CLIENTS, TOKENS, "mail {} turn {}", "mail-8b")
        # Both want six GPUs now. Pods of chat drain while they have streams, and their GPUs go to mail.
        until("GPUs that move to mail", lambda: self.of_both(name) == {"chat": 2, "mail": 4})
        limited = [each for app in GPUS for each in planner.decisions(app) if each["limited_by"] == "gpu_budget"]
        broken = chat.end()
        until("all replicas of mail", lambda: self.of_both(name) == {"chat": 1, "mail": 6})
        until("their pods", lambda: self.phases(gateway) == ["serving"] * 7)
        broken += mail.end()
        seen = used.end()

        gpus = [sum(GPUS[app] * pods for app, pods in each.items()) for each in seen]
        print(f"{len(chat.streams)} and {len(mail.streams)} streams, {len(broken)} broken; {max(gpus)} of {BUDGET} GPUs in {len(gpus)} looks",
              file=sys.stderr)
        self.assertEqual(broken, [])
        self.assertLessEqual(max(gpus), BUDGET, [each for each, sum_of in zip(seen, gpus) if sum_of > BUDGET])
        self.assertTrue(limited)
        self.assertIn(f"limited by gpu_budget: 2 of 3 replicas; {BUDGET} of {BUDGET} GPUs used", " ".join(each["diagnosis"] for each in limited))
        # What was asked of the API server, one write after the other.
        asked = dict.fromkeys(GPUS, 1)
        for write in self.cluster.scale_writes(name):
            self.assertEqual((write["user"], write["status"]), ("planner", 200))
            asked[write["name"]] = write["replicas"]
            self.assertLessEqual(sum(GPUS[app] * replicas for app, replicas in asked.items()), BUDGET, asked)
        for words in ("Forbidden", "cluster_events_failed"):
            self.assertNotIn(words, planner.log())


if __name__ == "__main__":
    main()
