#!/usr/bin/env python3
"""The API server is killed, etcd is stopped, watches are cut: no stream is harmed, nothing is done on stale data, and the planner goes on
soon after all is back."""

import subprocess
import sys
import time

from cluster_testing import PORT_BASE, alone, limit_s, main
from live_testing import until
from pods_testing import Clients, PodsThatServe

API_PORT = PORT_BASE + 2
RESUMED_S = 5


@alone
class Away(PodsThatServe):
    def away(self, name, component, with_signal, seconds):
        """The target changes in both directions while the component is away."""
        gateway, planner = self.begin(name, 3)
        clients = Clients(gateway.port, 6)
        until("open streams", lambda: gateway.open_requests() >= 6)
        writes = len(self.cluster.scale_writes(name))
        self.cluster.take_away(self, component, with_signal)
        planner.target(1)
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            # Without the API server no gateway would see the mark of a pod, so nothing drains.
            self.assertEqual(self.phases(gateway), ["serving"] * 3, f"{time.monotonic() - began:.1f} s: {planner.log()[-3000:]}")
            time.sleep(0.5)
        planner.target(4)
        time.sleep(2)
        self.cluster.give_back(component)
        began = time.monotonic()
        until("4 asked for", lambda: self.replicas(name) == 4)
        took = time.monotonic() - began
        until("4 pods", lambda: self.phases(gateway) == ["serving"] * 4)
        broken = clients.end()
        print(f"scaled {took:.1f} s after {component} was back, {seconds} s later; {len(clients.streams)} streams, {len(broken)} broken", file=sys.stderr)
        self.assertEqual(broken, [])
        # Only what was wanted last was ever written.
        self.assertEqual({write["replicas"] for write in self.cluster.scale_writes(name)[writes:] if write["status"] == 200}, {4})
        self.assertLess(took, limit_s(RESUMED_S))

    def test_a_killed_api_server(self):
        self.away("api-server-killed", "kube-apiserver", "KILL", 60)

    def test_a_stopped_etcd(self):
        self.away("etcd-stopped", "etcd", "STOP", 15)

    def test_cut_watches(self):
        gateway, planner = self.begin("cut-watches", 2)
        clients = Clients(gateway.port, 4)
        until("open streams", lambda: gateway.open_requests() >= 4)
        for replicas in (3, 2, 4, 1):
            before = connections()
            self.assertGreater(len(before), 2)
            subprocess.run(["ss", "-K", "dst", "127.0.0.1", "dport", "=", f":{API_PORT}"], capture_output=True, check=True)
            self.assertFalse(before & connections(), "connections survived")
            self.reaches(planner, gateway, replicas)
        broken = clients.end()
        self.assertEqual(broken, [])
        written = [write["replicas"] for write in self.cluster.scale_writes("cut-watches") if write["status"] == 200]
        # The way down to 1 takes a step for each pod whose streams end at another time.
        last = written[written.index(4):]
        self.assertEqual(written[:written.index(4)][-2:], [3, 2])
        self.assertEqual((last, last[-1]), (sorted(set(last), reverse=True), 1))


def connections():
    """Local addresses of the connections to the API server."""
    text = subprocess.run(["ss", "-Htn", "dst", "127.0.0.1", "dport", "=", f":{API_PORT}"], capture_output=True, text=True, check=True).stdout
    return {line.split()[3] for line in text.splitlines() if line.startswith("ESTAB")}


if __name__ == "__main__":
    main()
