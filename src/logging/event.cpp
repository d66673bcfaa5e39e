#include "logging/event.h"

#include <fmt/format.h>

#include <array>

#include "core/result.h"

namespace penstock::logging {
namespace {

using enum Level;

constexpr std::array kEvents = {
    EventInfo{Event::kStart, kInfo, "start", "all", "command version pid", "A process is ready."},
    EventInfo{Event::kListening, kInfo, "listening", "all", "purpose url",
              "A socket accepts connections. Purposes are api, endpoint picker, admin, dashboard, external scaler, "
              "external metrics."},
    EventInfo{Event::kDrain, kInfo, "drain", "all", "cause open",
              "The process was asked to end, refuses new work and waits for what is open."},
    EventInfo{Event::kDrainTimeout, kWarning, "drain_timeout", "gateway", "open",
              "The drain time is over; the requests that are still open are cut."},
    EventInfo{Event::kStop, kInfo, "stop", "all", "command cause exit_code", "The process ends."},
    EventInfo{Event::kExposed, kWarning, "exposed", "gateway, plan", "purpose address",
              "Other machines can reach an address for operators, and it needs no token and no client certificate."},
    EventInfo{Event::kFileLimitLow, kWarning, "file_limit_low", "gateway", "limit connections_max",
              "The limit on open files is below gateway.connections_max. Raise it (ulimit -n, LimitNOFILE=)."},
    EventInfo{Event::kLinesDropped, kWarning, "log_lines_dropped", "all", "lines",
              "Log lines came faster than they could be written, and this many were dropped since the last such line."},
    EventInfo{
        Event::kTakeover, kInfo, "takeover", "gateway", "role",
        "Another process takes the addresses over. The role is successor in the process that starts, and predecessor "
        "in the one that ends."},
    EventInfo{
        Event::kConfigReloaded, kInfo, "config_reloaded", "gateway, plan", "file applied",
        "The configuration was read again, after SIGHUP or because one of its files changed. `applied` lists the keys "
        "whose new values are in force."},
    EventInfo{Event::kConfigChanged, kInfo, "config_changed", "gateway, plan", "key from to",
              "A reload put a new value in force. Values of secrets are not shown."},
    EventInfo{Event::kLimitLoosened, kWarning, "limit_loosened", "gateway, plan", "key from to",
              "A reload loosened a limit, because the configuration gives the new value: access without an API key, "
              "more replicas, more GPUs. `config_changed` reports the same key."},
    EventInfo{Event::kConfigReloadFailed, kWarning, "config_reload_failed", "gateway, plan", "file error",
              "The configuration could not be read again; all values stay as they were. One line for each error."},
    EventInfo{Event::kReloadIgnored, kInfo, "reload_ignored", "engine, observe", "cause",
              "SIGHUP asked for a reload. This command reads its options only at its start."},
    EventInfo{Event::kLogNotReopened, kWarning, "log_not_reopened", "gateway", "error",
              "The file of the access log could not be opened again after SIGHUP; lines go to the former file."},
    EventInfo{Event::kRestartNeeded, kWarning, "restart_needed", "gateway, plan", "file keys",
              "These keys changed in the configuration, and their new values take effect only after a restart."},
    EventInfo{Event::kReplicasReloaded, kInfo, "replicas_reloaded", "gateway", "source replicas",
              "A list of replicas was read: a file, the addresses of a DNS name, or pods."},
    EventInfo{Event::kReplicasReloadFailed, kWarning, "replicas_reload_failed", "gateway", "source error",
              "A list of replicas could not be read; the last good one stays in use."},
    EventInfo{Event::kReplicaDuplicate, kWarning, "replica_duplicate", "gateway", "replica url",
              "Two entries have one id or URL; the later one is ignored."},
    EventInfo{Event::kHostResolved, kInfo, "host_resolved", "gateway, plan, observe", "host addresses",
              "The host name of replicas or gateways has these addresses now. Requests in flight at "
              "other addresses continue."},
    EventInfo{Event::kHostUnresolved, kWarning, "host_unresolved", "gateway, plan, observe", "host cause",
              "The host name of replicas or gateways cannot be resolved; it is looked up again, and known "
              "addresses stay in use. Once for each cause."},
    EventInfo{Event::kReplicaAdded, kInfo, "replica_added", "gateway", "replica url model pool role phase",
              "A replica was added to the list."},
    EventInfo{Event::kReplicaRemoved, kInfo, "replica_removed", "gateway", "replica url",
              "A replica was removed from the list. Its open requests continue."},
    EventInfo{Event::kReplicaPhase, kInfo, "replica_phase", "gateway", "replica from to",
              "A replica changed between warming, serving and draining in the list."},
    EventInfo{Event::kReplicaUnhealthy, kWarning, "replica_unhealthy", "gateway", "replica url cause failures",
              "Health checks of a replica fail; it gets no new requests. If they only time out, it still gets requests "
              "while no replica of its model, role and pool is healthy."},
    EventInfo{Event::kReplicaHealthy, kInfo, "replica_healthy", "gateway", "replica url",
              "Health checks of a replica succeed again."},
    EventInfo{Event::kReplicaUnresponsive, kWarning, "replica_unresponsive", "gateway", "replica url cause silent_s",
              "Three health checks of a replica in a row have failed, and it has answered nothing since the first of "
              "them. Requests whose client has received nothing are retried at other replicas."},
    EventInfo{Event::kReplicaModelUnknown, kWarning, "replica_model_unknown", "gateway", "replica url cause",
              "GET /v1/models of a replica did not name its model; without one it gets no requests."},
    EventInfo{Event::kReplicaModels, kInfo, "replica_models", "gateway", "replica url models",
              "The models that a replica serves are known, or changed: an adapter was loaded or unloaded."},
    EventInfo{Event::kBreakerOpen, kWarning, "breaker_open", "gateway", "replica failures cause time_s",
              "The outlier detection ejected a replica after consecutive failures, for its success rate or after a "
              "failed trial."},
    EventInfo{Event::kBreakerTrying, kInfo, "breaker_half_open", "gateway", "replica",
              "One request may try an ejected replica."},
    EventInfo{Event::kBreakerClosed, kInfo, "breaker_closed", "gateway", "replica",
              "An ejected replica answered its trial and gets requests again."},
    EventInfo{Event::kReplicaLeftOut, kInfo, "replica_left_out", "plan", "replica cause",
              "The gateway lists a replica that the planner does not scale: it serves another model, or has a role "
              "without a pool. Once for each cause; `penstock_replicas_left_out` counts them."},
    EventInfo{Event::kTelemetryUnavailable, kWarning, "telemetry_unavailable", "gateway, plan, observe",
              "replica url cause", "Metrics of an engine cannot be read. Once, until they are read again."},
    EventInfo{Event::kTelemetryAvailable, kInfo, "telemetry_available", "gateway, plan, observe", "replica url",
              "Metrics of an engine are read again."},
    EventInfo{Event::kFpmRejected, kWarning, "fpm_rejected", "plan", "replica endpoint cause",
              "A forward pass metric of an engine cannot be read, or its endpoint not be subscribed to. At most once a "
              "minute for each engine; `penstock_fpm_messages_rejected_total` counts all."},
    EventInfo{Event::kFpmUnavailable, kWarning, "fpm_unavailable", "plan", "server cause",
              "A NATS server with forward pass metrics has no connection; it is tried again."},
    EventInfo{Event::kGpuMetricsUnavailable, kWarning, "gpu_metrics_unavailable", "plan", "url cause",
              "A DCGM exporter cannot be read; once until it can be read again."},
    EventInfo{Event::kDynamoDiscoveryFailed, kWarning, "dynamo_discovery_failed", "plan", "cause",
              "The discovery of Dynamo cannot be read, or a record in it is malformed. Once for each cause."},
    EventInfo{Event::kKvEventsUnavailable, kWarning, "kv_events_unavailable", "gateway", "endpoint error",
              "An engine's KV events cannot be subscribed to; the prefix index learns from requests only."},
    EventInfo{Event::kKvEventsRejected, kWarning, "kv_events_rejected", "gateway, plan", "replica endpoint cause",
              "A message of KV events cannot be read and was dropped. Once for each replica, in `plan` at most once a "
              "minute; `penstock_kv_event_messages_rejected_total` of the gateway and "
              "`penstock_worker_kv_event_messages_rejected_total` of the planner count all."},
    EventInfo{Event::kRequestPhase, kDebug, "request_phase", "gateway", "request_id from to",
              "A request passed from one phase to the next."},
    EventInfo{Event::kRetry, kWarning, "retry", "gateway", "request_id replica cause attempt next_replica",
              "An attempt failed before the first byte, and the request goes to another replica."},
    EventInfo{
        Event::kRefusal, kWarning, "refusal", "gateway", "code status tenant request_id suppressed",
        "A request was refused. One line in 10 s for each code, tenant and worker; `suppressed` counts the others "
        "since the last line."},
    EventInfo{Event::kOverloadBegan, kWarning, "overload_began", "gateway", "class tenant action",
              "The overload policy of a segment began to act on its requests: degrade (max_tokens lowered), drop or "
              "shed (refused)."},
    EventInfo{Event::kOverloadEnded, kInfo, "overload_ended", "gateway", "class tenant action requests",
              "The policy acted on no request of the segment for 30 s; `requests` counts those since it began."},
    EventInfo{Event::kRequestFailed, kWarning, "request_failed", "gateway", "request_id tenant replica cause",
              "An answer broke off after its first byte; the client's connection was closed."},
    EventInfo{Event::kAccess, kInfo, "access", "gateway",
              "request_id tenant model class path status outcome replica attempts queue_ms ttft_ms tokens_in "
              "tokens_cached tokens_truncated tokens_out duration_ms",
              "A request ended. Only with --access-log."},
    EventInfo{Event::kLedger, kWarning, "ledger", "gateway", "message",
              "The ledger cannot be written, or can be written again. One line for each outage."},
    EventInfo{Event::kRecording, kWarning, "recording", "gateway", "message",
              "The trace of --record cannot be written, or can be written again."},
    EventInfo{Event::kBudgetsFull, kWarning, "budgets_start_full", "gateway", "cause",
              "The budgets of tenants and classes start full, because their use before the start is unknown: there is "
              "no ledger, or it cannot be read."},
    EventInfo{Event::kGatewayUnreachable, kWarning, "gateway_unreachable", "gateway, plan", "address cause",
              "The overview or traffic of a gateway cannot be read, or, for another gateway that shares its budgets, "
              "those for 5 s. Once, until it can be read again."},
    EventInfo{Event::kGatewayReachable, kInfo, "gateway_reachable", "gateway, plan", "address",
              "The gateway's overview and traffic, or its budgets, are read again."},
    EventInfo{Event::kGatewayLeft, kInfo, "gateway_left", "plan", "address cause",
              "A gateway drains, or its address is not one of the name of --gateway any more; it does not count from "
              "now on."},
    EventInfo{Event::kSeveralGateways, kWarning, "several_gateways", "plan", "address",
              "Several gateways answer at one address, as behind a Service with an address of its own. The planner "
              "observes the one that its connection reaches, and knows nothing of the traffic of the others. Name a "
              "headless Service, or all addresses. At most once in 10 minutes."},
    EventInfo{Event::kDataUnknown, kWarning, "data_unknown", "plan", "state cause",
              "The planner lacks data: no_gateway, no_fleet, no_replicas or no_telemetry. It exports no target, and "
              "without a "
              "gateway or replicas it decides nothing."},
    EventInfo{Event::kDataKnown, kInfo, "data_known", "plan", "state", "The data that the planner needs is there."},
    EventInfo{Event::kPrometheusMatched, kInfo, "prometheus_matched", "plan, observe", "query series replicas",
              "A query of the Prometheus server matched these series and replicas: the first answer, and each change."},
    EventInfo{
        Event::kPrometheusFailed, kWarning, "prometheus_failed", "plan, observe", "query error",
        "A query of the Prometheus server failed or matched nothing; its figures are unknown. Once for each cause."},
    EventInfo{Event::kDecision, kInfo, "decision", "plan", "policy mode pool current target reason limited_by cause",
              "The planner changed a target, or holds it for another reason than before."},
    EventInfo{Event::kReplicaState, kInfo, "replica_state", "plan", "pool replica from to",
              "A replica passed from one stage of its life to the next."},
    EventInfo{Event::kReplicaStep, kInfo, "replica_step", "plan", "pool replica step cause",
              "The planner takes a step: start, warm-up, admit, drain, stop, kill; with pods: mark, drained, unmark, "
              "switch, restore, move."},
    EventInfo{Event::kReplicaAdopted, kInfo, "replica_adopted", "plan", "pool replica pid",
              "An engine that an earlier planner started continues under this one."},
    EventInfo{
        Event::kPoolHeld, kWarning, "pool_held", "plan", "pool cause by message",
        "The planner does not scale a pool of Kubernetes: no_data, autoscaler, manual (another client scaled it), "
        "blocked (pods cannot start), rollout or budget (PodDisruptionBudget). `by` names who or what."},
    EventInfo{Event::kPoolReleased, kInfo, "pool_released", "plan", "pool cause by",
              "What held a pool is over; the planner scales it again."},
    EventInfo{Event::kScaled, kInfo, "scaled", "plan", "pool target from to",
              "The planner set the number of replicas of an object of Kubernetes."},
    EventInfo{Event::kActuation, kInfo, "actuation", "plan", "pool message", "A remark on a pool or a replica."},
    EventInfo{Event::kActuationWarning, kWarning, "actuation_warning", "plan", "pool message",
              "A start, stop or drain did not go as planned."},
    EventInfo{Event::kProcessStarted, kInfo, "process_started", "plan", "process pid log_file",
              "A process was started on this machine."},
    EventInfo{Event::kProcessEnded, kInfo, "process_ended", "plan", "process pid cause last_line",
              "A process on this machine ended: its exit code or signal, and the last line of its output."},
    EventInfo{
        Event::kFileUnwritable, kWarning, "file_unwritable", "gateway, plan", "error",
        "A state file, the history, a report, the ConfigMap of the state or the access log cannot be written, or a "
        "saved state cannot be read; it is tried again. Lines of the access log are lost meanwhile."},
    EventInfo{Event::kFileWritable, kInfo, "file_writable", "gateway, plan", "error",
              "The state or the access log can be written again; `error` is the one that is over."},
    EventInfo{Event::kDecisionLogFailed, kError, "decision_log_failed", "plan", "error",
              "The decision log cannot be written; no decision is written to it from now on."},
    EventInfo{Event::kExternalMetricsFailed, kWarning, "external_metrics_failed", "plan", "error",
              "The API server or a certificate cannot be read for the external metrics; what was read before is used."},
    EventInfo{Event::kPolicyState, kInfo, "policy_state", "plan", "message",
              "The saved state of the policy was restored or ignored."},
    EventInfo{Event::kLeadershipAcquired, kInfo, "leadership_acquired", "plan", "lease identity term",
              "This planner leads: it acts, and other autoscalers get its targets."},
    EventInfo{
        Event::kLeadershipLost, kWarning, "leadership_lost", "plan", "lease identity leader",
        "This planner does not lead any more and changes nothing. `leader` is empty if it could not renew its Lease."},
    EventInfo{Event::kLeaderChanged, kInfo, "leader_changed", "plan", "lease leader",
              "Another planner leads; `leader` is empty if none does."},
    EventInfo{Event::kLeaseFailed, kWarning, "lease_failed", "plan", "lease error",
              "The Lease cannot be read or written; reported once for each cause."},
    EventInfo{Event::kClusterEventsFailed, kWarning, "cluster_events_failed", "plan", "error",
              "Events of Kubernetes cannot be written; reported once for each cause. Decisions do not wait for them."},
    EventInfo{Event::kEngineState, kInfo, "engine_state", "engine", "engine from to",
              "The engine passed from starting to ready or draining."},
    EventInfo{Event::kEngineFault, kWarning, "engine_fault", "engine", "engine fault",
              "Faults are injected (--fault)."},
};
static_assert(kEvents.size() == static_cast<std::size_t>(Event::kCount));

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kEvents.size(); ++i)
    if (kEvents[i].event != static_cast<Event>(i)) return false;
  return true;
}
static_assert(is_in_order(), "info_of() indexes the table");

}  // namespace

