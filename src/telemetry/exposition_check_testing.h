// Checks a text that Penstock exposes at /metrics for the faults that promtool finds and a reader need not. Used by
// tests and the fuzzer.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "telemetry/exposition.h"

namespace penstock::telemetry {
namespace exposition_check {

struct Family {
  int helps = 0, types = 0;
  MetricType type = MetricType::kUntyped;
};

struct CheckedBuckets {
  std::map<double, double> at_most;
  std::optional<double> sum, count;
};

inline std::string_view without_suffix(std::string_view name, std::string_view suffix) {
  return name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : std::string_view{};
}

// The labels as sorted pairs, without `le`; they distinguish the series of a family.
inline std::string series_of(std::string_view labels) {
  std::set<std::string> pairs;
  for (std::size_t at = 0; at < labels.size();) {
    const std::size_t equals = labels.find('=', at);
    if (equals == std::string_view::npos) break;
    const std::size_t open = labels.find('"', equals);
    std::size_t close = open + 1;
    while (close < labels.size() && labels[close] != '"') close += labels[close] == '\\' ? 2 : 1;
    const std::size_t begin = labels.find_first_not_of(" \t,", at);
    const std::string_view name = labels.substr(begin, labels.find_first_of(" \t=", begin) - begin);
    if (name != "le") pairs.insert(fmt::format("{}={}", name, labels.substr(open, close - open)));
    at = close + 1;
  }
  return fmt::format("{}", fmt::join(pairs, ","));
}

inline std::optional<double> bound_of(std::string_view labels) {
  const auto le = find_label(labels, "le");
  if (!le) return std::nullopt;
  if (*le == "+Inf") return std::numeric_limits<double>::infinity();
  double bound = 0.0;
  const auto [end, error] = std::from_chars(le->data(), le->data() + le->size(), bound);
  if (error != std::errc{} || end != le->data() + le->size()) return std::nullopt;
  return bound;
}

class Checker {
 public:
  explicit Checker(const Exposition& exposition) : exposition_(exposition) {}

  std::vector<std::string> check() {
    for (const MetricNote& note : exposition_.notes) check_note(note);
    for (const auto& [name, family] : families_)
      if (family.helps != 1 || family.types != 1)
        report("{}: has {} lines of help and {} of type, not one of each", name, family.helps, family.types);
    for (const MetricSample& sample : exposition_.samples) check_sample(sample);
    for (const auto& [series, buckets] : histograms_) check_histogram(series, buckets);
    return std::move(faults_);
  }

 private:
  template <class... Args>
  void report(fmt::format_string<Args...> text, Args&&... args) {
    faults_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  void check_note(const MetricNote& note) {
    Family& family = families_[note.name];
    ++(note.is_type ? family.types : family.helps);
    if (note.is_type) family.type = note.type;
    if (!note.is_type && note.help.empty()) report("{}: its help is empty", note.name);
    const auto& samples = exposition_.samples;
    for (std::size_t i = 0; i < note.samples_before; ++i)
      if (samples[i].name == note.name) {
        report("{}: its help or type comes after line {}", note.name, samples[i].line);
        break;
      }
  }

  // The name of the family that the sample belongs to; empty if there is none.
  std::string_view family_of(std::string_view name) const {
    for (const std::string_view suffix : {"_bucket", "_sum", "_count"}) {
      const auto family = families_.find(without_suffix(name, suffix));
      if (family == families_.end()) continue;
      if (family->second.type == MetricType::kHistogram) return family->first;
      if (family->second.type == MetricType::kSummary && suffix != "_bucket") return family->first;
    }
    return families_.count(name) > 0 ? name : std::string_view{};
  }

  void check_sample(const MetricSample& sample) {
    const std::string_view name = family_of(sample.name);
    if (name.empty()) return report("line {}: {} has neither help nor type", sample.line, sample.name);
    if (name != current_) {
      current_ = name;
      if (!seen_.insert(name).second) report("line {}: {} goes on in a second place", sample.line, name);
    }
    const std::string series = series_of(sample.labels);
    const std::string bound = std::string(find_label(sample.labels, "le").value_or(""));
    if (!lines_.insert(fmt::format("{} {} {}", sample.name, series, bound)).second)
      report("line {}: {}{{{}}} is a duplicate", sample.line, sample.name, sample.labels);
    const MetricType type = families_.find(name)->second.type;
    if (type == MetricType::kCounter) check_counter(sample);
    if (type == MetricType::kHistogram) add_to_histogram(sample, name, series);
  }

  void check_counter(const MetricSample& sample) {
    if (!sample.name.ends_with("_total")) report("{}: a counter's name ends with _total", sample.name);
    if (!(sample.value >= 0.0)) report("line {}: a counter is {}", sample.line, sample.value);
  }

  void add_to_histogram(const MetricSample& sample, std::string_view name, const std::string& series) {
    CheckedBuckets& buckets = histograms_[fmt::format("{}{{{}}}", name, series)];
    if (sample.name.ends_with("_sum")) {
      buckets.sum = sample.value;
    } else if (sample.name.ends_with("_count")) {
      buckets.count = sample.value;
    } else if (const auto bound = bound_of(sample.labels); bound && sample.name != name) {
      buckets.at_most[*bound] = sample.value;
    } else {
      report("line {}: {} is no sample of a histogram", sample.line, sample.name);
    }
  }

  void check_histogram(const std::string& series, const CheckedBuckets& buckets) {
    if (!buckets.sum || !buckets.count) report("{}: has no sum or no count", series);
    double before = 0.0;
    for (const auto& [bound, count] : buckets.at_most) {
      if (!(count >= before)) report("{}: has fewer at le={} than below", series, bound);
      before = count;
    }
    if (buckets.at_most.empty() || !std::isinf(buckets.at_most.rbegin()->first))
      report("{}: has no bucket le=\"+Inf\"", series);
    else if (buckets.count && buckets.at_most.rbegin()->second != *buckets.count)
      report("{}: counts {} and has {} in its buckets", series, *buckets.count, buckets.at_most.rbegin()->second);
  }

  const Exposition& exposition_;
  std::map<std::string_view, Family> families_;
  std::set<std::string_view> seen_;
  std::string_view current_;
  std::set<std::string> lines_;
  std::map<std::string, CheckedBuckets> histograms_;
  std::vector<std::string> faults_;
};

}  // namespace exposition_check

// Returns one line for each fault: a family without help or type, or with two of them, or in two places; a sample that
// the type of its family does not have; a counter without `_total`; a negative counter; a repeated series; a histogram
// whose buckets shrink, have no le="+Inf", or disagree with its count. The list is empty if there is no fault.
[[nodiscard]] inline std::vector<std::string> check_exposition(const Exposition& exposition) {
  return exposition_check::Checker(exposition).check();
}

}  // namespace penstock::telemetry
