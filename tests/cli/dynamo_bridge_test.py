#!/usr/bin/env python3
"""The bridge that makes `penstock decide` the scaling policy of NVIDIA Dynamo's replay: snapshots by hand, and a run of the real
replay. Where that is not installed (bench/dynamo_bridge.py installs it), the test ends with 77: skipped."""

import json
import os
import sys
import types
import unittest
from pathlib import Path

from cli_testing import PROGRAM, CliTest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True
sys.modules["dynamo"] = types.SimpleNamespace(_core=None)  # The module is imported without the replay.
import dynamo_bridge  # noqa: E402
import dynamo_policy  # noqa: E402

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
PYTHON = CACHE / "penstock-dynamo-replay" / dynamo_bridge.VERSION / "bin" / "python"


def trace_row(at_ms, prompt=1000, output=100, first_block=0):
    return {"timestamp": at_ms, "input_length": prompt, "output_length": output, "hash_ids": list(range(first_block, first_block - (-prompt // 512)))}


def snapshot(now_s, workers=(0,), passes=(), ended=0, ttft=300.0, itl=20.0, starting=(), draining=()):
    return {"now_ms": now_s * 1000.0, "decode_fpm_snapshots": list(passes), "active_decode_ids": list(workers),
            "starting_decode_ids": list(starting), "draining_decode_ids": list(draining),
            "traffic": {"shape_count": ended, "avg_ttft_ms": ttft, "avg_itl_ms": itl}}


class Bridge(CliTest):
    def policy(self, rows, *flags):
        self.write("trace.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        made = dynamo_policy.DecidePolicy([PROGRAM, "decide", *map(str, flags)], self.folder / "trace.jsonl", 1_000_000)
        self.addCleanup(made.process.wait)
        self.addCleanup(made.process.stdout.close)
        self.addCleanup(made.process.stdin.close)
        return made

    def test_requests_end_in_the_order_in_which_their_answers_can_be_complete(self):
        policy = self.policy([trace_row(0, output=500), trace_row(1000, output=10), trace_row(9000)])
        first = list(policy.requests(5.0, snapshot(5)["traffic"]))
        self.assertEqual([request["id"] for request in first], [0, 1])
        self.assertEqual(first[0]["prompt_tokens"], 1000)
        second = list(policy.requests(10.0, snapshot(10, ended=1)["traffic"]))
        self.assertEqual([request["id"] for request in second], [2, 1])
        self.assertEqual(second[1]["output_tokens"], 10)
        self.assertEqual((second[1]["ttft_ms"], second[1]["itl_ms"], second[1]["ended_s"]), (300.0, 20.0, 10.0))
        self.assertEqual(set(policy.open), {0, 2})

    def test_workers_without_a_pass_are_idle(self):
        busy = {"worker_id": 0, "num_prefill_requests": 1, "num_decode_requests": 3, "num_queued_prefill": 2, "num_queued_decode": 0,
                "sum_queued_prefill_tokens": 900, "sum_prefill_tokens": 10, "sum_prefill_kv_tokens": 20,
                "sum_decode_kv_tokens": 2_000_000}
        rows = list(self.policy([]).replicas(snapshot(5, (0, 1), [busy], starting=[2], draining=[3])))
        self.assertEqual([(row["id"], row["state"]) for row in rows], [(0, "ready"), (1, "ready"), (3, "draining"), (2, "starting")])
        self.assertEqual((rows[0]["running_requests"], rows[0]["queued_requests"], rows[0]["queued_prompt_tokens"]), (4, 2, 900))
        self.assertEqual(rows[0]["kv_used_tokens"], 1_000_000, "shared blocks count for each sequence: at most the capacity")
        self.assertEqual((rows[1]["running_requests"], rows[1]["kv_used_tokens"]), (0, 0))

    def test_the_answer_of_the_program_is_the_target_and_the_next_tick_follows(self):
        policy = self.policy([trace_row(0)], "--policy", "static", "--max-replicas", "8")
        self.assertEqual(policy.initial_tick_ms(), 5000.0)
        self.assertEqual(policy.on_tick(snapshot(5, (0, 1))), {"target_prefill": None, "target_decode": 2, "next_tick_ms": 10000.0})
        self.assertEqual(policy.on_tick(snapshot(10, (0, 1)))["next_tick_ms"], 15000.0)
        with self.assertRaisesRegex(RuntimeError, "at_s: must be later"):
            policy.on_tick(snapshot(10, (0, 1)))

    @unittest.skipUnless(PYTHON.exists(), "Dynamo's replay is not installed")
    def test_the_planner_scales_the_fleet_of_the_real_replay(self):
        rows = [trace_row(at * 100, prompt=4000, output=200, first_block=8 * at) for at in range(3000)]
        trace = self.folder / "trace.jsonl"
        dynamo_bridge.write_trace(rows, None, trace)
        for policy, grows in (("penstock", True), ("static", False)):
            kept, gpu_hours, targets = dynamo_bridge.decided_in_dynamo(PYTHON, PROGRAM, trace, policy)
            self.assertEqual([at for at, _ in targets[:3]], [5.0, 10.0, 15.0])
            self.assertEqual(max(target for _, target in targets) > dynamo_bridge.START, grows, targets)
            self.assertTrue(0.0 < kept <= 1.0)
            self.assertGreater(gpu_hours, dynamo_bridge.START * 300 / 3600 * 0.9)


if __name__ == "__main__":
    if not Path(PROGRAM).is_file():
        sys.exit(f"PENSTOCK names no program: {PROGRAM}")
    passed = unittest.main(exit=False).result.wasSuccessful()
    if passed and not PYTHON.exists():
        print(f"SKIPPED: Dynamo's replay is not in {PYTHON.parents[1]}; bench/dynamo_bridge.py installs it", file=sys.stderr)
        sys.exit(77)
    sys.exit(0 if passed else 1)
