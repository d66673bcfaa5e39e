#include "dashboard/dashboard_document.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "dashboard/gateway_json.h"
#include "dashboard/gpu_cost.h"
#include "report/document.h"

namespace penstock::dashboard {
namespace {

using controller::LivePoint;
using controller::PlannerDaemon;
using controller::ReplicaView;
using Json = nlohmann::ordered_json;

constexpr std::size_t kDecisionsShown = 100;
constexpr std::size_t kEventsShown = 100;

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <class Value>
Json known(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json seconds(const std::optional<core::Duration>& duration) {
  return duration ? Json(core::to_seconds(*duration)) : Json(nullptr);
}

Json milliseconds(const std::optional<core::Duration>& duration) {
  return duration ? Json(core::to_milliseconds(*duration)) : Json(nullptr);
}

template <class Value>
Json known(const std::vector<std::optional<Value>>& values) {
  Json made = Json::array();
  for (const std::optional<Value>& value : values) made.push_back(known(value));
  return made;
}

Json latency(const signals::LatencyWindow& window) {
  if (window.count == 0) return nullptr;
  return {{"count", window.count},
          {"p50_ms", window.p50_ms},
          {"p90_ms", window.p90_ms},
          {"p95_ms", window.p95_ms},
          {"p99_ms", window.p99_ms}};
}

Json counts(const std::optional<telemetry::MessageCounts>& of) {
  if (!of) return nullptr;
  return {{"received", of->received}, {"rejected", of->rejected}, {"lost", of->lost}};
}

// `is_counted`: whether the replica is known to be there now.
Json replica(const PlannerDaemon& daemon, std::size_t pool, const ReplicaView& view, core::Instant now) {
  const bool is_counted = daemon.counts_replicas();
  Json made{{"name", view.name},
            {"stage", is_counted ? view.stage : "unknown"},
            {"url", view.url},
            {"state", is_counted ? signals::to_string(view.seen.state) : "unknown"},
            {"switch_to", view.switch_to.empty() ? Json(nullptr) : Json(view.switch_to)},
            {"age_s", core::to_seconds(now - view.since)},
            {"sample", nullptr},
            {"fpm", counts(view.fpm)},
            {"kv_events", counts(view.kv_events)}};
  if (const auto& sample = view.seen.sample)
    made["sample"] = {{"age_s", core::to_seconds(now - sample->sampled_at)},
                      {"queued", sample->queued_requests},
                      {"running", sample->running_requests},
                      {"queued_prefill_tokens", known(sample->queued_prefill_tokens)},
                      {"oldest_queued_s", seconds(sample->oldest_queued_age)},
                      {"kv_usage", known(sample->kv_usage())},
                      {"kv_capacity_tokens", known(sample->kv_capacity_tokens)},
                      {"evictions", known(sample->evictions_total)},
                      {"preemptions", known(sample->preemptions_total)},
                      {"batch_merge_efficiency", known(daemon.batch_efficiency(pool, *sample))}};
  return made;
}

Json pool(const PlannerDaemon& daemon, std::size_t index, core::Instant now) {
  const signals::Pool& configured = daemon.options().pools[index];
  signals::PoolObservation seen;
  static_cast<signals::Pool&>(seen) = configured;
  daemon.fleet().fill(index, seen);
  const auto counted = [&](std::uint32_t replicas) {
    return daemon.counts_replicas() ? Json(replicas) : Json(nullptr);
  };
  Json made{{"name", configured.name},
            {"role", signals::to_string(configured.role)},
            {"min", configured.min_replicas},
            {"max", configured.max_replicas},
            {"gpus_per_replica", configured.gpus_per_replica},
            {"price_per_gpu_hour", configured.price_per_gpu_hour},
            {"start_up_s", core::to_seconds(seen.start_up)},
            {"target", daemon.has_target() || daemon.fleet().acts() ? Json(seen.target_replicas) : Json(nullptr)},
            {"starting", counted(seen.starting)},
            {"ready", counted(seen.ready)},
            {"draining", counted(seen.draining)},
            {"gpu_hours", core::to_hours(daemon.gpu_costs().gpu_time(configured.name))}};
  if (configured.wake_time > core::Duration{}) made["asleep"] = counted(seen.asleep);
  for (const report::RoleSwitchCount& count : daemon.role_switches())
    if (count.to == configured.name) {
      made["switching"] = counted(seen.switching);
      made["role_switches"] = count.switches;
    }
  made["cost"] = daemon.gpu_costs().usd(configured.name);
  made["uncalibrated"] = daemon.is_uncalibrated(index);
  if (const auto scaling = daemon.fleet().scaling(index)) {
    Json start_up = Json::object();
    for (const auto& [statistic, seconds] : scaling->start_up_s) start_up[statistic] = seconds;
    made["kubernetes"] = {{"held", scaling->held_by_cause},
                          {"by", scaling->held_by},
                          {"asked", counted(scaling->asked)},
                          {"pending", counted(scaling->pending)},
                          {"start_up_s", std::move(start_up)}};
  }
  made["replicas"] = Json::array();
  for (const ReplicaView& view : daemon.fleet().replicas(index))
    made["replicas"].push_back(replica(daemon, index, view, now));
  return made;
}

Json segments(const PlannerDaemon& daemon) {
  Json made = Json::array();
  if (!daemon.last_seen()) return made;
  for (const signals::PoolObservation& seen : daemon.last_seen()->pools) {
    if (seen.role == signals::Role::kDecode || !seen.detail) continue;
    for (const signals::SegmentWindow& segment : seen.detail->segments)
      made.push_back({{"dimension", segment.dimension},
                      {"label", segment.label},
                      {"ttft", latency(segment.ttft)},
                      {"itl", latency(segment.itl)}});
  }
  return made;
}

Json point(const LivePoint& point) {
  return {{"at_s", core::to_seconds(point.at)},
          {"arrivals_per_s", known(point.arrivals_per_s)},
          {"input_tokens_per_s", known(point.input_tokens_per_s)},
          {"output_tokens_per_s", known(point.output_tokens_per_s)},
          {"target", known(point.target)},
          {"starting", known(point.starting)},
          {"ready", known(point.ready)},
          {"draining", known(point.draining)},
          {"ttft", latency(point.ttft)},
          {"itl", latency(point.itl)},
          {"e2e", latency(point.e2e)},
          {"tpot", latency(point.tpot)},
          {"estimated_ttft_ms", known(point.estimated_ttft_ms)},
          {"estimated_itl_ms", known(point.estimated_itl_ms)},
          {"capacity_per_s", known(point.capacity_per_s)},
          {"queued", known(point.queued)},
          {"running", known(point.running)},
          {"waiting", known(point.waiting)},
          {"kv_usage", known(point.kv_usage)},
          {"hit_ratio", known(point.hit_ratio)}};
}

Json scaling(const PlannerDaemon& daemon) {
  Json made = Json::array();
  for (const controller::ScalingEvent& event : daemon.scaling().events()) {
    Json told{{"pool", event.pool}, {"from", event.from}, {"to", event.to}, {"began_s", core::to_seconds(event.began)}};
    told["settled_s"] = event.settled == core::kNever ? Json(nullptr) : Json(core::to_seconds(event.settled));
    for (const auto& [outcome, requests] : event.ends.named()) told[std::string{outcome}] = requests;
    made.push_back(std::move(told));
  }
  return made;
}

// The last diagnosis of latency.
Json diagnosis(const PlannerDaemon& daemon) {
  if (!daemon.last_decision() || !daemon.last_decision()->cause) return nullptr;
  Json settings = report::engine_settings_json(*daemon.last_decision()->cause);
  for (const controller::EngineAdvice& each : daemon.engine_advice()) {
    Json setting = report::engine_setting_json(each.rule);
    setting["pool"] = each.pool;
    setting["evidence"] = each.evidence;
    settings.push_back(std::move(setting));
  }
  return {{"cause", decision::to_string(*daemon.last_decision()->cause)},
          {"text", daemon.last_decision()->diagnosis},
          {"settings", std::move(settings)}};
}

// Of the fleet and of the planner's data, newest first.
std::vector<controller::FleetEvent> newest_events(const PlannerDaemon& daemon) {
  std::vector<controller::FleetEvent> all;
  std::merge(daemon.fleet().events().rbegin(), daemon.fleet().events().rend(), daemon.events().rbegin(),
             daemon.events().rend(), std::back_inserter(all),
             [](const auto& left, const auto& right) { return left.at > right.at; });
  if (all.size() > kEventsShown) all.resize(kEventsShown);
  return all;
}

// Empty if the policy has no phases.
std::string phase(const PlannerDaemon& daemon) {
  const auto& last = daemon.last_decision();
  return last && last->phase ? decision::to_string(*last->phase) : "";
}

}  // namespace

std::string state_document(const PlannerDaemon& daemon, core::Instant now, const std::string& version, Decisions shown,
                           const std::vector<std::string>& deployments) {
  const controller::DaemonOptions& options = daemon.options();
  const bool is_known = daemon.data() != signals::DataState::kNoGateway;
  Json made{{"version", version},
            {"now_s", core::to_seconds(now)},
            {"mode", daemon.mode()},
            {"leader", options.leadership == nullptr ? Json(nullptr) : Json(options.leadership->leader())},
            {"policy", daemon.policy_name()},
            {"phase", phase(daemon)},
            {"data",
             {{"state", signals::to_string(daemon.data())},
              {"text", signals::explain(daemon.data())},
              {"since_s", core::to_seconds(daemon.data_since())},
              {"gateway_up", daemon.gateways().is_up()}}},
            {"slo",
             {{"ttft_ms", core::to_milliseconds(options.slo.target.ttft)},
              {"itl_ms", core::to_milliseconds(options.slo.target.itl)},
              {"e2e_ms", milliseconds(options.slo.target.e2e)},
              {"goal", options.slo.goal},
              {"attainment", known(is_known ? daemon.traffic().attainment() : std::nullopt)},
              {"met", daemon.traffic().met()},
              {"judged", daemon.traffic().judged()},
              {"ttft_attainment", known(is_known ? daemon.traffic().ttft_attainment() : std::nullopt)},
              {"itl_attainment", known(is_known ? daemon.traffic().itl_attainment() : std::nullopt)}}}};
  if (!options.deployment.empty()) {
    made["deployment"] = options.deployment;
    made["deployments"] = deployments;
    made["model"] = options.model;
  }
  made["pools"] = Json::array();
  for (std::size_t index = 0; index < options.pools.size(); ++index) made["pools"].push_back(pool(daemon, index, now));
  made["gpu_cost"] = gpu_cost_json(daemon.gpu_costs().costs(), daemon.gpu_costs().period(now));
  made["segments"] = is_known ? segments(daemon) : Json::array();
  made["diagnosis"] = diagnosis(daemon);
  made["scaling"] = scaling(daemon);
  made["decisions"] = Json::array();
  const auto& decisions = daemon.decisions();
  const std::size_t most = shown == Decisions::kAll ? decisions.size() : kDecisionsShown;
  for (auto entry = decisions.rbegin(); entry != decisions.rend() && made["decisions"].size() < most; ++entry)
    made["decisions"].push_back(report::decision_json(*entry, decision::Rendering::kLivePage));
  made["events"] = Json::array();
  for (const controller::FleetEvent& event : newest_events(daemon))
    made["events"].push_back(
        {{"at_s", core::to_seconds(event.at)}, {"warning", event.warning}, {"pool", event.pool}, {"text", event.text}});
  const controller::GatewaySet& gateways = daemon.gateways();
  made["gateway"] = gateways.state() && is_known
                        ? gateway_json(gateways.documents(), *gateways.state(), gateways.read_at().value_or(now))
                        : Json(nullptr);
  made["gateways"] = Json::array();
  for (const controller::GatewaySet::View& each : gateways.gateways())
    made["gateways"].push_back({{"address", each.address}, {"up", each.is_up}});
  return text_of(made);
}

std::string points_document(const PlannerDaemon& daemon) {
  Json made = Json::array();
  for (const LivePoint& each : daemon.points()) made.push_back(point(each));
  return text_of(made);
}

std::string last_point_document(const PlannerDaemon& daemon) {
  return daemon.points().empty() ? "null" : text_of(point(daemon.points().back()));
}

}  // namespace penstock::dashboard
