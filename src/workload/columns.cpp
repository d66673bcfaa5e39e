#include "workload/columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "workload/csv.h"
#include "workload/fields.h"

namespace penstock::workload {
namespace {

constexpr std::array<std::string_view, kColumns> kColumnNames = {
    "time",     "input",    "output",       "tenant",        "session", "class",
    "priority", "streamed", "prefix_group", "prefix_tokens", "model"};

constexpr std::size_t kListedMax = 30;

// Words of column names that speak for a value, and words that speak against it.
struct Clue {
  std::span<const std::string_view> words, others;
  bool is_count = false;  // A number of tokens.
};
constexpr std::array<std::string_view, 9> kTimeWords = {"time", "timestamp", "ts",      "date", "datetime",
                                                        "when", "arrival",   "created", "start"};
constexpr std::array<std::string_view, 9> kInputWords = {"prompt", "input",    "in",    "context", "prefill",
                                                         "prefix", "question", "query", "request"};
constexpr std::array<std::string_view, 10> kOutputWords = {
    "output", "out", "completion", "response", "generated", "generation", "decode", "answer", "reply", "gen"};
constexpr std::array<std::string_view, 10> kNoTime = {"end",     "completion", "finish", "ttft",   "first",
                                                      "latency", "duration",   "queue",  "tokens", "zone"};
constexpr std::array<std::string_view, 13> kNoCount = {
    "cost", "price", "id", "time", "date", "ms", "text", "rate", "cached", "status", "chars", "characters", "bytes"};

constexpr Clue kTimes{kTimeWords, kNoTime};

std::vector<std::string_view> split_words(std::string_view words) {
  std::vector<std::string_view> parts;
  while (!words.empty()) {
    const std::size_t end = words.find('_');
    parts.push_back(words.substr(0, end));
    words.remove_prefix(end == std::string_view::npos ? words.size() : end + 1);
  }
  return parts;
}

int score(const Clue& clue, std::string_view name) {
  const std::string words = words_of(name);
  int points = 0;
  bool has_word = false;
  for (const std::string_view part : split_words(words)) {
    const auto is = [&](std::span<const std::string_view> known) {
      return std::find(known.begin(), known.end(), part) != known.end();
    };
    has_word = has_word || is(clue.words);
    points += (is(clue.words) ? 2 : 0) - (is(clue.others) ? 3 : 0);
    if (clue.is_count && part.starts_with("tok")) points += 2;
  }
  return has_word ? points : 0;
}

std::string_view best(const Clue& clue, std::span<const std::string_view> header) {
  std::string_view found;
  int most = 0;
  for (const std::string_view name : header)
    if (const int points = score(clue, name); points > most) {
      most = points;
      found = name;
    }
  return found.empty() ? std::string_view{"COLUMN"} : found;
}

// One part of a mapping, in quotes if it contains what separates parts.
std::string quoted_part(std::string part) {
  if (part.find_first_of(",\"") == std::string::npos) return part;
  for (std::size_t at = part.find('"'); at != std::string::npos; at = part.find('"', at + 2)) part.insert(at, 1, '"');
  return '"' + part + '"';
}

std::string in_shell_quotes(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return quoted + "'";
}

}  // namespace

std::string_view to_string(Column column) { return kColumnNames[static_cast<std::size_t>(column)]; }

std::string words_of(std::string_view name) {
  std::string words;
  for (char c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || static_cast<unsigned char>(c) >= 0x80;
    if (is_word)
      words += c;
    else if (!words.empty() && words.back() != '_')
      words += '_';
  }
  if (words.ends_with('_')) words.pop_back();
  return words;
}

core::Result<ColumnMapping> ColumnMapping::parse(std::string_view text) {
  constexpr std::string_view kExample = "write time=COLUMN,input=COLUMN,output=COLUMN";
  ColumnMapping mapping;
  CsvSplitter splitter;
  const auto parts = splitter.split(text);
  if (!parts) return core::invalid_input({}, parts.error(), std::string{kExample});
  for (const std::string_view part : *parts) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      return core::invalid_input({}, fmt::format("{} is not VALUE=COLUMN", quoted_text(part)), std::string{kExample});
    const std::string_view value = trimmed(part.substr(0, equals)), column = trimmed(part.substr(equals + 1));
    const auto* const found = std::find(kColumnNames.begin(), kColumnNames.end(), value);
    if (found == kColumnNames.end())
      return core::invalid_input({}, fmt::format("unknown value {}", quoted_text(value)),
                                 fmt::format("use {}", fmt::join(kColumnNames, ", ")));
    std::string& name = mapping.names_[static_cast<std::size_t>(found - kColumnNames.begin())];
    if (column.empty()) return core::invalid_input({}, fmt::format("{} has no column", value), std::string{kExample});
    if (!name.empty()) return core::invalid_input({}, fmt::format("{} is given twice", value));
    name = column;
  }
  return mapping;
}

std::string ColumnMapping::text() const {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < kColumns; ++i)
    if (!names_[i].empty()) parts.push_back(quoted_part(fmt::format("{}={}", kColumnNames[i], names_[i])));
  return fmt::format("{}", fmt::join(parts, ","));
}

bool ColumnMapping::empty() const {
  return std::all_of(names_.begin(), names_.end(), [](const std::string& name) { return name.empty(); });
}

bool may_have_times(std::span<const std::string_view> header) {
  return std::any_of(header.begin(), header.end(), [](std::string_view name) { return score(kTimes, name) > 0; });
}

std::string suggested_mapping(std::span<const std::string_view> header) {
  const Clue clues[] = {kTimes, {kInputWords, kNoCount, true}, {kOutputWords, kNoCount, true}};
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::size(clues); ++i)
    parts.push_back(quoted_part(fmt::format("{}={}", kColumnNames[i], printable(best(clues[i], header)))));
  return "--columns " + in_shell_quotes(fmt::format("{}", fmt::join(parts, ",")));
}

std::string listed(std::span<const std::string_view> header) {
  std::vector<std::string> names;
  for (const std::string_view name : header.first(std::min(header.size(), kListedMax)))
    names.push_back(quoted_text(name));
  const std::size_t more = header.size() - names.size();
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace penstock::workload