std::string_view to_string(Level level) {
  switch (level) {
    case kDebug: return "debug";
    case kInfo: return "info";
    case kWarning: return "warning";
    case kError: return "error";
  }
  return "";
}

std::span<const EventInfo> event_table() { return kEvents; }

const EventInfo& info_of(Event event) { return kEvents[static_cast<std::size_t>(event)]; }

std::string log_events_markdown() {
  std::string page =
      "# Log events\n\n"
      "Generated from the table in `src/logging/event.cpp`; `penstock gateway --log-events-markdown` prints it.\n\n"
      "`penstock gateway`, `plan` and `engine` write one line for each event to standard error. `--log-format` chooses "
      "text or JSON, `--log-level` the least level (debug, info, warning, error):\n\n"
      "```\n"
      "2026-11-22T15:57:28.123Z warning retry request_id=req-5f0c replica=http://10.0.0.7:8000 cause=busy attempt=1\n"
      "{\"time\":\"2026-11-22T15:57:28.123Z\",\"level\":\"warning\",\"event\":\"retry\",\"request_id\":\"req-5f0c\",..."
      "}\n"
      "```\n\n"
      "Times are UTC. A field whose value is unknown is left out. In text, a value that is not plain visible ASCII "
      "stands "
      "in quotes with the escapes `\\\"`, `\\\\`, `\\n`, `\\r`, `\\t` and `\\xHH`. The name and the fields of an event "
      "are stable; "
      "the text of `cause`, `error` and `message` is for people. Lines that come faster than they can be written are "
      "dropped and counted; no request waits for the log.\n\n"
      "| event | level | commands | fields | meaning |\n|---|---|---|---|---|\n";
  for (const EventInfo& each : kEvents) {
    std::string fields{each.fields};
    for (std::size_t at = 0; (at = fields.find(' ', at)) != std::string::npos; at += 4) fields.replace(at, 1, "`, `");
    page += fmt::format("| `{}` | {} | {} | `{}` | {} |\n", each.name, to_string(each.level), each.source, fields,
                        each.meaning);
  }
  return page;
}

}  // namespace penstock::logging
