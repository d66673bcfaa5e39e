// What Dynamo's workers say of their KV caches: no message names more blocks than it has bytes, and adding the same
// message twice counts it twice.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "telemetry/dynamo_kv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::telemetry;
  const std::string_view bytes{reinterpret_cast<const char*>(data), size};
  static_cast<void>(decode_router_events(bytes));
  static_cast<void>(decode_kv_metrics(bytes));
  const auto envelope = decode_event_frame(bytes);
  if (!envelope) return 0;
  const auto message = decode_worker_kv(*envelope);
  if (!message) {
    if (message.error().message().empty()) std::abort();
    return 0;
  }
  WorkerCaches caches;
  caches.add(*message);
  caches.add(*message);
  if (caches.counts().received != 2 || caches.counts().lost != 0) std::abort();
  std::uint64_t blocks = 0;
  for (const KvChanges& changes : message->changes) {
    blocks += changes.stored_blocks + changes.removed_blocks;
    const auto cache = caches.of(changes.of.worker);
    if (!cache || cache->stored_blocks < 2 * changes.stored_blocks) std::abort();
  }
  if (blocks > size) std::abort();
  return 0;
}
