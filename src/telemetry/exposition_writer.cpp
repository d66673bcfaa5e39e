#include "telemetry/exposition_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <iterator>

namespace penstock::telemetry {

std::string escape_label(std::string_view value) {
  std::string written;
  written.reserve(value.size());
  for (const char c : value) {
    if (c == '\\' || c == '"') written += '\\';
    if (c == '\n')
      written += "\\n";
    else
      written += c;
  }
  return written;
}

std::string format_labels(std::span<const Label> labels) {
  std::string written;
  for (const auto& [name, value] : labels)
    fmt::format_to(std::back_inserter(written), "{}{}=\"{}\"", written.empty() ? "" : ",", name, escape_label(value));
  return written;
}

void ExpositionWriter::family(std::string_view name, std::string_view type, std::string_view help) {
  if (format_ == ExpositionFormat::kProtobuf) {
    message_.append_to(text_);
    message_ = MetricFamily{name, metric_type_of(type).value_or(MetricType::kUntyped), help};
    return;
  }
  name_ = name;
  head_ = fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void ExpositionWriter::sample(std::string_view labels, double value, std::string_view name_suffix) {
  if (format_ == ExpositionFormat::kProtobuf) return message_.sample(labels, value, name_suffix);
  text_ += std::exchange(head_, {});
  text_.append(name_).append(name_suffix);
  if (!labels.empty()) text_.append("{").append(labels).append("}");
  if (std::isfinite(value))
    fmt::format_to(std::back_inserter(text_), " {}\n", value);
  else
    text_ += std::isnan(value) ? " NaN\n" : value > 0.0 ? " +Inf\n" : " -Inf\n";
}

void ExpositionWriter::samples(std::string_view labels, const Histogram& values, const NativeHistogram* native) {
  if (format_ == ExpositionFormat::kProtobuf) return message_.histogram(labels, values, native);
  const std::string_view comma = labels.empty() ? "" : ",";
  std::uint64_t at_most = 0;
  for (std::size_t i = 0; i < values.bounds.size(); ++i) {
    at_most += values.counts[i];
    sample(fmt::format("{}{}le=\"{}\"", labels, comma, values.bounds[i]), static_cast<double>(at_most), "_bucket");
  }
  const auto count = static_cast<double>(values.count());
  sample(fmt::format("{}{}le=\"+Inf\"", labels, comma), count, "_bucket");
  sample(labels, values.sum, "_sum");
  sample(labels, count, "_count");
}

}  // namespace penstock::telemetry
