#include "report/decision_log_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "decision/decision_text.h"
#include "decision/engine_settings.h"
#include "report/format.h"
#include "report/grid.h"

namespace penstock::report {
namespace {

using decision::Candidate;
using decision::DecisionRecord;

std::string change_of(const DecisionRecord& record) {
  const std::string asleep = record.asleep > 0 ? fmt::format(", with {} more asleep", record.asleep) : std::string{};
  if (!record.changes()) return fmt::format("holds {}{}", format_replicas(record.target), asleep);
  return fmt::format("{} from {} to {}{}", record.target > record.current ? "grows" : "shrinks", record.current,
                     format_replicas(record.target), asleep);
}

constexpr std::size_t kTableIndent = 5;
constexpr std::size_t kWidth = 100;  // Of sentences.

// A sentence about a decision, which ends with a full stop.
std::string sentence(const std::string& text) { return wrapped(text + ".", kWidth, 2, 4); }

// Counts are whole, shares are percent, all else has three digits.
std::string figure(const decision::Evidence& evidence) {
  if (evidence.unit == "share") return format_share(evidence.value);
  if (evidence.unit == "times") return "x" + format_quantity(evidence.value);
  const bool is_count = evidence.value >= 0.0 && evidence.value < 1e9 && evidence.value == std::floor(evidence.value);
  return (is_count ? format_count(static_cast<std::uint64_t>(evidence.value)) : format_quantity(evidence.value)) + " " +
         printable(evidence.unit);
}

std::string evidence_table(const DecisionRecord& record) {
  std::vector<std::vector<std::string>> rows;
  for (const decision::Evidence& evidence : record.evidence) rows.push_back({evidence.name, figure(evidence)});
  return rows.empty() ? std::string{} : "  Based on:\n" + aligned(rows, kTableIndent);
}

std::string candidate_table(const DecisionRecord& record) {
  const std::vector<Candidate>& candidates = record.candidates;
  if (candidates.empty()) return {};
  std::vector<std::vector<std::string>> rows = {{}};
  for (const std::string& pool : record.pools) rows.front().push_back(pool);
  for (const char* title : {"SLO attainment", "TTFT met", "ITL met", ""}) rows.front().emplace_back(title);
  std::vector<const Candidate*> by_size;
  for (const Candidate& tried : candidates) by_size.push_back(&tried);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const Candidate* a, const Candidate* b) { return a->replicas < b->replicas; });
  for (const Candidate* tried : by_size) {
    auto& row = rows.emplace_back();
    for (const std::uint32_t replicas : tried->replicas) row.push_back(std::to_string(replicas));
    for (const double share : {tried->slo_attainment, tried->ttft_attainment, tried->itl_attainment})
      row.push_back(format_share(share));
    row.emplace_back(tried->chosen ? "chosen" : "");
  }
  return "  Simulated fleets (replicas) and the share of requests that would have met the SLO:\n" +
         aligned(rows, kTableIndent);
}

std::string next_change(const DecisionTrack& track, core::Instant at) {
  const auto next = std::find_if(track.entries.begin(), track.entries.end(),
                                 [&](const DecisionRecord* entry) { return entry->at > at && entry->changes(); });
  if (next == track.entries.end()) return "  Next change: none before the end of the log.\n";
  const DecisionRecord& record = **next;
  return sentence(fmt::format("Next change: at {} it {}, because {}", format_moment(record.at), change_of(record),
                              because(record)));
}

// Where a hold is in force, the change that it keeps.
std::string last_change(std::span<const DecisionRecord* const> before) {
  const auto last =
      std::find_if(before.rbegin(), before.rend(), [](const DecisionRecord* entry) { return entry->changes(); });
  if (last == before.rend()) return "  Last change: none since the start.\n";
  if (last == before.rbegin()) return {};  // it is the decision in force
  const DecisionRecord& record = **last;
  return sentence(fmt::format("Last change: at {} it {}, because {}", format_moment(record.at), change_of(record),
                              because(record)));
}

std::string diagnosis_of(const DecisionRecord& record) {
  if (!record.cause && record.diagnosis.empty()) return {};
  std::string text = sentence(
      "Diagnosis: " + (record.diagnosis.empty() ? std::string{to_string(*record.cause)} : printable(record.diagnosis)));
  if (!record.cause) return text;
  for (const decision::EngineSetting& each : decision::settings_against(*record.cause)) {
    std::string flags;
    for (const auto& [engine, flag] : {std::pair{"vLLM", each.vllm}, {"SGLang", each.sglang}, {"Triton", each.triton}})
      if (!flag.empty()) flags += fmt::format("{}{} {}", flags.empty() ? "" : ", ", engine, flag);
    text += sentence(fmt::format("Engine setting that may help: {} ({})", each.advice, flags));
  }
  return text;
}

std::string phase_of(const DecisionRecord& record) {
  if (!record.phase && !record.next_phase_target) return {};
  const std::string phase = record.phase ? fmt::format("Phase {}", to_string(*record.phase)) : "Rollout";
  if (!record.next_phase_target) return fmt::format("  {}.\n", phase);
  const auto next = record.phase ? decision::next_phase(*record.phase) : std::nullopt;
  return fmt::format("  {}: the target would be {} in {}.\n", phase, format_replicas(*record.next_phase_target),
                     next ? fmt::format("phase {}", to_string(*next)) : "the next phase");
}

