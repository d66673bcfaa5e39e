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
    Phrase{"within_tolerance", "the load is near what the fleet is meant to carry"},
    Phrase{"no_data", "there was no telemetry to decide on"},
    Phrase{"insufficient_data", "too little was seen to decide on"},
    Phrase{"scaling_in_progress", "it waits for replicas that start or drain"},
    Phrase{"load_above_target", "the load is above what the fleet is meant to carry"},
    Phrase{"load_below_target", "the load is below what the fleet is meant to carry"},
    Phrase{"stabilized", "a larger proposal of the last minutes still holds"},
    Phrase{"panic", "the load jumped, and the short window rules"},
    Phrase{"saturated", "too little capacity is spare"},
    Phrase{"spare_capacity", "one replica less would still do"},
    Phrase{"consolidation_refused", "one replica less would not carry the load"},
    Phrase{"slo_at_risk", "the SLO is at risk"},
    Phrase{"slo_met", "the SLO is kept with room to spare"},
    Phrase{"foreseen", "the policy knows the traffic to come"},
    Phrase{"cheapest_that_keeps_slo", "this is the cheapest fleet tried that keeps the SLO"},
    Phrase{"schedule", "it follows a schedule: a floor now or soon, or the plan again after one"},
    Phrase{"warm_pool", "the warm pool adds ready replicas to what the traffic needs"},
    Phrase{"observe_only", "the rollout phase lets nothing act"},
    Phrase{"idle", "nothing has come for a while"},
    Phrase{"token_formula", "trials were not done in time, so token rates over what a replica carries decided"},
    Phrase{"slo_burns", "the SLO is missed although trials say that the fleet would do, so it grows step by step"},
};
constexpr std::array kLimits{
    Phrase{"min_replicas", "the pool's fewest replicas"},
    Phrase{"max_replicas", "the pool's most replicas"},
    Phrase{"growth_rate", "the growth that is allowed at once"},
    Phrase{"shrink_rate", "the shrinking that is allowed at once"},
    Phrase{"stabilization", "the stabilisation window: more was asked for lately"},
    Phrase{"cooldown", "the cooldown after the last change"},
    Phrase{"stale_telemetry", "a ready replica that was not heard of lately"},
    Phrase{"scaling_under_way", "replicas that start or drain"},
    Phrase{"hot_kv_cache", "a KV cache that is nearly full"},
    Phrase{"queue_waits", "requests that wait in a queue"},
    Phrase{"failures", "requests that failed lately"},
    Phrase{"consolidation", "the load, which fewer replicas could not carry"},
    Phrase{"min_endpoints", "the fewest replicas that must be ready"},
    Phrase{"gpu_budget", "the GPUs that all pools share"},
    Phrase{"manual_change", "a target that somebody else set lately"},
    Phrase{"clock_jump", "a clock that went back or leapt"},
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
  for (const char* title : {"SLO kept", "TTFT kept", "ITL kept", ""}) rows.front().emplace_back(title);
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
  return "  Fleets that were tried, in replicas, and the share of requests that they would have kept:\n" + table(rows);
}

std::string next_change(const DecisionTrack& track, core::Instant at) {
  const auto next = std::find_if(track.entries.begin(), track.entries.end(), [&](const DecisionEntry* entry) {
    return entry->note.at > at && changes(entry->note);
  });
  if (next == track.entries.end()) return "  Next change: none until the end of the log.\n";
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
  return fmt::format("  The diagnosis: {}.\n", printable(note.diagnosis.empty() ? note.cause : note.diagnosis));
}

std::string phase_of(const DecisionNote& note) {
  if (note.phase.empty() && !note.next_phase_target) return {};
  const std::string phase = note.phase.empty() ? "Rollout" : "Phase " + printable(note.phase);
  if (!note.next_phase_target) return fmt::format("  {}.\n", phase);
  const std::string_view next = next_rollout_phase(note.phase);
  return fmt::format("  {}: would ask for {} in {}.\n", phase, format_replicas(*note.next_phase_target),
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
  if (outlook.error) text += fmt::format("; lately off by {} requests/s", format_quantity(*outlook.error));
  if (outlook.naive_error)
    text += fmt::format("; expecting no change was off by {} requests/s", format_quantity(*outlook.naive_error));
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
    return fmt::format("{}, at {}: nothing was decided yet; the run started with {}.\n{}", heading(track),
                       format_moment(at), format_replicas((*after)->note.current), next_change(track, at));
  const DecisionEntry& entry = **(after - 1);
  const DecisionNote& note = entry.note;
  std::string text = fmt::format("{}, at {}: {}.\n", heading(track), format_moment(at), format_replicas(note.target));
  text += fmt::format("  Decided at {}: {}, because {}.\n", format_moment(note.at), change_of(note),
                      in_words(kReasons, note.reason));
  if (!note.limited_by.empty()) text += fmt::format("  Limited by {}.\n", in_words(kLimits, note.limited_by));
  text += diagnosis_of(note) + phase_of(note) + outlook_of(note);
  text += evidence_table(note) + candidate_table(entry);
  if (!entry.would_change.empty()) text += fmt::format("  What would change it: {}.\n", printable(entry.would_change));
  const std::span<const DecisionEntry* const> all{track.entries};
  text += last_change(all.first(static_cast<std::size_t>(after - track.entries.begin())));
  return text + next_change(track, at);
}

}  // namespace penstock::report
