// Runs independent tasks on several cores and reports their progress.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/result.h"

namespace penstock::replay {

struct Task {
  std::string name;
  double weight = 1.0;  // Relative share of the work, for the progress.
  // Called once, on any thread; calls `progress` with the share that is done.
  std::function<core::Result<void>(const std::function<void(double share_done)>& progress)> run;
};

struct TaskProgress {
  double share_done = 0.0;
  std::size_t tasks_done = 0, tasks = 0;
  std::string running;  // Name of the oldest task that has not ended.
};

// Runs all tasks in their order, `jobs` at a time (0 means one per core). After a failure no further task starts. Of
// several failures the first in the order is returned, independent of `jobs`. `show` may be empty; it is called on the
// calling thread a few times per second.
[[nodiscard]] core::Result<void> run_tasks(const std::vector<Task>& tasks, std::uint32_t jobs,
                                           const std::function<void(const TaskProgress&)>& show);

}  // namespace penstock::replay
