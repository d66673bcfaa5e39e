// Small workloads for the tests of this folder.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "workload/request.h"

namespace penstock::workload::testing {

struct Row {
  double arrival_s = 0.0;
  std::uint32_t input_tokens = 1, output_tokens = 1;
  std::vector<std::uint32_t> ids = {};
  std::uint32_t session = kNoSession;
  std::uint32_t tenant = 0;
};

inline Workload workload_of(const std::vector<Row>& rows, std::uint32_t block_tokens = 512) {
  Workload workload;
  workload.name = "rows";
  workload.block_tokens = block_tokens;
  for (const Row& row : rows) {
    Request request;
    request.arrival = core::kStart + core::from_seconds(row.arrival_s);
    request.input_tokens = row.input_tokens;
    request.output_tokens = row.output_tokens;
    request.tenant = row.tenant;
    request.session = row.session;
    request.first_block = static_cast<std::uint32_t>(workload.block_ids.size());
    request.block_count = static_cast<std::uint32_t>(row.ids.size());
    workload.block_ids.insert(workload.block_ids.end(), row.ids.begin(), row.ids.end());
    workload.requests.push_back(request);
  }
  return workload;
}

inline std::vector<std::uint32_t> ids_of(const Workload& workload, std::size_t index) {
  const auto ids = workload.blocks_of(workload.requests.at(index));
  return {ids.begin(), ids.end()};
}

inline std::vector<double> arrivals_s(const Workload& workload) {
  std::vector<double> arrivals;
  for (const auto& request : workload.requests) arrivals.push_back(core::to_seconds(request.arrival));
  return arrivals;
}

inline bool is_sorted_by_arrival(const Workload& workload) {
  for (std::size_t index = 1; index < workload.requests.size(); ++index)
    if (workload.requests[index].arrival < workload.requests[index - 1].arrival) return false;
  return true;
}

inline bool same(const Workload& a, const Workload& b) {
  const auto fields = [](const Request& request) {
    return std::tuple{request.arrival, request.input_tokens,  request.output_tokens, request.tenant,
                      request.session, request.traffic_class, request.priority,      request.block_count};
  };
  if (a.requests.size() != b.requests.size() || a.block_tokens != b.block_tokens || a.tenants != b.tenants)
    return false;
  for (std::size_t index = 0; index < a.requests.size(); ++index)
    if (fields(a.requests[index]) != fields(b.requests[index]) || ids_of(a, index) != ids_of(b, index)) return false;
  return true;
}

// Coefficient of variation of the request count in windows of this length, without the last, partial one.
inline double count_cv(const Workload& workload, double window_s, double span_s) {
  std::vector<double> counts(static_cast<std::size_t>(span_s / window_s), 0.0);
  for (const double arrival : arrivals_s(workload))
    if (const auto window = static_cast<std::size_t>(arrival / window_s); window < counts.size()) ++counts[window];
  double sum = 0.0;
  double squares = 0.0;
  for (const double count : counts) sum += count;
  const double mean = sum / static_cast<double>(counts.size());
  for (const double count : counts) squares += (count - mean) * (count - mean);
  return std::sqrt(squares / static_cast<double>(counts.size())) / mean;
}

}  // namespace penstock::workload::testing
