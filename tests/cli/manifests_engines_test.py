#!/usr/bin/env python3
"""`penstock manifests engines`: golden files, labels that the gateway selects, and what no engine can have. PENSTOCK_UPDATE_GOLDEN=1 rewrites the files."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import cli_testing
from cli_testing import CliTest

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).resolve().parent / "golden"
FOLLOWS = "gateway: {kubernetes: {selector: app=llm}}\n"
ONE = "model: qwen\npools: [{name: chat}]\n" + FOLLOWS
DISAGGREGATED = """\
model: Qwen/Qwen3-32B
pools:
  - {name: prefill, role: prefill, kubernetes: deployment/qwen-prefill, gpus: 2, start_up: 20m}
  - {name: decode, role: decode, kubernetes: deployment/qwen-decode, gpus: 4}
gateway:
  drain_time: 10m
  credentials: {api_key_env: ENGINE_KEY}
  kubernetes: {selector: "app in (prefill, decode),tier", namespace: engines, service: qwen, port_name: openai}
"""
TRITON = """\
model: llama
pools:
  - {name: llm-batch, class: batch, engine: {queue_delay: 5ms}}
  - {name: llm-interactive, engine: {queue_delay: 2ms}}
""" + FOLLOWS


class Engines(CliTest):
    def engines(self, text, *flags):
        self.write("penstock.yaml", text)
        return self.run_program("manifests", "engines", "penstock.yaml", *flags).stdout

    def refused(self, text, *flags, says):
        self.write("penstock.yaml", text)
        return self.assert_refused("manifests", "engines", "penstock.yaml", *flags, says=says)

    def assert_golden(self, name, text):
        path = GOLDEN / f"manifests-engines-{name}.yaml"
        if os.environ.get("PENSTOCK_UPDATE_GOLDEN"):
            path.write_text(text)
        self.assertEqual(text, path.read_text())

    def test_two_traffic_classes(self):
        example = (ROOT / "docs/examples/engines.yaml").read_text()
        self.assert_golden("vllm", self.engines(
            example, "--namespace", "llm", "--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu-resource", "llm-batch:nvidia.com/mig-3g.40gb",
            "--node-pool", "pool=gpu-warm", "--node-pool", "llm-batch:nvidia.com/mig.strategy=mixed", "--warm-nodes", "llm-interactive:1",
            "--weights-claim", "models"))

    def test_prefill_and_decode(self):
        self.assert_golden("disaggregated", self.engines(DISAGGREGATED, "--namespace", "llm", "--weights-path", "/mnt/nvme/models"))

    def test_triton_with_a_queue_delay_for_each_class(self):
        text = self.engines(TRITON, "--engine", "triton", "--model", "/weights/repository", "--tokenizer", "meta-llama/Llama-3.1-8B-Instruct",
                            "--weights-claim", "models")
        self.assert_golden("triton", text)
        self.assertEqual(re.findall(r"max_queue_delay_microseconds: (\d+)", text), ["5000", "2000"])
        script = (ROOT / "packaging/kubernetes/triton_repository.py").read_text()
        self.assertIn("  repository.py: |\n" + re.sub("(?m)^(?=.)", "    ", script), text)

    def test_sglang(self):
        text = self.engines(ONE, "--engine", "sglang", "--image", "registry.example/sglang:1", "--engine-argument=--quantization=fp8")
        self.assertIn("image: \"registry.example/sglang:1\"\n", text)
        self.assertIn("- sglang.launch_server\n", text)
        self.assertIn('- "--quantization=fp8"\n', text)

    def test_trtllm_serve(self):
        named = ONE.replace("model: qwen", "model: Qwen/Qwen3-8B")
        text = self.engines(named, "--engine", "trtllm", "--gpu-memory-utilization", "0.8")
        self.assertIn("command:\n            - trtllm-serve\n            - serve\n          args:\n            - Qwen/Qwen3-8B\n", text)
        self.assertIn("free_gpu_memory_fraction: 0.8\n", text)
        self.assertIn("# trtllm-serve has its metrics at /prometheus/metrics, which the planner does not read", text)
        self.assertNotIn("/prometheus/metrics", self.engines(named + "prometheus: {url: 'http://p:9090', preset: tensorrt_llm}\n", "--engine", "trtllm"))
        self.engines(ONE, "--engine", "trtllm", "--model", "/weights/models/qwen", "--weights-claim", "models")
        self.refused(ONE, "--engine", "trtllm", "--model", "Qwen/Qwen3-8B",
                     says="model: trtllm-serve serves 'Qwen/Qwen3-8B' under the name 'Qwen/Qwen3-8B', is 'qwen'; use this name, or a folder of the other name")

    def test_the_same_twice(self):
        self.assertEqual(self.engines(DISAGGREGATED), self.engines(DISAGGREGATED))

    def test_the_deployments_are_those_that_planner_and_autoscaler_scale(self):
        for pools in ("[{name: chat}]", "[{name: chat, kubernetes: deployment/qwen.chat}]"):
            text = f"model: qwen\npools: {pools}\ngateway: {{kubernetes: {{selector: app=llm, namespace: engines}}}}\n"
            self.write("penstock.yaml", text)
            scaled = self.run_program("manifests", "planner", "penstock.yaml", "--namespace", "llm", "--autoscaler", "keda").stdout
            kind, name = re.search(r"scaleTargetRef:\n    apiVersion: apps/v1\n    kind: (\w+)\n    name: (\S+)\n", scaled).groups()
            self.assertIn(f"kind: {kind}\nmetadata:\n  name: {name}\n", self.engines(text, "--namespace", "llm"))
        self.assertIn("  namespace: engines\n", self.engines(text, "--namespace", "llm"))
        self.assertNotIn("replicas:", self.engines(text))

    def test_several_models(self):
        text = ("deployments:\n  - {name: chat, model: Qwen/Qwen3-32B, pools: [{name: a, class: batch, gpus: 2}, {name: b}]}\n"
                "  - {name: mail, model: Qwen/Qwen3-8B}\n" + FOLLOWS)
        made = self.engines(text, "--gpu-resource", "mail:nvidia.com/mig-3g.40gb")
        self.assertEqual(re.findall(r"kind: Deployment\nmetadata:\n  name: (\S+)\n", made), ["chat.a", "chat.b", "mail"])
        self.assertEqual(re.findall(r"served-model-name\"\n +- (\S+)\n", made), ["Qwen/Qwen3-32B", "Qwen/Qwen3-32B", "Qwen/Qwen3-8B"])
        self.assertEqual(re.findall(r'limits:\n +"?(\S+?)"?: (\d)\n', made),
                         [("nvidia.com/gpu", "2"), ("nvidia.com/gpu", "1"), ("nvidia.com/mig-3g.40gb", "1")])

    def test_a_roofline_sets_the_parallelism_and_the_memory(self):
        made = self.engines("model: a\npools: [{name: chat, engine: {model: 'roofline:llama-3.1-70b,h100_sxm,tp=2,pp=2'}}]\n" + FOLLOWS)
        for flag, value in (("tensor-parallel-size", '"2"'), ("pipeline-parallel-size", '"2"'), ("gpu-memory-utilization", '"0.92"')):
            self.assertRegex(made, f'"--{flag}"\n +- {value}\n')
        self.assertRegex(self.engines(ONE), '"--gpu-memory-utilization"\n +- "0.9"\n')

    def test_what_an_engine_lacks_is_noted(self):
        text = self.engines("model: a\nengine: {queue_delay: 3ms}\npools: [{name: chat}]\n" + FOLLOWS)
        self.assertIn("# vLLM has no queue delay: engine.queue_delay of pool chat counts in simulations only.\n", text)
        self.assertNotIn("queue delay", self.engines(ONE))

    def test_scheduling_is_a_flag_or_a_note(self):
        text = ("model: a\npools: [{name: chat, engine: {prefill_share: 0.3, queue_order: %s, preemption_order: %s, watermark: 0.05}}]\n" + FOLLOWS)
        def notes(made):
            return re.findall(r"(?m)^# engine\.(\w+) of pool chat ", made)
        vllm = self.engines(text % ("shortest", "least-progress"))
        self.assertRegex(vllm, r'"--watermark"\n +- "0\.05"\n +- "--long-prefill-token-threshold"\n +- "2457"\n')
        self.assertEqual(notes(vllm), ["queue_order", "preemption_order", "prefill_share"])
        self.assertIn("# engine.queue_order of pool chat counts in simulations only: vLLM has no order by length.\n", vllm)
        self.assertIn("# engine.prefill_share of pool chat is followed in part: vLLM limits each prompt to 2457 tokens of an iteration", vllm)
        self.assertIn('- "2048"\n', self.engines(text % ("fcfs", "lifo"), "--max-model-len", "2048"))
        self.assertEqual(notes(self.engines(text % ("priority", "priority"))), ["prefill_share"])
        self.assertEqual(notes(self.engines(text % ("priority", "lifo"))), ["preemption_order", "prefill_share"])
        sglang = self.engines(text % ("shortest", "least-progress"), "--engine", "sglang")
        self.assertRegex(sglang, r'"--schedule-policy"\n +- "?shortest-prefill-first"?\n +- "--retraction-policy"\n +- "?length"?\n')
        self.assertEqual(notes(sglang), ["fairness_bound", "watermark", "prefill_share"])
        sglang = self.engines(text % ("priority", "priority"), "--engine", "sglang")
        self.assertRegex(sglang, r'"--enable-priority-scheduling"\n +- "--default-priority-value"\n +- "0"\n +- "--retraction-policy"\n +- "?priority"?\n'
                         r' +- "--schedule-low-priority-values-first"\n')
        triton = self.engines(text % ("shortest", "priority"), "--engine", "triton", "--model", "/weights/r", "--tokenizer", "t", "--weights-claim", "w")
        self.assertEqual(notes(triton), ["queue_order", "preemption_order", "watermark", "prefill_share"])
        for kind in ("vllm", "sglang"):
            self.assertEqual(notes(self.engines(ONE, "--engine", kind)), [])

    def test_a_slice_needs_nodes_that_offer_it(self):
        slices, pool = ("--gpu-resource", "nvidia.com/mig-2g.20gb"), ("--node-pool", "nvidia.com/mig.strategy=single")
        self.refused(ONE, *slices, *pool, says="--node-pool: nodes with nvidia.com/mig.strategy=single have no nvidia.com/mig-2g.20gb, so that no pod of "
                     "'chat' would be scheduled; use nvidia.com/mig.strategy=mixed, or --gpu-resource nvidia.com/gpu")
        self.engines(ONE, *pool)
        self.engines(ONE, *slices, "--node-pool", "nvidia.com/mig.strategy=mixed")

    def test_without_labels_no_gateway_would_find_the_pods(self):
        self.refused("model: a\npools: [{name: chat}]\n", says="gateway.kubernetes: needs a selector, without which no gateway would find the pods; "
                     "add gateway: {kubernetes: {selector: penstock/engines=penstock-engines}}")
        self.engines("model: a\npools: [{name: chat}]\ngateway: {kubernetes: {selector: penstock/engines=penstock-engines}}\n")
        self.engines("model: a\npools: [{name: chat}]\ngateway: {kubernetes: {service: chat}}\n")
        for selector, says in (("penstock/pool=other", "does not select the pods of 'chat', whose labels are"),
                               ("penstock/engines=x", "does not select the pods of 'chat'"), ("app=,x y", "gateway.kubernetes.selector: one of =, ==, !=, in and notin is expected")):
            self.refused(f"model: a\npools: [{{name: chat}}]\ngateway: {{kubernetes: {{selector: '{selector}'}}}}\n", says=says)

    def test_what_kubernetes_refuses_is_one_line(self):
        for flags, says in ((("--gpu-resource", "gpu"), "--gpu-resource: 'gpu' is not a resource of a device; as nvidia.com/gpu"),
                            (("--gpu-resource", "caht:nvidia.com/gpu"), "the pools are chat"),
                            (("--node-pool", "warm"), "--node-pool: 'warm' must be KEY=VALUE"),
                            (("--node-pool", "a=b c"), "is not a label value"),
                            (("--warm-nodes", "chat:101"), "--warm-nodes: '101' must be a number of nodes from 0 to 100"),
                            (("--cpu", "0"), "--cpu: '0' is not a quantity above 0"),
                            (("--memory", "16GB"), "--memory: '16GB' is not a quantity"),
                            (("--model", "a b"), "--model: 'a b' is not the name of a model"),
                            (("--model", "/models/a", "--weights-claim", "m"), "--model: the container has no folder '/models/a'; name a folder below /weights"),
                            (("--model", "/weights/../a", "--weights-claim", "m"), "the container has no folder"),
                            (("--model", "/weights/a"), "needs a volume that contains it; give --weights-claim or --weights-path"),
                            (("--weights-claim", "A"), "--weights-claim: 'A' is not a name"),
                            (("--weights-path", "models"), "--weights-path: must be an absolute path"),
                            (("--weights-path", "/a", "--weights-claim", "a"), "cannot be combined with --weights-claim"),
                            (("--gpu-memory-utilization", "1.5"), "--gpu-memory-utilization: "),
                            (("--engine-argument", "quantization"), "must begin with a dash"),
                            (("--engine", "tgi"), "must be vllm, sglang, trtllm or triton"),
                            (("--tokenizer", "a"), "--tokenizer: is of --engine triton"),
                            (("--engine", "triton", "--tokenizer", "a"), "must be the folder of a model repository"),
                            (("--replicas", "2"), "--replicas: is not a flag of `penstock manifests engines`"),
                            (("--autoscaler", "keda"), "--autoscaler: is not a flag of `penstock manifests engines`")):
            self.refused(ONE, *flags, says=says)
        self.write("g.yaml", "")
        for program in ("gateway", "planner"):
            self.assert_refused("manifests", program, "g.yaml", "--engine", "vllm", says=f"--engine: is not a flag of `penstock manifests {program}`")

    def test_what_no_engine_can_be_is_a_line_with_its_place(self):
        for pools, flags, says in (
                ("[{name: a, kubernetes: leaderworkerset/a}]", (), "pools[0].kubernetes: `penstock manifests engines` writes Deployments"),
                ("[{name: Chat/1}]", (), "'Chat/1' is not a label value"),
                ("[{name: b, kubernetes: deployment/c, class: batch}, {name: c}]", (), "the pools 'b' and 'c' have one Deployment, 'c'"),
                ("[{name: a, gpus: 2}]", ("--gpu-resource", "nvidia.com/mig-3g.40gb"), "slices cannot be combined"),
                ("[{name: a, gpus: 32}]", (), "pools[0].gpus: no node has 32 GPUs"),
                ("[{name: a, gpus: 2}]", ("--engine", "triton", "--tokenizer", "t", "--model", "/weights/r", "--weights-claim", "w"),
                 "Triton's front end runs engines on one GPU, is 2"),
                ("[{name: p, role: prefill}, {name: d, role: decode}]", ("--engine", "sglang"), "role: the gateway moves KV as vLLM does"),
                ("[{name: a, engine: {max_batched_tokens: 64, max_sequences: 128}}]", (), "must be at least max_sequences (128), is 64")):
            self.write("penstock.yaml", f"model: m\npools: {pools}\n{FOLLOWS}")
            done = self.run_program("manifests", "engines", "penstock.yaml", *flags, code=2)
            self.assertEqual(done.stdout, "")
            self.assertRegex(done.stderr, r"\Apenstock: penstock\.yaml:\d+:\d+: ")
            self.assertIn(says, done.stderr)
        self.refused("pools: [{name: chat}]\n" + FOLLOWS, says="is missing; name the model that the engines serve, or give --model")
        self.refused(ONE.replace("gateway: {", "gateway: {credentials: {api_key_file: key}, "),
                     says="put it into the Secret penstock-engines-secrets and name it /etc/penstock-secrets/…")

    def test_the_repository_of_triton_is_made_of_links(self):
        settings, source, target = self.folder / "settings", self.folder / "source", self.folder / "models"
        settings.mkdir()
        target.mkdir()
        shutil.copy(ROOT / "packaging/kubernetes/triton_repository.py", settings / "repository.py")
        (settings / "dynamic_batching.pbtxt").write_text("dynamic_batching {\n  max_queue_delay_microseconds: 3000\n}\n")
        batching = "dynamic_batching {\n    preferred_batch_size: [ 8 ]\n    max_queue_delay_microseconds: 0\n    default_queue_policy: { max_queue_size: 0 }\n}\n"
        for model, text in (("ensemble", 'platform: "ensemble"\n'), ("preprocessing", batching), ("tensorrt_llm", batching + "max_batch_size: 8\n")):
            (source / model / "1").mkdir(parents=True)
            (source / model / "1/engine").write_text("weights")
            (source / model / "config.pbtxt").write_text(f'name: "{model}"\n{text}input [ {{\n  name: "x"\n}} ]\n')
        command = [sys.executable, "-B", settings / "repository.py", source, target, "llama"]
        for _ in range(2):  # The container may run again.
            subprocess.run(command, check=True)
            self.assertEqual(sorted(path.name for path in target.iterdir()), ["llama", "preprocessing", "tensorrt_llm"])
            self.assertTrue((target / "tensorrt_llm/1/engine").is_symlink())
            text = (target / "tensorrt_llm/config.pbtxt").read_text()
            self.assertEqual(re.findall(r"max_queue_delay_microseconds: (\d+)", text), ["3000"])
            self.assertIn("max_batch_size: 8\n", text)
            self.assertIn('  name: "x"\n', text)
            self.assertNotIn('name: "ensemble"', (target / "llama/config.pbtxt").read_text())
            self.assertIn(batching, (target / "preprocessing/config.pbtxt").read_text())
        self.assertIn(batching, (source / "tensorrt_llm/config.pbtxt").read_text())
        shutil.rmtree(source / "ensemble")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertIn("has no model ensemble", done.stderr)
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    cli_testing.main()
