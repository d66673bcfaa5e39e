#!/usr/bin/env python3
"""Two real vLLM as pods: the planner takes one away while both have streams, and no stream is cut."""

import json
import os
import pathlib
import signal
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "engines"))

import kinds  # noqa: E402
from cluster_testing import main, quiet, seconds_of  # noqa: E402
from live_testing import until  # noqa: E402
from pods_testing import Clients, Planner, PodsThatServe, owner_of  # noqa: E402

TEST_SECONDS = 900
READY_S = 2 * kinds.START_SECONDS  # Two engines on the cores of one.
TOKENS, MANY_TOKENS = 400, 3000  # Of a stream, which takes several seconds, or much longer.
CLIENTS = 2 * kinds.SLOTS  # Both engines run as much as they can.


def vllm_pod(vllm):
    """vLLM aborts its requests on SIGTERM, so that only a drain before it keeps them."""
    command = [str(word) for word in vllm.command("$(POD_IP)", 8000)]
    environment = {**vllm.environment, "VLLM_HOST_IP": "$(POD_IP)"}
    engine = {"name": "engine", "image": "vllm", "command": command[:1], "args": command[1:],
              "env": [{"name": name, "value": value} for name, value in environment.items()],
              "ports": [{"name": "http", "containerPort": 8000}],
              # The engines share their cores with all else, so that an answer may take seconds.
              "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1, "failureThreshold": 60}}
    return {"metadata": {"labels": {"app": "engines", "fleet": "engines"}}, "spec": {
        "nodeSelector": {"type": "process"}, "tolerations": [{"key": "testbed/process", "operator": "Exists"}],
        "terminationGracePeriodSeconds": 30, "containers": [engine]}}


def is_whole(stream):
    return stream.status == 200 and '"finish_reason":"length"' in stream.text and stream.text.endswith("data: [DONE]\n\n")


@quiet
class VllmPods(PodsThatServe):
    def open_requests(self, gateway):
        return [replica["open_requests"] for replica in gateway.overview()["replicas"]]

    def end_processes(self):
        """An API server of vLLM that is killed while it starts leaves its engine behind, in the session of the pod."""
        with open(self.cluster.run + "/kubelet.jsonl", encoding="utf-8") as log:
            sessions = {event["pid"] for event in map(json.loads, log) if event["event"] == "started" and "vllm serve" in event["command"]}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                # The number of a session that has ended may be another program's.
                if os.getsid(int(folder.name)) in sessions and b"vllm" in (folder / "cmdline").read_bytes().lower():
                    os.kill(int(folder.name), signal.SIGKILL)
            except OSError:
                pass

    def test_one_of_two_vllm_goes_and_no_stream_is_cut(self):
        vllm = kinds.Vllm()
        if missing := vllm.missing():
            self.skipTest(missing)
        self.addCleanup(self.end_processes)
        name = self.cluster.namespace(self, "vllm")
        self.apply(name, owner_of(vllm_pod(vllm), 2))
        self.allow(name)
        gateway = self.gateway(name)
        until("2 pods", lambda: self.phases(gateway) == ["serving"] * 2, READY_S)
        planner = Planner(self, name, gateway, 2)
        clients = Clients(gateway.port, CLIENTS, TOKENS, model=kinds.MODEL)
        until("streams of both", lambda: clients.streams and all(self.open_requests(gateway)), kinds.START_SECONDS)
        before = len(clients.streams)
        planner.target(1)
        until("1 pod", lambda: self.phases(gateway) == ["serving"], kinds.START_SECONDS)
        clients.end()
        *_, marked = [event for event in planner.events("replica_step") if event["step"] == "mark"]
        waited_for = [stream for stream in clients.streams if stream.replica == marked["replica"] and stream.ended_at > seconds_of(marked["time"])]
        usage = gateway.overview()["usage"]
        broken = [stream for stream in clients.streams if not is_whole(stream)]
        print(f"{len(clients.streams)} streams of {TOKENS} tokens, {before} of them before the scale-down; "
              f"{len(broken)} broken; the drain waited for {len(waited_for)}", flush=True)
        self.assertEqual([f"{stream.status} {stream.fault} from {stream.replica}: {stream.text[-300:]}" for stream in broken], [], gateway.log())
        self.assertNotEqual(waited_for, [])
        self.assertEqual((sum(row["completed"] for row in usage), sum(row["output_tokens"] for row in usage)),
                         (len(clients.streams), len(clients.streams) * TOKENS))
        self.assertEqual([(event["from"], event["to"]) for event in planner.events("scaled")], [(2, 1)])

        # The same without a drain cuts streams.
        planner.signal(signal.SIGTERM)
        planner.wait()
        clients = Clients(gateway.port, kinds.SLOTS, MANY_TOKENS, model=kinds.MODEL)
        until("open streams", lambda: sum(self.open_requests(gateway)) == kinds.SLOTS)
        self.cluster.kubectl("scale", "deployment", "engines", "-n", name, "--replicas=0")
        broken = until("a cut stream", lambda: [stream for stream in list(clients.streams) if not is_whole(stream)])
        clients.ended.set()
        print(f"without a drain: status {broken[0].status}, then {broken[0].text[-200:]!r}", flush=True)
        self.assertEqual(broken[0].status, 200)


if __name__ == "__main__":
    main()
