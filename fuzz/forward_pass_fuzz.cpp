// Forward pass metrics: what is read is within the limits, and writes and reads back as the same; totals take it.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "telemetry/forward_pass.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const auto message = telemetry::decode_forward_pass({reinterpret_cast<const char*>(data), size});
  if (!message) {
    if (message.error().message().empty()) std::abort();
    return 0;
  }
  if (message->scheduled_requests.sum_decode_kv_tokens > telemetry::kForwardPassTokensMax) std::abort();
  const std::string bytes = telemetry::encode(*message);
  const auto again = telemetry::decode_forward_pass(bytes);
  if (!again || telemetry::encode(*again) != bytes) std::abort();

  std::vector<telemetry::ForwardPassTotals> ranks(1);
  ranks[0].add(*message, core::kStart + std::chrono::seconds{1});
  telemetry::ForwardPassMetrics next = *message;
  next.counter_id += 3;
  ranks[0].add(next, core::kStart + std::chrono::seconds{2});
  telemetry::EngineSample sample;
  if (!telemetry::apply_forward_pass(ranks, sample)) std::abort();
  if (sample.iterations.steps() > 2 || sample.iterations.busy() < core::Duration{}) std::abort();
  if (!std::isfinite(sample.iterations.prefill_attention_pairs)) std::abort();
  return 0;
}
