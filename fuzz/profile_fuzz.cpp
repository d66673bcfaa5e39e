// JSON profiles: what is accepted is a model whose steps take time, and not forever.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "engine/step_time_models.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::engine;
  const ProfileFile file{"fuzz.json", {data, size}};
  const auto model = make_table_model({&file, 1});
  if (!model) {
    if (model.error().message().find('\n') != std::string::npos) std::abort();
    return 0;
  }
  for (const std::uint64_t tokens : {0U, 1U, 700U, 100'000U}) {
    StepShape shape;
    shape.prefill_requests = tokens > 0 ? 1 : 0;
    shape.prefill_new_tokens = tokens;
    shape.decode_sequences = 3;
    shape.decode_context_tokens = 3 * (tokens + 1);
    const auto step = (*model)->step(shape);
    if (step.count() < 1) std::abort();
    if ((*model)->decode_run(shape, 1, std::chrono::hours{1}).time != step) std::abort();
  }
  return 0;
}
