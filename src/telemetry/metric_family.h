// The protobuf message io.prometheus.client.MetricFamily, which is built sample by sample.
// Source: github.com/prometheus/client_model, io/prometheus/client/metrics.proto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/protobuf.h"
#include "telemetry/exposition.h"
#include "telemetry/histogram.h"
#include "telemetry/native_histogram.h"

namespace penstock::telemetry {

class MetricFamily {
 public:
  MetricFamily() = default;
  MetricFamily(std::string_view name, MetricType type, std::string_view help);

  // `labels` is a result of format_labels(), or empty. The samples of a summary are its quantiles, whose label is
  // `quantile`, then `_sum` and `_count`; those with the same other labels are one metric.
  void sample(std::string_view labels, double value, std::string_view name_suffix);
  // With classic buckets, and native ones if `native` is not null.
  void histogram(std::string_view labels, const Histogram& classic, const NativeHistogram* native);
  // Appends the message after its length; nothing without samples. The family is empty afterwards.
  void append_to(std::string& stream);

 private:
  void add_metric(std::string_view labels, std::uint32_t number, const core::protobuf::Writer& value);
  void end_summary();

  MetricType type_ = MetricType::kUntyped;
  core::protobuf::Writer message_;
  bool has_metrics_ = false;
  std::string summary_labels_;
  core::protobuf::Writer summary_;  // Empty between summaries.
};

}  // namespace penstock::telemetry
