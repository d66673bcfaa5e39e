#!/usr/bin/env python3
"""`penstock gateway` in front of pods that serve. Exit code 77: there is no testbed."""

import sys
import time

from cluster_testing import main
from live_testing import until
from pods_testing import Clients, PodsThatServe


class GatewayOfPods(PodsThatServe):
    def change_all(self, name, gateway):
        began = time.monotonic()
        for replicas in (4, 1, 3):
            self.scale(name, replicas, gateway)
        before = {replica["id"] for replica in gateway.overview()["replicas"]}
        self.cluster.kubectl("rollout", "restart", "deployment", "engines", "-n", name)
        until("new pods", lambda: len(gateway.overview()["replicas"]) == 3 and
              not before & {replica["id"] for replica in gateway.overview()["replicas"]})
        return time.monotonic() - began

    def test_no_stream_is_cut_while_pods_come_go_and_restart(self):
        gateway = self.start("graceful", 2, grace_s=60, pre_stop_s=1)
        clients = Clients(gateway.port, 8)
        until("first streams", lambda: len(clients.streams) > 8)
        took = self.change_all("graceful", gateway)
        broken = clients.end()
        print(f"{len(clients.streams)} streams in {took:.0f} s of changes, {len(broken)} broken", file=sys.stderr)
        self.assertEqual(broken, [])

    def test_the_same_without_time_to_end_breaks_streams(self):
        gateway = self.start("abrupt", 2)
        clients = Clients(gateway.port, 8)
        until("first streams", lambda: len(clients.streams) > 8)
        # Streams that happen to end at the right time are whole.
        for _ in range(5):
            self.change_all("abrupt", gateway)
            if clients.broken():
                break
        broken = clients.end()
        print(f"{len(clients.streams)} streams without time to end, {len(broken)} broken", file=sys.stderr)
        self.assertNotEqual(broken, [])


if __name__ == "__main__":
    main()
