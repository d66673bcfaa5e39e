"""Series of a healthy fleet and of faults, and the alerts of packaging/monitoring that fire on them.

A value is in the notation of promtool, one sample a minute: `5+0xN` stays at 5, `0+60xN` grows by one a second. N is the
length of the case."""

GATEWAY = 'namespace="llm",job="gateway",instance="g"'
MODEL = GATEWAY + ',model="m"'
REPLICA = MODEL + ',replica="chat-1"'
PLANNER = 'namespace="llm",job="planner",instance="p"'
POOL = PLANNER + ',pool="chat"'
WORKER = POOL + ',worker_id="1"'
ENGINE = 'namespace="llm",job="engines",instance="p",model_name="m",pool="chat",replica="chat-1"'
EVIDENCE = 'penstock_decision_evidence{%s,name="%s",unit="times"}'


def histogram(name, labels, fast):
    """60 requests a minute, of which `fast` take less than 40 ms and the others four seconds."""
    bounds = {"0.04": fast, "1": fast, "4": 60, "+Inf": 60}
    return {f'{name}_bucket{{{labels},class="interactive",le="{bound}"}}': f"0+{count}xN" for bound, count in bounds.items()}


HEALTHY = {
    EVIDENCE % (POOL, "burn_rate"): "0.2+0xN",
    EVIDENCE % (POOL, "budget_left"): "0.8+0xN",
    f"dynamo_planner_observed_requests_per_second{{{PLANNER}}}": "1+0xN",
    f"dynamo_planner_sla_target_ttft_ms{{{PLANNER}}}": "2000+0xN",
    f"dynamo_planner_sla_target_itl_ms{{{PLANNER}}}": "50+0xN",
    **histogram("penstock_request_ttft_seconds", MODEL, 60),
    **histogram("penstock_request_tpot_seconds", MODEL, 60),
    f'penstock_requests_total{{{MODEL},tenant="shop",outcome="completed"}}': "0+60xN",
    f'penstock_requests_total{{{MODEL},tenant="shop",outcome="failed"}}': "0+0xN",
    f'penstock_requests_total{{{MODEL},tenant="shop",outcome="refused"}}': "0+0xN",
    f'penstock_tokens_total{{{MODEL},tenant="shop",kind="output"}}': "0+12000xN",
    f'penstock_refusals_total{{{GATEWAY},code="queue_full"}}': "0+0xN",
    f'penstock_refusals_total{{{GATEWAY},code="no_replica"}}': "0+0xN",
    f'penstock_overload_actions_total{{{GATEWAY},class="batch",tenant="nightly",action="drop"}}': "0+0xN",
    f'penstock_waiting_requests{{{GATEWAY},class="interactive"}}': "0+0xN",
    f"penstock_model_waiting_requests{{{MODEL}}}": "0+0xN",
    f"penstock_deferred_missed_total{{{GATEWAY}}}": "0+0xN",
    f"penstock_draining{{{GATEWAY}}}": "0+0xN",
    f"penstock_replica_eligible{{{REPLICA}}}": "1+0xN",
    f"penstock_replica_ejected{{{REPLICA}}}": "0+0xN",
    f"penstock_replica_ejections_total{{{REPLICA}}}": "0+0xN",
    f"penstock_memory_held_bytes{{{GATEWAY}}}": "1e9+0xN",
    f"penstock_memory_limit_bytes{{{GATEWAY}}}": "8e9+0xN",
    f"penstock_ledger_writable{{{GATEWAY}}}": "1+0xN",
    f'penstock_peer_gateways{{{GATEWAY},state="unreachable"}}': "0+0xN",
    f"penstock_ledger_dropped_entries_total{{{GATEWAY}}}": "0+0xN",
    f'penstock_config_last_reload_timestamp_seconds{{{GATEWAY},result="applied"}}': "0+0xN",
    f'penstock_config_last_reload_timestamp_seconds{{{GATEWAY},result="rejected"}}': "0+0xN",
    f"penstock_kv_usage_ratio{{{POOL}}}": "0.5+0xN",
    f"decode_queue_len{{{ENGINE}}}": "0+0xN",
    f"kv_cache_evictions_total{{{ENGINE}}}": "0+600xN",
    f"batch_merge_efficiency{{{ENGINE}}}": "0.4+0xN",
    f"num_preemptions_total{{{ENGINE}}}": "0+0xN",
    f"prefix_cache_queries_total{{{ENGINE}}}": "0+1200xN",
    f"prefix_cache_hits_total{{{ENGINE}}}": "0+900xN",
    f"active_sequences{{{ENGINE}}}": "20+0xN",
    f"tokens_out_total{{{ENGINE}}}": "0+12000xN",
    f"penstock_kv_full_seconds{{{WORKER}}}": "3000+0xN",
    f"penstock_gpu_utilisation_ratio{{{WORKER}}}": "0.7+0xN",
    f"penstock_gpu_memory_usage_ratio{{{WORKER}}}": "0.92+0xN",
    f"penstock_gpu_memory_full_seconds{{{WORKER}}}": "7200+0xN",
    f"penstock_silent_replicas{{{POOL}}}": "0+0xN",
    f'penstock_data_state{{{PLANNER},state="known"}}': "1+0xN",
    f'penstock_data_state{{{PLANNER},state="no_gateway"}}': "0+0xN",
    f'penstock_data_state{{{PLANNER},state="no_replicas"}}': "0+0xN",
    f"penstock_leader{{{PLANNER}}}": "1+0xN",
    'penstock_leader{namespace="llm",job="planner",instance="p2"}': "0+0xN",
    f'penstock_decisions_total{{{POOL},reason="cheapest_that_keeps_slo",limited_by=""}}': "0+12xN",
    f'penstock_decisions_total{{{POOL},reason="cheapest_that_keeps_slo",limited_by="gpu_budget"}}': "0+0xN",
    f'penstock_decisions_total{{{POOL},reason="cheapest_that_keeps_slo",limited_by="refused"}}': "0+0xN",
    'penstock_decisions_total{namespace="llm",job="planner",instance="p2",pool="chat",reason="follower",limited_by=""}': "0+12xN",
    f'penstock_plan_tick_seconds_bucket{{{PLANNER},le="1"}}': "0+12xN",
    f'penstock_plan_tick_seconds_bucket{{{PLANNER},le="10"}}': "0+12xN",
    f'penstock_plan_tick_seconds_bucket{{{PLANNER},le="+Inf"}}': "0+12xN",
    f"penstock_engine_model_uncalibrated{{{POOL}}}": "0+0xN",
    f"penstock_target_replicas{{{POOL}}}": "2+0xN",
    f"penstock_min_replicas{{{POOL}}}": "1+0xN",
    f"penstock_max_replicas{{{POOL}}}": "4+0xN",
    f'penstock_replicas{{{POOL},state="ready"}}': "2+0xN",
    f'penstock_replicas{{{POOL},state="starting"}}': "0+0xN",
    f'penstock_replicas{{{POOL},state="draining"}}': "0+0xN",
    f'penstock_pool_held{{{POOL},cause="none",by=""}}': "0+0xN",
    f"penstock_replicas_pending{{{POOL}}}": "0+0xN",
    f'penstock_scaling_requests_total{{{POOL},outcome="completed"}}': "0+10xN",
    f'penstock_scaling_requests_total{{{POOL},outcome="failed"}}': "0+0xN",
    f"penstock_gpu_cost_usd_total{{{POOL}}}": "0+0.1xN",
}

