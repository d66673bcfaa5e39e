#!/usr/bin/env python3
"""`penstock gateway` follows the EndpointSlices of a Service. Exit code 77: there is no testbed."""

import sys

from cluster_testing import main
from live_testing import until
from pods_testing import Clients, Planner, PodsThatServe, engine_pod, owner_of

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "engines"}, "spec": {
    "selector": {"app": "engines"}, "ports": [{"name": "metrics", "port": 9090, "targetPort": 9090},
                                              {"name": "http", "port": 80, "targetPort": "http"}]}}


class EndpointsOfAService(PodsThatServe):
    with_selector = False

    def kubernetes(self, name, kubeconfig):
        followed = super().kubernetes(name, kubeconfig)
        if not self.with_selector:
            del followed["selector"], followed["port"]
        return {**followed, "service": "engines", "port_name": "http"}

    def start(self, name, replicas, kind="Deployment", **shape):
        self.cluster.namespace(self, name)
        self.apply(name, SERVICE)
        self.apply(name, owner_of(engine_pod(**shape), replicas, kind))
        gateway = self.gateway(name)
        until(f"{replicas} endpoints", lambda: self.phases(gateway) == ["serving"] * replicas)
        return gateway

    def test_no_stream_is_cut_while_endpoints_come_go_and_restart(self):
        gateway = self.start("endpoints", 2, grace_s=60, pre_stop_s=1)
        slices = self.cluster.get("endpointslices", "-n", "endpoints")["items"]
        self.assertEqual({port["name"] for slice in slices for port in slice["ports"]}, {"http", "metrics"})
        pods = {pod["metadata"]["name"] for pod in self.cluster.get("pods", "-n", "endpoints")["items"]}
        self.assertEqual({replica["id"] for replica in gateway.overview()["replicas"]}, pods)
        clients = Clients(gateway.port, 6)
        until("first streams", lambda: len(clients.streams) > 6)
        for replicas in (4, 1, 2):
            self.scale("endpoints", replicas, gateway)
        before = {replica["id"] for replica in gateway.overview()["replicas"]}
        self.cluster.kubectl("rollout", "restart", "deployment", "engines", "-n", "endpoints")
        until("new pods", lambda: len(gateway.overview()["replicas"]) == 2 and
              not before & {replica["id"] for replica in gateway.overview()["replicas"]})
        broken = clients.end()
        print(f"{len(clients.streams)} streams to endpoints, {len(broken)} broken", file=sys.stderr)
        self.assertEqual(broken, [])

    def test_a_terminating_endpoint_drains_and_one_that_is_not_ready_warms_up(self):
        gateway = self.start("phases", 2, grace_s=60, pre_stop_s=5)
        seen = set()
        self.cluster.kubectl("scale", "deployment", "engines", "-n", "phases", "--replicas=1")
        until("one endpoint", lambda: seen.update(self.phases(gateway)) or self.phases(gateway) == ["serving"])
        self.assertIn("draining", seen)
        # Endpoints that stay not ready until the test has seen them.
        late = owner_of(engine_pod(grace_s=60, pre_stop_s=5), 2)
        probe = late["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
        path, probe["httpGet"]["path"] = probe["httpGet"]["path"], "/no-such-page"
        self.apply("phases", late)
        until("a pod that is not ready", lambda: "warming" in self.phases(gateway))
        self.assertIn("serving", self.phases(gateway))
        probe["httpGet"]["path"] = path
        self.apply("phases", late)
        until("two endpoints", lambda: self.phases(gateway) == ["serving"] * 2)

    def test_a_planner_drains_endpoints_that_a_selector_marks(self):
        self.with_selector = True
        gateway = self.start("marked", 3)
        self.allow("marked")
        planner = Planner(self, "marked", gateway, 3)
        clients = Clients(gateway.port, 6)
        until("first streams", lambda: len(clients.streams) > 6)
        self.reaches(planner, gateway, 1)
        broken = clients.end()
        self.assertEqual(broken, [])

    def test_a_service_without_endpoints_is_named(self):
        name = self.cluster.namespace(self, "nothing")
        gateway = self.gateway(name)
        until("the message", lambda: 'the Service "engines" in the namespace "nothing" has no endpoints' in gateway.log().replace("\\", ""))
        self.apply(name, {**SERVICE, "spec": {**SERVICE["spec"], "ports": [{"name": "grpc", "port": 80, "targetPort": "http"}]}})
        self.apply(name, owner_of(engine_pod(), 1))
        until("the other message", lambda: 'has no port "http"; it has grpc (8000)' in gateway.log().replace("\\", ""))


if __name__ == "__main__":
    main()
