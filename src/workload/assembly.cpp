#include "workload/assembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace penstock::workload {

CompactIds compact_ids(const Workload& workload) {
  CompactIds compact;
  if (workload.block_ids.empty()) return compact;
  compact.bound = std::uint64_t{*std::max_element(workload.block_ids.begin(), workload.block_ids.end())} + 1;
  compact.ids = workload.block_ids;
  if (compact.bound <= 2 * workload.block_ids.size()) return compact;
  std::unordered_map<std::uint32_t, std::uint32_t> number;
  for (auto& id : compact.ids) id = number.emplace(id, static_cast<std::uint32_t>(number.size())).first->second;
  compact.bound = number.size();
  return compact;
}

std::uint64_t named_tokens(const Request& request, std::uint32_t block_tokens) {
  const bool over_output = request.block_count > blocks_for(request.input_tokens, block_tokens);
  const std::uint64_t tokens = std::uint64_t{request.input_tokens} + (over_output ? request.output_tokens : 0U);
  return std::min(tokens, std::uint64_t{request.block_count} * block_tokens);
}

std::uint64_t session_bound(const Workload& workload) {
  std::uint64_t bound = 0;
  for (const auto& request : workload.requests)
    if (request.session != kNoSession) bound = std::max(bound, std::uint64_t{request.session} + 1);
  return bound;
}

core::Result<void> check_size(const std::string& where, std::uint64_t requests, std::uint64_t blocks,
                              std::uint64_t id_bound, std::uint64_t sessions) {
  constexpr std::uint64_t kIdsMax = UINT32_MAX;
  if (requests > kRequestsMax)
    return core::invalid_input(where, fmt::format("would have {} requests, more than {}", requests, kRequestsMax));
  if (blocks > kIdsMax || id_bound > kIdsMax)
    return core::invalid_input(
        where, fmt::format("would have {} block ids, more than {}", std::max(blocks, id_bound), kIdsMax),
        "cut a window, or use larger blocks");
  if (sessions > kIdsMax)
    return core::invalid_input(where, fmt::format("would have {} sessions, more than {}", sessions, kIdsMax));
  return {};
}

void append(Workload& out, Request request, std::span<const std::uint32_t> ids, std::uint64_t id_offset) {
  request.first_block = ids.empty() ? 0 : static_cast<std::uint32_t>(out.block_ids.size());
  request.block_count = static_cast<std::uint32_t>(ids.size());
  for (const std::uint32_t id : ids) out.block_ids.push_back(static_cast<std::uint32_t>(id + id_offset));
  out.requests.push_back(request);
}

void sort_by_arrival(Workload& workload) {
  auto& requests = workload.requests;
  if (workload.waits.empty()) {
    std::stable_sort(requests.begin(), requests.end(),
                     [](const Request& a, const Request& b) { return a.arrival < b.arrival; });
    return;
  }
  std::vector<std::uint32_t> order(requests.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return requests[a].arrival < requests[b].arrival; });
  std::vector<Request> sorted;
  std::vector<std::uint32_t> places(order.size());
  sorted.reserve(order.size());
  for (const std::uint32_t index : order) {
    places[index] = static_cast<std::uint32_t>(sorted.size());
    sorted.push_back(requests[index]);
  }
  requests = std::move(sorted);
  const std::vector<Wait> waits = std::move(workload.waits);
  workload.waits.clear();
  append_waits(workload, waits, places);
  std::stable_sort(workload.waits.begin(), workload.waits.end(),
                   [](const Wait& a, const Wait& b) { return a.request < b.request; });
}

void append_waits(Workload& out, std::span<const Wait> waits, std::span<const std::uint32_t> places) {
  for (const Wait& wait : waits)
    if (places[wait.request] != kNoPlace && places[wait.previous] != kNoPlace)
      out.waits.push_back({places[wait.request], places[wait.previous], wait.after});
}

}  // namespace penstock::workload
