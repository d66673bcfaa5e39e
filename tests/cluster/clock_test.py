#!/usr/bin/env python3
"""The clock of the planner that leads jumps: only one planner writes, and nothing shrinks at the first tick after it."""

import glob
import os
import sys
import tempfile
import time

from cluster_testing import long, main
from live_testing import until
from pods_testing import LEASE_ROLE, ROLE, Clients, Planner, PodsThatServe, role

TICK_S = 5
WATCHED_S = 12
HOUR_S = 3600
LIBRARIES = "/usr/lib/*/faketime/libfaketime.so.1"  # Debian's package libfaketime.


class Clock:
    """Moves the clocks of a program, all of them or the wall clock only, while it runs."""

    def __init__(self, test, library, wall_only):
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "offset")
        self.set(0)
        self.environment = {"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": self.path, "FAKETIME_NO_CACHE": "1",
                            "FAKETIME_DONT_FAKE_MONOTONIC": "1" if wall_only else "0"}

    def set(self, offset_s):
        # The library reads the file at each call.
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write(f"{offset_s:+d}")
        os.replace(self.path + ".new", self.path)


class Clocks(PodsThatServe):
    def begin_two(self, name, wall_only):
        """A planner whose clock can be moved leads, and another one follows."""
        libraries = glob.glob(LIBRARIES)
        if not libraries:
            self.skipTest(f"there is no {LIBRARIES}: install Debian's package faketime")
        gateway = self.start(name, 3)
        self.apply(name, role(ROLE + LEASE_ROLE))
        self.clock = Clock(self, libraries[0], wall_only)
        self.planners = {}
        for account, environment in (("first", self.clock.environment), ("second", None)):
            self.planners[account] = Planner(
                self, name, gateway, 1, kubeconfig=self.cluster.account(name, account), environment=environment,
                flags=("--leader-election", f"{name}/planner"), planner={"tick_interval": f"{TICK_S}s"},
                pools=lambda bounds: [{"name": "chat", "kubernetes": "deployment/engines", **bounds, "max_replicas": 4}])
            if account == "first":
                until("a leader", self.planners["first"].leads)
        until("a follower", lambda: "leader_changed" in self.planners["second"].log())
        until("data", lambda: self.planners["first"].events("data_known"))
        # So little traffic that the policy wants fewer replicas once its windows of minutes are over.
        clients = Clients(gateway.port, 2, tokens=20)
        time.sleep(3 * TICK_S)
        self.assertEqual(clients.end(), [])
        return gateway

    def jump(self, name, offset_s):
        """Returns who leads then."""
        before = {account: len(planner.events("replica_step")) for account, planner in self.planners.items()}
        self.clock.set(offset_s)
        began = time.monotonic()
        while time.monotonic() < began + WATCHED_S:
            self.assertLessEqual(sum(planner.leads() for planner in self.planners.values()), 1, "two planners act")
            if time.monotonic() < began + TICK_S - 1:
                for account, planner in self.planners.items():
                    self.assertEqual(len(planner.events("replica_step")), before[account], "a pod is to go at the first tick")
                self.assertEqual(self.replicas(name), 3)
            time.sleep(0.1)
        leaders = [account for account, planner in self.planners.items() if planner.leads()]
        print(f"{offset_s:+d} s: {leaders} leads, {self.replicas(name)} replicas", file=sys.stderr)
        self.assertEqual(len(leaders), 1)
        return leaders[0]

    def ends_well(self, name, leader, gateway):
        for planner in self.planners.values():
            planner.target(4)
        until("4 pods", lambda: self.phases(gateway) == ["serving"] * 4)
        self.assertEqual(self.cluster.planner_writes(self, name, self.planners)[-1], (leader, 4))

    @long
    def test_the_wall_clock_of_the_leader_jumps(self):
        name = "wall-clock"
        gateway = self.begin_two(name, True)
        # While the clock is behind, the certificate of the API server, which is new, is not valid yet.
        for offset_s in (HOUR_S, -HOUR_S, 0):
            self.assertEqual(self.jump(name, offset_s), "first", "times within the Lease are not read")
        self.assertEqual(self.cluster.planner_writes(self, name, self.planners), [])
        self.ends_well(name, "first", gateway)

    @long
    def test_all_clocks_of_the_leader_jump(self):
        name = "clocks"
        gateway = self.begin_two(name, False)
        before = len(self.planners["first"].events("decision"))
        leader = self.jump(name, HOUR_S)
        # An hour without a renewal: it has to renew before it acts again.
        self.assertEqual(len(self.planners["first"].events("leadership_lost")), 1)
        limits = [decision.get("limited_by", "") for decision in self.planners["first"].events("decision")[before:]]
        print(f"decisions were limited by {limits}", file=sys.stderr)
        self.assertLessEqual({"clock_jump"} if leader == "first" else set(), set(limits), "the policy wants fewer replicas")
        self.ends_well(name, leader, gateway)


if __name__ == "__main__":
    main()
