#!/usr/bin/env python3
"""`penstock plan --engines kubernetes` scales pods that serve, on a real control plane, with the rights of a minimum Role.

Exit code 77: there is no testbed."""

import itertools
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
        self.reaches(planner, gateway, 3)
        self.reaches(planner, gateway, 2)
        self.cluster.kubectl("scale", "deployment", "engines", "-n", "others", "--replicas=3")
        held = until("a hold", lambda: planner.held("manual"))
        self.assertEqual(held[0]["by"], "kubectl")
        self.assertEqual(self.replicas("others"), 3)
        self.until_one_event("others", "ScalingHeld", held[0]["message"])
        until("2 pods after the hold", lambda: self.replicas("others") == 2)
        self.assertEqual([held["by"] for held in planner.held("manual")], ["kubectl"])
        until("the end of the hold", lambda: self.noted("others", "ScalingResumed"))

        self.cluster.kubectl("autoscale", "deployment", "engines", "-n", "others", "--min=3", "--max=3", "--cpu=50%")
        held = until("a hold", lambda: planner.held("autoscaler"))
        self.assertIn("engines", held[0]["by"])
        self.until_one_event("others", "ScalingHeld", held[0]["message"])
        until("3 pods of the autoscaler", lambda: self.replicas("others") == 3)
        time.sleep(3)
        self.assertEqual(self.replicas("others"), 3)
        self.cluster.kubectl("delete", "hpa", "engines", "-n", "others")
        until("2 pods again", lambda: self.replicas("others") == 2)
        self.assertEqual(len(planner.held("autoscaler")), 1)
        # No fight: the planner, whose user is autoscaler, writes before and after kubectl and the HPA, not beside them.
        users = [user for user, _ in itertools.groupby(write["user"] for write in self.cluster.scale_writes("others"))]
        self.assertEqual(users, ["autoscaler", "testbed-admin", "autoscaler", "testbed-admin", "autoscaler"])

    def test_others_are_named_before_the_planner_has_scaled(self):
        name = "unscaled"
        gateway, planner = self.begin(name, 2)
        planner.target(1, 5)
        until("a decision", lambda: [event for event in planner.events("decision") if event["reason"] != "no_data"])
        time.sleep(2)
        self.assertEqual(self.cluster.scale_writes(name), [])
        self.cluster.kubectl("scale", "deployment", "engines", "-n", name, "--replicas=3")
        held = until("a hold", lambda: planner.held("manual"))
        self.assertEqual((held[0]["by"], self.replicas(name)), ("kubectl", 3))
        # It changes no number of replicas.
        self.cluster.kubectl("autoscale", "deployment", "engines", "-n", name, "--min=1", "--max=5", "--cpu=50%")
        held = until("a hold", lambda: planner.held("autoscaler"))
        self.assertIn("engines", held[0]["by"])
        self.until_one_event(name, "ScalingHeld", held[0]["message"])
        self.assertEqual({write["user"] for write in self.cluster.scale_writes(name)}, {"testbed-admin"})

    def test_a_budget_holds_the_pool_with_the_cause(self):
        gateway, planner = self.begin("limits", 2)
        self.cluster.kubectl("create", "poddisruptionbudget", "all", "-n", "limits", "--selector=app=engines", "--min-available=100%")
        until("the budget", lambda: self.cluster.get("pdb", "all", "-n", "limits")["status"].get("observedGeneration"))
        planner.target(1)
        held = until("a hold", lambda: planner.held("budget"))
        self.assertEqual(held[0]["by"], "all")
        self.until_one_event("limits", "ScalingHeld", held[0]["message"])
        self.assertEqual(self.replicas("limits"), 2)
        self.cluster.kubectl("delete", "pdb", "all", "-n", "limits")
        until("1 pod", lambda: self.replicas("limits") == 1)

    def test_a_withdrawn_right_is_named_once_and_the_planner_recovers(self):
        name = "withdrawn"
        gateway, planner = self.begin(name, 1)
        self.reaches(planner, gateway, 2)
        self.reaches(planner, gateway, 1)
        rules = [{**rule, "verbs": ["get"]} if "deployments/scale" in rule["resources"] else rule for rule in ROLE]
        self.apply(name, role(rules))
        self.until_allowed(name, "no")
        planner.target(2)
        words = f'patch deployments/scale "engines" in namespace "{name}": Forbidden (403)'
        line = 'add to the Role: {apiGroups: ["apps"], resources: ["deployments/scale"], verbs: ["patch"]}'

        def named():
            return [event["message"] for event in planner.events("actuation_warning") if words in event["message"]]

        until("the missing right", named)
        self.assertIn(line, named()[0])
        self.until_one_event(name, "ScalingFailed", named()[0])
        # It is tried again every two seconds.
        time.sleep(5)
        self.assertEqual(len(named()), 1)
        self.assertEqual(self.replicas(name), 1)
        self.apply(name, role(ROLE))
        until("2 pods", lambda: self.phases(gateway) == ["serving"] * 2)
        self.assertEqual(len(named()), 1)
        self.assertEqual(planner.held("manual"), [])

    def until_allowed(self, name, answer):
        """The authorizer follows Roles by a watch."""
        until("the authorizer", lambda: self.cluster.kubectl(
            "auth", "can-i", "patch", "deployments/engines", "--subresource=scale", "-n", name, "--as", "autoscaler",
            check=False).strip() == answer)

    def until_one_event(self, name, reason, message):
        """Kubernetes shows the message as one Event, whose count may grow. Notes end after 1 KiB."""
        until("the Event", lambda: [note for note, _ in self.noted(name, reason) if note[:200] == message[:200]])
        self.assertEqual(len([note for note, _ in self.noted(name, reason) if note[:200] == message[:200]]), 1)

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

    def test_replicas_whose_pods_a_quota_refuses_are_not_added_to_and_go_first(self):
        gateway, planner = self.begin("quota", 1)
        until("the scale", lambda: planner.events("data_known"))
        self.cluster.kubectl("create", "quota", "few", "-n", "quota", "--hard=pods=1")
        until("the quota", lambda: self.cluster.get("quota", "few", "-n", "quota").get("status", {}).get("used"))
        planner.target(3)
        held = until("a hold", lambda: planner.held("blocked"))
        self.assertEqual(held[0]["by"], "replicas without a pod")
        self.until_one_event("quota", "ScalingHeld", held[0]["message"])
        planner.target(5)
        time.sleep(3)
        self.assertEqual(self.replicas("quota"), 3)
        planner.target(1)
        until("1 asked for", lambda: self.replicas("quota") == 1)
        self.assertEqual(self.phases(gateway), ["serving"])


if __name__ == "__main__":
    main()
