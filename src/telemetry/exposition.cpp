#include "telemetry/exposition.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/enum_names.h"

namespace penstock::telemetry {
namespace {

enum CharClass : std::uint8_t { kNameBegin = 1, kDigit = 2, kColon = 4 };

constexpr std::array<std::uint8_t, 256> kClasses = [] {
  std::array<std::uint8_t, 256> classes{};
  for (int c = 'a'; c <= 'z'; ++c) classes[static_cast<std::size_t>(c)] = kNameBegin;
  for (int c = 'A'; c <= 'Z'; ++c) classes[static_cast<std::size_t>(c)] = kNameBegin;
  for (int c = '0'; c <= '9'; ++c) classes[static_cast<std::size_t>(c)] = kDigit;
  classes['_'] = kNameBegin;
  classes[':'] = kColon;
  return classes;
}();

bool is_blank(char c) { return c == ' ' || c == '\t'; }

// Parses one line; each part that is read advances `at`.
struct Line {
  std::string_view text;
  std::size_t at = 0;

  [[nodiscard]] bool done() const { return at >= text.size(); }
  [[nodiscard]] char here() const { return done() ? '\0' : text[at]; }
  void blanks() {
    while (!done() && is_blank(text[at])) ++at;
  }
  std::string_view word() {
    const std::size_t from = at;
    while (!done() && !is_blank(text[at])) ++at;
    return text.substr(from, at - from);
  }
  // Empty if no name starts here.
  std::string_view name(bool with_colons) {
    const std::uint8_t first = with_colons ? kNameBegin | kColon : kNameBegin;
    const std::size_t from = at;
    while (!done() && (kClasses[static_cast<std::uint8_t>(text[at])] & (at == from ? first : first | kDigit)) != 0)
      ++at;
    return text.substr(from, at - from);
  }
  bool take(char c) {
    if (here() != c || done()) return false;
    ++at;
    return true;
  }
};

// Checks the labels that follow the opening brace. Returns the fault, or null with `at` after the closing brace.
const char* scan_labels(Line& line) {
  line.blanks();
  while (!line.take('}')) {
    if (line.name(false).empty()) return "a label without a name";
    line.blanks();
    if (!line.take('=')) return "a label without `=`";
    line.blanks();
    if (!line.take('"')) return "a label whose value has no quotes";
    while (!line.take('"')) {
      if (line.done()) return "a label whose value has no end";
      if (line.take('\\') && line.here() != '\\' && line.here() != '"' && line.here() != 'n')
        return "an escape that there is not; known are \\\\, \\\" and \\n";
      ++line.at;
    }
    line.blanks();
    if (line.take(',')) {
      line.blanks();
    } else if (line.here() != '}') {
      return "labels without a comma between them, or without an end";
    }
  }
  return nullptr;
}

bool same_letters(std::string_view text, std::string_view lower) {
  if (text.size() != lower.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((text[i] | 0x20) != lower[i]) return false;
  return true;
}

bool parse_value(std::string_view text, double& value) {
  const bool negative = !text.empty() && text.front() == '-';
  if (!text.empty() && (negative || text.front() == '+')) text.remove_prefix(1);
  if (text.empty()) return false;
  if (kClasses[static_cast<std::uint8_t>(text.front())] != kDigit && text.front() != '.') {
    const bool infinite = same_letters(text, "inf") || same_letters(text, "infinity");
    if (!infinite && !same_letters(text, "nan")) return false;
    value = infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return false;
  }
  if (negative) value = -value;
  return true;
}

class Parser {
 public:
  // Returns null or the fault of the line.
  const char* parse_line(Line line, std::uint32_t number) {
    line.blanks();
    if (line.done()) return nullptr;
    if (line.take('#')) return parse_comment(line, number);
    return parse_sample(line, number);
  }

  Exposition exposition;

 private:
  const char* parse_comment(Line line, std::uint32_t number) {
    line.blanks();
    const std::string_view word = line.word();
    if (word != "HELP" && word != "TYPE") return nullptr;
    MetricNote note;
    note.line = number;
    note.samples_before = exposition.samples.size();
    note.is_type = word == "TYPE";
    line.blanks();
    note.name = line.name(true);
    if (note.name.empty() || (!line.done() && !is_blank(line.here()))) return "a comment that names no metric";
    line.blanks();
    if (note.is_type) {
      const std::optional<MetricType> type = metric_type_of(line.word());
      if (!type) return "a type that there is not";
      note.type = *type;
      line.blanks();
      if (!line.done()) return "something after the type";
    } else {
      note.help = line.text.substr(line.at);
    }
    exposition.notes.push_back(note);
    return nullptr;
  }

  const char* parse_sample(Line line, std::uint32_t number) {
    if (exposition.samples.size() >= kExpositionSamplesMax) return "too many samples, of at most 1000000";
    MetricSample sample;
    sample.line = number;
    sample.name = line.name(true);
    if (sample.name.empty()) return "a line that begins with no metric's name";
    const bool parted = is_blank(line.here());
    line.blanks();
    if (line.take('{')) {
      const std::size_t from = line.at;
      if (const char* wrong = scan_labels(line)) return wrong;
      sample.labels = line.text.substr(from, line.at - 1 - from);
    } else if (!parted) {
      return "a metric's name with a character that it may not have, or no value";
    }
    line.blanks();
    if (!parse_value(line.word(), sample.value)) return "a value that is no number";
    line.blanks();
    if (!line.done()) {
      const std::string_view time = line.word();
      std::int64_t milliseconds = 0;
      const auto [end, error] = std::from_chars(time.data(), time.data() + time.size(), milliseconds);
      if (error != std::errc{} || end != time.data() + time.size()) return "a time that is no integer";
      sample.timestamp_ms = milliseconds;
      line.blanks();
      if (!line.done()) return "something after the time";
    }
    exposition.samples.push_back(sample);
    return nullptr;
  }
};

}  // namespace

const char* to_string(MetricType type) {
  return core::name_of<MetricType::kSummary>(type, {"untyped", "counter", "gauge", "histogram", "summary"});
}

std::optional<MetricType> metric_type_of(std::string_view word) {
  static constexpr std::array<std::pair<std::string_view, MetricType>, 9> kTypes = {{
      {"counter", MetricType::kCounter},
      {"gauge", MetricType::kGauge},
      {"histogram", MetricType::kHistogram},
      {"summary", MetricType::kSummary},
      {"untyped", MetricType::kUntyped},
      {"unknown", MetricType::kUntyped},
      {"info", MetricType::kUntyped},
      {"stateset", MetricType::kUntyped},
      {"gaugehistogram", MetricType::kUntyped},
  }};
  for (const auto& [name, type] : kTypes)
    if (name == word) return type;
  return std::nullopt;
}

core::Result<Exposition> parse_exposition(std::string_view text, std::string_view where) {
  if (text.size() > kExpositionBytesMax)
    return core::invalid_input(std::string(where),
                               fmt::format("has {} bytes, of at most {}", text.size(), kExpositionBytesMax));
  Parser parser;
  std::uint32_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    ++number;
    const void* newline = std::memchr(text.data() + at, '\n', text.size() - at);
    // An incomplete line may look like a complete one with a wrong number.
    if (newline == nullptr)
      return core::invalid_input(fmt::format("{}:{}", where, number), "the last line has no end",
                                 "the answer may be cut off");
    const auto end = static_cast<std::size_t>(static_cast<const char*>(newline) - text.data());
    if (const char* wrong = parser.parse_line({text.substr(at, end - at)}, number))
      return core::invalid_input(fmt::format("{}:{}", where, number), wrong);
    at = end + 1;
  }
  return std::move(parser.exposition);
}

std::optional<std::pair<std::string_view, std::string_view>> take_label(std::string_view& labels) {
  Line line{labels};
  line.blanks();
  const std::string_view name = line.name(false);
  line.blanks();
  if (name.empty() || !line.take('=')) return std::nullopt;
  line.blanks();
  if (!line.take('"')) return std::nullopt;
  const std::size_t from = line.at;
  while (!line.done() && line.here() != '"') line.at += line.here() == '\\' ? 2 : 1;
  if (line.done()) return std::nullopt;
  const std::string_view value = labels.substr(from, line.at - from);
  ++line.at;
  line.blanks();
  line.take(',');
  labels.remove_prefix(line.at);
  return std::pair{name, value};
}

std::optional<std::string_view> find_label(std::string_view labels, std::string_view name) {
  while (const auto label = take_label(labels))
    if (label->first == name) return label->second;
  return std::nullopt;
}

bool label_is(std::string_view labels, std::string_view name, std::string_view value) {
  return find_label(labels, name) == value;
}

std::string unescape_label(std::string_view written) {
  std::string value;
  value.reserve(written.size());
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (written[i] == '\\' && i + 1 < written.size()) {
      ++i;
      value += written[i] == 'n' ? '\n' : written[i];
    } else {
      value += written[i];
    }
  }
  return value;
}

}  // namespace penstock::telemetry
