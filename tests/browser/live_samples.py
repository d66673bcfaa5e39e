"""States of a running Penstock, as /api/state and /api/points tell them. Each function returns (state, points)."""

import math

SLO = {"ttft_ms": 2000, "itl_ms": 50, "goal": 0.95, "attainment": 11830 / 12010, "met": 11830, "judged": 12010,
       "ttft_attainment": 0.991, "itl_attainment": 0.994}


def latency(p50, count=240):
    return {"count": count, "p50_ms": p50, "p90_ms": p50 * 1.9, "p95_ms": p50 * 2.4, "p99_ms": p50 * 3.6}


def sample(index):
    return {"age_s": 0.4, "queued": index % 4, "running": 12 + index, "queued_prefill_tokens": 900.0 * (index % 4),
            "kv_usage": min(0.97, 0.42 + 0.07 * index), "kv_capacity_tokens": 180000, "evictions": 12, "preemptions": 0,
            "batch_merge_efficiency": 0.93}


def replica(pool, index, stage="serving"):
    state = {"serving": "ready", "draining": "draining"}.get(stage, "starting")
    return {"name": f"{pool}-{index}", "stage": stage, "url": f"http://127.0.0.1:{9000 + index}", "state": state,
            "switch_to": None, "age_s": 40.0 + 61 * index, "sample": sample(index) if stage != "starting" else None}


def pool(name, role, replicas, target):
    stages = [each["state"] for each in replicas]
    return {"name": name, "role": role, "min": 1, "max": 64, "gpus_per_replica": 1, "price_per_gpu_hour": 2.5, "start_up_s": 30,
            "target": target, "starting": stages.count("starting"), "ready": stages.count("ready"),
            "draining": stages.count("draining"), "gpu_hours": 3.42, "cost": 8.55, "replicas": replicas}


def decision(at_s, pool, current, target, reason, pools=1, limit="", cause="none"):
    hold = current == target
    names = ["default"] if pools == 1 else [f"pool {number}" for number in range(pools)]
    tried = [{"replicas": dict.fromkeys(names, count), "slo_attainment": slo, "ttft_attainment": min(1.0, slo + 0.01),
              "itl_attainment": min(1.0, slo + 0.03), "chosen": count == target}
             for count, slo in ((max(1, target - 1), 0.871), (target, 0.992), (target + 3, 1.0))]
    return {"at_s": at_s, "pool": pool, "current": current, "target": target, "reason": reason, "limited_by": limit,
            "sentence": "" if hold else "request_rate 11.2 1/s, attainment 0.992 share", "cause": cause,
            "diagnosis": "" if cause == "none" else f"TTFT is bad in pool {pool} for all, in the engine queue: {cause} "
                         "(ttft_p95 5120 ms, queued 31 requests); adds replicas",
            "phase": "cost",
            "would_change": f"scales up when the SLO attainment of {target} replicas is too low (simulated: 99.2 %), "
                            f"down when {max(1, target - 1)} would be enough (simulated: 87.1 %)",
            "evidence": [{"name": "request_rate", "value": 11.2, "unit": "1/s"}, {"name": "attainment", "value": 0.992, "unit": "share"},
                         {"name": "ttft_p95", "value": 1240.0, "unit": "ms"}, {"name": "queued_tokens", "value": None, "unit": "tokens"}],
            "candidates": tried}


def point(at_s, pools=1, most=6):
    wave = 0.5 + 0.5 * math.sin(at_s / 260.0)
    target = 1 + round((most - 1) * (0.5 + 0.5 * math.sin((at_s + 40) / 260.0)))
    ready = 1 + round((most - 1) * (0.5 + 0.5 * math.sin((at_s - 30) / 260.0)))
    noise = 0.5 + 0.5 * math.sin(at_s / 17) * math.sin(at_s / 29)
    return {"at_s": at_s, "arrivals_per_s": 2 + 14 * wave + noise, "input_tokens_per_s": 3000 + 21000 * wave + 900 * noise,
            "output_tokens_per_s": 500 + 3900 * wave + 200 * noise,
            "target": [target] * pools, "starting": [max(0, target - ready)] * pools, "ready": [ready] * pools,
            "draining": [max(0, ready - target)] * pools, "ttft": latency(180 + 420 * wave * wave + 60 * noise),
            "itl": latency(12 + 7 * wave + noise), "queued": round(14 * wave * noise), "running": round(10 + 60 * wave),
            "waiting": round(3 * wave * noise), "kv_usage": 0.2 + 0.6 * wave, "hit_ratio": 0.35 + 0.2 * noise}


