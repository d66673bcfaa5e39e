// What a user writes for a step-time model. Only forms that name no file: a fuzzer reads none.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "engine/roofline.h"
#include "engine/step_time_models.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::engine;
  const std::string text{reinterpret_cast<const char*>(data), size};
  StepShape shape;
  shape.prefill_requests = 1;
  shape.prefill_new_tokens = 1000;
  shape.prefill_attention_pairs = 500'500;
  shape.decode_sequences = 32;
  shape.decode_context_tokens = 64'000;
  if (const auto roofline = parse_roofline(text)) {
    const double milliseconds = roofline->step_ms(shape);
    if (!(milliseconds > 0.0 && milliseconds < 1e9)) std::abort();
    const std::string again = roofline->description();
    if (!parse_roofline(std::string_view{again}.substr(again.find(':') + 1))) std::abort();
  }
  if (const auto linear = make_step_time_model("linear:" + text); linear && (*linear)->step(shape).count() < 1)
    std::abort();
  return 0;
}
