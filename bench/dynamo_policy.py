"""The bridge between NVIDIA Dynamo's replay and `penstock decide`: runs in the virtual environment of the replay, which calls
`on_tick` of its scaling policy in simulated time. Arguments: a JSON object, and the file for the result.

The replay reports no single requests while it runs. Arrivals, prompts and lengths of answers are therefore those of the
trace, as a gateway would see them. Of ends the replay reports number and mean latencies since the last tick: that many open
requests have ended, those first that would end first at these latencies."""

import json
import subprocess
import sys
from pathlib import Path

from dynamo import _core

TICK_S = 5.0


class DecidePolicy:
    def __init__(self, command, trace, kv_tokens):
        rows = [json.loads(line) for line in Path(trace).read_text(encoding="utf-8").splitlines()]
        self.coming = sorted(((row["timestamp"] / 1000.0, number, row) for number, row in enumerate(rows)), key=lambda one: one[:2])
        self.coming.reverse()
        self.open, self.latencies, self.kv_tokens, self.ticks, self.targets = {}, (0.0, 0.0), kv_tokens, 0, []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def initial_tick_ms(self):
        return TICK_S * 1000.0

    def requests(self, now, traffic):
        while self.coming and self.coming[-1][0] <= now:
            arrival, number, row = self.coming.pop()
            self.open[number] = (arrival, {"id": number, "arrival_s": arrival, "prompt_tokens": row["input_length"],
                                           "blocks": row["hash_ids"]}, max(1, row["output_length"]))
            yield self.open[number][1]
        if not traffic["shape_count"]:
            return
        self.latencies = ttft, itl = traffic["avg_ttft_ms"], traffic["avg_itl_ms"] or self.latencies[1]
        order = sorted(self.open, key=lambda number: self.open[number][0] + self.open[number][2] * itl / 1000.0)
        for number in order[:int(traffic["shape_count"])]:
            arrival, request, tokens = self.open.pop(number)
            yield {**request, "ttft_ms": min(ttft, (now - arrival) * 1000.0), "itl_ms": itl, "output_tokens": tokens,
                   "ended_s": now}

    def replicas(self, seen):
        passes = {one["worker_id"]: one for one in seen["decode_fpm_snapshots"]}  # A worker without one was idle.
        for worker in seen["active_decode_ids"] + seen["draining_decode_ids"]:
            one = passes.get(worker, {})
            used = sum(one.get(f"sum_{part}", 0) for part in ("prefill_tokens", "prefill_kv_tokens", "decode_kv_tokens"))
            yield {"id": worker, "state": "draining" if worker in seen["draining_decode_ids"] else "ready",
                   "running_requests": one.get("num_prefill_requests", 0) + one.get("num_decode_requests", 0),
                   "queued_requests": one.get("num_queued_prefill", 0) + one.get("num_queued_decode", 0),
                   "queued_prompt_tokens": one.get("sum_queued_prefill_tokens", 0),
                   "kv_used_tokens": min(used, self.kv_tokens), "kv_capacity_tokens": self.kv_tokens}
        yield from ({"id": worker, "state": "starting"} for worker in seen["starting_decode_ids"])

    def on_tick(self, seen):
        now = seen["now_ms"] / 1000.0
        line = {"at_s": now, "pools": [{"replicas": list(self.replicas(seen))}],
                "requests": list(self.requests(now, seen["traffic"]))}
        print(json.dumps(line), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        self.ticks += 1
        self.targets.append((now, answer["target"]))
        return {"target_prefill": None, "target_decode": answer["target"], "next_tick_ms": (self.ticks + 1) * TICK_S * 1000.0}


def main():
    arguments = json.loads(sys.argv[1])
    policy = DecidePolicy(arguments["command"], arguments["trace"], arguments["kv_tokens"])
    native = _core.run_mocker_trace_replay([arguments["trace"]], scaling_policy=policy, capture_per_request=True,
                                           **arguments["options"])
    policy.process.stdin.close()
    if policy.process.wait(60) != 0:
        raise RuntimeError("penstock decide failed")
    report = {"requests": [[one["ttft_ms"], one["itl_ms"]] for one in native.per_request],
              "gpu_hours": native.summary["gpu_hours"], "targets": policy.targets}
    Path(sys.argv[2]).write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    main()
