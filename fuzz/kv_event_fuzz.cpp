// KV cache events: a batch that is read writes and reads back as the same, in both layouts.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "telemetry/kv_event.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::telemetry;
  const auto batch = decode_batch({reinterpret_cast<const char*>(data), size});
  if (!batch) {
    if (batch.error().message().empty()) std::abort();
    return 0;
  }
  for (const KvEventLayout layout : {KvEventLayout::kArrays, KvEventLayout::kMaps}) {
    const auto again = decode_batch(encode_batch(*batch, layout));
    if (!again || again->ts != batch->ts || again->events != batch->events || again->unknown_events != 0 ||
        again->data_parallel_rank != batch->data_parallel_rank)
      std::abort();
  }
  return 0;
}
