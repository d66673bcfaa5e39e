#!/usr/bin/env python3
"""`penstock plan --engines kubernetes` scales pods that serve, on a real control plane, with the rights of a minimum Role.

Exit code 77: there is no testbed."""

import re
import sys
import time

from cluster_testing import main
from live_testing import until
from pods_testing import ROLE, Clients, PodsThatServe, role

LONG_TOKENS = 1000  # Of a stream, which takes about 20 s.


class FleetOfPods(PodsThatServe):
    def test_no_stream_is_cut_while_the_planner_scales(self):
        gateway, planner = self.begin("drained", 2)
        clients = Clients(gateway.port, 8)
        until("first streams", lambda: len(clients.streams) > 8)
        for replicas in (4, 1, 3, 2, 4, 1):
            self.reaches(planner, gateway, replicas)
        broken = clients.end()
        scaled = [(event["from"], event["to"]) for event in planner.events("scaled")]
        print(f"{len(clients.streams)} streams, {len(broken)} broken, scaled {scaled}", file=sys.stderr)
        self.assertEqual(broken, [])
        self.assertIn((2, 4), scaled)
        writers = [fields["manager"] for fields in self.cluster.get("deployment", "engines", "-n", "drained", "--show-managed-fields")
                   ["metadata"]["managedFields"] if "f:replicas" in fields["fieldsV1"].get("f:spec", {})]
        self.assertEqual(writers, ["penstock"])

    def test_the_same_without_drain_breaks_streams(self):
        gateway = self.start("undrained", 4)
        # All begin at the same time, and none may end by itself within the second that a pod has.
        clients = Clients(gateway.port, 8, LONG_TOKENS)
        until("open streams", lambda: gateway.open_requests() == len(clients.threads))
        self.scale("undrained", 1, gateway)
        broken = clients.end()
        print(f"{len(clients.streams)} streams without drain, {len(broken)} broken", file=sys.stderr)
        self.assertNotEqual(broken, [])

    def test_the_highest_ordinals_of_a_stateful_set_go_and_no_stream_is_cut(self):
        gateway, planner = self.begin("ordered", 3, "StatefulSet")
        clients = Clients(gateway.port, 6)
        until("first streams", lambda: len(clients.streams) > 6)
        self.reaches(planner, gateway, 1)
        broken = clients.end()
        self.assertEqual([replica["id"] for replica in gateway.overview()["replicas"]], ["engines-0"])
        self.assertEqual(broken, [])

    def test_others_on_the_target_are_named_and_not_fought(self):
        gateway, planner = self.begin("others", 2)
        # Before its first decision a planner takes what it finds.
        self.reaches(planner, gateway, 3)
        self.reaches(planner, gateway, 2)
        self.cluster.kubectl("scale", "deployment", "engines", "-n", "others", "--replicas=3")
        held = until("a hold", lambda: planner.held("manual"))
        self.assertEqual(held[0]["by"], "kubectl")
        self.assertEqual(self.replicas("others"), 3)
        until("2 pods after the hold", lambda: self.replicas("others") == 2)

        self.cluster.kubectl("autoscale", "deployment", "engines", "-n", "others", "--min=3", "--max=3", "--cpu=50%")
        held = until("a hold", lambda: planner.held("autoscaler"))
        self.assertIn("engines", held[0]["by"])
        until("3 pods of the autoscaler", lambda: self.replicas("others") == 3)
        time.sleep(3)
        self.assertEqual(self.replicas("others"), 3)
        self.cluster.kubectl("delete", "hpa", "engines", "-n", "others")
        until("2 pods again", lambda: self.replicas("others") == 2)
        self.assertEqual(len(planner.held("autoscaler")), 1)

    def test_budgets_and_rights_hold_the_pool_with_the_cause(self):
        gateway, planner = self.begin("limits", 2)
        self.cluster.kubectl("create", "poddisruptionbudget", "all", "-n", "limits", "--selector=app=engines", "--min-available=100%")
        until("the budget", lambda: self.cluster.get("pdb", "all", "-n", "limits")["status"].get("observedGeneration"))
        planner.target(1)
        held = until("a hold", lambda: planner.held("budget"))
        self.assertEqual(held[0]["by"], "all")
        self.assertEqual(self.replicas("limits"), 2)
        self.cluster.kubectl("delete", "pdb", "all", "-n", "limits")
        until("1 pod", lambda: self.replicas("limits") == 1)

        self.cluster.kubectl("apply", "-n", "limits", "-f", "-", given=role([rule for rule in ROLE if "deployments/scale" not in rule["resources"]]))
        planner.target(2)
        until("the missing right", lambda: re.search(r'resources: \[\\"deployments/scale\\"\], verbs: \[\\"\w+\\"\]', planner.log()))
        self.cluster.kubectl("apply", "-n", "limits", "-f", "-", given=role(ROLE))
        self.reaches(planner, gateway, 2)

    def test_pods_that_cannot_start_are_not_added_to_and_go_first(self):
        # The node has memory for one of them.
        gateway, planner = self.begin("pending", 1, memory="300Gi")
        until("the scale", lambda: planner.events("data_known"))
        planner.target(3)
        until("3 asked for", lambda: self.replicas("pending") == 3)
        time.sleep(6)
        planner.target(5)
        held = until("a hold", lambda: planner.held("blocked"))
        self.assertIn("nodes are available", held[0]["message"])
        self.assertEqual(self.replicas("pending"), 3)
        planner.target(1)
        until("1 asked for", lambda: self.replicas("pending") == 1)
        self.assertEqual(self.phases(gateway), ["serving"])


if __name__ == "__main__":
    main()
