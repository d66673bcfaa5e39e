// What would change a decision: the limit that holds it, and the figures at which its policy would choose otherwise.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "report/decision_log.h"
#include "report/format.h"

namespace penstock::report {
namespace {

using signals::CandidateNote;
using signals::DecisionNote;
using signals::EvidenceValue;

struct Outlook {
  std::string_view name, text;
};

// By the stable names of planner::Limit.
constexpr std::array kLimitOutlooks{
    Outlook{"min_replicas", "would shrink further with a lower min_replicas"},
    Outlook{"max_replicas", "would grow further with a higher max_replicas"},
    Outlook{"growth_rate", "grows further as soon as the allowed growth per minute permits"},
    Outlook{"shrink_rate", "shrinks further, one step at a time, while the proposal stays lower"},
    Outlook{"stabilization", "shrinks once no larger target was proposed during the whole stabilisation window"},
    Outlook{"cooldown", "shrinks once the cooldown has passed without a larger proposal"},
    Outlook{"stale_telemetry", "shrinks once every ready replica reports telemetry again"},
    Outlook{"scaling_under_way", "shrinks once no replica is starting or draining"},
    Outlook{"hot_kv_cache", "shrinks once KV cache use has fallen"},
    Outlook{"queue_waits", "shrinks once no request waits in a queue"},
    Outlook{"failures", "shrinks once no request has failed for a while"},
    Outlook{"consolidation", "shrinks once fewer replicas could carry the load"},
    Outlook{"min_endpoints", "shrinks once more replicas are ready than the required minimum"},
    Outlook{"gpu_budget", "grows further with a higher GPU budget, or once another pool releases GPUs"},
    Outlook{"manual_change", "decides again once the hold after the manual change has passed"},
    Outlook{"clock_jump", "decides again at the next tick if the clock is steady"},
    Outlook{"refused", "retries, and changes once the platform accepts the change"},
};

// Where neither limit, candidates nor a known pair of figures says more; by the stable names of planner::Reason.
constexpr std::array kReasonOutlooks{
    Outlook{"fixed", "nothing changes it: the policy keeps its fleet"},
    Outlook{"no_data", "decides again once there is telemetry"},
    Outlook{"insufficient_data", "decides again once there is enough telemetry"},
    Outlook{"scaling_in_progress", "decides again once no replica is starting or draining"},
    Outlook{"stabilized", "follows the lower proposal once the window has passed without a higher one"},
    Outlook{"panic", "follows the long window again once the short one is below the panic threshold"},
    Outlook{"consolidation_refused", "shrinks once one replica less would carry the load"},
    Outlook{"foreseen", "nothing changes it: the policy knows the traffic in advance"},
    Outlook{"schedule", "follows the plan again once the floor of the schedule has passed"},
    Outlook{"warm_pool", "follows the plan, and adds the configured spare replicas"},
    Outlook{"observe_only", "becomes active once the rollout phase allows it"},
    Outlook{"idle", "grows as soon as requests arrive"},
    Outlook{"token_formula", "follows the trials once they are done in time"},
    Outlook{"slo_burns", "grows further while the SLO is missed, and shrinks once it is met"},
};

// A load, and what one replica is meant to take of it.
struct LoadPair {
  std::string_view load, per_replica;
  bool total;  // the load is of the whole pool, not of one replica
};
constexpr std::array kLoads{
    LoadPair{"request_rate", "target_per_replica", true},
    LoadPair{"requests_per_replica", "target_per_replica", false},
    LoadPair{"stable_concurrency", "target_per_replica", true},
    LoadPair{"input_token_rate", "input_target_per_replica", true},
    LoadPair{"output_token_rate", "output_target_per_replica", true},
    LoadPair{"demand", "capacity_per_replica", true},
};

template <class Outlooks>
std::string_view find_phrase(const Outlooks& phrases, std::string_view name) {
  const auto found = std::find_if(phrases.begin(), phrases.end(), [&](const Outlook& p) { return p.name == name; });
  return found == phrases.end() ? std::string_view{} : found->text;
}

const EvidenceValue* find_evidence(const DecisionNote& note, std::string_view name) {
  const auto found =
      std::find_if(note.evidence.begin(), note.evidence.end(), [&](const EvidenceValue& e) { return e.name == name; });
  return found == note.evidence.end() ? nullptr : &*found;
}

// Of two fleets that were tried: the larger of those that have fewer replicas than the chosen one in this pool, and as
// many in the others.
const CandidateNote* next_smaller(const DecisionNote& note, const CandidateNote& chosen, std::size_t pool) {
  const CandidateNote* next = nullptr;
  for (const CandidateNote& tried : note.candidates) {
    if (tried.replicas.size() != chosen.replicas.size() || tried.replicas[pool] >= chosen.replicas[pool]) continue;
    std::vector<std::uint32_t> others = tried.replicas;
    others[pool] = chosen.replicas[pool];
    if (others == chosen.replicas && (next == nullptr || tried.replicas[pool] > next->replicas[pool])) next = &tried;
  }
  return next;
}

std::string of_candidates(const DecisionNote& note, std::size_t pool) {
  const auto chosen = std::find_if(note.candidates.begin(), note.candidates.end(),
                                   [](const CandidateNote& tried) { return tried.chosen; });
  if (chosen == note.candidates.end() || pool >= chosen->replicas.size()) return {};
  const std::uint32_t replicas = chosen->replicas[pool];
  std::string text = fmt::format("scales up when the SLO attainment of {} is too low (simulated: {})",
                                 format_replicas(replicas), format_share(chosen->slo_attainment));
  if (const CandidateNote* less = next_smaller(note, *chosen, pool))
    text += fmt::format(", down when {} would be enough (simulated: {})", format_replicas(less->replicas[pool]),
                        format_share(less->slo_attainment));
  return text;
}

std::string of_trial_figures(const DecisionNote& note) {
  const EvidenceValue* kept = find_evidence(note, "attainment");
  const EvidenceValue* less = find_evidence(note, "attainment_one_less");
  if (kept == nullptr || less == nullptr) return {};
  std::string text = fmt::format("scales up when the SLO attainment of the fleet is too low (simulated: {})",
                                 format_share(kept->value));
  if (note.target > 1)
    text += fmt::format(", down when one replica less would be enough (simulated: {})", format_share(less->value));
  return text;
}

std::string of_loads(const DecisionNote& note) {
  std::string up, down;
  const double target = note.target;
  for (const LoadPair& pair : kLoads) {
    const EvidenceValue* load = find_evidence(note, pair.load);
    const EvidenceValue* each = find_evidence(note, pair.per_replica);
    if (load == nullptr || each == nullptr || !(each->value > 0.0) || note.target == 0) continue;
    const double most = each->value * (pair.total ? target : 1.0);
    const double least = most * (target - 1.0) / target;
    up += fmt::format("{}{} exceeds about {} {} (now {})", up.empty() ? "scales up when " : " or ", load->name,
                      format_quantity(most), load->unit, format_quantity(load->value));
    if (note.target > 1)
      down += fmt::format("{}{} falls below about {} {}", down.empty() ? ", down when " : " and ", load->name,
                          format_quantity(least), load->unit);
  }
  return up + down;
}

std::string of_first_figure(const DecisionNote& note) {
  if (note.evidence.empty()) return {};
  const EvidenceValue& first = note.evidence.front();
  const std::string now =
      first.unit == "share" ? format_share(first.value) : format_quantity(first.value) + " " + first.unit;
  return fmt::format("changes when {} (now {}) leaves the range in which the policy holds", first.name, now);
}

}  // namespace

std::string what_would_change(const DecisionNote& note, std::size_t pool) {
  std::string text;
  const auto add = [&](std::string_view part) {
    if (!part.empty()) text += (text.empty() ? "" : "; ") + std::string{part};
  };
  if (!note.limited_by.empty()) {
    const std::string_view known = find_phrase(kLimitOutlooks, note.limited_by);
    add(known.empty() ? "changes once its limit, " + note.limited_by + ", is lifted" : std::string{known});
  }
  for (const std::string& part : {of_candidates(note, pool), of_trial_figures(note), of_loads(note)}) {
    if (part.empty()) continue;
    add(part);
    return text;
  }
  if (text.empty()) add(find_phrase(kReasonOutlooks, note.reason));
  if (text.empty()) add(of_first_figure(note));
  if (text.empty()) add("the log does not say what would change it");
  return text;
}

}  // namespace penstock::report
