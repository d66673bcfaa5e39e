#include "planner/penstock/planner_options.h"

#include <algorithm>

namespace penstock::planner {

void set_memory(PlannerOptions& options, core::Duration length) {
  MemoryOptions& memory = options.memory;
  memory.length = length;
  memory.length_least = std::min(memory.length_least, length / 4);
  memory.slice_most = std::min(memory.slice_most, length / 4);
  memory.slice_least = std::min(memory.slice_least, length / 8);
  for (PlanLoopOptions* loop : {&options.throughput_loop, &options.load_loop}) {
    loop->look_back = std::min(loop->look_back, length / 4);
    loop->urgent_memory = std::min(loop->urgent_memory, length);
  }
}

}  // namespace penstock::planner
