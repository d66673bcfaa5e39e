// Prometheus' text format 0.0.4, family by family.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "telemetry/histogram.h"

namespace penstock::telemetry {

// Labels are as the format has them: `model_name="m",engine="0"`, values escaped (escape_label).
class ExpositionWriter {
 public:
  explicit ExpositionWriter(std::string& text) : text_(text) {}

  // Samples that follow are of this family.
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    append("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  void sample(std::string_view labels, double value) {
    append("{}{{{}}} ", name_, labels);
    number(value);
  }
  void samples(std::string_view labels, const Histogram& values) {
    std::uint64_t at_most = 0;
    for (std::size_t i = 0; i < values.bounds.size(); ++i) {
      at_most += values.counts[i];
      append("{}_bucket{{{},le=\"{}\"}} {}\n", name_, labels, values.bounds[i], at_most);
    }
    const std::uint64_t count = values.count();
    append("{}_bucket{{{},le=\"+Inf\"}} {}\n{}_sum{{{}}} ", name_, labels, count, name_, labels);
    number(values.sum);
    append("{}_count{{{}}} {}\n", name_, labels, count);
  }

  // Families of one sample.
  void gauge(std::string_view name, std::string_view help, std::string_view labels, double value) {
    family(name, "gauge", help);
    sample(labels, value);
  }
  void counter(std::string_view name, std::string_view help, std::string_view labels, double value) {
    family(name, "counter", help);
    sample(labels, value);
  }
  void histogram(std::string_view name, std::string_view help, std::string_view labels, const Histogram& values) {
    family(name, "histogram", help);
    samples(labels, values);
  }

 private:
  template <class... Args>
  void append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  void number(double value) {
    if (std::isfinite(value))
      append("{}\n", value);
    else
      append("{}\n", std::isnan(value) ? "NaN" : value > 0.0 ? "+Inf" : "-Inf");
  }

  std::string& text_;
  std::string_view name_;
};

}  // namespace penstock::telemetry
