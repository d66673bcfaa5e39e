#!/usr/bin/env python3
"""Planners with leader election on a real API server: one leads; another takes over when it ends, is killed, or stops."""

import re
import signal
import time
import unittest

from cluster_testing import Cluster, long, main
from live_testing import Engine, Gateway, Program, ask, config_file, until
from pods_testing import LEASE_ROLE, ROLE, role

LEASE, STATE = "penstock-planner", "penstock-state"
DURATION_S, FENCE_S, TAKE_OVER_S = 10.0, 10.0 * 2 / 3, 15.0


class Planner(Program):
    def __init__(self, test, *words):
        super().__init__(test, "plan", *words, "--dashboard", "127.0.0.1:0", ready=r"planner ready, .*:(\d+)")
        self.port = self.ports[0]

    def metrics(self):
        return ask(self.port, "GET", "/metrics")[2]

    def leads(self):
        return "\npenstock_leader 1\n" in self.metrics()


class Leases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    def planner(self):
        config = config_file(self, pools=[{"name": "chat", "replicas": 1, "min_replicas": 1, "max_replicas": 4}],
                             planner={"tick_interval": "1s"}, gateway={"anonymous": True})
        return Planner(self, "--config", config, "--gateway", f"127.0.0.1:{self.gateway.admin}",
                       "--kubeconfig", self.cluster.kubeconfig, "--leader-election", f"{self.namespace}/{LEASE}",
                       "--state-config-map", f"{self.namespace}/{STATE}")

    def scaler(self, name, replicas):
        """A planner with an account of its own that scales a Deployment to this number."""
        kubernetes = {"selector": "app=chat", "namespace": self.namespace, "port": 8000, "kubeconfig": self.accounts[name]}
        config = config_file(self, pools=[{"name": "chat", "kubernetes": "deployment/chat", "min_replicas": replicas,
                                           "max_replicas": replicas}],
                             planner={"tick_interval": "1s"}, gateway={"anonymous": True, "kubernetes": kubernetes})
        return Planner(self, "--engines", "kubernetes", "--config", config, "--gateway", f"127.0.0.1:{self.gateway.admin}",
                       "--leader-election", f"{self.namespace}/scaler")

    def lease(self):
        return self.cluster.get("lease", LEASE, "-n", self.namespace)["spec"]

    def replicas(self):
        return self.cluster.get("deployment", "chat", "-n", self.namespace)["spec"]["replicas"]

    def leader_of(self, *planners):
        """The only planner that leads."""
        def found():
            leaders = [planner for planner in planners if planner.leads()]
            self.assertLessEqual(len(leaders), 1)
            return leaders
        return until("a leader", found)[0]

    def take_over(self, what, follower, begun, least_s, most_s):
        until(f"a take-over after {what}", follower.leads)
        seconds = time.monotonic() - begun
        print(f"take-over after {what}: {seconds:.1f} s", flush=True)
        self.assertGreaterEqual(seconds, least_s)
        self.assertLess(seconds, most_s)

    def check_writers(self):
        """By the API server's audit log only the holder of the Lease has written, and the number of replicas is from planners only."""
        writers = self.cluster.planner_writes(self, self.namespace, self.accounts)
        self.assertEqual(writers, [("first", 2), ("second", 4)])
        fields = self.cluster.get("deployment", "chat", "-n", self.namespace, "--show-managed-fields")["metadata"]["managedFields"]
        self.assertEqual([each["manager"] for each in fields if "f:replicas" in each["fieldsV1"].get("f:spec", {})], ["penstock"])

    @long
    def test_one_planner_leads_and_another_takes_over(self):
        self.namespace = self.cluster.namespace(self, "leading")
        engine = Engine(self)
        self.gateway = Gateway(self, "--config", config_file(
            self, gateway={"anonymous": True, "replicas": [{"url": engine.url}]})).ready()
        first, second = self.planner(), self.planner()
        # The Lease is new, so that its creator waits for one duration.
        leader = self.leader_of(first, second)
        follower = second if leader is first else first
        self.assertEqual(ask(leader.port, "GET", "/ready")[0], 200)
        until("a ready follower", lambda: ask(follower.port, "GET", "/ready")[:1] == (200,))
        self.assertIn("\npenstock_leader 0\n", follower.metrics())
        until("a target", lambda: "penstock_target_replicas{" in leader.metrics())
        self.assertNotIn("penstock_target_replicas{", follower.metrics())
        until("the saved state", lambda: self.cluster.kubectl("get", "configmap", STATE, "-n", self.namespace, "--ignore-not-found"))

        # A clean end gives the Lease up.
        begun = time.monotonic()
        leader.signal(signal.SIGTERM)
        self.take_over("a clean end", follower, begun, 0.0, 8.0)
        self.assertEqual(leader.wait(), 0)
        until("the restored state", lambda: re.search("policy_state.*restored", follower.log()))

        # A killed planner cannot.
        leader, follower = follower, self.planner()
        until("the follower", lambda: "\npenstock_leader 0\n" in follower.metrics())
        until("its knowledge of the Lease", lambda: "leader_changed" in follower.log())
        begun = time.monotonic()
        leader.signal(signal.SIGKILL)
        self.take_over("SIGKILL", follower, begun, FENCE_S, TAKE_OVER_S)

        # A planner that was stopped wakes up as a follower.
        leader, follower = follower, self.planner()
        until("the follower", lambda: "leader_changed" in follower.log())
        transitions = self.lease()["leaseTransitions"]
        begun = time.monotonic()
        leader.signal(signal.SIGSTOP)
        self.take_over("SIGSTOP", follower, begun, FENCE_S, TAKE_OVER_S)
        while time.monotonic() < begun + 30:
            time.sleep(0.1)
        leader.signal(signal.SIGCONT)
        for _ in range(100):
            self.assertFalse(leader.leads(), "two planners act")
            time.sleep(0.02)
        self.assertTrue(follower.leads())
        until("the end of its lead in its log", lambda: "leadership_lost" in leader.log())
        spec = self.lease()
        self.assertEqual(spec["leaseTransitions"], transitions + 1)
        self.assertEqual(spec["leaseDurationSeconds"], DURATION_S)
        self.assertNotIn("lease_failed", follower.log())

    @long
    def test_a_planner_that_wakes_up_writes_nothing(self):
        self.namespace = self.cluster.namespace(self, "waking")
        engine = Engine(self)
        self.gateway = Gateway(self, "--config", config_file(
            self, gateway={"anonymous": True, "replicas": [{"url": engine.url}]})).ready()
        pod = {"metadata": {"labels": {"app": "chat"}},
               "spec": {"containers": [{"name": "engine", "image": "engine"}],
                        "tolerations": [{"operator": "Exists"}], "nodeSelector": {"type": "kwok"}}}
        self.cluster.kubectl("apply", "-n", self.namespace, "--server-side", "-f", "-", given={
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "chat"}}, "template": pod}})
        self.cluster.kubectl("apply", "-n", self.namespace, "-f", "-", given=role(ROLE + LEASE_ROLE))
        self.accounts = {name: self.cluster.account(self.namespace, name) for name in ("first", "second")}
        first = self.scaler("first", 2)
        until("2 replicas", lambda: self.replicas() == 2)
        second = self.scaler("second", 4)
        until("the follower", lambda: "leader_changed" in second.log())
        time.sleep(3)
        self.assertEqual(self.replicas(), 2, "a follower scales nothing")

        begun = time.monotonic()
        first.signal(signal.SIGSTOP)
        until("4 replicas", lambda: self.replicas() == 4)
        print(f"scaled by another planner after SIGSTOP: {time.monotonic() - begun:.1f} s", flush=True)
        while time.monotonic() < begun + 30:
            time.sleep(0.1)
        before = len(first.log())
        first.signal(signal.SIGCONT)
        for _ in range(25):
            self.assertEqual(self.replicas(), 4)
            time.sleep(0.2)
        self.assertNotRegex(first.log()[before:], r"event=scaled|\"scaled\"| scaled ")

        # The next leader wants fewer. Its first decision shrinks nothing.
        begun = time.monotonic()
        second.signal(signal.SIGKILL)
        self.take_over("SIGKILL", first, begun, FENCE_S, TAKE_OVER_S)
        until("its first decision", lambda: "take_over" in first.log()[before:])
        self.assertEqual(self.replicas(), 4)
        self.check_writers()
        events = self.cluster.get("events.events.k8s.io", "-n", self.namespace)["items"]
        reasons = {event["reason"] for event in events if event["regarding"]["kind"] == "Deployment"}
        self.assertLessEqual({"ScaleUpDecided", "ScaledUp"}, reasons)
        self.assertIn("ScaledUp", self.cluster.kubectl("describe", "deployment", "chat", "-n", self.namespace))
        self.assertIn("LeaderElection", {event["reason"] for event in events if event["regarding"]["kind"] == "Lease"})


if __name__ == "__main__":
    main()
