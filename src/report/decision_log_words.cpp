#include "report/decision_log_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "report/format.h"
#include "report/metrics.h"

namespace penstock::report {
namespace {

using signals::CandidateNote;
using signals::DecisionEntry;
using signals::DecisionNote;

struct Phrase {
  std::string_view name, text;
};

// By the stable names of planner::Reason and planner::Limit. A name that is not here, of a later version, is shown as
// it is.
constexpr std::array kReasons{
    Phrase{"fixed", "the policy never changes its fleet"},
    Phrase{"within_tolerance", "the load is near the target load of the fleet"},
    Phrase{"no_data", "there is no telemetry"},
    Phrase{"insufficient_data", "there is too little telemetry"},
    Phrase{"scaling_in_progress", "replicas are starting or draining"},
    Phrase{"load_above_target", "the load is above the target load of the fleet"},
    Phrase{"load_below_target", "the load is below the target load of the fleet"},
    Phrase{"stabilized", "a larger proposal of the last minutes is still in force"},
    Phrase{"panic", "the load rose suddenly, and the short window decides"},
    Phrase{"saturated", "there is too little spare capacity"},
    Phrase{"spare_capacity", "one replica less would be enough"},
    Phrase{"consolidation_refused", "one replica less could not serve the load"},
    Phrase{"slo_at_risk", "the SLO is at risk"},
    Phrase{"slo_met", "the SLO is met with a margin"},
    Phrase{"foreseen", "the policy knows the future traffic"},
    Phrase{"cheapest_that_keeps_slo", "this is the cheapest simulated fleet that meets the SLO"},
    Phrase{"schedule", "a schedule sets the minimum now or soon, or has just ended"},
    Phrase{"warm_pool", "the warm pool adds ready replicas to the number that the traffic needs"},
    Phrase{"observe_only", "the rollout phase is observe-only"},
    Phrase{"idle", "no requests have arrived for a while"},
    Phrase{"token_formula",
           "the simulations did not finish in time, so the token rate divided by the capacity of a replica decides"},
    Phrase{"slo_burns",
           "the SLO is missed although simulations predict that the fleet is enough, so it grows step by step"},
};
constexpr std::array kLimits{
    Phrase{"min_replicas", "the minimum replicas of the pool"},
    Phrase{"max_replicas", "the maximum replicas of the pool"},
    Phrase{"growth_rate", "the allowed growth per minute"},
    Phrase{"shrink_rate", "the allowed shrinking per step"},
    Phrase{"stabilization", "the stabilisation window: a larger target was proposed recently"},
    Phrase{"cooldown", "the cooldown after the last change"},
    Phrase{"stale_telemetry", "a ready replica without recent telemetry"},
    Phrase{"scaling_under_way", "replicas that are starting or draining"},
    Phrase{"hot_kv_cache", "a KV cache that is nearly full"},
    Phrase{"queue_waits", "requests that wait in a queue"},
    Phrase{"failures", "requests that failed recently"},
    Phrase{"consolidation", "the load, which fewer replicas could not serve"},
    Phrase{"min_endpoints", "the required minimum of ready replicas"},
    Phrase{"gpu_budget", "the GPU budget of all pools"},
    Phrase{"manual_change", "a target that was recently set manually"},
    Phrase{"clock_jump", "a clock that jumped"},
    Phrase{"refused", "the platform, which refused the change"},
};

template <class Phrases>
std::string in_words(const Phrases& phrases, const std::string& name) {
  const auto found = std::find_if(phrases.begin(), phrases.end(), [&](const Phrase& p) { return p.name == name; });
  return found == phrases.end() ? printable(name) : std::string{found->text};
}

bool changes(const DecisionNote& note) { return note.current != note.target; }

std::string change_of(const DecisionNote& note) {
  if (!changes(note)) return fmt::format("holds {}", format_replicas(note.target));
  return fmt::format("{} from {} to {}", note.target > note.current ? "grows" : "shrinks", note.current,
                     format_replicas(note.target));
}

// Columns as wide as their widest cell; the first is text and flush left, numbers are flush right.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line = "   ";
    for (std::size_t i = 0; i < row.size(); ++i)
      line += " " + std::string(i == 0 ? 1 : widths[i] - display_width(row[i]) + 1, ' ') + row[i] +
              std::string(i == 0 ? widths[i] - display_width(row[i]) : 0, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

// Counts are whole, shares are percent, all else has three digits.
std::string figure(const signals::EvidenceValue& evidence) {
  if (evidence.unit == "share") return format_share(evidence.value);
  if (evidence.unit == "times") return "x" + format_quantity(evidence.value);
  const bool is_count = evidence.value >= 0.0 && evidence.value < 1e9 && evidence.value == std::floor(evidence.value);
  return (is_count ? format_count(static_cast<std::uint64_t>(evidence.value)) : format_quantity(evidence.value)) + " " +
         printable(evidence.unit);
}

std::string evidence_table(const DecisionNote& note) {
  std::vector<std::vector<std::string>> rows;
  for (const signals::EvidenceValue& evidence : note.evidence)
    rows.push_back({printable(evidence.name), figure(evidence)});
  return rows.empty() ? std::string{} : "  Based on:\n" + table(rows);
}

std::string candidate_table(const DecisionEntry& entry) {
  const std::vector<CandidateNote>& candidates = entry.note.candidates;
  if (candidates.empty()) return {};
  std::vector<std::vector<std::string>> rows = {{}};
  for (const std::string& pool : entry.pools) rows.front().push_back(printable(pool));
  for (const char* title : {"SLO attainment", "TTFT met", "ITL met", ""}) rows.front().emplace_back(title);
  std::vector<const CandidateNote*> by_size;
  for (const CandidateNote& tried : candidates) by_size.push_back(&tried);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const CandidateNote* a, const CandidateNote* b) { return a->replicas < b->replicas; });
  for (const CandidateNote* tried : by_size) {
    auto& row = rows.emplace_back();
    for (const std::uint32_t replicas : tried->replicas) row.push_back(std::to_string(replicas));
    for (const double share : {tried->slo_attainment, tried->ttft_attainment, tried->itl_attainment})
      row.push_back(format_share(share));
    row.emplace_back(tried->chosen ? "chosen" : "");
  }
  return "  Simulated fleets (replicas) and the share of requests that would have met the SLO:\n" + table(rows);
}

std::string next_change(const DecisionTrack& track, core::Instant at) {
  const auto next = std::find_if(track.entries.begin(), track.entries.end(), [&](const DecisionEntry* entry) {
    return entry->note.at > at && changes(entry->note);
  });
  if (next == track.entries.end()) return "  Next change: none before the end of the log.\n";
  const DecisionNote& note = (*next)->note;
  return fmt::format("  Next change: at {} it {}, because {}.\n", format_moment(note.at), change_of(note),
                     in_words(kReasons, note.reason));
}

// Where a hold is in force, the change that it keeps.
std::string last_change(std::span<const DecisionEntry* const> before) {
  const auto last =
      std::find_if(before.rbegin(), before.rend(), [](const DecisionEntry* entry) { return changes(entry->note); });
  if (last == before.rend()) return "  Last change: none since the start.\n";
  if (last == before.rbegin()) return {};  // it is the decision in force
  const DecisionNote& note = (*last)->note;
  return fmt::format("  Last change: at {} it {}, because {}.\n", format_moment(note.at), change_of(note),
                     in_words(kReasons, note.reason));
}

// What was wrong with latency, what the rollout's next phase would do, and what was expected: as far as it was said.
std::string diagnosis_of(const DecisionNote& note) {
  if (note.cause.empty() && note.diagnosis.empty()) return {};
  return fmt::format("  Diagnosis: {}.\n", printable(note.diagnosis.empty() ? note.cause : note.diagnosis));
}

std::string phase_of(const DecisionNote& note) {
  if (note.phase.empty() && !note.next_phase_target) return {};
  const std::string phase = note.phase.empty() ? "Rollout" : "Phase " + printable(note.phase);
  if (!note.next_phase_target) return fmt::format("  {}.\n", phase);
  const std::string_view next = next_rollout_phase(note.phase);
  return fmt::format("  {}: the target would be {} in {}.\n", phase, format_replicas(*note.next_phase_target),
                     next.empty() ? "the next phase" : fmt::format("phase {}", next));
}

std::string outlook_of(const DecisionNote& note) {
  if (!note.outlook || !note.outlook->known()) return {};
  const signals::OutlookNote& outlook = *note.outlook;
  std::vector<std::string> parts;
  if (outlook.requests_per_s) parts.push_back(format_quantity(*outlook.requests_per_s) + " requests/s");
  if (outlook.input_tokens) parts.push_back(format_quantity(*outlook.input_tokens) + " prompt tokens each");
  if (outlook.output_tokens) parts.push_back(format_quantity(*outlook.output_tokens) + " output tokens each");
  std::string text = fmt::format("  Expected over the start-up time: {}", parts.empty() ? "not known yet" : "");
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : ", ") + parts[i];
  if (outlook.error) text += fmt::format("; recent error {} requests/s", format_quantity(*outlook.error));
  if (outlook.naive_error)
    text += fmt::format("; error of a forecast without change {} requests/s", format_quantity(*outlook.naive_error));
  return text + ".\n";
}

