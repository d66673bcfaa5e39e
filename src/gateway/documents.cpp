#include "gateway/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace penstock::gateway {
namespace {

using Json = nlohmann::ordered_json;

Json latency(const signals::LatencyWindow& window) {
  if (window.count == 0) return nullptr;
  return {{"count", window.count},   {"mean_ms", window.mean_ms}, {"p50_ms", window.p50_ms},
          {"p90_ms", window.p90_ms}, {"p95_ms", window.p95_ms},   {"p99_ms", window.p99_ms}};
}

Json replica(const dispatch::ReplicaStatus& status, const std::string& url, const std::vector<std::string>& fpm) {
  Json models = Json::array({status.spec.model});
  for (const dispatch::ServedModel& served : status.spec.also) models.push_back(served.name);
  Json made{{"id", status.spec.id},
            {"url", url},
            {"model", status.spec.model},
            {"models", std::move(models)},
            {"pool", status.spec.pool},
            {"role", signals::to_string(status.spec.role)},
            {"phase", to_string(status.spec.phase)},
            {"workers", status.spec.workers},
            {"fpm", fpm},
            {"healthy", status.healthy},
            {"breaker_open", status.breaker_open},
            {"ejection_cause", to_string(status.ejection_cause)},
            {"ejections_total", status.ejections_total},
            {"eligible", status.load.eligible},
            {"open_requests", status.load.open_requests},
            {"open_transfers", status.open_transfers},
            {"prefill_tokens", status.load.prefill_tokens},
            {"context_tokens", status.load.context_tokens},
            {"prefill_tokens_per_s", status.load.prefill_tokens_per_s},
            {"prefix_keys", status.load.keys},
            {"requests_total", status.requests_total},
            {"failures_total", status.failures_total},
            {"busy_total", status.busy_total}};
  made["success_rate"] = status.success_rate ? Json(*status.success_rate) : Json(nullptr);
  made["kv_usage"] = status.load.kv_usage ? Json(*status.load.kv_usage) : Json(nullptr);
  return made;
}

Json usage(const std::pair<std::pair<std::string, std::string>, ledger::Sums>& row) {
  const ledger::Sums& sums = row.second;
  return {{"tenant", row.first.first},
          {"model", row.first.second},
          {"opened", sums.opened},
          {"closed", sums.closed},
          {"completed", sums.completed},
          {"cancelled", sums.cancelled},
          {"timed_out", sums.timed_out},
          {"truncated", sums.truncated},
          {"failed", sums.failed},
          {"rejected", sums.rejected},
          {"refused", sums.refused},
          {"prompt_tokens", sums.prompt_tokens},
          {"cached_tokens", sums.cached_tokens},
          {"output_tokens", sums.output_tokens},
          {"cost", sums.cost}};
}

}  // namespace