def gateway(pools, now_s):
    def seen(pool, each):
        return {"id": each["name"], "url": each["url"], "model": "penstock-sim", "pool": pool["name"], "role": pool["role"],
                "phase": "serving", "healthy": True, "breaker_open": False, "ejection_cause": "", "ejections_total": 0, "eligible": each["state"] == "ready",
                "open_requests": 14, "prefill_tokens": 2100, "context_tokens": 48000, "prefill_tokens_per_s": 9000.0,
                "prefix_keys": 4100, "requests_total": 2210, "failures_total": 0, "busy_total": 3, "kv_usage": 0.5}
    usage = {"opened": 5100, "closed": 5080, "completed": 5011, "cancelled": 40, "timed_out": 2, "truncated": 1, "failed": 1, "refused": 26,
             "prompt_tokens": 8_204_113, "cached_tokens": 3_912_004, "output_tokens": 1_102_440, "cost": 4.21}
    return {"boot": "b1", "now_s": now_s, "replicas": [seen(pool, each) for pool in pools for each in pool["replicas"] if each["sample"]],
            "tenants": [{"name": "shop", "budget_available": 412000.0, "running": 31, "waiting": 2},
                        {"name": "research", "budget_available": None, "running": 12, "waiting": 0},
                        {"name": "no requests", "budget_available": 60000.0, "running": 0, "waiting": 0}],
            "usage": [{"tenant": "shop", "model": "penstock-sim", **usage},
                      {"tenant": "research", "model": "penstock-sim", **usage, "failed": 0, "timed_out": 0, "refused": 0, "cost": 2.94}],
            "latencies": [{"model": "penstock-sim", "dimension": "traffic_class", "label": "chat", "ttft": latency(210), "itl": latency(14)}],
            "queue": {"interactive": 2, "batch": 5, "tokens": 14200, "oldest_s": 0.84}, "running": 43, "granted_total": 10310,
            "refused_total": 26, "retried_total": 4, "clamped_total": 11, "refusals": {"budget_exhausted": 21, "kv_full": 5}}


def gpu_cost(share, prompt_tokens, output_tokens, at_slo=0.9):
    usd = 8.55 * share
    prompt, output = 1e6 * usd * 0.3 / prompt_tokens, 1e6 * usd * 0.7 / output_tokens
    return {"prompt_tokens": prompt_tokens, "output_tokens": output_tokens, "prompt_tokens_at_slo": round(prompt_tokens * at_slo),
            "output_tokens_at_slo": round(output_tokens * at_slo), "gpu_cost": usd,
            "gpu_usd_per_1m_tokens": {"input": prompt, "output": output, "input_at_slo": prompt / at_slo, "output_at_slo": output / at_slo}}


def state_of(pools, decisions, now_s=2400.0):
    segments = [("all", "all", 310, 14), ("traffic class", "chat", 190, 12), ("traffic class", "batch", 1210, 24),
                ("prompt tokens", "< 512", 120, 11), ("prompt tokens", "≥ 8192", 980, 19), ("tenant", "shop", 305, 14)]
    return {"version": "0.1.0", "now_s": now_s, "mode": "act", "policy": "penstock", "phase": "cost",
            "data": {"state": "known", "text": "", "since_s": 1.5, "gateway_up": True}, "slo": dict(SLO), "pools": pools,
            "segments": [{"dimension": dimension, "label": label, "ttft": latency(ttft), "itl": latency(itl)}
                         for dimension, label, ttft, itl in segments],
            "diagnosis": {"cause": "queue", "text": "TTFT is bad in pool default for traffic class batch, in the engine queue: too many requests per replica "
                                                     "(ttft_p95 2904 ms, queued 31 requests); adds replicas"},
            "gpu_cost": {"for_s": now_s, "all": gpu_cost(1, 40_000_000, 5_000_000),
                         "tenants": [{"tenant": "shop", "model": "penstock-sim", **gpu_cost(0.75, 30_000_000, 3_750_000)},
                                     {"tenant": "research", "model": "penstock-sim", **gpu_cost(0.25, 10_000_000, 1_250_000, 0.5)}]},
            "scaling": [{"pool": "default", "from": 5, "to": 6, "began_s": now_s - 12, "settled_s": None, "completed": 140,
                         "failed": 0, "truncated": 0, "timed_out": 0, "cancelled": 2},
                        {"pool": "default", "from": 4, "to": 5, "began_s": now_s - 300, "settled_s": now_s - 286,
                         "completed": 1031, "failed": 0, "truncated": 3, "timed_out": 0, "cancelled": 0}],
            "decisions": decisions,
            "events": [{"at_s": now_s - 12, "warning": False, "pool": "default", "text": "default-6 is warmed up: it is healthy"},
                       {"at_s": now_s - 31, "warning": False, "pool": "default", "text": "default-6 starts: the pool has fewer replicas than its target"},
                       {"at_s": now_s - 300, "warning": True, "pool": "default", "text": "default-3 died with 9 requests open; another is started"},
                       {"at_s": now_s - 900, "warning": False, "pool": "", "text": "the replicas file was written"}],
            "gateway": gateway(pools, now_s)}


def points_of(pools=1, count=900, end_s=2400.0, most=6):
    return [point(end_s - 2.0 * (count - 1 - index), pools, most) for index in range(count)]