std::string heading(const DecisionTrack& track) {
  return fmt::format("{}, pool {}", printable(track.policy), printable(track.pool));
}

}  // namespace

std::string format_moment(core::Instant at) {
  // To the nearest millisecond; std::chrono::round overflows near kNever.
  const auto nanoseconds = at.time_since_epoch().count();
  const auto total = nanoseconds / 1'000'000 + (nanoseconds % 1'000'000 >= 500'000 ? 1 : 0);
  const auto hours = total / 3'600'000, minutes = total / 60'000 % 60, seconds = total / 1000 % 60, rest = total % 1000;
  std::string text;
  if (hours > 0) text += fmt::format("{}h", hours);
  if (minutes > 0) text += fmt::format("{}m", minutes);
  if (seconds > 0 || (text.empty() && rest == 0)) text += fmt::format("{}s", seconds);
  if (rest > 0) text += fmt::format("{}ms", rest);
  return text;
}

std::vector<DecisionTrack> decision_tracks(std::span<const DecisionEntry> entries) {
  std::vector<DecisionTrack> tracks;
  for (const DecisionEntry& entry : entries) {
    auto track = std::find_if(tracks.begin(), tracks.end(), [&](const DecisionTrack& known) {
      return known.policy == entry.policy && known.pool == entry.note.pool;
    });
    if (track == tracks.end()) track = tracks.insert(tracks.end(), {entry.policy, entry.note.pool, {}});
    track->entries.push_back(&entry);
  }
  for (DecisionTrack& track : tracks)
    std::stable_sort(track.entries.begin(), track.entries.end(),
                     [](const DecisionEntry* a, const DecisionEntry* b) { return a->note.at < b->note.at; });
  return tracks;
}

std::string list_decisions(const DecisionTrack& track) {
  std::vector<std::vector<std::string>> rows;
  std::size_t changed = 0;
  for (const DecisionEntry* entry : track.entries) {
    const DecisionNote& note = entry->note;
    if (changes(note)) ++changed;
    rows.push_back({format_moment(note.at), changes(note) ? std::to_string(note.current) : "",
                    changes(note) ? "→" : "=", std::to_string(note.target), printable(note.reason),
                    note.limited_by.empty() ? "" : "limited by " + printable(note.limited_by),
                    note.cause.empty() ? "" : "cause " + printable(note.cause)});
  }
  std::array<std::size_t, 7> widths{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  std::string text =
      fmt::format("{}: {} {}, {} {}\n", heading(track), format_count(changed), changed == 1 ? "change" : "changes",
                  format_count(rows.size() - changed), rows.size() - changed == 1 ? "hold" : "holds");
  for (const auto& row : rows) {
    std::string line = fmt::format("  {:>{}}  {:>{}} {} {:>{}}  {:<{}}  {:<{}}  {}", row[0], widths[0], row[1],
                                   widths[1], row[2], row[3], widths[3], row[4], widths[4], row[5], widths[5], row[6]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string explain_decision(const DecisionTrack& track, core::Instant at) {
  const auto after = std::find_if(track.entries.begin(), track.entries.end(),
                                  [&](const DecisionEntry* entry) { return entry->note.at > at; });
  if (after == track.entries.begin())
    return fmt::format("{}, at {}: no decision yet; the run started with {}.\n{}", heading(track), format_moment(at),
                       format_replicas((*after)->note.current), next_change(track, at));
  const DecisionEntry& entry = **(after - 1);
  const DecisionNote& note = entry.note;
  std::string text = fmt::format("{}, at {}: {}.\n", heading(track), format_moment(at), format_replicas(note.target));
  text += fmt::format("  Decided at {}: {}, because {}.\n", format_moment(note.at), change_of(note),
                      in_words(kReasons, note.reason));
  if (!note.limited_by.empty()) text += fmt::format("  Limited by {}.\n", in_words(kLimits, note.limited_by));
  text += diagnosis_of(note) + phase_of(note) + outlook_of(note);
  text += evidence_table(note) + candidate_table(entry);
  if (!entry.would_change.empty())
    text += fmt::format("  What would change this decision: {}.\n", printable(entry.would_change));
  const std::span<const DecisionEntry* const> all{track.entries};
  text += last_change(all.first(static_cast<std::size_t>(after - track.entries.begin())));
  return text + next_change(track, at);
}

}  // namespace penstock::report
