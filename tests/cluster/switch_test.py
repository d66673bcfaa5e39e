#!/usr/bin/env python3
"""Pods go from one Deployment to another and change their role between prefill and decode, on a real control plane."""

import json
import os
import pathlib
import signal
import statistics
import sys
import time
import urllib.request

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "live"))

from cluster_testing import long, main, seconds_of  # noqa: E402
from live_testing import ask, until  # noqa: E402
from pods_testing import ROLE, Clients, Planner, PodsThatServe, engine_pod, owner_of  # noqa: E402

ROLES = ("prefill", "decode")
REPLICA_SETS = [{"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["list", "watch"]}]
START_UP = "8s"  # Of a pod. One that is made in the place of another is deleted before it starts.
STEPS = ("mark", "switch", "move", "unmark")


class SwitchingPlanner(Planner):
    def __init__(self, test, name, gateway, prefill, decode):
        self.counts = {"prefill": prefill, "decode": decode}
        super().__init__(test, name, gateway, 1, pools=lambda _: [
            {"name": role, "role": role, "kubernetes": f"deployment/{role}", "min_replicas": self.counts[role],
             "max_replicas": self.counts[role]} for role in ROLES], switch_time="1s", start_up="50s")

    def exchange(self, prefill, decode):
        self.counts = {"prefill": prefill, "decode": decode}
        self.target(1)

    def crash(self):
        self.process.kill()
        self.wait()

    def switches(self, pool):
        line = next(line for line in ask(self.port, "GET", "/metrics")[2].splitlines()
                    if line.startswith(f'penstock_role_switches_total{{pool="{pool}"'))
        return int(line.split()[-1])

    def steps(self):
        return [event["step"] for event in self.events("replica_step")]


class Switch(PodsThatServe):
    def start_roles(self, name, prefill, decode):
        self.cluster.namespace(self, name)
        for role, replicas in (("prefill", prefill), ("decode", decode)):
            template = engine_pod(role, flags=("--role", role, "--engine", "linear:20,0,0.001,0", "--switch-time", "1s"),
                                  labels={"llm-d.ai/role": role, "penstock/pool": role}, start_up=START_UP)
            self.apply(name, owner_of(template, replicas))
        gateway = self.gateway(name)
        until("pods of both roles", lambda: self.phases(gateway) == ["serving"] * (prefill + decode))
        self.allow(name, [*ROLE, *REPLICA_SETS])
        return gateway

    def pods(self, name):
        """The role of each pod that does not terminate, by its UID."""
        return {pod["metadata"]["uid"]: pod["metadata"]["labels"]["llm-d.ai/role"] for pod in self.cluster.get("pods", "-n", name)["items"]
                if "deletionTimestamp" not in pod["metadata"]}

    def pod_of(self, name, uid):
        return next(pod for pod in self.cluster.get("pods", "-n", name)["items"] if pod["metadata"]["uid"] == uid)

    def role_of_engine(self, name, uid):
        address = self.pod_of(name, uid)["status"]["podIP"]
        with urllib.request.urlopen(f"http://{address}:{self.port}/penstock/v1/info", timeout=10) as answer:
            return json.load(answer)["role"]

    def is_settled(self, name, gateway, prefill, decode):
        """As many pods of each role as there are to be, all of which serve; both Deployments agree."""
        serving = sorted((replica["role"], replica["phase"]) for replica in gateway.overview()["replicas"])
        return serving == sorted([("prefill", "serving")] * prefill + [("decode", "serving")] * decode) and \
            self.replicas(name, "prefill") == prefill and self.replicas(name, "decode") == decode and \
            sorted(self.pods(name).values()) == sorted(["prefill"] * prefill + ["decode"] * decode)

    def until_settled(self, name, gateway, prefill, decode):
        until(f"{prefill} prefill and {decode} decode pods", lambda: self.is_settled(name, gateway, prefill, decode))

    def kubelet(self, kind):
        """When something happened to pods, by their names, in all namespaces."""
        with open(self.cluster.run + "/kubelet.jsonl", encoding="utf-8") as log:
            return {event["pod"]: event["t"] for event in map(json.loads, log) if event["event"] == kind}

    @long
    def test_pods_change_their_role_under_streams_and_none_starts(self):
        name = "switch"
        gateway = self.start_roles(name, 3, 1)
        before = self.pods(name)
        planner = SwitchingPlanner(self, name, gateway, 3, 1)
        clients = Clients(gateway.port, 6, prompt="{} client, turn {}" + " word" * 200)
        until("first streams", lambda: len(clients.streams) > 6)
        for prefill, decode in ((1, 3), (3, 1), (2, 2)):
            began = time.monotonic()
            planner.exchange(prefill, decode)
            self.until_settled(name, gateway, prefill, decode)
            print(f"{prefill} prefill and {decode} decode pods after {time.monotonic() - began:.1f} s", file=sys.stderr)
            after = self.pods(name)
            self.assertEqual(set(after), set(before), "the pods are the same")
            for uid, role in after.items():
                self.assertEqual(self.role_of_engine(name, uid), role)
        seen = len(clients.streams)
        until("further streams", lambda: len(clients.streams) > seen + 6)
        broken = clients.end()
        print(f"{len(clients.streams)} streams, {len(broken)} broken", file=sys.stderr)
        self.assertEqual(broken, [])
        self.assertEqual((planner.switches("decode"), planner.switches("prefill")), (3, 2))
        names = {self.pod_of(name, uid)["metadata"]["name"] for uid in before}
        made = {}
        for event in planner.events("replica_state"):
            if event["replica"] not in names:
                made.setdefault(event["replica"], seconds_of(event["time"]))
        self.assertEqual(set(made) & set(self.kubelet("started")), set(), "an engine was started in vain")
        gone = self.kubelet("terminating")
        lives = sorted(gone[pod] - at for pod, at in made.items() if pod in gone)
        print(f"{len(made)} pods were made in the places of others; {len(lives)} had a node, and were deleted {statistics.median(lives or [0]):.2f} s "
              f"later in the median, {max(lives, default=0):.2f} s at most", file=sys.stderr)
        owners = {uid: self.pod_of(name, uid)["metadata"]["ownerReferences"] for uid in before}
        for uid, references in owners.items():
            self.assertEqual(len(references), 1)
            self.assertTrue(references[0]["name"].startswith(self.pods(name)[uid] + "-"), "its ReplicaSet is that of its role")

    @long
    def test_a_planner_that_is_killed_in_a_switch_is_followed_by_one_that_ends_it(self):
        name = "crash"
        gateway = self.start_roles(name, 2, 1)
        clients = Clients(gateway.port, 4, prompt="{} client, turn {}" + " word" * 200)
        turns = [(1, 2), (2, 1)]
        for number, step in enumerate((*STEPS, "scaled")):
            (was, now) = (turns[(number + 1) % 2], turns[number % 2])
            planner = SwitchingPlanner(self, name, gateway, *was)
            planner.exchange(*now)
            until(f"the step {step}", lambda: step in planner.steps() or (step == "scaled" and planner.events("scaled")))
            planner.crash()
            follower = SwitchingPlanner(self, name, gateway, *now)
            self.until_settled(name, gateway, *now)
            follower.crash()
            for uid, role in self.pods(name).items():
                self.assertEqual(self.role_of_engine(name, uid), role)
        broken = clients.end()
        print(f"{len(clients.streams)} streams, {len(broken)} broken", file=sys.stderr)
        self.assertEqual(broken, [])

    def test_an_engine_that_restarts_with_its_former_role_gets_its_role_again_before_it_serves(self):
        name = "restart"
        gateway = self.start_roles(name, 2, 1)
        before = self.pods(name)
        planner = SwitchingPlanner(self, name, gateway, 2, 1)
        planner.exchange(1, 2)
        self.until_settled(name, gateway, 1, 2)
        [moved] = [uid for uid, role in self.pods(name).items() if role == "decode" and before[uid] == "prefill"]
        pod = self.pod_of(name, moved)["metadata"]["name"]
        self.assertEqual(self.pod_of(name, moved)["metadata"]["annotations"]["penstock/role"], "decode/0")
        os.kill(self.process_of(pod), signal.SIGKILL)
        until("the restart", lambda: self.pod_of(name, moved)["metadata"]["annotations"].get("penstock/role") == "decode/1")
        self.until_settled(name, gateway, 1, 2)
        self.assertEqual(self.role_of_engine(name, moved), "decode")
        self.assertIn("restore", planner.steps())


if __name__ == "__main__":
    main()
