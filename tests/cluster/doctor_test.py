#!/usr/bin/env python3
"""`penstock doctor` on a real API server: what is there, what is missing, what cannot be used, and that nothing changes."""

import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "live"))

from cluster_testing import Cluster, folder_of_programs, main  # noqa: E402
from live_testing import PROGRAM, until  # noqa: E402

ACCOUNT = "penstock-planner"


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True)


class Doctor(unittest.TestCase):
    """Each test has a namespace with a Deployment, and the account of a planner with the Role of its manifests."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.close)
        cls.folder = tempfile.mkdtemp(dir=cls.cluster.run)

    def setUp(self):
        self.name = self.cluster.namespace(self, "doctor-" + self._testMethodName.removeprefix("test_").replace("_", "-")[:50].strip("-"))
        self.configuration = {"pools": [{"name": "chat", "kubernetes": "deployment/chat", "max_replicas": 4}],
                              "gateway": {"kubernetes": {"selector": "app=chat", "namespace": self.name}}}
        pod = {"metadata": {"labels": {"app": "chat"}},
               "spec": {"containers": [{"name": "engine", "image": "engine"}], "tolerations": [{"operator": "Exists"}],
                        "nodeSelector": {"type": "kwok"}}}
        self.cluster.kubectl("apply", "--server-side", "-n", self.name, "-f", "-", given={
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "chat"}}, "template": pod}})
        until("two ready pods", lambda: self.cluster.get("deployment", "chat", "-n", self.name)["status"].get("readyReplicas") == 2)
        self.apply_manifests()
        self.admin = json.loads(self.cluster.kubectl("config", "view", "--raw", "-o", "json"))
        self.token = self.cluster.kubectl("create", "token", ACCOUNT, "-n", self.name).strip()

    def apply_manifests(self, *flags, without=("kind: Deployment\n",)):
        """Without the planner itself, which would change objects while a test compares them."""
        manifests = subprocess.run([PROGRAM, "manifests", "planner", self.file(self.configuration), "--namespace", self.name, *flags],
                                   capture_output=True, text=True, check=True).stdout
        parts = [part for part in manifests.split("\n---\n") if not any(f"\n{kind}" in part for kind in without)]
        subprocess.run([folder_of_programs() / "kubectl", "--kubeconfig", self.cluster.kubeconfig, "apply", "--server-side", "-f", "-"],
                       input="\n---\n".join(parts), capture_output=True, text=True, check=True)

    @classmethod
    def file(cls, content, suffix=".yaml"):
        with tempfile.NamedTemporaryFile("w", suffix=suffix, dir=cls.folder, delete=False, encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return file.name

    def kubeconfig(self, user=None, **cluster):
        """Of the service account, or of another user."""
        return self.file({"apiVersion": "v1", "kind": "Config", "current-context": "a",
                          "clusters": [{"name": "c", "cluster": {**self.admin["clusters"][0]["cluster"], **cluster}}],
                          "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u", "namespace": self.name}}],
                          "users": [{"name": "u", "user": user or {"token": self.token}}]})

    def run_doctor(self, configuration, kubeconfig, *flags):
        return subprocess.run([PROGRAM, "doctor", self.file(configuration or self.configuration), "--program", "planner",
                               "--kubeconfig", kubeconfig or self.kubeconfig(), *flags],
                              capture_output=True, text=True, timeout=120, check=False,
                              env={key: value for key, value in os.environ.items() if key != "KUBECONFIG"} | {"HOME": self.folder})

    def code_of(self, *flags):
        return self.run_doctor(None, None, *flags).returncode

    def doctor(self, code, configuration=None, kubeconfig=None, *flags):
        done = self.run_doctor(configuration, kubeconfig, *flags)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code < 2 else done.stderr

    def with_pool(self, **pool):
        return {**self.configuration, "pools": [{**self.configuration["pools"][0], **pool}]}

    def versions(self):
        items = self.cluster.get("deployments,pods,replicasets,roles,rolebindings,serviceaccounts,horizontalpodautoscalers,"
                                 "poddisruptionbudgets,configmaps,services,leases", "-n", self.name)["items"]
        return {f'{each["kind"]}/{each["metadata"]["name"]}': each["metadata"]["resourceVersion"] for each in items}

    def test_a_sufficient_role_and_nothing_changes(self):
        before = self.versions()
        table = self.doctor(0)
        self.assertRegex(table, r'(?m)^target deployments\.apps "chat" in namespace ".*" +ok +2 replicas$')
        self.assertRegex(table, r'(?m)^dry run of scaling deployments\.apps "chat" in namespace ".*" +ok$')
        self.assertRegex(table, r'(?m)^pods of the selector app=chat .* ok +2 pods$')
        self.assertEqual(table.count("pods of the selector"), 1, "the selector of the gateway and of the target is the same")
        self.assertNotIn("missing", table)
        self.doctor(0, None, self.kubeconfig(self.admin["users"][0]["user"]), "--account", ACCOUNT)
        self.assertEqual(self.versions(), before)

    def test_a_missing_verb_has_the_line_that_grants_it(self):
        role = self.cluster.get("role", ACCOUNT, "-n", self.name)
        kept = json.loads(json.dumps(role["rules"]))
        rules = [rule for rule in kept if rule["resources"] != ["deployments/scale"]]
        patch = lambda rules: self.cluster.kubectl("patch", "role", ACCOUNT, "-n", self.name, "--type", "merge", "-p", json.dumps({"rules": rules}))  # noqa: E731
        patch([*rules, {"apiGroups": ["apps"], "resources": ["deployments/scale"], "resourceNames": ["chat"], "verbs": ["get"]}])
        try:
            line = r'\{apiGroups: \["apps"\], resources: \["deployments/scale"\], resourceNames: \["chat"\], verbs: \["get", "patch"\]\}'

            until("a missing permission", lambda: self.code_of() == 1)  # The authorizer follows Roles by a watch.
            table = self.doctor(1)
            self.assertRegex(table, r'(?m)^patch deployments/scale "chat" in namespace ".*" +missing +add to the Role: ' + line)
            self.assertRegex(table, r'(?m)^get deployments/scale "chat" in namespace ".*" +ok$')
            self.assertNotIn("dry run", table)
        finally:
            patch(kept)
        until("the permission", lambda: self.code_of() == 0)

    def test_targets_that_are_none(self):
        admin = self.kubeconfig(self.admin["users"][0]["user"])
        self.cluster.kubectl("apply", "-n", self.name, "-f", "-", given={
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "chat"}, "spec": {
                "selector": {"matchLabels": {"app": "none"}}, "template": {
                    "metadata": {"labels": {"app": "none"}}, "spec": {"nodeSelector": {"type": "none"}, "containers": [
                        {"name": "engine", "image": "engine"}]}}}})
        for target, says, hint in (
                ("deployment/none", 'deployments.apps "none"', "it does not exist; create it, or correct pools[].kubernetes"),
                ("example.org/v1/engines/chat", 'engines.example.org "chat"',
                 "the cluster does not serve engines.example.org v1; install its definition (CRD), or name another version"),
                ("apps/v1/daemonsets/chat", 'daemonsets.apps "chat"', "daemonsets.apps have no /scale; name an object that has it")):
            table = self.doctor(1, self.with_pool(kubernetes=target), admin)
            line = next(line for line in table.splitlines() if line.startswith("target "))
            self.assertIn(says, line)
            self.assertRegex(line, r" missing ")
            self.assertIn(hint, line)

    def test_a_selector_that_matches_nothing(self):
        configuration = {**self.configuration, "gateway": {"kubernetes": {"selector": "app=other", "namespace": self.name}}}
        self.assertRegex(self.doctor(1, configuration), r"(?m)^pods of the selector app=other .* missing +no pod has these labels")

    def test_an_hpa_on_the_same_target(self):
        self.cluster.kubectl("autoscale", "deployment", "chat", "--min", "1", "--max", "3", "--cpu", "50%", "-n", self.name, "--name", "rival")
        try:
            self.assertRegex(self.doctor(1), r'(?m)^no other autoscaler of deployments\.apps "chat" +missing +HorizontalPodAutoscaler "rival" '
                             "has the same target; remove it, or run the planner with --mode observe")
        finally:
            self.cluster.kubectl("delete", "hpa", "rival", "-n", self.name)

    def test_a_planner_needs_its_lease_and_its_state(self):
        # The Role names the objects of its planner.
        table = self.doctor(1, None, None, "--leader-election", f"{self.name}/other", "--state-config-map", f"{self.name}/other-state")
        self.assertRegex(table, r'(?m)^update leases "other" in namespace ".*" +missing +add to the Role: ')
        self.assertRegex(table, r'(?m)^patch configmaps "other-state" in namespace ".*" +missing +add to the Role: ')
        table = self.doctor(0, None, None, "--leader-election", f"{self.name}/{ACCOUNT}", "--state-config-map", f"{self.name}/{ACCOUNT}-state")
        self.assertRegex(table, rf'(?m)^update leases "{ACCOUNT}" in namespace ".*" +ok$')
        self.assertRegex(table, rf'(?m)^patch configmaps "{ACCOUNT}-state" in namespace ".*" +ok$')

    def test_an_hpa_that_follows_the_planner(self):
        admin = self.kubeconfig(self.admin["users"][0]["user"])
        flags = ("--namespace", self.name, "--account", ACCOUNT, "--autoscaler", "hpa")
        table = self.doctor(1, None, admin, *flags)
        self.assertRegex(table, r"(?m)^create subjectaccessreviews of the cluster +missing +add to the ClusterRole: .* bind the ClusterRole "
                         r"system:auth-delegator")
        self.assertRegex(table, r'(?m)^get configmaps "extension-apiserver-authentication" in namespace "kube-system" +missing ')
        row = r'(?m)^HorizontalPodAutoscaler of Deployment "chat" in namespace ".*" +'
        self.assertRegex(table, row + "missing +apply the one that `penstock manifests planner --autoscaler hpa` writes$")
        ca = self.file("-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n", ".pem")
        # The APIService is one for the cluster, and others' tests have it.
        self.apply_manifests("--autoscaler", "hpa", "--ca", ca, without=("kind: Deployment\n", "kind: APIService"))
        self.addCleanup(self.cluster.kubectl, "delete", "rolebinding", "-n", "kube-system", f"{self.name}-{ACCOUNT}", check=False)
        self.addCleanup(self.cluster.kubectl, "delete", "clusterrolebinding", f"{self.name}-{ACCOUNT}-auth-delegator", check=False)
        until("the permissions", lambda: " missing  add to" not in self.run_doctor(None, admin, *flags).stdout)
        table = self.doctor(1, None, admin, *flags)
        self.assertRegex(table, row + r"(ok|missing  ScalingActive is False: )")
        self.assertNotIn("no other autoscaler", table)

    def certificate(self, subject, ca=None, key=None, days="1"):
        """A certificate and its key as text: signed by itself, or by a CA."""
        path = tempfile.mkdtemp(dir=self.folder)
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path + "/key", "-out", path + "/request",
                "-subj", subject)
        signer = ["-CA", ca, "-CAkey", key, "-CAcreateserial", "-CAserial", path + "/serial"] if ca else ["-signkey", path + "/key"]
        openssl("x509", "-req", "-in", path + "/request", "-out", path + "/certificate", "-days", days, *signer)
        return [base64.b64encode(pathlib.Path(path, name).read_bytes()).decode() for name in ("certificate", "key")]

    def test_credentials_that_do_not_work(self):
        foreign, key = self.certificate("/CN=stranger")
        # A foreign client certificate is refused by the API server, a foreign authority by this program.
        table = self.doctor(1, None, self.kubeconfig({"client-certificate-data": foreign, "client-key-data": key}))
        self.assertRegex(table, r"(?m)^API server https://\S+ +missing ")
        foreign_ca, _ = self.certificate("/CN=other authority")
        table = self.doctor(1, None, self.kubeconfig(**{"certificate-authority-data": foreign_ca}))
        self.assertRegex(table, r"(?m)^API server https://\S+ +missing .*certificate")
        table = self.doctor(1, None, self.kubeconfig({"token": "not-a-token"}))
        self.assertRegex(table, r"(?m)^API server https://\S+ +missing .*Unauthorized")
        run = pathlib.Path(self.cluster.run)
        authority, authority_key = next(run.rglob("ca.crt")), next(run.rglob("ca.key"))
        expired, key = self.certificate("/O=system:masters/CN=late", str(authority), str(authority_key), days="-1")
        table = self.doctor(1, None, self.kubeconfig({"client-certificate-data": expired, "client-key-data": key}))
        self.assertRegex(table, r"(?m)^client certificate +missing +has expired on ")
        # An authority of the same cluster with the wrong server.
        table = self.doctor(1, None, self.kubeconfig(server="https://127.0.0.1:1"))
        self.assertRegex(table, r"(?m)^API server https://127\.0\.0\.1:1 +missing .*no connection: Connection refused")

    def test_what_cannot_be_used_is_one_line_and_exit_code_2(self):
        plugin = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "interactiveMode": "Never"}}
        for kubeconfig, says in ((self.file("clusters: ["), "is not valid YAML"), (self.folder + "/none", "none"),
                                 (self.kubeconfig(plugin), "exec"),
                                 (self.file({"clusters": [], "contexts": [], "users": []}), "context"),
                                 (self.kubeconfig({"client-certificate-data": "MA==", "client-key-data": "MA=="}), "ertificate")):
            error = self.doctor(2, None, kubeconfig)
            self.assertIn(says, error)
            self.assertEqual(len(error.strip().splitlines()), 1, error)
        two = {"pools": [{"name": "a", "role": "prefill", "kubernetes": "deployment/chat"},
                         {"name": "b", "role": "decode", "kubernetes": "apps/v1/deployments/chat"}]}
        self.assertIn("two pools have the target", self.doctor(2, two))

    def test_a_label_value_that_an_hpa_refuses(self):
        configuration = self.with_pool(name="chat/large")
        table = self.doctor(1, configuration)
        self.assertRegex(table, r'(?m)^pool "chat/large" as the label of a HorizontalPodAutoscaler +missing +it is not a label value')
        ca = self.file("-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n", ".pem")
        done = subprocess.run([PROGRAM, "manifests", "planner", self.file(configuration), "--autoscaler", "hpa", "--ca", ca],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("use at most 63 letters, digits", done.stderr)


if __name__ == "__main__":
    main()
