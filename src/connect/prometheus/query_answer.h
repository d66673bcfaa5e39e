// Answers of Prometheus' HTTP API to instant queries (https://prometheus.io/docs/prometheus/latest/querying/api/).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "telemetry/adapters.h"

namespace penstock::connect {

// The newest value of one series.
struct QueriedSeries {
  std::string name;                           // Empty for the result of a function.
  std::map<std::string, std::string> labels;  // Without the name.
  double value = 0.0;                         // Finite.
  double at_s = 0.0;                          // Time of the value since 1970.
};

inline constexpr std::size_t kSeriesMax = 200'000;

// Reads a vector, a matrix (of which the last value of each series counts) or a scalar. NaN and infinite values are
// missing, so their series are left out. An error of Prometheus is reported with `query` and Prometheus' own text,
// which has the position in the query.
[[nodiscard]] core::Result<std::vector<QueriedSeries>> parse_query_answer(int status, std::string_view body,
                                                                          std::string_view query);

// Figures that a query may provide.
[[nodiscard]] std::vector<std::string_view> queried_signals();

// What the server knows of one replica.
struct QueriedReplica {
  telemetry::EngineScrape scrape;
  double at_s = 0.0;  // Time of the newest value.
};
using QueriedReplicas = std::map<std::string, QueriedReplica>;  // By value of the replica label.

// The query for all series that the adapter of an engine reads (`engine` is a result of to_string(EngineKind)), with
// their values of the last `window`: Prometheus leaves out older ones. `matchers` are further label matchers.
[[nodiscard]] std::string preset_query(std::string_view engine, std::string_view matchers, core::Duration window);
// Reads the series of a preset as if they were one /metrics for each replica. Series without the label are left out.
[[nodiscard]] QueriedReplicas read_preset(const std::vector<QueriedSeries>& series, std::string_view replica_label);

// Adds the result of one signal's query. Values that are impossible for the signal count as missing.
void add_signal(QueriedReplicas& replicas, std::string_view signal, const std::vector<QueriedSeries>& series,
                std::string_view replica_label);

}  // namespace penstock::connect
