#include "planner/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/enum_names.h"
#include "decision/decision_text.h"
#include "planner/diagnosis_rules.h"
#include "planner/objective_latency.h"

namespace penstock::planner {

const char* to_string(Symptom symptom) {
  return core::name_of<Symptom::kUnknown>(symptom, {"none", "ttft", "itl", "both", "unknown"});
}

const char* to_string(Phase phase) {
  return core::name_of<Phase::kDecode>(phase,
                                       {"none", "admission", "replica_wait", "queue", "prefill", "transfer", "decode"});
}

namespace {

struct CauseText {
  Cause cause;
  const char* text;
  const char* advice;
};
constexpr std::array kCauses{
    CauseText{Cause::kNone, "no cause", "no action"},
    CauseText{Cause::kUnknown, "unknown cause", "the planner does not shrink; add the missing telemetry"},
    CauseText{Cause::kQueue, "too many requests per replica",
              "the planner adds replicas to this pool until simulations of the traffic meet the SLO"},
    CauseText{Cause::kPrefill, "prompts take long to compute",
              "the planner adds prefill replicas where simulations show that they help; shorter prompts, a smaller "
              "chunk or a separate pool for long prompts help too"},
    CauseText{Cause::kRoutingCache, "fewer prefix cache hits than before",
              "more replicas do not help: route by prefix, and check what changed in the router or in the prompts"},
    CauseText{Cause::kAdmission, "requests wait for a limit of their own tenant or class",
              "more replicas do not help: raise the budget or the concurrency limit, or accept the wait"},
    CauseText{
        Cause::kTransfer, "slow KV transfers",
        "more bandwidth between prefill and decode helps; more prefill replicas help where each has its own link"},
    CauseText{Cause::kColdStart, "replicas are still starting",
              "the planner waits for the starting replicas and adds no more than simulations need; keep warm replicas, "
              "or shorten the start-up"},
    CauseText{Cause::kDecodeBatch, "large decode batches",
              "the planner adds decode replicas, so that fewer sequences share a step"},
    CauseText{Cause::kKvPressure, "KV caches are full",
              "the planner adds replicas for their KV cache and does not shrink; a larger KV cache or shorter contexts "
              "help too"},
    CauseText{Cause::kPreemption, "requests are preempted",
              "the planner adds replicas for their KV cache and does not shrink; admit fewer sequences at once, or set "
              "a watermark"},
    CauseText{Cause::kEarlySigns, "early signs",
              "the planner adds the replicas that simulations of the latest traffic need"},
    CauseText{
        Cause::kClient, "clients read their answers too slowly",
        "more replicas do not help: the answers were ready, and their time is not held against the SLO; check the "
        "clients and the network to them"},
};

const CauseText& text_of(Cause cause) {
  return *std::find_if(kCauses.begin(), kCauses.end(), [&](const CauseText& each) { return each.cause == cause; });
}

const char* phase_text(Phase phase) {
  return core::name_of<Phase::kDecode>(
      phase, {"", "before admission", "while waiting for a replica", "in the engine queue", "during prefill",
              "during the KV transfer", "during decode"});
}

}  // namespace

const char* advice(Cause cause) { return text_of(cause).advice; }

std::string sentence(const Finding& finding) {
  const std::string where = finding.segment.empty() || finding.segment == "all"
                                ? fmt::format("pool {}", finding.pool_name)
                                : fmt::format("pool {} for {}", finding.pool_name, finding.segment);
  const char* what = finding.symptom == Symptom::kTtft   ? "TTFT is"
                     : finding.symptom == Symptom::kItl  ? "ITL is"
                     : finding.symptom == Symptom::kBoth ? "TTFT and ITL are"
                                                         : "latency is unknown";
  const char* how = finding.symptom == Symptom::kUnknown  ? ""
                    : finding.cause == Cause::kEarlySigns ? " at risk"
                                                          : " bad";
  std::string text = fmt::format("{}{} in {}", what, how, where);
  if (finding.phase != Phase::kNone) text += fmt::format(", {}", phase_text(finding.phase));
  text += fmt::format(": {}", text_of(finding.cause).text);
  if (finding.cause == Cause::kUnknown) text += fmt::format(", {}", finding.unknown_because);
  if (!finding.evidence.empty()) {
    text += fmt::format(" ({})", decision::sentence(finding.evidence));
  }
  return text + fmt::format("; {}", advice(finding.cause));
}

std::string sentence(const Diagnosis& diagnosis) {
  if (diagnosis.findings.empty()) return "latency meets the SLO";
  std::string text;
  for (const Finding& finding : diagnosis.findings) text += (text.empty() ? "" : " | ") + sentence(finding);
  return text;
}

namespace {

// A cause that violates both objectives is one finding.
void add(Diagnosis& diagnosis, std::optional<Finding> finding) {
  if (!finding) return;
  if (!diagnosis.findings.empty()) {
    Finding& last = diagnosis.findings.back();
    const bool same = last.pool == finding->pool && last.cause == finding->cause && last.symptom == Symptom::kTtft &&
                      finding->symptom == Symptom::kItl &&
                      std::string_view{last.unknown_because} == finding->unknown_because;
    if (same) {
      last.symptom = Symptom::kBoth;
      if (finding->severity > last.severity) last.segment = finding->segment;
      last.severity = std::max(last.severity, finding->severity);
      for (const Evidence& evidence : finding->evidence) {
        const auto named = [&](const Evidence& known) { return known.name == evidence.name; };
        if (std::none_of(last.evidence.begin(), last.evidence.end(), named)) last.evidence.push_back(evidence);
      }
      return;
    }
  }
  diagnosis.findings.push_back(*std::move(finding));
}

Symptom over_all(const std::vector<Finding>& findings) {
  bool ttft = false, itl = false;
  for (const Finding& finding : findings) {
    ttft = ttft || finding.symptom == Symptom::kTtft || finding.symptom == Symptom::kBoth;
    itl = itl || finding.symptom == Symptom::kItl || finding.symptom == Symptom::kBoth;
  }
  if (ttft && itl) return Symptom::kBoth;
  if (ttft || itl) return ttft ? Symptom::kTtft : Symptom::kItl;
  return findings.empty() ? Symptom::kNone : Symptom::kUnknown;
}

}  // namespace

Diagnosis Diagnoser::observe(const signals::Observation& observation) {
  histories_.resize(observation.pools.size());
  Diagnosis diagnosis;
  std::vector<PoolView> views;
  // Several aggregated pools have requests of their own each.
  const bool has_own = signals::served_by(observation.pools).size() > 1;
  std::vector<std::vector<ObjectiveLatency>> by_pool;
  if (!slo_.segments.empty() && !observation.pools.empty())
    by_pool = objective_latencies(observation, slo_, has_own ? observation.pools.size() : 1);
  for (std::uint32_t i = 0; i < observation.pools.size(); ++i) {
    histories_[i].add(observation.now, observation.pools[i], options_.sample_age);
    views.push_back({observation, i, observation.pools[i], histories_[i], slo_, options_});
    if (has_own) views.back().own_requests = static_cast<std::uint8_t>(i);
    if (!by_pool.empty()) views.back().by_objective = by_pool[has_own ? i : 0];
  }
  const auto decode =
      std::find_if(views.begin(), views.end(), [](const auto& of) { return of.pool.role == signals::Role::kDecode; });
  for (PoolView& view : views) {
    const signals::PoolObservation& pool = view.pool;
    if (pool.role == signals::Role::kPrefill && decode != views.end()) view.decode = &*decode;
    if (pool.role != signals::Role::kDecode) add(diagnosis, judge_ttft(view));
    if (pool.role != signals::Role::kPrefill) add(diagnosis, judge_itl(view));
  }
  std::stable_sort(diagnosis.findings.begin(), diagnosis.findings.end(),
                   [](const Finding& left, const Finding& right) { return left.severity > right.severity; });
  diagnosis.symptom = over_all(diagnosis.findings);
  return diagnosis;
}

}  // namespace penstock::planner
