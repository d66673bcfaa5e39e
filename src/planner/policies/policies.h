// The policies that Penstock's planner is compared with, each with its formula and its source. The setting
// `utilisation` replaces U; others replace the thresholds that a formula states.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/time.h"
#include "planner/policy.h"

namespace penstock::planner {

// "static": target' = target. The baseline of every autoscaler.
[[nodiscard]] std::unique_ptr<Policy> make_static_fleet(const PolicyContext& context);

struct ScheduleStep {
  core::Duration from{};  // From the start of the run.
  std::uint32_t replicas = 0;
};
using PoolSteps = std::vector<ScheduleStep>;  // In the order of their times, beginning at 0.

// "schedule": follows a list of steps for each pool, within the bounds of the pool. It scores ideas that were computed
// elsewhere. It is not among policy_names(), because a name does not suffice to make it.
[[nodiscard]] std::unique_ptr<Policy> make_schedule(std::vector<PoolSteps> pools);

// "hpa-rate": Kubernetes HPA on a Prometheus request rate, as an External metric with an AverageValue target.
//   rate = arrivals of the last minute / its length, target = U · capacity.requests_per_s, U = 0.8
//   replicas = |1 - rate / (target · N)| <= 0.1 ? N : ceil(rate / target), then HPA's default behaviour
[[nodiscard]] std::unique_ptr<Policy> make_hpa_rate(const PolicyContext& context);

// "hpa-concurrency": Kubernetes HPA on a Pods metric with an AverageValue target.
//   value of a pod = running + queued requests, target = U · capacity.concurrency, U = 0.8
//   ratio = Σ values / (target · pods), replicas = |1 - ratio| <= 0.1 ? current : ceil(ratio · pods)
// A pod without a value (starting, or not reporting) counts as at the target for scale-down and as idle for scale-up.
[[nodiscard]] std::unique_ptr<Policy> make_hpa_concurrency(const PolicyContext& context);

// "keda-tokens": a KEDA ScaledObject with three Prometheus triggers, whose HPA takes the highest proposal:
//   N_in = ceil(R_in / (C_in · U)), N_out = ceil(R_out / (C_out · U)), N_kv = ceil(Σ KV use / 0.75), U = 0.75
// R_in and R_out are prompt and output tokens per second over the last minute, C_in and C_out those of the load test.
// Prefill pools use N_in, decode pools N_out and N_kv, aggregated ones all three. As in KEDA (ignoreNullValues), a
// missing series counts as zero. With min_replicas 0, KEDA's operator makes the steps from and to 0: it checks every 30
// s, and removes all replicas after 300 s without activity.
[[nodiscard]] std::unique_ptr<Policy> make_keda_tokens(const PolicyContext& context);

// "kpa": Knative Serving's autoscaler on concurrency (pkg/autoscaler/scaling/autoscaler.go), every 2 s.
//   concurrency = mean over reporting replicas of (running + queued) · ready + requests in front of the pool
//   stable, panic = its mean over 60 s and over 6 s, target = U · capacity.concurrency, U = 0.7, R = max(1, ready)
//   d_stable = ceil(stable / target), d_panic = ceil(panic / target), each held in [floor(R / 2), ceil(1000 · R)]
//   panic mode from the time when ceil(panic / target) / R >= 2 until 60 s after this was last true; then
//   max(d_stable, d_panic), never lower than before in this panic; otherwise d_stable
// A policy that starts with more than one ready replica starts in panic mode, so that it keeps them until it has data.
// It decides while the window of 60 s contains a value; an empty window of 6 s counts as zero.
[[nodiscard]] std::unique_ptr<Policy> make_kpa(const PolicyContext& context);

// "apa": AIBrix' PodAutoscaler, strategy APA (pkg/controller/podautoscaler/algorithm/apa.go), every 10 s.
//   r = mean over 180 s of the mean over reporting replicas of the metric / its target
//   r > 1.1: min(ceil(N · r), ceil(2 · N)); r < 0.9: max(ceil(N · r), floor(N / 2)); otherwise N
//   while R of the N are ready and others start: up, ceil(R · r) in [N, the result above]; down, ceil(R · r + N - R) in
//   [the result above, N], so starting replicas count as idle for scale-up and as at the target for scale-down
//   then the highest recommendation of the last 300 s
// The metric is KV use with target 0.5; for prefill pools it is queued requests with target 10. N is the current
// target.
[[nodiscard]] std::unique_ptr<Policy> make_apa(const PolicyContext& context);

// "llmd-saturation-v1": the percentage rule of llm-d's workload variant autoscaler (internal/saturation/analyzer.go),
// every 15 s, on the peaks of the last minute.
//   a replica is saturated when KV >= 0.80 or queue >= 5; over the n others: spare_kv = mean(0.80 - KV), spare_queue =
//   mean(5 - queue), both 0 when n = 0
//   +1 when spare_kv < 0.10 or spare_queue < 3
//   -1 when n >= 2 and, with the load of each times n / (n - 1), spare_kv >= 0.10 and spare_queue >= 3
// It waits while the target, the provisioned replicas and the reporting replicas differ in number.
[[nodiscard]] std::unique_ptr<Policy> make_llmd_saturation_v1(const PolicyContext& context);

// "llmd-saturation-v2": the token rule of llm-d's workload variant autoscaler
// (internal/engines/analyzers/saturation_v2/analyzer.go), every 15 s, on the peaks of the last minute.
//   demand of a replica = KV use · KV tokens + queue · I
//   demand of n requests in front of the pool = n · I (prefill) or n · (I + O)
//   k1 = 0.80 · KV tokens
//   k2 = its tokens in use while its queue >= 5, else the mean of the last 10 such in the same band of O (< 100, < 500,
//        more), else min(B · O / (I + O), S) · (I + O / 2), else k1
//   capacity = median over replicas of min(k1, k2)
//   demand / 0.85 > (ready + starting) · capacity: + ceil(lack / capacity)
//   ready · capacity > demand / 0.70: - floor(excess / capacity); in both at most 10 replicas in 15 s
// I and O are mean prompt and output tokens (O = 1 in a prefill pool), B tokens and S sequences of a batch.
[[nodiscard]] std::unique_ptr<Policy> make_llmd_saturation_v2(const PolicyContext& context);

// "llmd-slo": llm-d's SLO-aware KEDA guide (guides/workload-autoscaling, 2026-09), every 15 s.
//   s_raw = max(p90 TTFT / its target, p90 ITL / its target) of the last minute, 0 without traffic
//   s = mean over 45 s of min(s_raw, 2), n = provisioned, r = ready, c = 0 < r < n ? r / n : 1
//   d = s > 0.55 ? n + ceil(n · (s · c / 0.55 - 1)) : s < 0.40 ? n - floor(n · (1 - s / 0.40)) : n
// The result goes to an HPA with an AverageValue of 1: up the greater of 100 % and 4 pods in 60 s with a window of 30
// s, down 1 pod in 120 s with a window of 180 s. A prefill pool uses TTFT only, a decode pool ITL only.
[[nodiscard]] std::unique_ptr<Policy> make_llmd_slo(const PolicyContext& context);

// "llmd-queue", "llmd-queue-guard", "llmd-pool-saturation" and "llmd-token-aware": KEDA objects of llm-d's guides on
// signals of its endpoint picker (guides/workload-autoscaling/{keda-epp, keda-epp-token-aware}, 2026-09), every 15 s.
//   S = Σ over the m ready replicas of max(queue / 5, KV use / 0.8), a replica without a sample counts as 1
//   s = min(1, S / m), since the picker sends nothing to a pool at 1; it would hold h = 5 · (S - m), from 0 to Σ queue
//   q = requests in front of the pool + h, r = Σ running + Σ queue - h, n = provisioned
//   queue: max(ceil(q / 1), ceil(r / 16)); pool-saturation: max(ceil(s / 0.7), ceil(r / 16))
//   queue-guard: d = max(q / 1, r / 16), ceil(d <= n ? d : max(d - starting, n))
//   token-aware: max(ceil(T / (V · 1.5 s)), ceil(Σ KV use / 0.8)), T = prompt tokens that are neither computed nor
//   cached, V = tokens per second of one prompt of 8,192 tokens on an idle engine; a prefill pool uses the first, a
//   decode pool the second
// Each ceil(x) is n while x / n is within 10 % of 1. Then an HPA: 100 % in 15 s both ways, with windows of 300 s up and
// down, 0 s up for queue-guard; token-aware: 1 pod in 180 s up without a window, 1 pod in 300 s down with one of 300 s.
[[nodiscard]] std::unique_ptr<Policy> make_llmd_queue(const PolicyContext& context);
[[nodiscard]] std::unique_ptr<Policy> make_llmd_queue_guard(const PolicyContext& context);
[[nodiscard]] std::unique_ptr<Policy> make_llmd_pool_saturation(const PolicyContext& context);
[[nodiscard]] std::unique_ptr<Policy> make_llmd_token_aware(const PolicyContext& context);

// "dynamo-throughput", "dynamo-latency" and "dynamo-load": the load loop of NVIDIA Dynamo's planner 1.6.1 with the
// static thresholds of its optimization targets (dynamo/planner/core/load_scaling.py), every 5 s, one replica per step.
//   prefill: queued prompt tokens / context length       up when any >= 1.0 (latency 0.1), down when all < 0.1 (= 0)
//   decode:  (scheduled + queued KV tokens) / KV tokens   up when any > 1.0 (0.4), down when all < 0.6 (0.1)
//   aggregated: (scheduled + queued KV + queued prompt tokens) / KV tokens, as decode
// The target load has thresholds of the user instead; here prefill 8,192 and 512 queued tokens, decode 0.8 and 0.4,
// each inclusive. A replica stays if the highest load of n replicas times n / (n - 1) reaches the threshold of growth.
// It only observes while the number of ready replicas differs from the target, or while a ready replica does not
// report. Prefill and decode pools wait for each other.
[[nodiscard]] std::unique_ptr<Policy> make_dynamo_throughput(const PolicyContext& context);
[[nodiscard]] std::unique_ptr<Policy> make_dynamo_latency(const PolicyContext& context);
[[nodiscard]] std::unique_ptr<Policy> make_dynamo_load(const PolicyContext& context);

// "dynamo-sla", "dynamo-sla-load" and "dynamo-sla-throughput": the optimization target sla of NVIDIA Dynamo's planner
// 1.6.1 with both loops, with the load loop only, every 5 s, one replica per step, or with the throughput loop only
// (dynamo/planner/core/{load,throughput}_scaling.py).
//   TTFT = time of the waiting prompts and one more, in chunks of max_batched_tokens, less the hit ratio h (<= 0.95)
//   ITL = time of a pass with the decoding and preempted sequences and one more, both by dynamo_pass_times.h
//   +1 when the TTFT of all engines, or the ITL of all engines, is above the SLO
//   -1 when on each engine, with the load of n replicas times n / (n - 1), wait < 0.8 · (SLO - own time of a prompt),
//   ITL < 0.8 · SLO, and the KV tokens fit; prefill pools use the first, decode pools the others, aggregated ones all
//   both loops: each 180 s, floor = ceil(rate / rate of one engine within the SLO), at most ready ± 8 and at least the
//   minimum, where rate and lengths are forecasts by a Kalman filter; the target is never below the floor
//   throughput loop only: the target is the floor
// With the load loop it waits as dynamo-throughput does; with any, until five passes have been seen.
[[nodiscard]] std::unique_ptr<Policy> make_dynamo_sla(const PolicyContext& context);
[[nodiscard]] std::unique_ptr<Policy> make_dynamo_sla_load(const PolicyContext& context);
[[nodiscard]] std::unique_ptr<Policy> make_dynamo_sla_throughput(const PolicyContext& context);

// "token-velocity": the scaling rule of TokenScale (arXiv:2512.03416), every 5 s. The token velocity of a stage is the
// greatest token rate that a replica sustains, here that of the load test.
//   prefill: ceil((1 + H) · R_in / V_in), R_in = prompt tokens of the arrivals of the last 15 s, per second
//   decode:  ceil((1 + H) · R_out / V_out), R_out = arrivals per second of the last 15 s · mean answer of the last
//            minute, or the tokens generated in the last minute while no answer was completed in it
//   aggregated: the greater of both; H = 0
// It shrinks to the greatest number of the last 300 s.
[[nodiscard]] std::unique_ptr<Policy> make_token_velocity(const PolicyContext& context);

// "hourly-floor": after SageServe (arXiv:2502.14617), a floor from an hourly forecast, a reaction between, every 15 s.
//   load = tokens per second of the last minute / load-tested tokens per second, in replicas: of prompts in a
//          prefill pool, of answers in a decode pool, the greater of both in an aggregated one
//   floor = ceil((1 + H) · highest mean of 15 minutes of the load in the next hour, forecast by ARIMA), computed at the
//           beginning of each hour and when the first forecast is possible; H = 0.1
//   u = max(load, Σ KV use) / provisioned; u > 0.7: +1; u < 0.3: -1; never below the floor
[[nodiscard]] std::unique_ptr<Policy> make_hourly_floor(const PolicyContext& context);

}  // namespace penstock::planner
