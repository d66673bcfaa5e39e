// Prometheus' text exposition format, version 0.0.4, as engines serve it at /metrics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"

namespace penstock::telemetry {

enum class MetricType : std::uint8_t { kUntyped, kCounter, kGauge, kHistogram, kSummary };
[[nodiscard]] const char* to_string(MetricType type);  // Returns "untyped", ….
// Of a # TYPE line. Types of OpenMetrics, which some servers mix into this format, are kUntyped; empty if unknown.
[[nodiscard]] std::optional<MetricType> metric_type_of(std::string_view word);

// All views point into the parsed text.
struct MetricSample {
  std::string_view name;
  std::string_view labels;  // The unparsed text between the braces, whose syntax was checked; empty without labels.
  double value = 0.0;       // May be NaN or infinite.
  std::optional<std::int64_t> timestamp_ms;
  std::uint32_t line = 0;
};

// A # HELP or # TYPE line.
struct MetricNote {
  std::string_view name;
  std::string_view help;  // Unparsed text of a # HELP line.
  MetricType type = MetricType::kUntyped;
  bool is_type = false;  // True for a # TYPE line, false for a # HELP line.
  std::uint32_t line = 0;
  std::size_t samples_before = 0;  // Index into Exposition::samples.
};

struct Exposition {
  std::vector<MetricSample> samples;  // Samples in the order of the text.
  std::vector<MetricNote> notes;
};

inline constexpr std::size_t kExpositionBytesMax = 32 * 1024 * 1024;
inline constexpr std::size_t kExpositionSamplesMax = 1'000'000;

// Parses in one pass without copies; the text must outlive the result. Errors have the form "where:line". Accepts any
// bytes. Faults that do not matter to a reader (repeated series, samples before their type) are left to
// check_exposition().
[[nodiscard]] core::Result<Exposition> parse_exposition(std::string_view text, std::string_view where);

// Returns the unparsed value of a label, escapes included; empty if the label is missing. O(labels).
[[nodiscard]] std::optional<std::string_view> find_label(std::string_view labels, std::string_view name);
// Returns whether the label has this value, which must not contain escapes: names and enumerations.
[[nodiscard]] bool label_is(std::string_view labels, std::string_view name, std::string_view value);
// Removes the first label from the text; its value is unparsed. Empty if there is none, or a malformed one.
[[nodiscard]] std::optional<std::pair<std::string_view, std::string_view>> take_label(std::string_view& labels);
// Calls visit(name, unparsed value) for each label.
template <class Visit>
void for_each_label(std::string_view labels, Visit visit) {
  while (const auto label = take_label(labels)) visit(label->first, label->second);
}
[[nodiscard]] std::string unescape_label(std::string_view written);

}  // namespace penstock::telemetry
