#include "decision/decision_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/format.h"

namespace penstock::decision {
namespace {

// A load and its target per replica.
struct LoadPair {
  std::string_view load, per_replica;
  bool total;  // The load is that of the whole pool, not of one replica.
};
constexpr std::array kLoads{
    LoadPair{"request_rate", "target_per_replica", true},
    LoadPair{"requests_per_replica", "target_per_replica", false},
    LoadPair{"stable_concurrency", "target_per_replica", true},
    LoadPair{"input_token_rate", "input_target_per_replica", true},
    LoadPair{"output_token_rate", "output_target_per_replica", true},
    LoadPair{"demand", "capacity_per_replica", true},
};

const Evidence* find_evidence(const DecisionRecord& record, std::string_view name) {
  const auto found =
      std::find_if(record.evidence.begin(), record.evidence.end(), [&](const Evidence& e) { return e.name == name; });
  return found == record.evidence.end() ? nullptr : &*found;
}

// The largest simulated fleet with fewer replicas than the chosen one in this pool and as many in the others.
const Candidate* next_smaller(const DecisionRecord& record, const Candidate& chosen, std::size_t pool) {
  const Candidate* next = nullptr;
  for (const Candidate& tried : record.candidates) {
    if (tried.replicas.size() != chosen.replicas.size() || tried.replicas[pool] >= chosen.replicas[pool]) continue;
    std::vector<std::uint32_t> others = tried.replicas;
    others[pool] = chosen.replicas[pool];
    if (others == chosen.replicas && (next == nullptr || tried.replicas[pool] > next->replicas[pool])) next = &tried;
  }
  return next;
}

std::string of_candidates(const DecisionRecord& record, std::size_t pool) {
  const auto chosen = std::find_if(record.candidates.begin(), record.candidates.end(),
                                   [](const Candidate& tried) { return tried.chosen; });
  if (chosen == record.candidates.end() || pool >= chosen->replicas.size()) return {};
  const std::uint32_t replicas = chosen->replicas[pool];
  std::string text = fmt::format("scales up when the SLO attainment of {} is too low (simulated: {})",
                                 core::format_replicas(replicas), core::format_share(chosen->slo_attainment));
  const Candidate* less = next_smaller(record, *chosen, pool);
  if (less == nullptr) return text;
  if (find_evidence(record, "attainment_over_futures_needed") != nullptr)
    return text +
           fmt::format(", down when {} would cover the likely loads", core::format_replicas(less->replicas[pool]));
  return text + fmt::format(", down when {} would be enough (simulated: {})",
                            core::format_replicas(less->replicas[pool]), core::format_share(less->slo_attainment));
}

std::string of_trial_figures(const DecisionRecord& record) {
  const Evidence* kept = find_evidence(record, "attainment");
  const Evidence* less = find_evidence(record, "attainment_with_one_fewer_replica");
  if (kept == nullptr || less == nullptr) return {};
  std::string text = fmt::format("scales up when the SLO attainment of the fleet is too low (simulated: {})",
                                 core::format_share(kept->value));
  if (record.target > 1)
    text +=
        fmt::format(", down when one replica less would be enough (simulated: {})", core::format_share(less->value));
  return text;
}

std::string of_loads(const DecisionRecord& record) {
  std::string up, down;
  const double target = record.target;
  for (const LoadPair& pair : kLoads) {
    const Evidence* load = find_evidence(record, pair.load);
    const Evidence* each = find_evidence(record, pair.per_replica);
    if (load == nullptr || each == nullptr || !(each->value > 0.0) || record.target == 0) continue;
    const double most = each->value * (pair.total ? target : 1.0);
    const double least = most * (target - 1.0) / target;
    up += fmt::format("{}{} exceeds about {} {} (now {})", up.empty() ? "scales up when " : " or ", load->name,
                      core::format_quantity(most), load->unit, core::format_quantity(load->value));
    if (record.target > 1)
      down += fmt::format("{}{} falls below about {} {}", down.empty() ? ", down when " : " and ", load->name,
                          core::format_quantity(least), load->unit);
  }
  return up + down;
}

std::string of_first_figure(const DecisionRecord& record) {
  if (record.evidence.empty()) return {};
  const Evidence& first = record.evidence.front();
  const std::string now =
      first.unit == "share" ? core::format_share(first.value) : core::format_quantity(first.value) + " " + first.unit;
  return fmt::format("changes when {} (now {}) leaves the range in which the policy holds", first.name, now);
}

double value_of(const DecisionRecord& record, std::string_view name, double otherwise) {
  const Evidence* evidence = find_evidence(record, name);
  return evidence == nullptr ? otherwise : evidence->value;
}

// The term that determined a target that follows simulations; empty if the evidence does not show one.
std::string binding_term(const DecisionRecord& record) {
  const double floor = value_of(record, "floor", 0.0), load = value_of(record, "load_based_target", 0.0);
  const double planned = std::max(floor, load), target = record.target;
  const double recent = value_of(record, "largest_recent_plan", 0.0);
  const double held = std::max(planned, recent);
  if (planned <= 0.0) return {};
  if (target > held) {
    if (const double lost = value_of(record, "lost_to_slow_replicas", 0.0); lost > 0.0)
      return fmt::format("slow replicas lack the work of {}, which are added to the {:.0f} of the simulations",
                         core::format_quantity(lost), held);
    return fmt::format("simulations promised more than was observed, so their {:.0f} replicas are raised by x{}", held,
                       core::format_quantity(value_of(record, "load_factor", 1.0)));
  }
  if (target == recent && recent > planned)
    return fmt::format("a recent plan of {:.0f} replicas is still held", recent);
  if (target != planned) return {};
  std::string text = "this is the cheapest simulated fleet that meets the SLO";
  if (const double growth = value_of(record, "expected_growth", 1.0); floor >= load && growth > 1.0)
    text += fmt::format(" at the forecast rate, x{} of the present one", core::format_quantity(growth));
  // Only a plan that would be smaller for the present load has this evidence.
  if (find_evidence(record, "attainment_over_futures_needed") != nullptr)
    text += fmt::format(" and covers the likely loads until another replica is ready, up to x{}",
                        core::format_quantity(value_of(record, "load_multiple_p97", 1.0)));
  return text;
}

}  // namespace

std::string because(const DecisionRecord& record) {
  if (record.limited_by != Limit::kNone) return fmt::format("it is limited by {}", limited_by(record.limited_by));
  if (record.reason == Reason::kCheapestThatKeepsSlo)
    if (std::string term = binding_term(record); !term.empty()) return term;
  const double cleared = value_of(record, "fleet_for_backlog", 0.0);
  if (record.reason == Reason::kSloAtRisk && cleared > 0.0)
    return fmt::format("{}, and requests that wait already need {:.0f} replicas", because(record.reason), cleared);
  return because(record.reason);
}

std::string sentence(const std::vector<Evidence>& evidence) {
  std::string text;
  for (const Evidence& each : evidence) {
    // Three digits say enough; whole tokens and milliseconds stay readable without an exponent. From 999.5 on, three
    // digits would be 1e+03.
    const bool large = std::abs(each.value) >= 999.5;
    const std::string value = large ? fmt::format("{:.0f}", each.value) : fmt::format("{:.3g}", each.value);
    text += fmt::format("{}{} ", text.empty() ? "" : ", ", each.name);
    text += each.unit == "times" ? "x" + value : fmt::format("{} {}", value, each.unit);
  }
  return text;
}

std::string what_would_change(const DecisionRecord& record) {
  const auto pool =
      static_cast<std::size_t>(std::find(record.pools.begin(), record.pools.end(), record.pool) - record.pools.begin());
  std::string text = until(record.limited_by);
  const auto add = [&](std::string_view part) {
    if (!part.empty()) text += (text.empty() ? "" : "; ") + std::string{part};
  };
  for (const std::string& part : {of_candidates(record, pool), of_trial_figures(record), of_loads(record)}) {
    if (part.empty()) continue;
    add(part);
    return text;
  }
  if (text.empty()) add(until(record.reason));
  if (text.empty()) add(of_first_figure(record));
  if (text.empty()) add("the log does not say what would change it");
  return text;
}

}  // namespace penstock::decision
