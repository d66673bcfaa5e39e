#include "workload/shared_blocks.h"

#include <algorithm>
#include <span>

namespace penstock::workload {
namespace {

constexpr std::size_t kBytesPerId = 64;  // Memory of the table by id, relative to the ids that there are.
constexpr std::size_t kBytesLeast = 1 << 20;

// `is_shared(id)` returns whether the id occurs more than once.
template <class IsShared>
std::vector<std::uint32_t> counts_of(const Workload& workload, const IsShared& is_shared) {
  std::vector<std::uint32_t> counts;
  counts.reserve(workload.requests.size());
  for (const Request& request : workload.requests) {
    const auto ids = workload.blocks_of(request);
    std::size_t count = ids.size();
    while (count > 0 && !is_shared(ids[count - 1])) --count;
    counts.push_back(static_cast<std::uint32_t>(count));
  }
  return counts;
}

}  // namespace

std::vector<std::uint32_t> shared_block_counts(const Workload& workload,
                                               std::span<const std::span<const std::uint32_t>> cached) {
  const std::vector<std::uint32_t>& ids = workload.block_ids;
  if (ids.empty()) return std::vector<std::uint32_t>(workload.requests.size(), 0);
  const auto for_each_id = [&](const auto& visit) {
    for (const auto prompt : cached) std::for_each(prompt.begin(), prompt.end(), visit);
    for (const Request& request : workload.requests) {
      const auto of_request = workload.blocks_of(request);
      std::for_each(of_request.begin(), of_request.end(), visit);
    }
  };
  const std::size_t largest = *std::max_element(ids.begin(), ids.end());
  if (largest < std::max(kBytesLeast, kBytesPerId * ids.size())) {
    std::vector<std::uint8_t> seen(largest + 1, 0);
    for_each_id([&](std::uint32_t id) { seen[id] = static_cast<std::uint8_t>(seen[id] == 0 ? 1 : 2); });
    return counts_of(workload, [&](std::uint32_t id) { return seen[id] > 1; });
  }
  std::vector<std::uint32_t> sorted;
  for_each_id([&](std::uint32_t id) { sorted.push_back(id); });
  std::sort(sorted.begin(), sorted.end());
  return counts_of(workload, [&](std::uint32_t id) {
    const auto first = std::lower_bound(sorted.begin(), sorted.end(), id);
    return first + 1 != sorted.end() && first[1] == id;
  });
}

}  // namespace penstock::workload
