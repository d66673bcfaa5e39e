#!/usr/bin/env python3
"""`penstock doctor` with a scripted API server: what is there, what is missing, and what it must never do."""

import base64
import http.server
import json
import os
import re
import subprocess
import tempfile
import threading
import time
import unittest

from live_testing import PROGRAM


class ApiServer:
    """Answers access reviews and lists of pods over plain HTTP, which needs no credentials."""

    def __init__(self, test, allowed=(), pods=(), status=200, documents=(), token=None,
                 patch=(403, {"kind": "Status", "reason": "Forbidden", "code": 403})):
        self.requests = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.requests.append(("GET", self.path))
                if token and self.headers["Authorization"] != f"Bearer {token}":
                    return self.answer(401, {})
                if self.path in documents:
                    document = documents[self.path]
                    return self.answer(404 if document is None else 200, document or {"kind": "Status", "reason": "NotFound", "code": 404})
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


def named(name):
    """The list of one object."""
    return f"?limit=1&fieldSelector=metadata.name%3D{name}"


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

    def test_an_inference_pool(self):
        path = "/apis/inference.networking.k8s.io/v1/namespaces/llm/inferencepools" + named("chat")
        rights = [(verb, kind) for verb in ("list", "watch") for kind in ("pods", "inferencepools")]

        def row(code, document):
            api = ApiServer(self, rights, ["a"], documents={path: document})
            table = self.doctor("--kubeconfig", self.kubeconfig(api.url), code=code,
                                configuration={"gateway": {"kubernetes": {"inference_pool": "chat"}}}).stdout
            self.assertRegex(table, r'(?m)^watch inferencepools "chat" in namespace "llm" +ok$')
            return re.search(r'(?m)^InferencePool chat in namespace "llm" +(.*)$', table)[1], table

        pool = {"spec": {"selector": {"matchLabels": {"app": "vllm"}}, "targetPorts": [{"number": 8000}, {"number": 8001}]}}
        found, table = row(0, {"items": [pool]})
        self.assertRegex(found, r"^ok +port 8000, 8001$")
        self.assertRegex(table, r'(?m)^pods of the selector app=vllm in namespace "llm" +ok +1 pods$')
        self.assertRegex(row(1, {"items": []})[0], r"^missing +it does not exist; the gateway waits for it$")
        self.assertRegex(row(1, None)[0], r"^missing +install the definitions of the Gateway API Inference Extension$")
        self.assertRegex(row(1, {"items": [{"spec": {}}]})[0], r"^missing +it needs labels in spec.selector and a port")

    def test_targets_and_who_else_scales_them(self):
        apps, scaling = "/apis/apps/v1/namespaces/llm/deployments", "/apis/autoscaling/v2/namespaces/llm/horizontalpodautoscalers"
        scale = {"kind": "Scale", "metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"replicas": 2},
                 "status": {"replicas": 2, "selector": "app=a"}}
        other = {"metadata": {"name": "hand"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}}
        pools = {"pools": [{"name": "a", "role": "prefill", "kubernetes": "deployment/a"},
                           {"name": "b", "role": "decode", "kubernetes": "deployment/b"}]}
        api = ApiServer(self, pods=["a-1"], documents={f"{apps}/a/scale": scale, scaling: {"kind": "List", "items": [other]},
                                                       f"{apps}{named('b')}": {"kind": "List", "items": []}})
        table = self.doctor("--kubeconfig", self.kubeconfig(api.url), code=1, configuration=pools).stdout
        self.assertRegex(table, r'(?m)^target deployments\.apps "a" in namespace "llm" +ok +2 replicas$')
        self.assertRegex(table, r'(?m)^target deployments\.apps "b" in namespace "llm" +missing +it does not exist; create it, or correct')
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

    def test_a_target_without_definition_and_one_without_scale_are_told_apart(self):
        group = "/apis/example.org/v1/namespaces/llm/engines"
        pools = {"pools": [{"name": "a", "kubernetes": "example.org/v1/engines/a"}]}
        for listed, says in ((None, r"the cluster does not serve engines\.example\.org v1; install its definition \(CRD\)"),
                             ({"items": []}, r"it does not exist; create it, or correct pools\[\]\.kubernetes"),
                             ({"items": [{"metadata": {"name": "a"}}]}, r"engines\.example\.org have no /scale; name an object that has it")):
            api = ApiServer(self, documents={group + named("a"): listed})
            table = self.doctor("--kubeconfig", self.kubeconfig(api.url), code=1, configuration=pools).stdout
            self.assertRegex(table, rf'(?m)^target engines\.example\.org "a" in namespace "llm" +missing +(get .*|list .*)?{says}')

    def test_several_planners_need_their_lease_and_their_state(self):
        allowed = [("list", "pods"), ("watch", "pods"), ("create", "leases"), ("get", "leases"), ("create", "configmaps"), ("get", "configmaps")]
        api = ApiServer(self, allowed, ["a"])
        table = self.doctor("--kubeconfig", self.kubeconfig(api.url), "--leader-election", "llm/lead", "--state-config-map", "llm/state",
                            code=1).stdout
        self.assertRegex(table, r'(?m)^update leases "lead" in namespace "llm" +missing +add to the Role: .*"coordination\.k8s\.io".*'
                         r'resourceNames: \["lead"\], verbs: \["get", "update"\]')
        self.assertRegex(table, r'(?m)^patch configmaps "state" in namespace "llm" +missing +add to the Role: ')
        self.assertRegex(table, r'(?m)^create leases in namespace "llm" +ok$')
        table = self.doctor("--kubeconfig", self.kubeconfig(ApiServer(self, [*allowed, ("update", "leases")], ["a"]).url),
                            "--leader-election", "llm/lead", code=0).stdout
        self.assertNotIn("configmaps", table)

    def followed(self, kind, code, documents, **server):
        """The table for a pool whose Deployment another autoscaler scales."""
        scale = {"kind": "Scale", "metadata": {"name": "chat", "resourceVersion": "1"}, "spec": {"replicas": 2},
                 "status": {"replicas": 2, "selector": "app=chat"}}
        api = ApiServer(self, pods=["chat-1"], documents={"/apis/apps/v1/namespaces/llm/deployments/chat/scale": scale, **documents}, **server)
        table = self.doctor("--kubeconfig", self.kubeconfig(api.url), "--program", "planner", "--autoscaler", kind, code=code,
                            configuration={"pools": [{"name": "chat"}]}).stdout
        self.assertRegex(table, r'(?m)^target deployments\.apps "chat" in namespace "llm" +ok +2 replicas$')
        self.assertNotIn("no other autoscaler", table)
        self.assertNotIn("deployments/scale", table, "the planner scales nothing")
        return table

    def test_scaled_objects_of_keda(self):
        path = "/apis/keda.sh/v1alpha1/namespaces/llm/scaledobjects"

        def table(code, document):
            return self.followed("keda", code, {path: document})

        def scaled_object(pool="chat", name="chat", conditions=(("Ready", "True", ""), ("Active", "False", "")), **spec):
            return {"items": [{"metadata": {"name": "so"}, "spec": {
                "scaleTargetRef": {"name": name}, "triggers": [{"type": "external-push", "metadata": {"pool": pool}}],
                "minReplicaCount": 1, "maxReplicaCount": 8, **spec},
                "status": {"conditions": [dict(zip(("type", "status", "message"), each)) for each in conditions]}}]}

        row = r'(?m)^ScaledObject of Deployment "chat" in namespace "llm" +'
        self.assertRegex(table(0, scaled_object()), row + 'ok +"so", 1 to 8 replicas$')
        self.assertRegex(table(1, None), row + r"missing .*the cluster does not serve scaledobjects\.keda\.sh v1alpha1; install its definition")
        self.assertRegex(table(1, scaled_object(name="mail")), row + "missing +apply the one that `penstock manifests planner --autoscaler keda`")
        self.assertRegex(table(1, scaled_object(pool="mail")), row + 'missing +it has no trigger .* with metadata.pool "chat"')
        self.assertRegex(table(1, scaled_object(minReplicaCount=0)), row + "missing +minReplicaCount is 0, .*; set it to at least 1$")
        default = scaled_object()
        del default["items"][0]["spec"]["minReplicaCount"]
        self.assertRegex(table(1, default), row + "missing +minReplicaCount is 0")
        self.assertRegex(table(1, scaled_object(conditions=[("Ready", "False", "no scaler")])), row + "missing +Ready is False: no scaler$")

        # What KEDA reports of an object that is valid.
        healthy = {"Ready": "True", "Active": "False", "Fallback": "False", "Paused": "False", "HPAActive": "True"}
        self.assertRegex(table(0, scaled_object(conditions=[(*each, "") for each in healthy.items()])), row + 'ok +"so", 1 to 8 replicas$')
        for kind, status in (("HPAActive", "False"), ("Fallback", "True"), ("Paused", "True"), ("Ready", "Unknown")):
            conditions = [(*each, "as KEDA says") for each in {**healthy, kind: status}.items()]
            self.assertRegex(table(1, scaled_object(conditions=conditions)), row + f"missing +{kind} is {status}: as KEDA says$")

    def test_external_metrics_of_an_hpa(self):
        def table(code, service="llm", pool="chat", active="True", hpa=True, allowed=(("get", "configmaps"), ("create", "subjectaccessreviews"))):
            api_service = service and {"spec": {"service": {"name": "s", "namespace": service}}}
            external = {"metric": {"name": "penstock_target_replicas", "selector": {"matchLabels": {"pool": pool}}}}
            autoscaler = {"metadata": {"name": "h"}, "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "chat"}, "minReplicas": 2, "maxReplicas": 9,
                "metrics": [{"type": "External", "external": external}]},
                "status": {"conditions": [{"type": "ScalingActive", "status": active, "message": "no metric"}]}}
            return self.followed("hpa", code, {
                "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io": api_service or None,
                "/apis/autoscaling/v2/namespaces/llm/horizontalpodautoscalers": {"items": [autoscaler] * hpa}}, allowed=allowed)

        service, row = r"(?m)^APIService v1beta1\.external\.metrics\.k8s\.io +", r'(?m)^HorizontalPodAutoscaler of Deployment "chat" in namespace "llm" +'
        good = table(0)
        self.assertRegex(good, service + 'ok +Service "s" in namespace "llm"$')
        self.assertRegex(good, row + 'ok +"h", 2 to 9 replicas$')
        self.assertRegex(table(1, service=None), service + "missing +apply the one that `penstock manifests planner --autoscaler hpa` writes$")
        self.assertRegex(table(1, service="keda"), service + 'missing +it is served by the Service "s" in namespace "keda"; a cluster has one provider')
        self.assertRegex(table(1, hpa=False), row + "missing +apply the one")
        self.assertRegex(table(1, pool="mail"), row + 'missing +it does not read penstock_target_replicas of the pool "chat"')
        self.assertRegex(table(1, active="False"), row + "missing +ScalingActive is False: no metric$")
        self.assertRegex(table(1, allowed=()), r"(?m)^create subjectaccessreviews of the cluster +missing +add to the ClusterRole: .*system:auth-delegator")

    def test_an_api_server_that_is_away_is_one_line(self):
        table = self.doctor("--kubeconfig", self.kubeconfig("http://127.0.0.1:1"), code=1).stdout
        self.assertRegex(table, r"(?m)^API server http://127\.0\.0\.1:1 +missing  .*no connection: Connection refused")
        self.assertNotIn("pods", table.replace("namespace", "").split("API server")[0])

    def test_credentials_that_have_ended(self):
        api = ApiServer(self, status=401)
        self.assertRegex(self.doctor("--kubeconfig", self.kubeconfig(api.url), code=1).stdout, r"missing  .*it may have expired")
        for age, says in ((-60, "missing  has expired on "), (86_400 * 3 + 60, "ok       until .* in 3 days$"), (3660, "ok       until .*, in 6[01] min$"), (86_400 * 30, "ok       until ")):
            claims = base64.urlsafe_b64encode(json.dumps({"exp": int(time.time()) + age}).encode()).decode().rstrip("=")
            kubeconfig = self.kubeconfig("https://127.0.0.1:1", {"token": f"x.{claims}.y"})
            self.assertRegex(self.doctor("--kubeconfig", kubeconfig, code=1).stdout, rf"(?m)^token +{says}")

    def test_other_servers(self):
        api = ApiServer(self)
        table = self.doctor("--gateway", api.url.removeprefix("http://"), code=0, configuration={"prometheus": {"url": api.url, "preset": "vllm"}}).stdout
        self.assertRegex(table, r"(?m)^API server +ok +not needed")
        self.assertIn(("GET", "/api/v1/query?query=1"), api.requests)
        self.assertIn(("GET", "/ready"), api.requests)
        table = self.doctor("--gateway", "127.0.0.1:1", code=1, configuration={}).stdout
        self.assertRegex(table, r"(?m)^gateway 127\.0\.0\.1:1 +missing +\S")

    def test_a_prometheus_that_needs_a_token(self):
        api = ApiServer(self, token="secret")
        prometheus = {"url": api.url + "/p", "preset": "vllm", "token_file": self.file("token", "secret\n"), "parameters": ["dedup=true"]}
        table = self.doctor(code=0, configuration={"prometheus": prometheus}).stdout
        self.assertRegex(table, r"(?m)^Prometheus \S+/p +ok$")
        self.assertEqual(api.requests, [("GET", "/p/api/v1/query?query=1&dedup=true")])
        del prometheus["token_file"]
        table = self.doctor(code=1, configuration={"prometheus": prometheus}).stdout
        self.assertRegex(table, r"(?m)^Prometheus \S+/p +missing +/api/v1/query answers 401; check prometheus.url and its credentials$")

    def test_replicas_of_the_file(self):
        models = {"object": "list", "data": [{"id": "llama"}, {"id": "adapter"}]}
        api = ApiServer(self, documents={"/v1/models": models, "/old/v1/models": None, "/other/v1/models": {}})

        def states(code, *replicas):
            table = self.doctor(code=code, configuration={"gateway": {"replicas": list(replicas)}}).stdout
            return re.findall(r"(?m)^replica (\S+) +(ok|missing) +(.*)$", table)

        self.assertEqual(states(0, {"url": api.url}, {"url": api.url + "/", "model": "llama"})[0],
                         (api.url, "ok", "serves llama, adapter"))
        (away, wrong, none, old) = states(1, {"url": "http://127.0.0.1:1"}, {"url": api.url, "model": "qwen"},
                                          {"url": api.url + "/other"}, {"url": api.url + "/old", "model": "llama"})
        self.assertEqual(away[:2], ("http://127.0.0.1:1", "missing"))
        self.assertEqual(wrong[1:], ("missing", "serves llama, adapter, and not its configured model qwen; correct its model or its URL"))
        self.assertEqual(none[1:], ("missing", "/v1/models lists no models; is it an engine?"))
        self.assertEqual(old[1:], ("ok", "/v1/models answers 404"))  # Its model is given.

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
        refused("--leader-election", "lead", says="--leader-election: ")
        refused("--autoscaler", "hpa", says="pools[0].name: 'a b'", configuration={"pools": [{"name": "a b"}]})
        refused("--autoscaler", "keda", says="another autoscaler can scale a Deployment or a StatefulSet",
                configuration={"pools": [{"name": "a", "kubernetes": "leaderworkerset/a"}]})
        refused("--gateway", "http://", says="--gateway: must be HOST:PORT")
        refused(says="unknown key", configuration={"gatway": {}})


if __name__ == "__main__":
    unittest.main()