std::string forecast_of(const DecisionRecord& record) {
  if (!record.forecast || !record.forecast->known()) return {};
  const decision::Forecast& forecast = *record.forecast;
  std::vector<std::string> parts;
  if (forecast.requests_per_s) parts.push_back(format_quantity(*forecast.requests_per_s) + " requests/s");
  if (forecast.input_tokens) parts.push_back(format_quantity(*forecast.input_tokens) + " prompt tokens each");
  if (forecast.output_tokens) parts.push_back(format_quantity(*forecast.output_tokens) + " output tokens each");
  std::string text = fmt::format("Expected over the start-up time: {}", parts.empty() ? "not known yet" : "");
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : ", ") + parts[i];
  if (forecast.error) text += fmt::format("; recent error {} requests/s", format_quantity(*forecast.error));
  if (forecast.naive_error)
    text += fmt::format("; error of a forecast without change {} requests/s", format_quantity(*forecast.naive_error));
  return sentence(text);
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

std::vector<DecisionTrack> decision_tracks(std::span<const DecisionRecord> entries) {
  std::vector<DecisionTrack> tracks;
  for (const DecisionRecord& entry : entries) {
    auto track = std::find_if(tracks.begin(), tracks.end(), [&](const DecisionTrack& known) {
      return known.policy == entry.policy && known.pool == entry.pool;
    });
    if (track == tracks.end()) track = tracks.insert(tracks.end(), {entry.policy, entry.pool, {}});
    track->entries.push_back(&entry);
  }
  for (DecisionTrack& track : tracks)
    std::stable_sort(track.entries.begin(), track.entries.end(),
                     [](const DecisionRecord* a, const DecisionRecord* b) { return a->at < b->at; });
  return tracks;
}

std::string list_decisions(const DecisionTrack& track, Holds shown) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::size_t> more;  // Holds that follow a listed hold.
  std::size_t changed = 0;
  bool after_hold = false;
  for (const DecisionRecord* entry : track.entries) {
    const DecisionRecord& record = *entry;
    if (record.changes()) ++changed;
    const bool is_left_out = shown == Holds::kFirst && after_hold && !record.changes();
    after_hold = !record.changes();
    if (is_left_out) {
      ++more.back();
      continue;
    }
    more.push_back(0);
    rows.push_back({format_moment(record.at), record.changes() ? std::to_string(record.current) : "",
                    record.changes() ? "→" : "=", std::to_string(record.target), decision::to_string(record.reason),
                    record.limited_by == decision::Limit::kNone
                        ? std::string{}
                        : fmt::format("limited by {}", decision::to_string(record.limited_by)),
                    record.cause.value_or(decision::Cause::kNone) != decision::Cause::kNone
                        ? fmt::format("cause {}", decision::to_string(*record.cause))
                        : std::string{}});
  }
  std::array<std::size_t, 7> widths{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  std::string text =
      fmt::format("{}: {} {}, {} {}\n", heading(track), format_count(changed), changed == 1 ? "change" : "changes",
                  format_count(track.entries.size() - changed), track.entries.size() - changed == 1 ? "hold" : "holds");
  for (std::size_t index = 0; index < rows.size(); ++index) {
    const auto& row = rows[index];
    std::string line = fmt::format("  {:>{}}  {:>{}} {} {:>{}}  {:<{}}  {:<{}}  {}", row[0], widths[0], row[1],
                                   widths[1], row[2], row[3], widths[3], row[4], widths[4], row[5], widths[5], row[6]);
    line.erase(line.find_last_not_of(' ') + 1);
    if (more[index] > 0)
      line += fmt::format("  (and {} more {})", format_count(more[index]), more[index] == 1 ? "hold" : "holds");
    text += line + "\n";
  }
  return text;
}

std::string explain_decision(const DecisionTrack& track, core::Instant at) {
  const auto after = std::find_if(track.entries.begin(), track.entries.end(),
                                  [&](const DecisionRecord* entry) { return entry->at > at; });
  if (after == track.entries.begin())
    return fmt::format("{}, at {}: no decision yet; the run started with {}.\n{}", heading(track), format_moment(at),
                       format_replicas((*after)->current), next_change(track, at));
  const DecisionRecord& record = **(after - 1);
  std::string text = fmt::format("{}, at {}: {}.\n", heading(track), format_moment(at), format_replicas(record.target));
  text += sentence(
      fmt::format("Decided at {}: {}, because {}", format_moment(record.at), change_of(record), because(record)));
  if (record.limited_by != decision::Limit::kNone)
    text += sentence(fmt::format("Reason of the proposal: {}", because(record.reason)));
  text += diagnosis_of(record) + phase_of(record) + forecast_of(record);
  text += evidence_table(record) + candidate_table(record);
  text += sentence("What would change this decision: " + printable(what_would_change(record)));
  const std::span<const DecisionRecord* const> all{track.entries};
  text += last_change(all.first(static_cast<std::size_t>(after - track.entries.begin())));
  return text + next_change(track, at);
}

}  // namespace penstock::report
