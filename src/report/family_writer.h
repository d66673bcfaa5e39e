// How the samples of one family of series are written.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/time.h"
#include "report/format.h"
#include "report/metrics_figures.h"
#include "telemetry/exposition_writer.h"
#include "telemetry/histogram.h"

namespace penstock::report {

// Adds the samples of one family. A value that is unknown or not finite is left out.
class Samples {
 public:
  Samples(std::string_view name, std::string_view type, std::string_view help, telemetry::ExpositionWriter& writer)
      : name_(name), writer_(writer) {
    writer_.family(name, type, help);
  }

  void add(std::optional<double> value, std::initializer_list<telemetry::Label> labels = {}) {
    if (!value || !std::isfinite(*value)) return;
    std::vector<telemetry::Label> all = common();
    all.insert(all.end(), labels.begin(), labels.end());
    writer_.sample(printable(telemetry::format_labels(all)), *value);
  }
  void add(const telemetry::Histogram& values) {
    writer_.samples(printable(telemetry::format_labels(common())), values);
  }
  // Labels of all samples from now on; an empty one is left out.
  void of(std::string_view policy, std::string_view model) {
    policy_ = policy;
    model_ = model;
  }

  // An enum as Prometheus' clients write it: every state is a series, and the current one is 1. Their label has the
  // name of the metric; `state` is the label of their documentation. Queries by either find it.
  template <class States, class State>
  void add_states(const States& states, const std::optional<State>& current) {
    if (!current) return;
    for (std::size_t i = 0; i < states.size(); ++i)
      add(i == static_cast<std::size_t>(*current) ? 1.0 : 0.0, {{"state", states[i]}, {name_, states[i]}});
  }

 private:
  [[nodiscard]] std::vector<telemetry::Label> common() const {
    std::vector<telemetry::Label> labels;
    if (!policy_.empty()) labels.emplace_back("policy", policy_);
    if (!model_.empty()) labels.emplace_back("model", model_);
    return labels;
  }

  std::string_view name_, policy_, model_;
  telemetry::ExpositionWriter& writer_;
};

// Adds the samples of a family, whose labels are named. Without a type the name of the family decides.
struct FamilyWriter {
  std::string_view labels;
  void (*add)(const MetricFigures&, Samples&);
  std::string_view type{};
};

// Writers of one figure, of the run, of a forecast, and of figures by pool and engine.
template <auto get>
constexpr FamilyWriter kOne{"", [](const MetricFigures& f, Samples& s) { s.add(std::invoke(get, f)); }};
template <auto get>
constexpr FamilyWriter kRun{"", [](const MetricFigures& f, Samples& s) { s.add(std::invoke(get, f.from)); }};
template <auto get>
constexpr FamilyWriter kForecast{"", [](const MetricFigures& f, Samples& s) { s.add(std::invoke(get, f.forecast)); }};
template <auto latency>
constexpr FamilyWriter kLimit{"", [](const MetricFigures& f, Samples& s) {
                                if (f.from.slo) s.add(core::to_milliseconds((*f.from.slo).*latency));
                              }};
template <auto get>
constexpr FamilyWriter kPools{"pool", [](const MetricFigures& f, Samples& s) {
                                for (const PoolFigures& pool : f.pools)
                                  s.add(std::invoke(get, pool), {{"pool", pool.seen.name}});
                              }};
template <auto get>
constexpr FamilyWriter kSeen = kPools<[](const PoolFigures& pool) { return pool.seen.*get; }>;
template <auto get>
constexpr FamilyWriter kDecided = kPools<[](const PoolFigures& pool) { return pool.decided.*get; }>;
template <auto get>
constexpr FamilyWriter kEngines{
    "worker_id, dp_rank", [](const MetricFigures& f, Samples& s) {
      for (const EngineFigures& engine : f.engines)
        s.add(std::invoke(get, engine), {{"worker_id", engine.worker_id}, {"dp_rank", "0"}});
    }};

}  // namespace penstock::report
