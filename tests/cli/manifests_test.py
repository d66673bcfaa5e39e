#!/usr/bin/env python3
"""`penstock manifests`: golden files, what a container cannot have, and values that try to leave their quotes. PENSTOCK_UPDATE_GOLDEN=1 rewrites the files."""

import os
import re
from pathlib import Path

import cli_testing
from cli_testing import CliTest

GOLDEN = Path(__file__).resolve().parent / "golden"

GATEWAY = """\
gateway:
  drain_time: 10m   # longest answer
  admin_token_file: /etc/penstock-secrets/admin-token
  kubernetes: {selector: app=vllm, namespace: engines}
tenants: [{name: shop, key_envs: SHOP_KEY}]
"""
PLANNER = """\
slo: {ttft: 2s, itl: 50ms}
pools:
  - {name: prefill, role: prefill, min_replicas: 1, max_replicas: 8}
  - {name: decode, role: decode, min_replicas: 2, max_replicas: 16}
"""


class Manifests(CliTest):
    def manifests(self, program, text, *flags):
        self.write("penstock.yaml", text)
        return self.run_program("manifests", program, "penstock.yaml", *flags).stdout

    def assert_golden(self, name, text):
        path = GOLDEN / f"manifests-{name}.yaml"
        text = re.sub(r"penstock:\d+\.\d+\.\d+", "penstock:VERSION", text)
        if os.environ.get("PENSTOCK_UPDATE_GOLDEN"):
            path.write_text(text)
        self.assertEqual(text, path.read_text())

    def test_the_help_of_a_program_lists_its_flags_only(self):
        flags = ["--image", "--pod-monitor", "--gateway", "--autoscaler", "--target", "--weights-claim"]
        for words, has in ((("gateway", "--help"), flags[:2]),
                           (("planner", "penstock.yaml", "-h"), flags[:4]),
                           (("--help", "engines"), ["--image", "--weights-claim"]),
                           (("autoscalers", "--help"), ["--autoscaler", "--target"]),
                           (("--help",), flags)):
            page = self.run_program("manifests", *words).stdout
            self.assertEqual([flag for flag in flags if re.search(rf"(?m)^  {flag} ", page)], has, words)

    def test_a_gateway_that_follows_pods(self):
        self.assert_golden("gateway", self.manifests("gateway", GATEWAY, "--namespace", "llm", "--pod-monitor"))

    def test_several_gateways(self):
        text = self.manifests("gateway", GATEWAY, "--namespace", "llm", "--replicas", "3")
        self.assert_golden("gateways", text)
        self.assertNotIn("admit", text)

    def test_gateways_share_budgets_over_their_headless_service(self):
        peers = '"--peers", "http://penstock-gateway-admin.llm.svc:8081"'
        tenant = "tenants: [{{name: shop, key_envs: KEY, {}}}]\n"
        for text in (tenant.format("tokens_per_minute: 1000"), tenant.format("concurrent: 4"), "classes: {batch: {tokens_per_minute: 1000}}\n"):
            for replicas in ("1", "2"):
                found = self.manifests("gateway", text, "--namespace", "llm", "--replicas", replicas)
                self.assertIn(peers, re.sub(r"\n\s+- ", ", ", found), found)
        for text in (tenant.format("weight: 2"), "gateway: {peers: ['http://gateways:8081']}\n" + tenant.format("concurrent: 4")):
            self.assertNotIn("--peers", self.manifests("gateway", text, "--replicas", "2"))

    def test_gateways_with_tls_need_the_ca_of_each_other(self):
        tls = ("gateway: {{admin_token_file: /etc/penstock-secrets/token, admin_tls: {{certificate: /etc/penstock-secrets/tls.crt, "
               "key: /etc/penstock-secrets/tls.key}}{}}}\nclasses: {{batch: {{tokens_per_minute: 1000}}}}\n")
        self.write("g.yaml", tls.format(""))
        self.assert_refused("manifests", "gateway", "g.yaml", says="gateway.peer_ca_file: is missing, because the pods share budgets by https")
        found = self.manifests("gateway", tls.format(", peer_ca_file: /etc/penstock-secrets/ca.crt"), "--namespace", "llm")
        self.assertIn("https://penstock-gateway-admin.llm.svc:8081", found)

    def test_a_planner_verifies_the_certificates_of_gateways(self):
        found = self.manifests("planner", "gateway: {admin_token_file: /etc/penstock-secrets/token, peer_ca_file: /etc/penstock-secrets/ca.crt, "
                               "admin_tls: {certificate: /etc/penstock-secrets/tls.crt, key: /etc/penstock-secrets/tls.key}}\n", "--namespace", "llm")
        arguments = re.sub(r"\n\s+- ", ", ", found)
        self.assertIn('"--gateway-ca", /etc/penstock-secrets/ca.crt', arguments)
        self.assertIn('"penstock-gateway-admin.llm.svc:8081"', arguments)

    def test_several_gateways_have_a_ledger_each(self):
        ledger = "gateway: {ledger: /var/lib/penstock/usage.sqlite}\n"
        text = self.manifests("gateway", ledger, "--replicas", "2")
        self.assertIn("# Each pod has a ledger of its own, which ends with the pod.", text)
        self.assertNotIn("PersistentVolumeClaim", text)
        self.assertIn("\nkind: PersistentVolumeClaim\n", self.manifests("gateway", ledger))

    def test_each_of_several_gateways_can_keep_its_ledger(self):
        text = self.manifests("gateway", "gateway: {ledger: /var/lib/penstock/usage.sqlite}\n", "--replicas", "2", "--ledger-claims")
        self.assertNotIn("ends with the pod", text)
        self.assertIn("\nkind: StatefulSet\n", text)
        self.assertIn("  volumeClaimTemplates:\n", text)
        self.write("g.yaml", "gateway: {listen: :8000}\n")
        self.assert_refused("manifests", "gateway", "g.yaml", "--ledger-claims", says="--ledger-claims: needs gateway.ledger")
        self.assert_refused("manifests", "planner", "g.yaml", "--ledger-claims", says="--ledger-claims: is not a flag of")

    def test_a_planner_finds_gateways_at_the_admin_port_of_the_file(self):
        self.assertIn("penstock-gateway-admin.llm.svc:9090", self.manifests("planner", "gateway: {admin_listen: :9090}\n", "--namespace", "llm"))
        self.write("p.yaml", "gateway: {admin_listen: :0}\n")
        self.assert_refused("manifests", "planner", "p.yaml", says="gateway.admin_listen: needs a port")

    def test_prometheus_verifies_the_certificate_of_the_admin_address(self):
        tls = ("gateway: {{admin_token_file: /etc/penstock-secrets/token, admin_tls: {{certificate: /etc/penstock-secrets/tls.crt, "
               "key: /etc/penstock-secrets/tls.key}}{}}}\n")
        flags, note = ("--namespace", "llm", "--pod-monitor"), "# Prometheus must trust the CA of gateway.admin_tls.certificate"
        found = self.manifests("gateway", tls.format(", peer_ca_file: /etc/penstock-secrets/ca.crt"), *flags)
        self.assertRegex(found, r"tlsConfig:\n +serverName: penstock-gateway-admin.llm.svc\n +ca:\n +secret:\n +name: penstock-gateway-secrets\n"
                         r" +key: ca.crt\n")
        self.assertNotIn(note, found)
        found = self.manifests("gateway", tls.format(""), *flags)
        self.assertNotRegex(found, r"\n +ca:\n")
        self.assertIn(note, found)
        self.assertNotIn(note, self.manifests("gateway", tls.format("")))
        clients = tls.format("").replace("key}", "key, client_ca: /etc/penstock-secrets/ca}")
        self.manifests("gateway", clients, *flags)
        self.write("g.yaml", clients.replace("admin_token_file: /etc/penstock-secrets/token, ", ""))
        self.assert_refused("manifests", "gateway", "g.yaml", *flags,
                            says="gateway.admin_tls.client_ca: a PodMonitor shows no certificate; add gateway.admin_token_file")

    def test_a_planner_of_gateways_with_another_name(self):
        text = self.manifests("planner", PLANNER, "--namespace", "llm", "--gateway-name", "chat")
        self.assertIn('- "chat-admin.llm.svc:8081"\n', text)
        text = self.manifests("gateway", GATEWAY, "--namespace", "llm", "--name", "chat")
        self.assertIn("# `penstock manifests planner` finds this gateway with --gateway-name chat.\n", text)
        self.assertIn("\n  name: chat-admin\n", text)
        self.assert_refused("manifests", "planner", "penstock.yaml", "--gateway-name", "a.b", says="--gateway-name: 'a.b' is not a name")
        self.assert_refused("manifests", "planner", "penstock.yaml", "--gateway-name", "chat", "--gateway", "a:1",
                            says="--gateway-name: has no effect with --gateway")
        self.assert_refused("manifests", "gateway", "penstock.yaml", "--gateway-name", "chat", says="is not a flag of `penstock manifests gateway`")

    def test_a_planner_of_named_gateways(self):
        text = self.manifests("planner", PLANNER, "--gateway", "a.llm.svc:8081,b.llm.svc:8081")
        self.assertIn('- "a.llm.svc:8081,b.llm.svc:8081"\n', text)

    def test_a_planner_for_keda(self):
        self.assert_golden("planner-keda", self.manifests("planner", PLANNER, "--namespace", "llm", "--autoscaler", "keda"))

    def test_a_planner_for_the_hpa(self):
        self.write("ca.crt", "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n")
        self.assert_golden("planner-hpa", self.manifests("planner", PLANNER, "--autoscaler", "hpa", "--ca", "ca.crt"))

    def test_a_planner_that_scales(self):
        text = self.manifests("planner", "pools: [{name: chat, kubernetes: deployment/vllm, max_replicas: 4}]\n"
                              "gateway: {kubernetes: {namespace: engines, selector: app=vllm}}\n", "--namespace", "llm")
        self.assert_golden("planner", text)
        text = self.manifests("planner", "pools: [{name: chat, kubernetes: statefulset/vllm}]\n", "--autoscaler", "keda")
        self.assertIn("    kind: StatefulSet\n    name: vllm\n", text)
        self.assertNotIn('"--engines"', text)

    def test_what_a_planner_refuses_at_its_start_is_not_written(self):
        switch = "start_up: 60s\nswitch_time: 5s\npools: [{name: a, role: prefill}, {name: b, role: decode}]\n"
        for text, flags, says in (("pools: [{name: a, prompt_max: 9, kubernetes: deployment/a}, {name: b}]\n", (), "pools[1].kubernetes: is missing"),
                                  ("wake_time: 1s\nasleep: 1\npools: [{name: a, kubernetes: deployment/a}]\n", (), "asleep: needs --engines local"),
                                  (switch, (), "switch_time: needs --engines local or --engines kubernetes"),
                                  (switch, ("--autoscaler", "keda"), "switch_time: needs --engines local or --engines kubernetes")):
            self.write("p.yaml", text)
            self.assertRegex(self.assert_refused("manifests", "planner", "p.yaml", *flags, says=says), r"\Apenstock: p\.yaml:\d+:\d+: ")

    def test_the_limit_of_memory_has_room_for_the_memory_of_the_gateway(self):
        self.assertIn("memory: \"1Gi\"\n", self.manifests("gateway", "gateway: {memory_max: 256MiB}\n"))
        limits = re.findall(r"memory: \"(\S+)\"\n", self.manifests("gateway", "gateway: {memory_max: 3GiB}\n"))
        self.assertEqual(limits, ["3073Mi", "6146Mi"])

    def test_pools_without_targets_are_in_the_namespace_of_the_engines(self):
        text = self.manifests("planner", "gateway: {kubernetes: {namespace: engines, selector: a=b}}\n", "--namespace", "llm", "--autoscaler", "keda")
        self.assertRegex(text, r"kind: ScaledObject\nmetadata:\n  name: default\n  namespace: engines\n")

    def test_two_planners_of_which_one_leads(self):
        text = self.manifests("planner", "pools: [{name: chat, kubernetes: deployment/vllm, max_replicas: 4}]\n"
                              "gateway: {kubernetes: {selector: app=vllm}}\n", "--namespace", "llm", "--replicas", "2")
        self.assert_golden("planners", text)
        self.assertEqual(text.count("events.k8s.io"), 1)

    def test_the_rules_for_the_operator_of_prometheus(self):
        """Whatever else is written, the last document is the file of packaging/, two columns to the right, with the given links."""
        rules = (Path(__file__).resolve().parents[2] / "packaging/monitoring/penstock-rules.yaml").read_text()
        text = self.manifests("planner", PLANNER, "--namespace", "llm", "--prometheus-rule", "--pod-monitor", "--runbooks",
                              "https://penstock.example.com/docs/")
        head, spec = text.split("\n---\n")[-1].split("\nspec:\n")
        self.assertRegex(head, r"\AapiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: penstock-planner\n  namespace: llm\n")
        self.assertEqual(re.sub("(?m)^  ", "", spec), rules)
        flags = ("planner", PLANNER, "--namespace", "llm", "--prometheus-rule", "--pod-monitor")
        self.assertEqual(self.manifests(*flags, "--runbooks", "https://wiki.example.org/p"),
                         text.replace("https://penstock.example.com/docs", "https://wiki.example.org/p"))
        self.assertEqual(self.manifests(*flags), re.sub(r"(?m)^ +runbook_url: .*\n", "", text), "no link is better than a dead one")
        self.assertIn("--runbooks: 'wiki' is not the address of pages",
                      self.run_program("manifests", "planner", "penstock.yaml", "--runbooks", "wiki", code=2).stderr)
        self.assertNotIn("PrometheusRule", self.manifests("planner", PLANNER))
        self.run_program("manifests", "gateway", "penstock.yaml", "--prometheus-rule", code=2)

    def test_keys_in_the_file_make_it_a_secret(self):
        text = self.manifests("gateway", "tenants: [{name: shop, keys: [sk-shop]}]\n")
        self.assertIn("kind: Secret\n", text)
        self.assertNotIn("kind: ConfigMap\n", text)
        self.assertNotIn("kind: ConfigMap\n", self.manifests("planner", "gateway: {credentials: {headers: 'X-Key: s'}}\n"))

    def test_the_delay_of_the_drain_covers_the_nodes_of_a_cluster(self):
        self.assertIn('"5s"', self.manifests("gateway", ""))
        self.assertNotIn("--drain-delay", self.manifests("gateway", "gateway: {drain_delay: 20s}\n"))

    def test_no_value_leaves_its_place(self):
        """A file whose comment looks like the end of its place in the YAML, in several ways."""
        for comment in ("---", "\\\"", "'", "  - x: |", "}}", "\u2028kind: Secret", "\U0001f600"):
            text = self.manifests("gateway", f"# {comment}\nslo: {{ttft: 1s}}\n")
            kinds = re.findall(r"(?m)^kind: (\w+)$", text)
            self.assertEqual(kinds, ["ServiceAccount", "ConfigMap", "Service", "Service", "PodDisruptionBudget", "Deployment"])

    def test_what_kubernetes_refuses_is_one_line(self):
        self.write("g.yaml", "")
        for flags, says in ((("--name", "Gateway"), "--name: 'Gateway' is not a name that Kubernetes accepts"),
                            (("--name", "a" * 56), "at most 55 characters"),
                            (("--namespace", "a_b"), "--namespace: 'a_b' is not a name"),
                            (("--image", "a b"), "--image: 'a b' is not the reference of a container image"),
                            (("--autoscaler", "keda"), "--autoscaler: is not a flag of `penstock manifests gateway`"),
                            (("--replicas", "0"), "--replicas: ")):
            self.assert_refused("manifests", "gateway", "g.yaml", *flags, says=says)
        for flags, says in ((("--replicas", "101"), "--replicas: "),
                            (("--autoscaler", "hpa"), "--ca: is missing; name the PEM file"),
                            (("--autoscaler", "hpa", "--ca", "none.pem"), "--ca: none.pem: cannot be opened"),
                            (("--autoscaler", "hpa", "--ca", "g.yaml"), "--ca: g.yaml contains no certificate"),
                            (("--gateway", "http://a/b"), "--gateway: must be HOST:PORT"),
                            (("--gateway", "a:1,b:2,a:1"), "--gateway: names 'a:1' twice"),
                            (("--autoscaler", "helm"), "must be none, keda or hpa")):
            self.assert_refused("manifests", "planner", "g.yaml", *flags, says=says)
        for words in ((), ("gateway",), ("gateway", "g.yaml", "h.yaml")):
            self.assert_refused("manifests", *words, says=f"`penstock manifests` takes gateway|planner|engines|autoscalers FILE, there are {len(words)}")
        self.assert_refused("manifests", "engine", "g.yaml", says="writes gateway, planner, engines or autoscalers, is 'engine'")
        self.assert_refused("manifests", "gateway", "none.yaml", says="none.yaml: cannot be opened")

    def test_what_the_container_lacks_is_one_line(self):
        for text, says in (("gateway: {admin_token_file: token}\n", "gateway.admin_token_file: the container has no file 'token'; "
                            "put it into the Secret penstock-gateway-secrets and name it /etc/penstock-secrets/…"),
                           ("gateway: {admin_token_file: /etc/penstock-secrets/../passwd}\n", "the container has no file"),
                           ("gateway: {ledger: usage.sqlite}\n", "gateway.ledger: the container cannot write 'usage.sqlite'; "
                            "name a file below /var/lib/penstock"),
                           ("log: {access: /var/log/a}\n", "log.access: the container cannot write"),
                           ("tenants: [{name: a, key_envs: [a=b]}]\n", "tenants[0].key_envs: 'a=b' is not the name of a variable"),
                           ("gateway: {warm_up_prompts: prompts.jsonl}\n", "gateway.warm_up_prompts: the container has no file 'prompts.jsonl'"),
                           ("gateway: {admin_token_file: /etc/penstock-secrets/a/token}\n",
                            "'/etc/penstock-secrets/a/token' is not the file of a key that a Secret can have"),
                           ("gateway: {listen: ':0'}\n", "gateway.listen: needs a port"),
                           ("gateway: {listen: ':80', admin_listen: ':80'}\n", "needs a port of its own"),
                           ("gateway: {ledgr: x}\n", "unknown key; did you mean")):
            self.write("g.yaml", text)
            self.assertRegex(self.assert_refused("manifests", "gateway", "g.yaml", says=says), r"\Apenstock: g\.yaml:\d+:\d+: ")
        tls = "gateway: {{admin_tls: {{certificate: /etc/penstock-secrets/c, key: /etc/penstock-secrets/k{}}}{}}}\n"
        for client_ca, ca, says in (("", "", "gateway.peer_ca_file: is missing, because a planner reads gateways by https"),
                                    ("", ", peer_ca_file: ca.crt", "gateway.peer_ca_file: the container has no file 'ca.crt'"),
                                    (", client_ca: /etc/penstock-secrets/ca", ", peer_ca_file: /etc/penstock-secrets/ca",
                                     "gateway.admin_tls.client_ca: a planner shows no certificate; add gateway.admin_token_file")):
            self.write("p.yaml", tls.format(client_ca, ca))
            self.assert_refused("manifests", "planner", "p.yaml", says=says)
        for text, says in (("report_dir: reports\n", "report_dir: the container cannot write 'reports'"),
                           ("engine: {model: engine.json}\n", "engine.model: the container has no file 'engine.json'"),
                           ("pools: [{engine: {model: 'roofline:./config.json,h100'}}]\n", "pools[0].engine.model: the container has no file './config.json'"),
                           ("planner: {dynamo_discovery: 'file:/var/dynamo'}\n", "planner.dynamo_discovery: the container has no folder '/var/dynamo'"),
                           ("gateway: {kubernetes: {selector: a=b, kubeconfig: config}}\n", "gateway.kubernetes.kubeconfig: the container has no file"),
                           ("deployments: [{name: a, planner: {warm_trace: a.csv}}]\n", "deployments[0].planner.warm_trace: the container has no file"),
                           ("deployments: [{name: a, planner: {nats: {token_file: t}}}]\n", "deployments[0].planner.nats.token_file: the container has no file"),
                           ("prometheus: {url: 'http://a:9090', token_file: t}\n", "prometheus.token_file: the container has no file")):
            self.write("p.yaml", text)
            self.assertRegex(self.assert_refused("manifests", "planner", "p.yaml", says=says), r"\Apenstock: p\.yaml:1:\d+: ")
        self.manifests("planner", "engine: {model: /etc/penstock-secrets/engine.json}\nreport_dir: /var/lib/penstock/reports\n")
        self.write("p.yaml", "pools: [{name: chat, kubernetes: leaderworkerset/a}]\n")
        self.assert_refused("manifests", "planner", "p.yaml", "--autoscaler", "keda", says="can scale a Deployment or a StatefulSet")
        for name in ("Qwen/Qwen3", "a b", "x" * 64, "Chat"):
            self.write("p.yaml", f"pools: [{{name: '{name}'}}]\n")
            self.assert_refused("manifests", "planner", "p.yaml", "--autoscaler", "keda", says="that Kubernetes accepts; use ")


if __name__ == "__main__":
    cli_testing.main()
