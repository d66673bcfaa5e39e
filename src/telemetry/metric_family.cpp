#include "telemetry/metric_family.h"

#include <charconv>
#include <optional>
#include <tuple>
#include <utility>

#include "core/result.h"

namespace penstock::telemetry {
namespace {

using core::protobuf::Writer;

// Numbers of the fields. Those of Metric that have a value are named by its type.
enum Field : std::uint32_t {
  kFamilyName = 1,
  kFamilyHelp = 2,
  kFamilyType = 3,
  kFamilyMetric = 4,
  kMetricLabel = 1,
  kMetricGauge = 2,
  kMetricCounter = 3,
  kMetricSummary = 4,
  kMetricUntyped = 5,
  kMetricHistogram = 7,
  kLabelName = 1,
  kLabelValue = 2,
  kValue = 1,  // Of Gauge, Counter and Untyped.
  kSampleCount = 1,
  kSampleSum = 2,
  kSummaryQuantile = 3,
  kQuantile = 1,
  kQuantileValue = 2,
  kHistogramBucket = 3,
  kBucketCount = 1,
  kBucketUpperBound = 2,
  kSchema = 5,
  kZeroThreshold = 6,
  kZeroCount = 7,
  kPositiveSpan = 12,
  kPositiveDelta = 13,
  kSpanOffset = 1,
  kSpanLength = 2,
};

std::uint64_t number_of(MetricType type) {
  switch (type) {
    case MetricType::kCounter: return 0;
    case MetricType::kGauge: return 1;
    case MetricType::kSummary: return 2;
    case MetricType::kUntyped: return 3;
    case MetricType::kHistogram: return 4;
  }
  return 3;
}

std::uint32_t value_field(MetricType type) {
  if (type == MetricType::kCounter) return kMetricCounter;
  return type == MetricType::kGauge ? kMetricGauge : kMetricUntyped;
}

// The text without the label `quantile`, which is the last one, and that label's value.
std::pair<std::string_view, double> split_quantile(std::string_view labels) {
  const std::optional<std::string_view> value = find_label(labels, "quantile");
  PENSTOCK_ASSERT(value, "a sample of a summary is a quantile, its sum or its count");
  double quantile = 0.0;
  std::from_chars(value->data(), value->data() + value->size(), quantile);
  const std::size_t at = labels.rfind("quantile=");
  return {labels.substr(0, at == 0 ? 0 : at - 1), quantile};
}

void add_native(Writer& message, const NativeHistogram& native) {
  message.signed_varint(kSchema, native.schema);
  message.real(kZeroThreshold, native.zero_threshold);
  message.varint(kZeroCount, native.zero_count);
  const BucketSpans positive = to_spans(native);
  for (const BucketSpan& span : positive.spans) {
    Writer part;
    part.signed_varint(kSpanOffset, span.offset);
    part.varint(kSpanLength, span.length);
    message.bytes(kPositiveSpan, part.message());
  }
  message.signed_varints(kPositiveDelta, positive.deltas);
}

}  // namespace

MetricFamily::MetricFamily(std::string_view name, MetricType type, std::string_view help) : type_(type) {
  message_.bytes(kFamilyName, name);
  message_.bytes(kFamilyHelp, help);
  message_.varint(kFamilyType, number_of(type));
}

void MetricFamily::add_metric(std::string_view labels, std::uint32_t number, const Writer& value) {
  Writer metric;
  for_each_label(labels, [&](std::string_view name, std::string_view written) {
    Writer label;
    label.bytes(kLabelName, name);
    label.bytes(kLabelValue, unescape_label(written));
    metric.bytes(kMetricLabel, label.message());
  });
  metric.bytes(number, value.message());
  message_.bytes(kFamilyMetric, metric.message());
  has_metrics_ = true;
}

void MetricFamily::sample(std::string_view labels, double value, std::string_view name_suffix) {
  Writer message;
  if (type_ != MetricType::kSummary) {
    message.real(kValue, value);
    return add_metric(labels, value_field(type_), message);
  }
  double quantile = 0.0;
  if (name_suffix.empty()) std::tie(labels, quantile) = split_quantile(labels);
  if (labels != summary_labels_) end_summary();
  summary_labels_ = labels;
  if (name_suffix == "_count") return summary_.varint(kSampleCount, static_cast<std::uint64_t>(value));
  if (name_suffix == "_sum") return summary_.real(kSampleSum, value);
  message.real(kQuantile, quantile);
  message.real(kQuantileValue, value);
  summary_.bytes(kSummaryQuantile, message.message());
}

void MetricFamily::end_summary() {
  if (!summary_.message().empty()) add_metric(summary_labels_, kMetricSummary, std::exchange(summary_, {}));
}

void MetricFamily::histogram(std::string_view labels, const Histogram& classic, const NativeHistogram* native) {
  Writer message;
  // What is counted between two readings is missing in the classic buckets, so that no bucket exceeds the count.
  message.varint(kSampleCount, native != nullptr ? native->count() : classic.count());
  message.real(kSampleSum, classic.sum);
  std::uint64_t at_most = 0;
  for (std::size_t i = 0; i < classic.bounds.size(); ++i) {
    Writer bucket;
    bucket.varint(kBucketCount, at_most += classic.counts[i]);
    bucket.real(kBucketUpperBound, classic.bounds[i]);
    message.bytes(kHistogramBucket, bucket.message());
  }
  if (native != nullptr) add_native(message, reduced(*native, NativeHistogram::kBucketsMax));
  add_metric(labels, kMetricHistogram, message);
}

void MetricFamily::append_to(std::string& stream) {
  end_summary();
  if (std::exchange(has_metrics_, false)) core::protobuf::append_delimited(stream, message_.message());
  message_ = {};
}

}  // namespace penstock::telemetry
