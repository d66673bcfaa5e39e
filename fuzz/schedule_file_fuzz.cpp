// Schedules of replicas: an error is one line with the file, and what is accepted begins at 0 and has increasing times
// in every pool.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "replay/schedule_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  for (const std::vector<replay::ScheduledPool>& pools :
       {std::vector<replay::ScheduledPool>{{"default", 100}},
        std::vector<replay::ScheduledPool>{{"prefill", 100}, {"decode", 100}}}) {
    const auto read = replay::parse_schedule(text, "plan.csv", pools);
    if (!read) {
      const std::string message = read.error().message();
      if (!message.starts_with("plan.csv") || message.find('\n') != std::string::npos) std::abort();
      continue;
    }
    if (read->size() != pools.size()) std::abort();
    for (const planner::PoolSteps& steps : *read) {
      if (steps.empty() || steps.front().from != core::Duration::zero()) std::abort();
      if (!std::is_sorted(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.from <= b.from; }))
        std::abort();
    }
  }
  return 0;
}
