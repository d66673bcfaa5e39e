// Prometheus' text exposition format, version 0.0.4: what /metrics of an engine says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace penstock::telemetry {

enum class MetricType : std::uint8_t { kUntyped, kCounter, kGauge, kHistogram, kSummary };
[[nodiscard]] const char* to_string(MetricType type);  // "untyped", …

// All views are into the text that was parsed.
struct MetricSample {
  std::string_view name;
  std::string_view labels;  // what is between the braces, checked but as it is written; empty without
  double value = 0.0;       // may be NaN or infinite
  std::optional<std::int64_t> timestamp_ms;
  std::uint32_t line = 0;
};

// What a # HELP or # TYPE line said.
struct MetricNote {
  std::string_view name;
  std::string_view help;  // as it is written; of a # HELP line
  MetricType type = MetricType::kUntyped;
  bool is_type = false;  // of a # TYPE line, else of a # HELP line
  std::uint32_t line = 0;
  std::size_t samples_before = 0;  // index into Exposition::samples
};

struct Exposition {
  std::vector<MetricSample> samples;  // in their order
  std::vector<MetricNote> notes;
};

inline constexpr std::size_t kExpositionBytesMax = 32 * 1024 * 1024;
inline constexpr std::size_t kExpositionSamplesMax = 1'000'000;

// One pass without copies; the text must outlive the answer. Errors tell "where:line". Input of any bytes. What the format
// forbids but a reader can do without noticing (repeated series, samples before their type) is left to check_exposition().
[[nodiscard]] core::Result<Exposition> parse_exposition(std::string_view text, std::string_view where);

// The value of a label as it is written, escapes and all; none if there is no such label. O(labels).
[[nodiscard]] std::optional<std::string_view> find_label(std::string_view labels, std::string_view name);
// Whether the label is there with this value, which has no escapes: names and enumerations.
[[nodiscard]] bool label_is(std::string_view labels, std::string_view name, std::string_view value);
[[nodiscard]] std::string unescape_label(std::string_view written);

}  // namespace penstock::telemetry