def ordinary():
    replicas = [replica("default", index) for index in range(1, 6)] + [replica("default", 6, "starting"), replica("default", 7, "draining")]
    decisions = [decision(2388, "default", 5, 6, "slo_at_risk", limit="growth_rate", cause="queue"),
                 decision(2290, "default", 5, 5, "slo_met", limit="hot_kv_cache"),
                 decision(2100, "default", 4, 5, "cheapest_that_keeps_slo"),
                 decision(1900, "default", 5, 4, "spare_capacity"),
                 decision(1700, "default", 5, 5, "insufficient_data", limit="stale_telemetry"),
                 decision(1500, "default", 2, 5, "slo_burns", cause="cold_start")]
    return state_of([pool("default", "aggregated", replicas, 6)], decisions), points_of()


def disaggregated():
    pools = [pool("prefill", "prefill", [replica("prefill", index) for index in range(1, 4)], 3),
             pool("decode", "decode", [replica("decode", index) for index in range(4, 10)], 6)]
    decisions = [decision(2388, "prefill", 2, 3, "slo_at_risk", pools=2, cause="prefill"), decision(2300, "decode", 6, 6, "slo_met", pools=2)]
    return state_of(pools, decisions), points_of(2)


def large():
    """64 replicas and 100 decisions: as much as there may be."""
    replicas = [replica("default", index) for index in range(1, 65)]
    decisions = [decision(2390 - 20 * index, "default", 30 + index % 3, 30 + (index + 1) % 3, "load_above_target") for index in range(100)]
    return state_of([pool("default", "aggregated", replicas, 64)], decisions), points_of(count=1800, most=64)


def bare():
    """Just started: no gateway, nothing measured, pools without replicas."""
    state = state_of([pool("default", "aggregated", [], 1)], [])
    state["pools"][0].update(cost=None, gpu_hours=0.0)
    nothing = dict.fromkeys(gpu_cost(1, 1, 1), 0) | {"gpu_cost": None, "gpu_usd_per_1m_tokens": dict.fromkeys(("input", "output", "input_at_slo", "output_at_slo"))}
    state["gpu_cost"] = {"for_s": 2.0, "all": nothing, "tenants": []}
    state.update(gateway=None, segments=[], diagnosis=None, scaling=[], events=[], phase="", mode="observe", slo={**SLO, "attainment": None, "met": 0, "judged": 0})
    quiet = {**point(2398), "arrivals_per_s": 0.0, "input_tokens_per_s": 0.0, "output_tokens_per_s": 0.0, "target": [1], "starting": [0],
             "ready": [0], "draining": [0], "ttft": None, "itl": None, "queued": 0, "running": 0, "waiting": 0, "kv_usage": 0.0, "hit_ratio": 0.0}
    return state, [quiet]


def blind():
    """The gateway went down: what only it knows is null."""
    state, points = ordinary()
    for pool in state["pools"]:
        pool.update(target=None, starting=None, ready=None, draining=None)
        for replica in pool["replicas"]:
            replica.update(stage="unknown", state="unknown")
    text = "the gateway does not answer; check --gateway, its token and the gateway's admin address"
    state.update(gateway=None, segments=[], slo={**SLO, "attainment": None}, mode="observe", phase="",
                 data={"state": "no_gateway", "text": text, "since_s": state["now_s"] - 20, "gateway_up": False},
                 diagnosis={"cause": "unknown", "text": "the state is unknown: " + text})
    quiet = {**point(2402), "arrivals_per_s": None, "input_tokens_per_s": None, "output_tokens_per_s": None, "target": [None],
             "starting": [None], "ready": [None], "draining": [None], "ttft": None, "itl": None, "queued": None, "running": None,
             "waiting": None, "kv_usage": None, "hit_ratio": None}
    return state, [*points, quiet]


HOSTILE = ("<script>document.title='taken'</script>", "<img src=x onerror=\"document.title='taken'\">", "\"' onclick=\"x\" `${1}`",
           "\u202eesrever", "a" * 10_000, "</style></script><b>", "javascript:alert(1)", "line\nbreak\u2028\u0000")


def hostile():
    """The ordinary state with every text from outside replaced."""
    state, points = ordinary()
    turn = [0]

    def taint(value, key=""):
        if isinstance(value, dict):
            return {HOSTILE[0] + each if key == "refusals" else each: taint(inner, each) for each, inner in value.items()}
        if isinstance(value, list):
            return [taint(inner, key) for inner in value]
        if not isinstance(value, str) or key in ("mode", "state"):
            return value
        turn[0] += 1
        return HOSTILE[turn[0] % len(HOSTILE)]

    return taint(state), points


def wrong_types():
    """What no planner says; a page that is older or newer than its server may meet it."""
    state, points = ordinary()
    state.update(pools={}, decisions=[None, 7, {"evidence": "none", "candidates": {"a": 1}}], slo=None, events="x", segments=[3],
                 diagnosis="bad", gateway={"replicas": None, "usage": [None], "queue": 4, "refusals": []})
    return state, [None, {"at_s": "soon"}, {"at_s": 2398, "ttft": 5, "ready": 3}]
