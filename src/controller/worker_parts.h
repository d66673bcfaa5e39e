// The parts of several equal workers in what their common address reports, such as a front end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "signals/observation.h"

namespace penstock::controller {

// Each worker has an equal part of every gauge. Of a counter it has what it had when the workers last changed, and an
// equal part of the growth since. So the parts of all workers grow by what the counter grows, and none falls or jumps
// when workers come or go. A counter that falls is that of an address that has started again.
class WorkerParts {
 public:
  // The numbers of the workers, in their order. `whole`: the latest report of the address; empty: none.
  void set(std::vector<std::uint32_t> workers, const std::optional<signals::EngineSample>& whole);

  [[nodiscard]] const std::vector<std::uint32_t>& workers() const { return workers_; }
  // `index` counts from 0 and is below the number of workers.
  [[nodiscard]] signals::EngineSample part(std::size_t index, const signals::EngineSample& whole) const;

 private:
  std::vector<std::uint32_t> workers_;
  signals::EngineSample changed_;                             // The report at the last change.
  std::map<std::uint32_t, signals::EngineSample> by_worker_;  // The parts at the last change.
};

}  // namespace penstock::controller
