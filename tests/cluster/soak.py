#!/usr/bin/env python3
"""Faults from a seed while streams run and two planners scale a Deployment: `make soak-cluster`.

PENSTOCK_SOAK_SECONDS (300) and PENSTOCK_SOAK_SEED (1). Only the planners take pods away, which end 1 s after their deletion. So whatever happens:
no stream is cut, only the holder of the Lease writes, and once the faults are over the wanted number is reached."""

import os
import random
import signal
import subprocess
import sys
import time

from cluster_testing import PORT_BASE, alone, main
from live_testing import until
from pods_testing import LEASE_ROLE, ROLE, Clients, Planner, PodsThatServe, role

SECONDS = float(os.environ.get("PENSTOCK_SOAK_SECONDS", "300"))
SEED = int(os.environ.get("PENSTOCK_SOAK_SEED", "1"))
TEST_SECONDS = SECONDS + 300
NAME = "soak"
LEASE_S = 10.0


@alone
class Soak(PodsThatServe):
    def test_faults_from_a_seed(self):
        self.random = random.Random(SEED)
        self.gateway_program = self.start(NAME, 2)
        self.apply(NAME, role(ROLE + LEASE_ROLE))
        self.accounts = {name: self.cluster.account(NAME, name) for name in ("first", "second")}
        self.wanted = 2
        self.planners = {name: self.planner(name) for name in self.accounts}
        until("a leader", self.leader)
        clients = Clients(self.gateway_program.port, 6)
        faults = [self.wants, self.wants, self.api_server_killed, self.etcd_stopped, self.watches_cut, self.leader_killed, self.leader_stopped,
                  self.scaled_by_a_person, self.autoscaler, self.permission_withdrawn, self.gateway_stopped, self.engine_stopped]
        began, count = time.monotonic(), 0
        while time.monotonic() < began + SECONDS:
            fault = self.random.choice(faults)
            count += 1
            print(f"{time.monotonic() - began:6.1f} s  {fault.__name__}", file=sys.stderr, flush=True)
            fault()
            self.check(clients)
            time.sleep(self.random.uniform(0.5, 4))
        self.wants(3)
        until("3 pods", lambda: self.phases(self.gateway_program) == ["serving"] * 3)
        broken = clients.end()
        self.check(clients)
        print(f"{count} faults of the seed {SEED} in {SECONDS:.0f} s: {len(clients.streams)} streams, {len(broken)} broken; "
              f"{len(self.cluster.scale_writes(NAME))} writes of /scale", file=sys.stderr)
        self.assertGreater(len(clients.streams), 10)

    def planner(self, name):
        planner = Planner(self, NAME, self.gateway_program, self.wanted, kubeconfig=self.accounts[name],
                          flags=("--leader-election", f"{NAME}/planner", "--lease-duration", f"{LEASE_S:.0f}s"))
        planner.account = name
        return planner

    def leader(self):
        """The planner that has scaled last, or any."""
        leases = [write for write in self.cluster.writes(NAME) if write["is_lease"] and write["status"] < 300]
        return self.planners[leases[-1]["user"]] if leases else None

    def check(self, clients):
        broken = [f"{stream.status} {stream.fault} {stream.tokens()} tokens from {stream.replica}" for stream in clients.broken()]
        self.assertEqual(broken, [], f"seed {SEED}")
        for planner in self.planners.values():
            self.assertIsNone(planner.process.poll(), planner.log()[-3000:])
        holder, renewed = None, 0.0
        for write in self.cluster.writes(NAME):
            if write["status"] >= 300 or write["user"] not in self.accounts:
                continue
            if write["is_lease"]:
                holder, renewed = write["user"], write["at"]
                continue
            self.assertEqual(write["user"], holder, f"seed {SEED}: a planner wrote that does not hold the Lease")
            self.assertLess(write["at"] - renewed, LEASE_S, f"seed {SEED}: a planner wrote whose Lease had expired")
            self.assertGreaterEqual(write["replicas"], 1)

    # Faults: each lasts a while, and is over when the function returns.

    def wants(self, replicas=None):
        self.wanted = replicas or self.random.randint(1, 5)
        for planner in self.planners.values():
            planner.target(self.wanted)

    def away(self, component, with_signal, least_s, most_s):
        self.cluster.testbed("signal", component, with_signal)
        self.addCleanup(self.restore, component)
        time.sleep(self.random.uniform(least_s, most_s))
        self.cluster.give_back(component)

    def restore(self, component):
        try:
            self.cluster.give_back(component)
        except RuntimeError:
            pass  # It runs.

    def api_server_killed(self):
        self.away("kube-apiserver", "KILL", 1, 15)

    def etcd_stopped(self):
        self.away("etcd", "STOP", 1, 12)

    def watches_cut(self):
        subprocess.run(["ss", "-K", "dst", "127.0.0.1", "dport", "=", f":{PORT_BASE + 2}"], capture_output=True, check=True)

    def leader_killed(self):
        killed = self.leader()
        killed.signal(signal.SIGKILL)
        killed.wait()
        time.sleep(self.random.uniform(0, 15))
        self.planners[killed.account] = self.planner(killed.account)

    def stopped(self, process, least_s, most_s):
        os.kill(process, signal.SIGSTOP)
        try:
            time.sleep(self.random.uniform(least_s, most_s))
        finally:
            os.kill(process, signal.SIGCONT)

    def leader_stopped(self):
        self.stopped(self.leader().process.pid, 2, 30)

    def gateway_stopped(self):
        self.stopped(self.gateway_program.process.pid, 1, 8)

    def engine_stopped(self):
        serving = sorted(each["id"] for each in self.gateway_program.overview()["replicas"] if each["phase"] == "serving")
        if serving:
            self.stopped(self.process_of(self.random.choice(serving)), 1, 6)

    def scaled_by_a_person(self):
        # More: pods that a person takes away are not drained.
        self.cluster.kubectl("scale", "deployment", "engines", "-n", NAME, f"--replicas={self.replicas(NAME) + 1}")

    def autoscaler(self):
        most = self.replicas(NAME) + 1
        self.cluster.kubectl("autoscale", "deployment", "engines", "-n", NAME, f"--min={most}", f"--max={most}", "--cpu=50%")
        time.sleep(self.random.uniform(1, 8))
        self.cluster.kubectl("delete", "hpa", "engines", "-n", NAME)

    def permission_withdrawn(self):
        rules = list(ROLE + LEASE_ROLE)
        rules.pop(self.random.randrange(len(rules)))
        self.apply(NAME, role(rules))
        time.sleep(self.random.uniform(1, 10))
        self.apply(NAME, role(ROLE + LEASE_ROLE))


if __name__ == "__main__":
    main()
