#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/random.h"
#include "workload/transform.h"

namespace penstock::workload {

void mark_batch(Workload& workload, double share) {
  constexpr double kRange = 18'446'744'073'709'551'616.0;  // 2^64
  constexpr std::uint64_t kSessions = std::uint64_t{1} << 40;
  for (std::uint64_t i = 0; i < workload.requests.size(); ++i) {
    Request& request = workload.requests[i];
    const std::uint64_t number = request.session == kNoSession ? i : kSessions + request.session;
    if (static_cast<double>(core::mix64(number + 1)) < share * kRange) request.traffic_class = TrafficClass::kBatch;
  }
}

void mark_batch(Workload& workload, std::span<const std::string> tenants) {
  if (tenants.empty()) return;
  std::vector<bool> is_batch;
  for (const std::string& name : workload.tenants)
    is_batch.push_back(std::find(tenants.begin(), tenants.end(), name) != tenants.end());
  for (Request& request : workload.requests)
    if (is_batch[request.tenant]) request.traffic_class = TrafficClass::kBatch;
}

}  // namespace penstock::workload