GROUPS = ["penstock-" + name for name in ("recording", "slo", "requests", "gateway", "engines", "planner", "scaling", "cost")]
HOUR, DAY = 60, 1440
# What vLLM does not expose; the number of its sequences is neither configured nor learned.
VLLM = {f"{name}{{{ENGINE}}}": None for name in ("decode_queue_len", "kv_cache_evictions_total", "batch_merge_efficiency")}

# Alerts that fire, minutes, and the series that differ from HEALTHY; None: the series is missing.
CASES = [
    ("nothing happens", (), 2 * DAY + 30, {}),
    ("the SLO is missed often", ("PenstockSloBurnsFast", "PenstockSloBurnsSlowly", "PenstockSloBurnsForDays"), 2 * HOUR,
     {EVIDENCE % (POOL, "burn_rate"): "20+0xN"}),
    ("the SLO is missed for hours", ("PenstockSloBurnsSlowly", "PenstockSloBurnsForDays"), 8 * HOUR,
     {EVIDENCE % (POOL, "burn_rate"): "8+0xN"}),
    ("the SLO is missed a little for days", ("PenstockSloBurnsForDays",), 3 * DAY + 2 * HOUR,
     {EVIDENCE % (POOL, "burn_rate"): "1.5+0xN"}),
    ("a short burst is over", ("PenstockSloBurnsForDays",), 2 * HOUR,
     {EVIDENCE % (POOL, "burn_rate"): "0.2+0x30 60+0x19 0+0xN"}),
    ("misses at night weigh little", (), 6 * HOUR,
     {EVIDENCE % (POOL, "burn_rate"): "0.1+0x270 20+0x60 0.1+0xN",
      f"dynamo_planner_observed_requests_per_second{{{PLANNER}}}": "10+0x270 0.05+0x60 10+0xN"}),
    ("the error budget is spent", ("PenstockErrorBudgetSpent",), HOUR, {EVIDENCE % (POOL, "budget_left"): "-0.3+0xN"}),
    ("first tokens are late", ("PenstockTtftOverObjective",), HOUR, histogram("penstock_request_ttft_seconds", MODEL, 50)),
    ("tokens are slow", ("PenstockItlOverObjective",), HOUR, histogram("penstock_request_tpot_seconds", MODEL, 50)),
    ("one of several deployments is late", ("PenstockTtftOverObjective",), HOUR,
     {f"dynamo_planner_sla_target_ttft_ms{{{PLANNER}}}": None,
      f'dynamo_planner_sla_target_ttft_ms{{{PLANNER},model="m"}}': "2000+0xN",
      f'dynamo_planner_sla_target_ttft_ms{{{PLANNER},model="slow"}}': "9000+0xN",
      **histogram("penstock_request_ttft_seconds", MODEL, 50),
      **histogram("penstock_request_ttft_seconds", GATEWAY + ',model="slow"', 50)}),
    ("no replica serves", ("PenstockNoEligibleReplica",), HOUR,
     {f"penstock_replica_eligible{{{REPLICA}}}": "0+0xN", f"penstock_model_waiting_requests{{{MODEL}}}": "3+0xN"}),
    ("the last replica is gone", ("PenstockNoEligibleReplica",), HOUR,
     {f"penstock_replica_eligible{{{REPLICA}}}": None, f"penstock_model_waiting_requests{{{MODEL}}}": "3+0xN"}),
    ("no replica serves and requests are refused",
     ("PenstockNoEligibleReplica", "PenstockManyRequestsRefused", "PenstockRequestsRefused", "PenstockTenantRefused"), HOUR,
     {f"penstock_replica_eligible{{{REPLICA}}}": None, f'penstock_refusals_total{{{GATEWAY},code="no_replica"}}': "0+0.3xN",
      f'penstock_requests_total{{{MODEL},tenant="shop",outcome="completed"}}': "0+0xN",
      f'penstock_requests_total{{{MODEL},tenant="shop",outcome="refused"}}': "0+0.3xN"}),
    ("a model sleeps while requests wait for another one", (), HOUR,
     {f"penstock_replica_eligible{{{REPLICA}}}": "0+0xN", f'penstock_replica_eligible{{{GATEWAY},model="other",replica="other-1"}}': "1+0xN",
      f'penstock_model_waiting_requests{{{GATEWAY},model="other"}}': "3+0xN",
      f'penstock_waiting_requests{{{GATEWAY},class="interactive"}}': "3+0xN"}),
    ("all replicas sleep and no request waits", (), HOUR, {f"penstock_replica_eligible{{{REPLICA}}}": "0+0xN"}),
    ("many requests are refused", ("PenstockManyRequestsRefused", "PenstockRequestsRefused"), HOUR,
     {f'penstock_refusals_total{{{GATEWAY},code="queue_full"}}': "0+12xN"}),
    ("some requests are refused", ("PenstockRequestsRefused",), HOUR,
     {f'penstock_refusals_total{{{GATEWAY},code="queue_full"}}': "0+2xN"}),
    ("a tenant is over its budget", ("PenstockTenantRefused",), HOUR,
     {f'penstock_refusals_total{{{GATEWAY},code="token_budget_exceeded"}}': "0+60xN",
      f'penstock_requests_total{{{MODEL},tenant="nightly",outcome="completed"}}': "0+10xN",
      f'penstock_requests_total{{{MODEL},tenant="nightly",outcome="refused"}}': "0+60xN"}),
    ("requests fail", ("PenstockRequestsFail",), HOUR,
     {f'penstock_requests_total{{{MODEL},tenant="shop",outcome="failed"}}': "0+6xN"}),
    ("most requests are invalid", ("PenstockRequestsRejected",), HOUR,
     {f'penstock_requests_total{{{MODEL},tenant="shop",outcome="rejected"}}': "0+600xN"}),
    ("one of several clients sends invalid requests", (), HOUR,
     {f'penstock_requests_total{{{MODEL},tenant="shop",outcome="completed"}}': "0+20xN",
      f'penstock_requests_total{{{MODEL},tenant="nightly",outcome="rejected"}}': "0+10xN"}),
    ("one of few requests fails", (), HOUR,
     {f'penstock_requests_total{{{MODEL},tenant="shop",outcome="completed"}}': "0+0.5xN",
      f'penstock_requests_total{{{MODEL},tenant="shop",outcome="failed"}}': "0+0x40 1+0xN"}),
    ("a segment is dropped", ("PenstockOverloadSheds",), HOUR,
     {f'penstock_overload_actions_total{{{GATEWAY},class="batch",tenant="nightly",action="drop"}}': "0+6xN"}),
    ("the queue grows", ("PenstockQueueGrows",), HOUR,
     {f'penstock_waiting_requests{{{GATEWAY},class="interactive"}}': "0+2xN"}),
    ("a queue of five grows", ("PenstockQueueGrows",), HOUR,
     {f'penstock_waiting_requests{{{GATEWAY},class="interactive"}}': "5+0x53 6+0xN"}),
    ("a queue of four grows", (), HOUR, {f'penstock_waiting_requests{{{GATEWAY},class="interactive"}}': "4+0x53 6+0xN"}),
    ("a queue shrinks", (), HOUR, {f'penstock_waiting_requests{{{GATEWAY},class="interactive"}}': "300-2xN"}),
    ("deadlines are missed", ("PenstockDeadlinesMissed",), HOUR,
     {f"penstock_deferred_missed_total{{{GATEWAY}}}": "0+0x30 4+0xN"}),
    ("the gateway is gone", ("PenstockGatewayMissing",), HOUR,
     {f"penstock_draining{{{GATEWAY}}}": "0+0x40 stale"}),
    ("a replica is unreachable", ("PenstockReplicaUnusable",), HOUR,
     {f'penstock_replica_problem{{{GATEWAY},replica="chat-1",code="unreachable"}}': "1+0xN"}),
    ("an engine hangs", ("PenstockReplicaUnusable",), HOUR,
     {f'penstock_replica_problem{{{GATEWAY},replica="chat-1",code="health_timeout"}}': "1+0xN"}),
    ("a replica sleeps", (), HOUR, {f'penstock_replica_problem{{{GATEWAY},replica="chat-1",code="asleep"}}': "1+0xN"}),
    ("a replica is ejected again and again", ("PenstockReplicaEjected",), HOUR,
     {f"penstock_replica_ejections_total{{{REPLICA}}}": "0+0x50 0+1xN"}),
    ("a replica stays ejected", ("PenstockReplicaEjected",), HOUR, {f"penstock_replica_ejected{{{REPLICA}}}": "0+0x50 1+0xN"}),
    ("bodies fill the memory", ("PenstockGatewayMemoryLow",), HOUR, {f"penstock_memory_held_bytes{{{GATEWAY}}}": "7.6e9+0xN"}),
    ("the ledger cannot be written", ("PenstockLedgerNotWritten",), HOUR,
     {f"penstock_ledger_writable{{{GATEWAY}}}": "1+0x40 0+0xN"}),
    ("entries of the ledger are dropped", ("PenstockLedgerNotWritten",), HOUR,
     {f"penstock_ledger_dropped_entries_total{{{GATEWAY}}}": "0+0x50 500+0xN"}),
    ("a gateway does not reach another one that shares its budgets", ("PenstockPeerUnreachable",), HOUR,
     {f'penstock_peer_gateways{{{GATEWAY},state="unreachable"}}': "0+0x40 1+0xN"}),
    ("a reload is rejected", ("PenstockReloadRejected",), HOUR,
     {f'penstock_config_last_reload_timestamp_seconds{{{GATEWAY},result="rejected"}}': "1.7e9+0xN"}),
    ("a later reload is applied", (), HOUR,
     {f'penstock_config_last_reload_timestamp_seconds{{{GATEWAY},result="rejected"}}': "1.7e9+0xN",
      f'penstock_config_last_reload_timestamp_seconds{{{GATEWAY},result="applied"}}': "0+0x30 1.8e9+0xN"}),
    ("the KV cache is hot", ("PenstockKvCacheHot",), HOUR, {f"penstock_kv_usage_ratio{{{POOL}}}": "0.95+0xN"}),
    ("requests are preempted", ("PenstockPreemptions",), HOUR, {f"decode_queue_len{{{ENGINE}}}": "4+0xN"}),
    ("evictions rise", ("PenstockEvictionsRise",), 5 * HOUR,
     {f"kv_cache_evictions_total{{{ENGINE}}}": "0+600x249 150000+1800xN"}),
    ("nothing happens at vLLM", (), 3 * HOUR, VLLM),
    ("vLLM preempts requests", ("PenstockPreemptions",), HOUR, {**VLLM, f"num_preemptions_total{{{ENGINE}}}": "0+20xN"}),
    ("vLLM finds fewer prefixes", ("PenstockEvictionsRise",), 5 * HOUR,
     {**VLLM, f"prefix_cache_hits_total{{{ENGINE}}}": "0+900x249 225000+100xN"}),
    ("fewer prefixes are found and none is evicted", (), 5 * HOUR,
     {f"prefix_cache_hits_total{{{ENGINE}}}": "0+900x249 225000+100xN"}),
    ("batches are filled less", ("PenstockBatchEfficiencyFell",), 150, {f"batch_merge_efficiency{{{ENGINE}}}": "0.4+0x89 0.2+0xN"}),
    ("batches are filled less at less load", (), 150,
     {f"batch_merge_efficiency{{{ENGINE}}}": "0.4+0x89 0.2+0xN", f"tokens_out_total{{{ENGINE}}}": "0+12000x89 1080000+6000xN"}),
    ("the KV cache fills", ("PenstockKvCacheFullSoon",), HOUR,
     {f"penstock_kv_full_seconds{{{WORKER}}}": "60+0xN", f"penstock_kv_usage_ratio{{{POOL}}}": "0.7+0xN"}),
    ("a new replica fills its KV cache", (), HOUR,
     {f"penstock_kv_full_seconds{{{WORKER}}}": "60+0xN", f"penstock_kv_usage_ratio{{{POOL}}}": "0.2+0xN"}),
    ("an empty cache fills", (), HOUR, {f"kv_cache_evictions_total{{{ENGINE}}}": "0+0x30 0+1800xN"}),
    ("a GPU memory fills", ("PenstockGpuMemoryFullSoon",), HOUR, {f"penstock_gpu_memory_full_seconds{{{WORKER}}}": "300+0xN"}),
    ("an engine is silent", ("PenstockTelemetryStale",), HOUR, {f"penstock_silent_replicas{{{POOL}}}": "1+0xN"}),
    ("the planner is gone", ("PenstockPlannerMissing",), HOUR,
     {f'penstock_data_state{{{PLANNER},state="{state}"}}': f"{value}+0x40 stale" for state, value in
      (("known", 1), ("no_gateway", 0), ("no_replicas", 0))}),
    ("the gateway does not answer the planner", ("PenstockPlannerWithoutData", "PenstockPlannerDecidesNothing"), HOUR,
     {f'penstock_data_state{{{PLANNER},state="known"}}': "0+0xN", f'penstock_data_state{{{PLANNER},state="no_gateway"}}': "1+0xN",
      f'penstock_decisions_total{{{POOL},reason="cheapest_that_keeps_slo",limited_by=""}}': "12+0xN"}),
    ("a pool has lost its replicas", ("PenstockPlannerWithoutData",), HOUR,
     {f'penstock_data_state{{{PLANNER},state="known"}}': "0+0xN", f'penstock_data_state{{{PLANNER},state="no_replicas"}}': "1+0xN"}),
    ("a pool is scaled to zero", (), HOUR,
     {f'penstock_data_state{{{PLANNER},state="known"}}': "0+0xN", f'penstock_data_state{{{PLANNER},state="no_replicas"}}': "1+0xN",
      f"penstock_min_replicas{{{POOL}}}": "0+0xN"}),
    ("no planner leads", ("PenstockPlannerWithoutLeader",), HOUR, {f"penstock_leader{{{PLANNER}}}": "0+0xN"}),
    ("two planners lead", ("PenstockSeveralLeaders",), HOUR, {'penstock_leader{namespace="llm",job="planner",instance="p2"}': "1+0xN"}),
    ("the lead moves", (), HOUR,
     {f"penstock_leader{{{PLANNER}}}": "1+0x30 0+0xN", 'penstock_leader{namespace="llm",job="planner",instance="p2"}': "0+0x30 1+0xN"}),
    ("the planner hangs", ("PenstockPlannerDecidesNothing",), HOUR,
     {f'penstock_decisions_total{{{POOL},reason="cheapest_that_keeps_slo",limited_by=""}}': "0+12x20 240+0xN"}),
    ("ticks are slow", ("PenstockPlannerSlow",), HOUR, {f'penstock_plan_tick_seconds_bucket{{{PLANNER},le="1"}}': "0+0xN"}),
    ("the engine model is a default", ("PenstockEngineModelUncalibrated",), 2 * HOUR,
     {f"penstock_engine_model_uncalibrated{{{POOL}}}": "1+0xN"}),
    ("the pool is at its maximum", ("PenstockFleetAtMaximum",), HOUR, {f"penstock_target_replicas{{{POOL}}}": "4+0xN"}),
    ("the pool has a fixed size", (), HOUR,
     {f"penstock_min_replicas{{{POOL}}}": "2+0xN", f"penstock_max_replicas{{{POOL}}}": "2+0xN"}),
    ("the GPU budget is used up", ("PenstockGpuBudgetLimits",), 2 * HOUR,
     {f'penstock_decisions_total{{{POOL},reason="cheapest_that_keeps_slo",limited_by=""}}': "0+2xN",
      f'penstock_decisions_total{{{POOL},reason="cheapest_that_keeps_slo",limited_by="gpu_budget"}}': "0+10xN"}),
    ("changes are refused", ("PenstockScalingRefused",), HOUR,
     {f'penstock_decisions_total{{{POOL},reason="cheapest_that_keeps_slo",limited_by="refused"}}': "0+2xN"}),
    ("another autoscaler holds the pool", ("PenstockPoolHeld",), HOUR,
     {f'penstock_pool_held{{{POOL},cause="none",by=""}}': None, f'penstock_pool_held{{{POOL},cause="autoscaler",by="hpa/vllm"}}': "1+0xN"}),
    ("pods have no node", ("PenstockPodsPending",), HOUR, {f"penstock_replicas_pending{{{POOL}}}": "2+0xN"}),
    ("replicas never become ready", ("PenstockReplicasStartForLong",), HOUR, {f'penstock_replicas{{{POOL},state="starting"}}': "1+0xN"}),
    ("replicas never end", ("PenstockReplicasDrainForLong",), 2 * HOUR, {f'penstock_replicas{{{POOL},state="draining"}}': "1+0xN"}),
    ("scaling fails requests", ("PenstockScalingFailsRequests",), HOUR,
     {f'penstock_scaling_requests_total{{{POOL},outcome="failed"}}': "0+1xN"}),
    ("tokens cost more", ("PenstockCostPerTokenJumped",), 2 * DAY + 2 * HOUR,
     {f"penstock_gpu_cost_usd_total{{{POOL}}}": f"0+0.1x{2 * DAY - 1} {0.1 * 2 * DAY}+0.4xN"}),
    ("nights are dear", (), 2 * DAY + 2 * HOUR,
     {f'penstock_tokens_total{{{MODEL},tenant="shop",kind="output"}}': " ".join(
         f"{day * 12000 * 1200 + day * 1000 * 240}+12000x1199 {(day + 1) * 12000 * 1200 + day * 1000 * 240}+1000x239"
         for day in range(3))}),
    ("replicas are idle", ("PenstockReplicasIdle",), 3 * HOUR, {f"batch_merge_efficiency{{{ENGINE}}}": "0.01+0xN"}),
    ("replicas of vLLM are idle", ("PenstockReplicasIdle",), 3 * HOUR, {**VLLM, f"active_sequences{{{ENGINE}}}": "0.2+0xN"}),
    ("GPUs are idle", ("PenstockGpusIdle",), 3 * HOUR, {f"penstock_gpu_utilisation_ratio{{{WORKER}}}": "0.02+0xN"}),
    ("the smallest fleet is idle", (), 3 * HOUR,
     {f"batch_merge_efficiency{{{ENGINE}}}": "0.01+0xN", f"penstock_gpu_utilisation_ratio{{{WORKER}}}": "0.02+0xN",
      f"penstock_min_replicas{{{POOL}}}": "2+0xN"}),
]


def rule_tests(rules):
    """The cases as files of `promtool test rules`: all alerts that fire at the end of a case, and no others. Rules of long cases are
    evaluated every ten minutes, since each evaluation reads days."""
    files = []
    for is_long in (False, True):
        tests = []
        for name, alerts, minutes, changed in CASES:
            if (minutes > 4 * HOUR) != is_long:
                continue
            series = {**HEALTHY, **changed}
            tests.append({
                "name": name, "interval": "1m",
                "input_series": [{"series": each, "values": values.replace("xN", f"x{minutes}")}
                                 for each, values in series.items() if values is not None],
                "promql_expr_test": [{
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": f"{minutes}m",
                    "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts]}]})
        # Alerts read what the first group records at the same time. Groups that are not named are in no order.
        files.append({"rule_files": [rules], "evaluation_interval": "10m" if is_long else "1m",
                      "group_eval_order": GROUPS, "tests": tests})
    return files
