// Writes an exposition for Prometheus in either of its formats, family by family.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "telemetry/exposition_format.h"
#include "telemetry/histogram.h"
#include "telemetry/metric_family.h"
#include "telemetry/native_histogram.h"

namespace penstock::telemetry {

using Label = std::pair<std::string_view, std::string_view>;  // Name, and value without escapes.

// Returns `value` with quotes, backslashes and newlines escaped.
[[nodiscard]] std::string escape_label(std::string_view value);
// Returns the labels in the format's syntax: `model_name="m",engine="0"`, with escaped values.
[[nodiscard]] std::string format_labels(std::span<const Label> labels);
[[nodiscard]] inline std::string format_labels(std::initializer_list<Label> labels) {
  return format_labels(std::span(labels.begin(), labels.size()));
}

// Appends to a text that must outlive the writer. The text is complete after finish() or when the writer is gone. A
// family without samples is omitted.
class ExpositionWriter {
 public:
  explicit ExpositionWriter(std::string& text, ExpositionFormat format = ExpositionFormat::kText)
      : text_(text), format_(format) {}
  ~ExpositionWriter() { finish(); }
  ExpositionWriter(const ExpositionWriter&) = delete;
  ExpositionWriter& operator=(const ExpositionWriter&) = delete;

  void finish() { message_.append_to(text_); }
  // Starts a family; the samples that follow belong to it.
  void family(std::string_view name, std::string_view type, std::string_view help);
  // `labels` is a result of format_labels(), or empty.
  void sample(std::string_view labels, double value, std::string_view name_suffix = {});
  // The text format has no native histograms.
  void samples(std::string_view labels, const Histogram& values, const NativeHistogram* native = nullptr);
  void add(double value, std::initializer_list<Label> labels = {}, std::string_view name_suffix = {}) {
    sample(format_labels(labels), value, name_suffix);
  }

  // Write a family with one sample, or nothing if the value is unknown.
  void gauge(std::string_view name, std::string_view help, std::string_view labels, std::optional<double> value) {
    family(name, "gauge", help);
    if (value) sample(labels, *value);
  }
  void counter(std::string_view name, std::string_view help, std::string_view labels, std::optional<double> value) {
    family(name, "counter", help);
    if (value) sample(labels, *value);
  }
  void histogram(std::string_view name, std::string_view help, std::string_view labels, const Histogram& values) {
    family(name, "histogram", help);
    samples(labels, values);
  }

 private:
  std::string& text_;
  ExpositionFormat format_;
  std::string name_, head_;  // Of the text format: the head is written with the first sample.
  MetricFamily message_;     // Of the protobuf format: the present family.
};

}  // namespace penstock::telemetry
