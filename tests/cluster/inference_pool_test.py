#!/usr/bin/env python3
"""`penstock gateway` follows an InferencePool. Exit code 77: there is no testbed."""

from cluster_testing import alone, main
from live_testing import Gateway, Stream, config_file, until
from pods_testing import PodsThatServe, engine_pod, owner_of

GROUP, OLD_GROUP = "inference.networking.k8s.io", "inference.networking.x-k8s.io"


def definition(group, version):
    """A CustomResourceDefinition that keeps every field."""
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {
        "name": f"inferencepools.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, test-only"}},
        "spec": {"group": group, "scope": "Namespaced", "names": {
            "kind": "InferencePool", "plural": "inferencepools", "singular": "inferencepool", "listKind": "InferencePoolList"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}


def pool(app, *ports):
    return {"apiVersion": GROUP + "/v1", "kind": "InferencePool", "metadata": {"name": "chat"}, "spec": {
        "selector": {"matchLabels": {"app": app}}, "targetPorts": [{"number": port} for port in ports],
        "endpointPickerRef": {"name": "epp", "port": {"number": 9002}}}}


class PodsOfAnInferencePool(PodsThatServe):
    group = GROUP

    def kubernetes(self, name, kubeconfig):
        return {"inference_pool": "chat", "inference_pool_group": self.group, "namespace": name, "kubeconfig": kubeconfig}

    def define(self, group, version):
        self.cluster.kubectl("apply", "-f", "-", given=definition(group, version))
        self.addCleanup(self.cluster.kubectl, "delete", "customresourcedefinition", f"inferencepools.{group}")
        self.cluster.kubectl("wait", "--for=condition=Established", f"customresourcedefinition/inferencepools.{group}")

    def allowed(self, name):
        """A gateway that may only do what `penstock doctor` names for it."""
        self.apply(name, {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "picker"}, "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
            {"apiGroups": [self.group], "resources": ["inferencepools"], "resourceNames": ["chat"], "verbs": ["list", "watch"]}]})
        return self.cluster.account(name, "picker", role="picker")

    def start_gateway(self, name):
        kubeconfig = self.allowed(name)
        return Gateway(self, "--config", config_file(self, gateway={
            "anonymous": True, "health_interval": "500ms", "kubernetes": self.kubernetes(name, kubeconfig)}))

    def ids(self, gateway):
        return sorted(replica["id"] for replica in gateway.overview()["replicas"] if replica["phase"] == "serving")

    def pods(self, name, app):
        return sorted(pod["metadata"]["name"] for pod in self.cluster.get("pods", "-n", name, "-l", f"app={app}")["items"])

    @alone
    def test_the_pool_is_waited_for_and_its_changes_take_effect(self):
        name = self.cluster.namespace(self, "pool")
        for app in ("engines", "others"):
            self.apply(name, owner_of(engine_pod(app, grace_s=60), 2))
        gateway = self.start_gateway(name)
        until("the missing definition", lambda: "install the definitions of the Gateway API Inference Extension" in gateway.log())
        self.define(GROUP, "v1")
        until("the missing pool", lambda: "there is no InferencePool" in gateway.log())
        self.apply(name, pool("engines", 8000))
        until("pods of the pool", lambda: len(self.ids(gateway)) == 2 and self.ids(gateway) == self.pods(name, "engines"))
        stream = Stream(gateway.port, 300)
        until("tokens", lambda: stream.tokens() > 5)
        self.apply(name, pool("others", 8000))
        until("pods of the other selector", lambda: self.ids(gateway) == self.pods(name, "others"))
        self.assertTrue(stream.join().whole(300), stream.text[-300:])
        self.apply(name, pool("others", 8000, 8001))
        pods = self.pods(name, "others")
        # No engine listens at the second port.
        until("the second port", lambda: all(f"replica_added replica={pod}:8001" in gateway.log() for pod in pods))
        until("the first port", lambda: self.ids(gateway) == [f"{pod}:8000" for pod in pods])
        self.cluster.kubectl("delete", f"inferencepools.{GROUP}", "chat", "-n", name)
        until("no replica", lambda: gateway.overview()["replicas"] == [])

    @alone
    def test_a_pool_of_the_former_group_is_read(self):
        self.group = OLD_GROUP
        self.define(OLD_GROUP, "v1alpha2")
        name = self.cluster.namespace(self, "formerpool")
        self.apply(name, owner_of(engine_pod(grace_s=60), 1))
        self.apply(name, {"apiVersion": OLD_GROUP + "/v1alpha2", "kind": "InferencePool", "metadata": {"name": "chat"},
                          "spec": {"selector": {"app": "engines"}, "targetPortNumber": 8000, "extensionRef": {"name": "epp"}}})
        gateway = self.start_gateway(name)
        until("the pod of the pool", lambda: len(self.ids(gateway)) == 1 and self.ids(gateway) == self.pods(name, "engines"))


if __name__ == "__main__":
    main()
