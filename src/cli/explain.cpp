// `penstock explain`: explains a decision log.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "connect/sqlite/decision_store.h"
#include "options/scalars.h"
#include "report/decision_log.h"
#include "report/decision_log_text.h"
#include "report/format.h"
#include "workload/byte_source.h"

namespace penstock::cli {
namespace {

constexpr std::size_t kLogBytesMax = std::size_t{1} << 30;

Usage explain_usage() {
  Usage usage;
  usage.command = "explain";
  usage.summary =
      "Reads a decision log, as `penstock replay --decision-log FILE` writes it, and prints what was decided and why.\n"
      "Without --at it lists the decisions: changes, and the first reason for which nothing changed afterwards. FILE\n"
      "may be a pipe, and - is standard input; a log in SQLite is read from its file only.";
  usage.operand = "FILE";
  usage.flags = {
      {"Which decision", "--at", "TIME", "the one in force at this time since the start, as 12m30s", {}, {}},
      {"Which decision", "--run", "N", "of this run of the planner, from 1; the last one without it", {}, {}},
      {"Which decision", "--policy", "NAME", "of this policy only", {}, {}},
      {"Which decision", "--pool", "NAME", "on this pool only", {}, {}},
      {"Which decision", "--holds", {}, "list every hold, not only the first of several", {}, {}}};
  usage.notes =
      "Examples:\n"
      "  penstock replay built-in --policy penstock,dynamo-latency --decision-log log.jsonl\n"
      "  penstock explain log.jsonl --policy penstock\n"
      "  penstock explain log.jsonl --at 12m30s\n\n"
      "Exit codes: 0 success, 1 the output failed, 2 invalid input.\n";
  return usage;
}

core::Result<report::DecisionLog> read_database(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error))
    return core::invalid_input(file, "is an SQLite database, which cannot be read from a pipe", "give its file");
  return connect::DecisionStore::open_read_only(file)
      .and_then([](const connect::DecisionStore& store) { return store.read(); })
      .map([](std::vector<decision::DecisionRecord> records) {
        return report::DecisionLog{std::move(records), 0, 0};
      });
}

core::Result<report::DecisionLog> parse_lines(const std::string& text, const std::string& file) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    return core::invalid_input(file, "is empty: no decision was written to it");
  auto log = report::parse_decision_jsonl(text, file);
  if (log && log->cut_line == 1) return core::invalid_input(file, "has no complete line", "is it a decision log?");
  return log;
}

// Opens the file once, because it may be a pipe. Reads in pieces, because the size limit is much larger than most logs.
core::Result<report::DecisionLog> read_log(const std::string& file) {
  const auto source = workload::open_file(file);
  if (!source) return tl::make_unexpected(source.error());
  std::string text;
  std::vector<std::uint8_t> piece(std::size_t{1} << 20);
  while (text.size() <= kLogBytesMax) {
    const auto count = (*source)->read(piece);
    if (!count) return tl::make_unexpected(count.error());
    if (*count == 0) return parse_lines(text, file);
    text.append(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(*count));
    if (connect::is_sqlite(text)) return read_database(file);
  }
  return core::invalid_input(file, fmt::format("is larger than {} bytes", kLogBytesMax), "split it");
}

// Keeps the records of one run of a planner, by default the last one. Runs are numbered from 1 in the order of their
// first records; a replay is one run.
core::Result<void> keep_run(std::vector<decision::DecisionRecord>& records, const Parsed& parsed,
                            const std::string& file) {
  std::vector<std::string> starts;
  for (const decision::DecisionRecord& record : records)
    if (std::find(starts.rbegin(), starts.rend(), record.started) == starts.rend()) starts.push_back(record.started);
  std::uint64_t run = starts.size();
  if (parsed.has("--run")) {
    auto number = options::parse_count(parsed.value_of("--run"), 1, std::max<std::uint64_t>(1, starts.size()));
    if (!number) {
      number.error().where = "--run";
      return tl::make_unexpected(number.error());
    }
    run = *number;
  }
  if (starts.size() < 2) return {};
  const std::string& start = starts[run - 1];
  print_error_text(fmt::format("penstock: {}: run {} of {}, started {}; select another one with --run\n",
                               report::printable(file), run, starts.size(),
                               start.empty() ? "at an unknown time" : "at " + report::printable(start)));
  std::erase_if(records, [&](const decision::DecisionRecord& record) { return record.started != start; });
  return {};
}

// Keeps the tracks whose name, as returned by `name_of`, is the requested one.
template <class NameOf>
core::Result<void> keep(std::vector<report::DecisionTrack>& tracks, const Parsed& parsed, const char* flag,
                        NameOf name_of) {
  if (!parsed.has(flag)) return {};
  const std::string wanted = parsed.value_of(flag);
  std::vector<std::string_view> names;
  for (const report::DecisionTrack& track : tracks)
    if (std::find(names.begin(), names.end(), name_of(track)) == names.end()) names.push_back(name_of(track));
  if (std::find(names.begin(), names.end(), wanted) == names.end())
    return core::invalid_input(flag, "the log has no decision of " + options::quote(wanted),
                               names.empty() ? "it is empty" : "it has those of " + options::choices(names));
  std::erase_if(tracks, [&](const report::DecisionTrack& track) { return name_of(track) != wanted; });
  return {};
}

core::Result<std::optional<core::Instant>> moment(const Parsed& parsed) {
  if (!parsed.has("--at")) return std::optional<core::Instant>{};
  auto since_start = options::parse_duration(parsed.value_of("--at"));
  if (!since_start) {
    since_start.error().where = "--at";
    return tl::make_unexpected(since_start.error());
  }
  return std::optional{core::kStart + *since_start};
}

}  // namespace

int explain(const Arguments& arguments) {
  const Usage page = explain_usage();
  const auto parsed = parse_arguments(page, arguments);
  if (!parsed) return parsed.error();
  const auto at = moment(*parsed);
  if (!at) return report_error(at.error());
  const std::string& file = parsed->operands.front();
  auto log = read_log(file);
  if (!log) return report_input_error(log.error());

  if (log->errors > 0)
    print_error_text(fmt::format("penstock: {}: skipped {} with an error instead of a decision\n",
                                 report::printable(file),
                                 log->errors == 1 ? "1 line" : fmt::format("{} lines", log->errors)));
  if (log->cut_line > 0)
    print_error_text(fmt::format("penstock: {}:{}: the last line is incomplete and is left out\n",
                                 report::printable(file), log->cut_line));
  if (const auto kept = keep_run(log->records, *parsed, file); !kept) return report_error(kept.error());
  std::vector<report::DecisionTrack> tracks = report::decision_tracks(log->records);
  const auto kept = keep(tracks, *parsed, "--policy", [](const auto& track) -> const std::string& {
                      return track.policy;
                    }).and_then([&] {
    return keep(tracks, *parsed, "--pool", [](const auto& track) -> const std::string& { return track.pool; });
  });
  if (!kept) return report_error(kept.error());
  if (tracks.empty())
    return print(report::printable(file) + ": no decision in it: no policy of that replay ever looked at its fleet\n");

  const report::Holds holds = parsed->has("--holds") ? report::Holds::kAll : report::Holds::kFirst;
  std::string text;
  for (const report::DecisionTrack& track : tracks) {
    if (!text.empty()) text += "\n";
    text += *at ? report::explain_decision(track, **at) : report::list_decisions(track, holds);
  }
  return print(text);
}

}  // namespace penstock::cli
