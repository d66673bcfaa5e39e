#include "engine/step_time.h"

namespace penstock::engine {

DecodeRun StepTimeModel::decode_run(const StepShape& shape, std::uint32_t steps, core::Duration limit) const {
  DecodeRun run;
  StepShape now = shape;
  do {
    run.time += step(now);
    ++run.steps;
    now.decode_context_tokens += now.decode_sequences;
  } while (run.steps < steps && run.time < limit);
  return run;
}

}  // namespace penstock::engine
