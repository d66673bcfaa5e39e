#!/usr/bin/env python3
"""The client of Kubernetes' API against a real API server; see cluster_testing.py.

PENSTOCK_KUBERNETES_CLIENT names the program kubernetes_client. Exit code 77: there is no testbed."""

import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from cluster_testing import Cluster, alone, main

CLIENT = os.environ.get("PENSTOCK_KUBERNETES_CLIENT", "build/quick/tests/kubernetes_client")

DEPLOYMENT = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "decode"},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "decode"}},
             "template": {"metadata": {"labels": {"app": "decode"}},
                          "spec": {"containers": [{"name": "engine", "image": "local"}]}}}}


class Client:
    """kubernetes_client with what it writes."""

    def __init__(self, test, kubeconfig, namespace, bookmark_s=60, watch_s=300):
        self.process = subprocess.Popen([CLIENT, kubeconfig, namespace, str(bookmark_s), str(watch_s)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self.lines = queue.Queue()
        self.documents = []
        threading.Thread(target=self.read, daemon=True).start()
        test.addCleanup(self.close)

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()

    def until(self, holds, limit_s=60):
        """Returns the first new document for which it holds."""
        deadline = time.monotonic() + limit_s
        while True:
            try:
                document = self.lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"nothing like that within {limit_s} s; last: {self.documents[-3:]}") from None
            self.documents.append(document)
            if holds(document):
                return document

    def state(self, holds, limit_s=60):
        return self.until(lambda document: document["event"] == "state" and holds(document), limit_s)

    def command(self, text):
        self.process.stdin.write(text + "\n")
        return self.until(lambda document: document["event"] in ("scale", "refused"))


def ready(count):
    return lambda state: len(state["pods"]) == count and set(state["pods"].values()) <= {"Ready"}


class RealApiServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    def namespace(self, name, *deployments):
        self.cluster.namespace(self, name)
        for deployment in deployments:
            self.cluster.kubectl("apply", "-n", name, "-f", "-", given=deployment)
        return name

    def test_follows_pods_and_scales_with_the_version_that_was_read(self):
        name = self.namespace("scaling", DEPLOYMENT)
        client = Client(self, self.cluster.kubeconfig, name)
        self.assertEqual(client.state(ready(2))["lists"], 1)
        # The Deployment's controller may still write its status, and each write is a new version.
        for _ in range(20):
            before = client.command("get decode")
            self.assertEqual((before["replicas"], before["selector"]), (2, "app=decode"))
            after = client.command(f"scale decode 5 {before['version']}")
            if after["event"] == "scale":
                break
            self.assertEqual(after["reason"], "conflict", after)
        self.assertEqual(after["replicas"], 5)
        self.assertNotEqual(after["version"], before["version"])
        client.state(ready(5))

        refused = client.command(f"scale decode 9 {before['version']}")
        self.assertEqual(refused["reason"], "conflict")
        self.assertIn('patch deployments/scale "decode" in namespace "scaling": Conflict (409)', refused["message"])
        self.assertEqual(client.command("get decode")["replicas"], 5)
        managed = self.cluster.get("deployment", "decode", "-n", name, "--show-managed-fields")["metadata"]["managedFields"]
        self.assertIn(("penstock", "scale"), [(entry["manager"], entry.get("subresource")) for entry in managed])

        client.command("scale decode 0")
        state = client.state(ready(0))
        self.assertEqual((state["lists"], state["failures"]), (1, 0))
        self.assertIn("not found", client.command("get missing")["reason"])

    def test_bookmarks_come_before_a_watch_ends_and_the_next_one_continues(self):
        name = self.namespace("quiet", DEPLOYMENT)
        client = Client(self, self.cluster.kubeconfig, name, bookmark_s=60, watch_s=6)
        client.state(ready(2))
        state = client.state(lambda state: True, 1) if not client.lines.empty() else None
        deadline = time.monotonic() + 60
        while state is None or state["watches"] < 4:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.5)
            client.process.stdin.write("state\n")
            state = client.state(lambda state: True)
        self.assertGreaterEqual(state["bookmarks"], 1)
        self.assertEqual((state["lists"], state["failures"], state["is_stale"]), (1, 0, False))

    def test_without_rights_it_names_them_and_with_them_it_works(self):
        name = self.namespace("rights", DEPLOYMENT)
        client = Client(self, os.path.join(self.cluster.run, "kubeconfig-autoscaler"), name)
        failure = client.until(lambda document: document["event"] == "failure")
        self.assertEqual(failure["reason"], "forbidden")
        self.assertIn('list pods in namespace "rights": Forbidden (403)', failure["message"])
        self.assertIn('add to the Role: {apiGroups: [""], resources: ["pods"], verbs: ["list"]}', failure["message"])
        refused = client.command("get decode")
        self.assertIn('add to the Role: {apiGroups: ["apps"], resources: ["deployments/scale"], verbs: ["get"]}', refused["message"])
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "penstock"}, "rules": [
            {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]}
        self.cluster.kubectl("apply", "-n", name, "-f", "-", given=role)
        self.cluster.kubectl("create", "rolebinding", "penstock", "-n", name, "--role=penstock", "--user=autoscaler")
        client.state(ready(2))
        self.assertEqual(client.command("scale decode 3")["replicas"], 3)
        client.state(ready(3))
        # A right that is withdrawn shows with the next request.
        self.cluster.kubectl("delete", "rolebinding", "penstock", "-n", name)
        deadline = time.monotonic() + 60
        while client.command("scale decode 4")["event"] != "refused":
            self.assertLess(time.monotonic(), deadline)

    def test_signs_in_by_client_certificate(self):
        name = self.namespace("certificate", DEPLOYMENT)
        client = Client(self, os.path.join(self.cluster.run, "kubeconfig-cert"), name)
        client.state(ready(2))

    def test_a_token_is_read_again_when_its_file_changes(self):
        name = self.namespace("rotation", DEPLOYMENT)
        with tempfile.TemporaryDirectory() as folder:
            token = pathlib.Path(self.cluster.run, "token").read_text(encoding="ascii")
            rotated = pathlib.Path(folder, "token")
            rotated.write_text("expired\n", encoding="ascii")
            text = pathlib.Path(self.cluster.kubeconfig).read_text(encoding="utf-8")
            config = pathlib.Path(folder, "config")
            config.write_text(text.replace(f"token: {token.strip()}", "tokenFile: token"), encoding="utf-8")
            client = Client(self, str(config), name)
            failure = client.until(lambda document: document["event"] == "failure")
            self.assertEqual(failure["reason"], "unauthorized")
            rotated.write_text(token, encoding="ascii")
            client.state(ready(2))
            self.assertEqual(client.command("get decode")["replicas"], 2)

    @alone
    def test_an_api_server_that_was_killed_is_followed_again_and_nothing_was_forgotten(self):
        name = self.namespace("killed", DEPLOYMENT)
        client = Client(self, self.cluster.kubeconfig, name)
        client.state(ready(2))
        known = len(client.documents)
        self.cluster.take_away(self, "kube-apiserver")
        failure = client.until(lambda document: document["event"] == "failure")
        self.assertEqual(failure["reason"], "unreachable")
        self.assertEqual(client.command("scale decode 4")["reason"], "unreachable")
        time.sleep(5)
        self.cluster.give_back("kube-apiserver")
        began = time.monotonic()
        self.assertEqual(client.command("scale decode 3")["replicas"], 3)
        state = client.state(lambda state: len(state["pods"]) == 3)
        took = time.monotonic() - began
        print(f"followed again {took:.1f} s after the API server was ready, with {state['lists']} lists", file=sys.stderr)
        self.assertLess(took, 15)
        for document in client.documents[known:]:
            if document["event"] == "state":
                self.assertIn(len(document["pods"]), (2, 3))
        client.state(ready(3))

    def test_lists_500_pods_in_pages(self):
        large = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 500}}
        name = self.namespace("large", large)
        watching = Client(self, self.cluster.kubeconfig, name)
        watching.state(ready(500), 300)
        began = time.monotonic()
        client = Client(self, self.cluster.kubeconfig, name)
        client.state(ready(500))
        took = time.monotonic() - began
        print(f"500 pods listed {took:.2f} s after the start of the client", file=sys.stderr)
        self.assertLess(took, 20)


if __name__ == "__main__":
    main()
