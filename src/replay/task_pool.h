// Independent work on several cores, with an eye on how far it is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/result.h"

namespace penstock::replay {

struct Task {
  std::string name;
  double weight = 1.0;  // Share of the total, for the progress.
  // Called once, from any thread; tells now and then which share of it is done.
  std::function<core::Result<void>(const std::function<void(double share_done)>& progress)> run;
};

struct TaskProgress {
  double share_done = 0.0;
  std::size_t tasks_done = 0, tasks = 0;
  std::string running;  // the oldest that is not done
};

// Runs all tasks, `jobs` at a time (0: as many as there are cores), started in their order. After a failure no other
// starts; of several failures the first in the order is returned, however many jobs there are. `show` is called from
// the calling thread a few times a second; it may be empty.
[[nodiscard]] core::Result<void> run_tasks(const std::vector<Task>& tasks, std::uint32_t jobs,
                                           const std::function<void(const TaskProgress&)>& show);

}  // namespace penstock::replay