std::string overview_document(const Overview& overview, std::string_view boot_id) {
  Json made{{"boot", boot_id}, {"now_s", core::to_seconds(overview.now)}};
  made["replicas"] = Json::array();
  for (std::size_t i = 0; i < overview.replicas.size(); ++i)
    made["replicas"].push_back(replica(overview.replicas[i], overview.urls[i], overview.fpm[i]));
  made["problems"] = Json::array();
  for (const ReplicaProblem& problem : overview.problems)
    made["problems"].push_back(
        {{"replica", problem.replica}, {"url", problem.url}, {"code", problem.code}, {"text", problem.text}});
  made["models_complete"] = overview.models_complete;
  made["draining"] = overview.draining;
  made["tenants"] = Json::array();
  for (const dispatch::TenantStatus& tenant : overview.tenants)
    made["tenants"].push_back(
        {{"name", tenant.name},
         {"budget_available", tenant.budget_available < 0.0 ? Json(nullptr) : Json(tenant.budget_available)},
         {"running", tenant.running},
         {"waiting", tenant.waiting}});
  made["usage"] = Json::array();
  for (const auto& row : overview.sums) made["usage"].push_back(usage(row));
  made["latencies"] = Json::array();
  for (const dispatch::ModelStatus& model : overview.models)
    for (const signals::SegmentWindow& segment : model.detail.segments)
      made["latencies"].push_back({{"model", model.model},
                                   {"dimension", segment.dimension},
                                   {"label", segment.label},
                                   {"ttft", latency(segment.ttft)},
                                   {"itl", latency(segment.itl)}});
  const auto age = [&](core::Instant oldest) {
    return oldest == core::kNever ? Json(nullptr) : Json(core::to_seconds(overview.now - oldest));
  };
  made["queue"] = {{"interactive", overview.waiting_interactive},
                   {"batch", overview.waiting_batch},
                   {"tokens", overview.waiting_tokens},
                   {"oldest_s", age(overview.oldest_waiting)}};
  const std::optional<double> due_in_s = overview.due_in_s();
  made["deferred"] = {{"requests", overview.deferred_requests},
                      {"tokens", overview.deferred_tokens},
                      {"next_due_s", due_in_s ? Json(*due_in_s) : Json(nullptr)},
                      {"deferred_total", overview.deferral.deferred},
                      {"sent_spare_total", overview.deferral.sent_spare},
                      {"sent_due_total", overview.deferral.sent_due},
                      {"missed_total", overview.deferral.missed}};
  made["queue"]["models"] = Json::array();
  for (const dispatch::ModelStatus& model : overview.models)
    if (model.waiting_for_room > 0) {
      Json& waiting = made["queue"]["models"].emplace_back(Json{{"model", model.model},
                                                                {"waiting_for_room", model.waiting_for_room},
                                                                {"oldest_s", age(model.oldest_for_room)}});
      for (std::size_t pool = 0; pool < std::min(overview.pools.size(), model.waiting_by_pool.size()); ++pool)
        if (model.waiting_by_pool[pool] > 0)
          waiting["pools"].push_back({{"pool", overview.pools[pool].name},
                                      {"waiting_for_room", model.waiting_by_pool[pool]},
                                      {"oldest_s", age(model.oldest_by_pool[pool])}});
    }
  made["running"] = overview.running;
  made["granted_total"] = overview.granted_total;
  made["refused_total"] = overview.refused_total;
  made["retried_total"] = overview.retried_total;
  made["clamped_total"] = overview.clamped_total;
  made["truncated_prompts_total"] = overview.truncated_prompts;
  made["truncated_prompt_tokens_total"] = overview.truncated_prompt_tokens;
  made["refusals"] = Json::object();
  for (const auto& [reason, count] : overview.refusals) made["refusals"][dispatch::to_string(reason)] = count;
  made["overload"] = Json::array();
  for (const dispatch::SegmentOverload& segment : overview.overload) {
    Json row{{"class", admission::to_string(segment.traffic_class)}, {"tenant", segment.tenant}};
    for (std::size_t action = 0; action < segment.counts.size(); ++action)
      row[to_string(static_cast<admission::OverloadAction>(action))] = segment.counts[action];
    made["overload"].push_back(std::move(row));
  }
  made["dropped_controls"] = Json::array();
  for (const DroppedControl& control : overview.dropped_controls)
    made["dropped_controls"].push_back({{"kind", control.kind}, {"name", control.name}, {"count", control.count}});
  return made.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string traffic_document(const dispatch::TrafficLog::Page& page, std::string_view boot_id, core::Instant now) {
  Json events = Json::array();
  for (const dispatch::TrafficEvent& event : page.events) {
    const double at_s = core::to_seconds(event.at);
    switch (event.kind) {
      case dispatch::TrafficEvent::Kind::kArrival:
        events.push_back({"arrival", event.request, at_s, event.model, event.traffic_class, event.tenant,
                          event.input_tokens, event.keys, event.route, event.streamed, event.completion_window_s,
                          event.expected_output_tokens});
        break;
      case dispatch::TrafficEvent::Kind::kFirstToken:
        events.push_back({"first_token", event.request, at_s, event.admission_ms, event.ttft_ms, event.cached_tokens,
                          event.own_limit_ms, event.transfer_ms});
        break;
      case dispatch::TrafficEvent::Kind::kEnd:
        events.push_back({"end", event.request, at_s, ledger::to_string(event.outcome), event.replica,
                          event.prompt_tokens, event.output_tokens, event.itl_ms, event.client_ms});
        break;
    }
  }
  const Json made{{"boot", boot_id},
                  {"now_s", core::to_seconds(now)},
                  {"next", page.next},
                  {"lost", page.lost},
                  {"events", std::move(events)}};
  return made.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string prefixes_document(std::span<const HotPrefix> prefixes, std::string_view boot_id, core::Instant now) {
  Json made{{"boot", boot_id}, {"now_s", core::to_seconds(now)}};
  made["prefixes"] = Json::array();
  for (const HotPrefix& prefix : prefixes)
    made["prefixes"].push_back({{"model", prefix.text->model},
                                {"path", api::path_of(prefix.text->endpoint)},
                                {"tokens", prefix.text->tokens},
                                {"hits", prefix.hits},
                                {"idle_s", std::max(0.0, core::to_seconds(now - prefix.used_at))},
                                {"body", prefix.text->body}});
  return made.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<ListedModel> models_in(std::string_view models_answer) {
  constexpr std::size_t kNameBytesMax = 256;
  const Json answer = Json::parse(models_answer, nullptr, false);
  std::vector<ListedModel> models;
  if (!answer.is_object() || !answer.contains("data") || !answer["data"].is_array()) return models;
  for (const Json& entry : answer["data"]) {
    if (!entry.is_object() || models.size() == kListedModelsMax) continue;
    const auto text = [&](const char* name) {
      const auto found = entry.find(name);
      return found != entry.end() && found->is_string() ? found->get<std::string>() : std::string{};
    };
    ListedModel model{text("id"), text("parent"), text("root")};
    const auto length = entry.find("max_model_len");
    if (length != entry.end() && length->is_number_unsigned())
      model.context_tokens =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(length->get<std::uint64_t>(), UINT32_MAX));
    if (!model.id.empty() && model.id.size() <= kNameBytesMax) models.push_back(std::move(model));
  }
  return models;
}

std::optional<std::uint32_t> prompt_tokens_in(std::string_view tokenize_answer) {
  const Json answer = Json::parse(tokenize_answer, nullptr, false);
  if (!answer.is_object()) return std::nullopt;
  const auto count = answer.find("count");
  if (count == answer.end() || !count->is_number_unsigned()) return std::nullopt;
  const auto tokens = count->get<std::uint64_t>();
  return tokens == 0 || tokens > UINT32_MAX ? std::nullopt : std::optional{static_cast<std::uint32_t>(tokens)};
}

}  // namespace penstock::gateway
