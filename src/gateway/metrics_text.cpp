#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/traffic_class.h"
#include "gateway/documents.h"
#include "telemetry/exposition_writer.h"

namespace penstock::gateway {
namespace {

constexpr double kQuantiles[] = {0.5, 0.9, 0.95, 0.99};

void leave_out_replaced(std::vector<dispatch::ReplicaStatus>& replicas) {
  std::map<std::string_view, std::uint32_t> slots;
  for (const dispatch::ReplicaStatus& status : replicas) slots[status.spec.id] = status.slot;
  std::vector<dispatch::ReplicaStatus> kept;
  for (dispatch::ReplicaStatus& status : replicas)
    if (slots.at(status.spec.id) == status.slot) kept.push_back(status);
  replicas = std::move(kept);
}

double windowed(const signals::LatencyWindow& window, double quantile) {
  if (quantile == 0.5) return window.p50_ms;
  if (quantile == 0.9) return window.p90_ms;
  return quantile == 0.95 ? window.p95_ms : window.p99_ms;
}

void add_latencies(telemetry::ExpositionWriter& text, const Overview& overview, bool ttft) {
  const std::string_view what = ttft ? "ttft" : "itl";
  const std::string help = ttft ? "TTFT: time to first token" : "ITL: mean gap between tokens of a request";
  text.family(fmt::format("penstock_{}_seconds", what), "summary", help + ", since the start");
  for (const dispatch::ModelStatus& model : overview.models) {
    const core::QuantileSketch& sketch = ttft ? model.ttft_ms : model.itl_ms;
    if (sketch.count() == 0) continue;
    for (const double quantile : kQuantiles)
      text.add(sketch.quantile(quantile) / 1000.0, {{"model", model.model}, {"quantile", fmt::format("{}", quantile)}});
    text.add(sketch.sum() / 1000.0, {{"model", model.model}}, "_sum");
    text.add(static_cast<double>(sketch.count()), {{"model", model.model}}, "_count");
  }
  text.family(fmt::format("penstock_{}_minute_seconds", what), "gauge", help + ", of the last minute, by segment");
  for (const dispatch::ModelStatus& model : overview.models)
    for (const signals::SegmentWindow& segment : model.detail.segments) {
      const signals::LatencyWindow& window = ttft ? segment.ttft : segment.itl;
      if (window.count == 0) continue;
      for (const double quantile : kQuantiles)
        text.add(windowed(window, quantile) / 1000.0, {{"model", model.model},
                                                       {"dimension", segment.dimension},
                                                       {"segment", segment.label},
                                                       {"quantile", fmt::format("{}", quantile)}});
    }
}

void add_histograms(telemetry::ExpositionWriter& text, const LatencyTotals& totals) {
  constexpr LatencyFamily kFamilies[] = {
      {Latency::kQueue, "penstock_request_queue_seconds", "queue time: from the arrival of a request to its admission"},
      {Latency::kTtft, "penstock_request_ttft_seconds", "TTFT: from the arrival of a stream to its first token"},
      {Latency::kItl, "penstock_request_itl_seconds", "ITL: gaps between consecutive tokens of streams"},
      {Latency::kTpot, "penstock_request_tpot_seconds",
       "TPOT: mean time of each token of a complete stream after its first one"},
      {Latency::kE2e, "penstock_request_e2e_seconds",
       "from the arrival of a request to the end of its complete answer"},
  };
  add_latencies(text, totals, kFamilies, Buckets::kClassicAndNative, [](const LatencyKey& key) {
    return telemetry::format_labels({{"model", key.first}, {"class", key.second}});
  });
}

void add_refusals(telemetry::ExpositionWriter& text, const Overview& overview, const WorkerTotals& totals) {
  // A code may be that of the dispatcher and of a worker: both refuse unknown models.
  std::map<std::string, std::uint64_t> counts = totals.refusals;
  for (const auto& [reason, count] : overview.refusals) counts[std::string{dispatch::to_string(reason)}] += count;
  text.family("penstock_refusals_total", "counter", "refused requests by error code");
  for (const auto& [code, count] : counts) text.add(static_cast<double>(count), {{"code", code}});
}

// Empty if there is no replica or none reports its KV usage.
std::optional<double> model_saturation(const dispatch::ModelStatus& model,
                                       const std::vector<dispatch::ReplicaStatus>& replicas) {
  if (model.waiting_for_room > 0) return 1.0;
  double sum = 0.0;
  int count = 0;
  for (const dispatch::ReplicaStatus& status : replicas) {
    if (status.spec.model != model.model || !status.load.eligible || !status.load.kv_usage) continue;
    sum += *status.load.kv_usage;
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional{sum / count};
}

template <class ValueOf>
void add_replicas(telemetry::ExpositionWriter& text, const Overview& overview, std::string_view name,
                  std::string_view type, std::string_view help, ValueOf value_of) {
  text.family(name, type, help);
  for (const dispatch::ReplicaStatus& status : overview.replicas)
    text.add(static_cast<double>(value_of(status)), {{"replica", status.spec.id}, {"model", status.spec.model}});
}

void add_routing(telemetry::ExpositionWriter& text, const Overview& overview) {
  text.family("penstock_routing_decisions_total", "counter",
              "attempts at the replica by the reason for which it was chosen");
  for (const dispatch::ReplicaStatus& status : overview.replicas)
    for (std::size_t why = 0; why < status.picks.size(); ++why)
      text.add(static_cast<double>(status.picks[why]),
               {{"replica", status.spec.id},
                {"model", status.spec.model},
                {"reason", routing::to_string(static_cast<routing::PickReason>(why))}});
}

void add_usage(telemetry::ExpositionWriter& text, const Overview& overview) {
  text.family("penstock_requests_total", "counter", "ended requests by outcome");
  for (const auto& [key, sums] : overview.sums)
    for (const auto& [outcome, count] :
         {std::pair{"completed", sums.completed}, std::pair{"cancelled", sums.cancelled},
          std::pair{"timed_out", sums.timed_out}, std::pair{"truncated", sums.truncated},
          std::pair{"failed", sums.failed}, std::pair{"rejected", sums.rejected}, std::pair{"refused", sums.refused}})
      text.add(static_cast<double>(count), {{"tenant", key.first}, {"model", key.second}, {"outcome", outcome}});
  text.family("penstock_tokens_total", "counter", "tokens of ended requests; cached tokens are part of the input");
  for (const auto& [key, sums] : overview.sums)
    for (const auto& [kind, count] : {std::pair{"input", sums.prompt_tokens}, std::pair{"cached", sums.cached_tokens},
                                      std::pair{"output", sums.output_tokens}})
      text.add(static_cast<double>(count), {{"tenant", key.first}, {"model", key.second}, {"kind", kind}});
  text.family("penstock_token_cost_usd_total", "counter",
              "token cost of ended requests: tokens times token price (USD)");
  for (const auto& [key, sums] : overview.sums) text.add(sums.cost, {{"tenant", key.first}, {"model", key.second}});
}

void add_overload(telemetry::ExpositionWriter& text, const Overview& overview) {
  text.family("penstock_overload_actions_total", "counter",
              "requests on which the overload policy of their segment acted: queue (waited for a replica), degrade "
              "(max_tokens lowered), drop and shed (refused)");
  for (const dispatch::SegmentOverload& segment : overview.overload)
    for (std::size_t action = 0; action < segment.counts.size(); ++action)
      if (segment.counts[action] > 0)
        text.add(static_cast<double>(segment.counts[action]),
                 {{"class", admission::to_string(segment.traffic_class)},
                  {"tenant", segment.tenant},
                  {"action", to_string(static_cast<admission::OverloadAction>(action))}});
}

void add_queues(telemetry::ExpositionWriter& text, const Overview& overview) {
  text.family("penstock_waiting_requests", "gauge", "requests that wait for admission");
  text.add(overview.waiting_interactive, {{"class", core::kInteractiveClass}});
  text.add(overview.waiting_batch, {{"class", core::kBatchClass}});
  text.family("penstock_waiting_tokens", "gauge", "estimated tokens of the waiting requests");
  text.add(static_cast<double>(overview.waiting_tokens));
  text.family("penstock_deferred_requests", "gauge", "batch requests that wait for spare capacity");
  text.add(static_cast<double>(overview.deferred_requests));
  text.family("penstock_deferred_tokens", "gauge", "estimated tokens of the deferred requests");
  text.add(static_cast<double>(overview.deferred_tokens));
  text.family("penstock_deferred_next_due_seconds", "gauge",
              "time until the deadline of the first deferred request is near; no series without deferred requests");
  if (const auto due_in_s = overview.due_in_s()) text.add(*due_in_s);
  text.family("penstock_deferrals_total", "counter", "batch requests that had to wait for spare capacity");
  text.add(static_cast<double>(overview.deferral.deferred));
  text.family("penstock_deferred_sent_total", "counter",
              "batch requests that went to a replica: spare (it had spare capacity) or due (their deadline was near)");
  text.add(static_cast<double>(overview.deferral.sent_spare), {{"reason", "spare"}});
  text.add(static_cast<double>(overview.deferral.sent_due), {{"reason", "due"}});
  text.family("penstock_deferred_missed_total", "counter",
              "batch requests that ended after their deadline, or were refused near it");
  text.add(static_cast<double>(overview.deferral.missed));
  text.family("penstock_oldest_waiting_seconds", "gauge", "age of the oldest waiting request");
  text.add(overview.oldest_waiting == core::kNever ? 0.0 : core::to_seconds(overview.now - overview.oldest_waiting));
  text.family("penstock_running_requests", "gauge", "requests in flight: admitted and not ended");
  text.add(overview.running);
  text.family("penstock_granted_requests_total", "counter", "admitted requests");
  text.add(static_cast<double>(overview.granted_total));
  text.family("penstock_retries_total", "counter", "attempts after the first");
  text.add(static_cast<double>(overview.retried_total));
  text.family("penstock_discarded_prompt_tokens_total", "counter",
              "estimated prompt tokens of attempts that failed after they were sent; no tenant pays for them");
  text.add(static_cast<double>(overview.discarded_prompt_tokens));
  text.family("penstock_clamped_requests_total", "counter", "requests with a lowered max_tokens");
  text.add(static_cast<double>(overview.clamped_total));
  text.family("penstock_truncated_prompts_total", "counter",
              "requests whose prompt was truncated to fit into the context");
  text.add(static_cast<double>(overview.truncated_prompts));
  text.family("penstock_truncated_prompt_tokens_total", "counter",
              "estimated tokens that were dropped from truncated prompts");
  text.add(static_cast<double>(overview.truncated_prompt_tokens));
  text.family("penstock_dropped_controls_total", "counter",
              "header and body fields that control engines and were not forwarded");
  for (const DroppedControl& control : overview.dropped_controls)
    text.add(static_cast<double>(control.count), {{"kind", control.kind}, {"name", control.name}});
  text.family("penstock_tenant_budget_tokens", "gauge", "remaining tokens in the budget of a tenant");
  for (const dispatch::TenantStatus& tenant : overview.tenants)
    if (tenant.budget_available >= 0.0) text.add(tenant.budget_available, {{"tenant", tenant.name}});
  text.family("penstock_tenant_running_requests", "gauge", "requests in flight of a tenant");
  for (const dispatch::TenantStatus& tenant : overview.tenants) text.add(tenant.running, {{"tenant", tenant.name}});
  text.family("penstock_tenant_waiting_requests", "gauge", "requests of a tenant that wait for admission");
  for (const dispatch::TenantStatus& tenant : overview.tenants) text.add(tenant.waiting, {{"tenant", tenant.name}});
  text.family("penstock_tenant_saturation_ratio", "gauge",
              "used share of the tokens per minute or of the concurrent requests of a tenant, whichever is higher");
  for (const dispatch::TenantStatus& tenant : overview.tenants)
    if (tenant.saturation) text.add(*tenant.saturation, {{"tenant", tenant.name}});
  text.family("penstock_tenant_moved_to_batch_total", "counter",
              "requests that became batch requests, because their tenant was over its limits (over_budget: batch)");
  for (const dispatch::TenantStatus& tenant : overview.tenants)
    if (tenant.moved_to_batch > 0) text.add(static_cast<double>(tenant.moved_to_batch), {{"tenant", tenant.name}});
  text.family("penstock_estimate_error_ratio", "gauge",
              "mean error of the token estimates divided by the mean of the counts");
  if (overview.prompt_error) text.add(*overview.prompt_error, {{"of", "prompt"}});
  if (overview.output_error) text.add(*overview.output_error, {{"of", "output"}});
}

void add_models(telemetry::ExpositionWriter& text, const Overview& overview) {
  text.family(
      "penstock_replica_problem", "gauge",
      "1 while the replica has the problem; with metrics_unavailable, and with health_timeout as a last resort, it "
      "still gets requests");
  for (const ReplicaProblem& problem : overview.problems)
    text.add(1, {{"replica", problem.replica}, {"code", problem.code}});
  text.family("penstock_model_waiting_requests", "gauge", "requests that wait for capacity of the replicas of a model");
  for (const dispatch::ModelStatus& model : overview.models) text.add(model.waiting_for_room, {{"model", model.model}});
  text.family("penstock_pool_waiting_requests", "gauge",
              "requests that wait for capacity of the replicas of a model, by their own pool");
  for (const dispatch::ModelStatus& model : overview.models)
    for (std::size_t pool = 0; pool < std::min(overview.pools.size(), model.waiting_by_pool.size()); ++pool)
      text.add(model.waiting_by_pool[pool], {{"model", model.model}, {"pool", overview.pools[pool].name}});
  text.family("penstock_pool_attempts_total", "counter",
              "attempts of the requests of a pool: at its replicas (own), and at those of other pools (other)");
  for (const dispatch::PoolStatus& pool : overview.pools) {
    text.add(static_cast<double>(pool.own_total), {{"pool", pool.name}, {"served_by", "own"}});
    text.add(static_cast<double>(pool.overflow_total), {{"pool", pool.name}, {"served_by", "other"}});
  }
  text.family("penstock_model_saturation_ratio", "gauge",
              "mean KV cache use of the eligible replicas of a model; 1 while requests wait for capacity");
  for (const dispatch::ModelStatus& model : overview.models)
    if (const auto saturation = model_saturation(model, overview.replicas))
      text.add(*saturation, {{"model", model.model}});
  text.family("penstock_replica_kv_usage_ratio", "gauge", "KV cache use reported by the replica");
  for (const dispatch::ReplicaStatus& status : overview.replicas)
    if (status.load.kv_usage)
      text.add(*status.load.kv_usage, {{"replica", status.spec.id}, {"model", status.spec.model}});
}

void add_connections(telemetry::ExpositionWriter& text, const net::ServerCounters& connections) {
  text.family("penstock_connections", "gauge", "open client connections");
  text.add(connections.open);
  text.family("penstock_connections_accepted_total", "counter", "client connections since the start");
  text.add(static_cast<double>(connections.accepted));
  text.family("penstock_connections_refused_total", "counter", "refused connections over the limit");
  text.add(static_cast<double>(connections.refused));
  text.family("penstock_malformed_requests_total", "counter", "requests with invalid HTTP or over a limit");
  text.add(static_cast<double>(connections.malformed));
  text.family("penstock_request_timeouts_total", "counter", "requests with a head or body that took too long");
  text.add(static_cast<double>(connections.timed_out));
  text.family("penstock_clients_gone_total", "counter", "clients that disconnected before the end of their answer");
  text.add(static_cast<double>(connections.clients_gone));
}

void add_lifecycle(telemetry::ExpositionWriter& text, const Lifecycle& lifecycle) {
  text.family("penstock_build_info", "gauge", "version of the program as a label; the value is always 1");
  if (!lifecycle.version.empty()) text.add(1, {{"version", lifecycle.version}});
  text.family("penstock_draining", "gauge", "1 while the gateway drains");
  text.add(lifecycle.draining ? 1 : 0);
  text.family("penstock_config_reloads_total", "counter", "times that the configuration was read again, by result");
  text.add(static_cast<double>(lifecycle.reloads_applied), {{"result", "applied"}});
  text.add(static_cast<double>(lifecycle.reloads_rejected), {{"result", "rejected"}});
  text.family("penstock_config_last_reload_timestamp_seconds", "gauge",
              "Unix time at which the configuration was last read again, by result; 0: never");
  text.add(static_cast<double>(lifecycle.applied_unix_s), {{"result", "applied"}});
  text.add(static_cast<double>(lifecycle.rejected_unix_s), {{"result", "rejected"}});
}

void add_lost_lines(telemetry::ExpositionWriter& text, const Lifecycle& lifecycle) {
  text.family("penstock_log_lost_lines_total", "counter",
              "lines that were lost because they came too fast or the disk did not take them: of the log of the "
              "process, and of the file of --access-log");
  for (const auto& [log, lost] :
       {std::pair{"process", &lifecycle.lost_log_lines}, std::pair{"access", &lifecycle.lost_access_lines}})
    if (*lost) text.add(static_cast<double>((*lost)()), {{"log", log}});
}

void add_ledger(telemetry::ExpositionWriter& text, const LedgerHealth& ledger) {
  text.family("penstock_ledger_writable", "gauge", "0 while entries of the ledger cannot be written");
  text.add(ledger.writable ? 1 : 0);
  text.family("penstock_ledger_waiting_entries", "gauge", "entries of the ledger that wait to be written");
  text.add(static_cast<double>(ledger.waiting));
  text.family("penstock_ledger_dropped_entries_total", "counter",
              "entries of the ledger that were not written, because too many waited or the ledger rejected them");
  text.add(static_cast<double>(ledger.dropped));
}

void add_peers(telemetry::ExpositionWriter& text, const PeerFigures& peers) {
  text.family("penstock_peer_gateways", "gauge", "addresses of other gateways with the same budgets, by state");
  text.add(peers.reachable, {{"state", "reachable"}});
  text.add(peers.unreachable, {{"state", "unreachable"}});
  text.family("penstock_peer_reports_total", "counter", "requests for the budgets of another gateway, by result");
  text.add(static_cast<double>(peers.reports_read), {{"result", "read"}});
  text.add(static_cast<double>(peers.reports_failed), {{"result", "failed"}});
  text.family("penstock_peer_report_age_seconds", "gauge",
              "time since the last report of the gateway that has been silent for longest, up to a minute; no series "
              "without any");
  if (peers.oldest_report_age) text.add(core::to_seconds(*peers.oldest_report_age));
  text.family("penstock_peer_charged_tokens_total", "counter",
              "tokens charged to budgets of tenants because another gateway took them");
  text.add(static_cast<double>(peers.tokens_charged));
  text.family("penstock_peer_returned_tokens_total", "counter",
              "tokens returned to budgets of tenants because another gateway returned them");
  text.add(static_cast<double>(peers.tokens_returned));
}

void add_memory(telemetry::ExpositionWriter& text, const net::MemoryBudget& memory,
                const net::ServerCounters& connections) {
  text.family("penstock_memory_held_bytes", "gauge", "memory held for requests and answers");
  text.add(static_cast<double>(memory.held()));
  text.family("penstock_memory_limit_bytes", "gauge", "limit of the memory held for requests and answers");
  text.add(static_cast<double>(memory.limit()));
  text.family("penstock_tenant_memory_held_bytes", "gauge", "memory held for requests and answers of a tenant");
  for (const auto& [tenant, held] : memory.accounts()) text.add(static_cast<double>(held), {{"tenant", tenant}});
  text.family("penstock_memory_refusals_total", "counter",
              "requests that the memory limit or a failed allocation refused or cut");
  text.add(static_cast<double>(connections.out_of_memory));
}

void add_replica_figures(telemetry::ExpositionWriter& text, const Overview& overview) {
  text.family("penstock_replica_info", "gauge", "1; model, pool and role of the replica");
  for (const dispatch::ReplicaStatus& status : overview.replicas)
    text.add(1, {{"replica", status.spec.id},
                 {"model", status.spec.model},
                 {"pool", status.spec.pool},
                 {"role", signals::to_string(status.spec.role)}});
  add_replicas(text, overview, "penstock_replica_eligible", "gauge", "1 if the replica is eligible",
               [](const dispatch::ReplicaStatus& status) { return status.load.eligible ? 1 : 0; });
  add_replicas(text, overview, "penstock_replica_open_requests", "gauge", "requests in flight at the replica",
               [](const dispatch::ReplicaStatus& status) { return status.load.open_requests; });
  add_replicas(text, overview, "penstock_replica_prefill_tokens", "gauge",
               "uncached prompt tokens sent and not yet answered with a first token",
               [](const dispatch::ReplicaStatus& status) { return status.load.prefill_tokens; });
  add_replicas(text, overview, "penstock_replica_prefix_keys", "gauge", "prefixes that the replica is expected to hold",
               [](const dispatch::ReplicaStatus& status) { return status.load.keys; });
  add_replicas(text, overview, "penstock_replica_requests_total", "counter", "attempts at the replica",
               [](const dispatch::ReplicaStatus& status) { return status.requests_total; });
  add_replicas(text, overview, "penstock_replica_failures_total", "counter",
               "attempts at the replica that failed, before or during the answer",
               [](const dispatch::ReplicaStatus& status) { return status.failures_total; });
  add_replicas(text, overview, "penstock_replica_ejected", "gauge", "1 if the outlier detection ejected the replica",
               [](const dispatch::ReplicaStatus& status) { return status.breaker_open ? 1 : 0; });
  add_replicas(text, overview, "penstock_replica_ejections_total", "counter",
               "ejections of the replica by the outlier detection",
               [](const dispatch::ReplicaStatus& status) { return status.ejections_total; });
  add_replicas(text, overview, "penstock_replica_busy_total", "counter",
               "attempts that the replica answered with 429 or 503",
               [](const dispatch::ReplicaStatus& status) { return status.busy_total; });
}

}  // namespace

std::string metrics_text(Overview overview, const WorkerTotals& totals, const Lifecycle& lifecycle,
                         telemetry::ExpositionFormat format) {
  leave_out_replaced(overview.replicas);
  std::string written;
  telemetry::ExpositionWriter text(written, format);
  add_latencies(text, overview, true);
  add_latencies(text, overview, false);
  add_histograms(text, totals.latencies);
  add_queues(text, overview);
  add_refusals(text, overview, totals);
  add_overload(text, overview);
  add_usage(text, overview);
  add_models(text, overview);
  add_replica_figures(text, overview);
  add_routing(text, overview);
  telemetry::append_message_counts(text, "penstock_kv_event_messages", "Messages of KV cache events",
                                   overview.kv_events);
  telemetry::append_replayed_counts(text, "penstock_kv_event_messages", "Messages of KV cache events",
                                    overview.kv_events);
  add_connections(text, totals.connections);
  if (overview.peers) add_peers(text, *overview.peers);
  if (overview.memory) add_memory(text, *overview.memory, totals.connections);
  add_lifecycle(text, lifecycle);
  add_lost_lines(text, lifecycle);
  if (lifecycle.ledger) add_ledger(text, lifecycle.ledger());
  text.finish();
  return written;
}

}  // namespace penstock::gateway
