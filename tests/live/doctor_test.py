#!/usr/bin/env python3
"""`penstock doctor` with a scripted API server: what is there, what is missing, and what it must never do."""

import base64
import http.server
import json
import os
import subprocess
import tempfile
import threading
import time
import unittest

from live_testing import PROGRAM


class ApiServer:
    """Answers access reviews and lists of pods over plain HTTP, which needs no credentials."""

    def __init__(self, test, allowed=(), pods=(), status=200, documents=(),
                 patch=(403, {"kind": "Status", "reason": "Forbidden", "code": 403})):
        self.requests = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.requests.append(("GET", self.path))
                if self.path in documents:
                    return self.answer(200, documents[self.path])
                if self.path.endswith("/scale"):
                    return self.answer(404, {"kind": "Status", "reason": "NotFound", "code": 404, "message": "not found"})
                self.answer(status, {"kind": "PodList", "metadata": {}, "items": [{"metadata": {"name": name}} for name in pods]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append(("POST", self.path, body))
                if status != 200:
                    return self.answer(status, {"kind": "Status", "status": "Failure", "reason": "Unauthorized", "code": status})
                asked = body["spec"]["resourceAttributes"]
                self.answer(201, {**body, "status": {"allowed": (asked["verb"], asked["resource"]) in allowed}})

            def do_PATCH(self):
                outer.requests.append(("PATCH", self.path))
                self.rfile.read(int(self.headers["Content-Length"]))
                self.answer(*patch)

            def answer(self, code, document):
                text = json.dumps(document).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        test.addCleanup(self.server.server_close)
        test.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


class Doctor(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="penstock-doctor-")

    def file(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def kubeconfig(self, server, user=None):
        return self.file("kubeconfig", {
            "current-context": "a", "clusters": [{"name": "c", "cluster": {"server": server}}],
            "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u", "namespace": "llm"}}],
            "users": [{"name": "u", "user": user or {}}]})

    def doctor(self, *flags, code, configuration=None):
        path = self.file("p.yaml", configuration if configuration is not None else {"gateway": {"kubernetes": {"selector": "app=vllm"}}})
        done = subprocess.run([PROGRAM, "doctor", path, *flags], capture_output=True, text=True, timeout=60, check=False,
                              env={key: value for key, value in os.environ.items() if key != "KUBECONFIG"} | {"HOME": self.folder})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_nothing_is_missing(self):
        api = ApiServer(self, [("list", "pods"), ("watch", "pods")], ["a", "b"])
        table = self.doctor("--kubeconfig", self.kubeconfig(api.url), code=0).stdout
        self.assertRegex(table, r'(?m)^API server http://127\.0\.0\.1:\d+ +ok +namespace llm$')
        self.assertRegex(table, r'(?m)^watch pods in namespace "llm" +ok$')
        self.assertRegex(table, r'(?m)^pods of the selector app=vllm in namespace "llm" +ok +2 pods$')

    def test_a_missing_verb_is_shown_with_the_line_of_the_role(self):
        api = ApiServer(self, [("list", "pods")], ["a"])
        table = self.doctor("--kubeconfig", self.kubeconfig(api.url), code=1).stdout
        self.assertRegex(table, r'(?m)^watch pods in namespace "llm" +missing  add to the Role: '
                         r'\{apiGroups: \[""\], resources: \["pods"\], verbs: \["list", "watch"\]\}')
        self.assertRegex(table, r'(?m)^list pods in namespace "llm" +ok$')

    def test_it_only_reads_and_asks(self):
        api = ApiServer(self)
        self.doctor("--kubeconfig", self.kubeconfig(api.url), code=1)
        for request in api.requests:
            self.assertTrue(request[0] == "GET" or request[1].endswith("/selfsubjectaccessreviews"), request)

    def test_another_account_is_asked_for_by_its_name(self):
        api = ApiServer(self, [("list", "pods"), ("watch", "pods")], ["a"])
        self.doctor("--kubeconfig", self.kubeconfig(api.url), "--account", "penstock-gateway", code=0)
        reviews = [request for request in api.requests if request[0] == "POST"]
        self.assertEqual({request[1] for request in reviews}, {"/apis/authorization.k8s.io/v1/subjectaccessreviews"})
        self.assertEqual({request[2]["spec"]["user"] for request in reviews}, {"system:serviceaccount:llm:penstock-gateway"})

    def test_a_selector_that_matches_nothing(self):
        api = ApiServer(self, [("list", "pods"), ("watch", "pods")])
        self.assertRegex(self.doctor("--kubeconfig", self.kubeconfig(api.url), code=1).stdout,
                         r"(?m)^pods of the selector app=vllm .* missing  no pod has these labels")

    def test_targets_and_who_else_scales_them(self):
        apps, scaling = "/apis/apps/v1/namespaces/llm/deployments", "/apis/autoscaling/v2/namespaces/llm/horizontalpodautoscalers"
        scale = {"kind": "Scale", "metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"replicas": 2},
                 "status": {"replicas": 2, "selector": "app=a"}}
        other = {"metadata": {"name": "hand"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}}
        pools = {"pools": [{"name": "a", "role": "prefill", "kubernetes": "deployment/a"},
                           {"name": "b", "role": "decode", "kubernetes": "deployment/b"}]}
        api = ApiServer(self, pods=["a-1"], documents={f"{apps}/a/scale": scale, scaling: {"kind": "List", "items": [other]}})
        table = self.doctor("--kubeconfig", self.kubeconfig(api.url), code=1, configuration=pools).stdout
        self.assertRegex(table, r'(?m)^target deployments\.apps "a" in namespace "llm" +ok +2 replicas$')
        self.assertRegex(table, r'(?m)^target deployments\.apps "b" in namespace "llm" +missing .*; create it, install its definition')
        self.assertRegex(table, r'(?m)^no other autoscaler of deployments\.apps "a" +missing +HorizontalPodAutoscaler "hand" has the same target')
        self.assertRegex(table, r'(?m)^patch deployments/scale "a" in namespace "llm" +missing +add to the Role: .*resourceNames: \["a", "b"\]')
        self.assertNotIn("dry run", table, "without the permission, which has a line of its own")
        refused = ApiServer(self, pods=["a-1"], documents={f"{apps}/a/scale": scale},
                            patch=(400, {"kind": "Status", "reason": "BadRequest", "code": 400, "message": "denied by a webhook"}))
        table = self.doctor("--kubeconfig", self.kubeconfig(refused.url), code=1, configuration=pools).stdout
        self.assertRegex(table, r'(?m)^dry run of scaling deployments\.apps "a" in namespace "llm" +missing .*denied by a webhook')
        writes = [request for request in api.requests + refused.requests if request[0] not in ("GET", "POST")]
        self.assertTrue(writes)
        for write in writes:
            self.assertIn("dryRun=All", write[1])

    def test_an_api_server_that_is_away_is_one_line(self):
        table = self.doctor("--kubeconfig", self.kubeconfig("http://127.0.0.1:1"), code=1).stdout
        self.assertRegex(table, r"(?m)^API server http://127\.0\.0\.1:1 +missing  .*no connection: Connection refused")
        self.assertNotIn("pods", table.replace("namespace", "").split("API server")[0])

    def test_credentials_that_have_ended(self):
        api = ApiServer(self, status=401)
        self.assertRegex(self.doctor("--kubeconfig", self.kubeconfig(api.url), code=1).stdout, r"missing  .*it may have expired")
        for age, says in ((-60, "missing  has expired on "), (86_400 * 3 + 60, "ok       until .* in 3 days"), (86_400 * 30, "ok       until ")):
            claims = base64.urlsafe_b64encode(json.dumps({"exp": int(time.time()) + age}).encode()).decode().rstrip("=")
            kubeconfig = self.kubeconfig("https://127.0.0.1:1", {"token": f"x.{claims}.y"})
            self.assertRegex(self.doctor("--kubeconfig", kubeconfig, code=1).stdout, rf"(?m)^token +{says}")

    def test_other_servers(self):
        api = ApiServer(self)
        table = self.doctor("--gateway", api.url.removeprefix("http://"), code=0, configuration={"prometheus": {"url": api.url, "preset": "vllm"}}).stdout
        self.assertRegex(table, r"(?m)^API server +ok +not needed")
        self.assertIn(("GET", "/-/ready"), api.requests)
        self.assertIn(("GET", "/ready"), api.requests)
        table = self.doctor("--gateway", "127.0.0.1:1", code=1, configuration={}).stdout
        self.assertRegex(table, r"(?m)^gateway 127\.0\.0\.1:1 +missing +\S")

    def test_bad_input_is_one_line(self):
        def refused(*flags, says, **others):
            done = self.doctor(*flags, code=2, **others)
            self.assertEqual(done.stdout, "")
            self.assertRegex(done.stderr, r"\Apenstock: [^\n]+\n\Z")
            self.assertIn(says, done.stderr)

        refused("--kubeconfig", "/none", says="/none: cannot be opened")
        refused("--kubeconfig", self.file("k", "a: ["), says="k:")
        refused("--kubeconfig", self.kubeconfig("http://127.0.0.1:1"), "--context", "b", says="b")
        refused("--kubeconfig", self.kubeconfig("https://127.0.0.1:1", {"exec": {"command": "aws"}}), says="kubectl create token")
        refused("--kubeconfig", self.kubeconfig("https://127.0.0.1:1", {"client-certificate-data": "eA==", "client-key-data": "eA=="}),
                says="client-certificate-data")
        refused("--namespace", "a_b", says="--namespace: 'a_b' is not a name that Kubernetes accepts")
        refused("--account", "A", says="--account: 'A' is not a name")
        refused("--gateway", "http://", says="--gateway: must be HOST:PORT")
        refused(says="unknown key", configuration={"gatway": {}})


if __name__ == "__main__":
    unittest.main()
