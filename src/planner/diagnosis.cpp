#include "planner/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "decision/decision_text.h"
#include "planner/diagnosis_rules.h"

namespace penstock::planner {

const char* to_string(Symptom symptom) {
  switch (symptom) {
    case Symptom::kNone: return "none";
    case Symptom::kTtft: return "ttft";
    case Symptom::kItl: return "itl";
    case Symptom::kBoth: return "both";
    case Symptom::kUnknown: return "unknown";
  }
  return "unknown";
}

const char* to_string(Phase phase) {
  switch (phase) {
    case Phase::kNone: return "none";
    case Phase::kAdmission: return "admission";
    case Phase::kReplicaWait: return "replica_wait";
    case Phase::kQueue: return "queue";
    case Phase::kPrefill: return "prefill";
    case Phase::kTransfer: return "transfer";
    case Phase::kDecode: return "decode";
  }
  return "unknown";
}

const char* advice(Cause cause) {
  switch (cause) {
    case Cause::kNone: return "nothing to do";
    case Cause::kUnknown: return "the planner never shrinks on this; see what is missing";
    case Cause::kQueue: return "the planner adds replicas to this pool until trials of the traffic keep the slo";
    case Cause::kPrefill:
      return "the planner adds replicas that prefill where trials show that it helps; shorter prompts, a smaller chunk "
             "or a pool of their own for long ones help too";
    case Cause::kRoutingCache:
      return "replicas do not bring the cache back: route by prefix, and look at what changed in router or prompts";
    case Cause::kAdmission: return "replicas do not open the door: raise the budget, or accept the wait";
    case Cause::kTransfer:
      return "more bandwidth between prefill and decode; prefill replicas help where each has a link";
    case Cause::kColdStart:
      return "the planner waits for the replicas on their way and asks for no more than trials need; keep a warm one, "
             "or "
             "shorten the start";
    case Cause::kDecodeBatch: return "the planner adds replicas that decode, so that fewer sequences share a step";
    case Cause::kKvPressure:
      return "the planner adds replicas for their KV and refuses to shrink; a larger KV cache or shorter contexts help "
             "too";
    case Cause::kPreemption:
      return "the planner adds replicas for their KV and refuses to shrink; admit fewer sequences at once, or keep a "
             "watermark free";
    case Cause::kEarlySigns: return "the planner already asks for what trials of the latest traffic need";
  }
  return "";
}

std::string sentence(const Finding& finding) {
  const std::string where = finding.segment.empty() || finding.segment == "all"
                                ? fmt::format("pool {}", finding.pool_name)
                                : fmt::format("pool {} for {}", finding.pool_name, finding.segment);
  const char* what = finding.symptom == Symptom::kTtft   ? "ttft is"
                     : finding.symptom == Symptom::kItl  ? "itl is"
                     : finding.symptom == Symptom::kBoth ? "ttft and itl are"
                                                         : "latency cannot be judged";
  const char* how = finding.symptom == Symptom::kUnknown  ? ""
                    : finding.cause == Cause::kEarlySigns ? " at risk"
                                                          : " bad";
  std::string text = fmt::format("{}{} in {}", what, how, where);
  if (finding.phase != Phase::kNone) text += fmt::format(", in the phase {}", to_string(finding.phase));
  text += fmt::format(": {}", to_string(finding.cause));
  if (finding.cause == Cause::kUnknown) text += fmt::format(", {}", finding.unknown_because);
  if (!finding.evidence.empty()) {
    text += fmt::format(" ({})", decision::sentence(finding.evidence));
  }
  return text + fmt::format("; {}", advice(finding.cause));
}

std::string sentence(const Diagnosis& diagnosis) {
  if (diagnosis.findings.empty()) return "latency keeps the slo";
  std::string text;
  for (const Finding& finding : diagnosis.findings) text += (text.empty() ? "" : " | ") + sentence(finding);
  return text;
}

namespace {

// One trouble that shows twice is one finding.
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
  for (std::uint32_t i = 0; i < observation.pools.size(); ++i) {
    const signals::PoolObservation& pool = observation.pools[i];
    histories_[i].add(observation.now, pool, options_.sample_age);
    const PoolView view{observation.now, i, pool, histories_[i], slo_, options_};
    if (pool.role != signals::Role::kDecode) add(diagnosis, judge_ttft(view));
    if (pool.role != signals::Role::kPrefill) add(diagnosis, judge_itl(view));
  }
  std::stable_sort(diagnosis.findings.begin(), diagnosis.findings.end(),
                   [](const Finding& left, const Finding& right) { return left.severity > right.severity; });
  diagnosis.symptom = over_all(diagnosis.findings);
  return diagnosis;
}

}  // namespace penstock::planner
