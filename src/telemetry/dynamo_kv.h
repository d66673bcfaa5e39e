// What NVIDIA Dynamo's workers publish of their KV caches on the event plane (ai-dynamo 1.3 to 1.6): blocks that were
// stored and removed, under the topic `kv-events`, and the blocks in use, under `kv_metrics`.
//
// A `kv-events` payload is a msgpack list of router events, before 1.6 one of them: {worker_id, storage_tier, event:
// {event_id, data, dp_rank}}, with data {stored: {blocks: […]}}, {removed: {block_hashes: […]}} or "cleared". There are
// hashes of token blocks without the tokens, which cannot be compared with prompts. They are counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"
#include "telemetry/event_envelope.h"
#include "telemetry/message_metrics.h"

namespace penstock::telemetry {

inline constexpr std::string_view kKvEventsTopic = "kv-events", kKvMetricsTopic = "kv_metrics";

struct WorkerRank {
  std::uint64_t worker = 0;
  std::uint32_t rank = 0;

  friend auto operator<=>(const WorkerRank&, const WorkerRank&) = default;
};

// The change of one event. Blocks of a cache in host memory or on disk do not count; "cleared" has no number of blocks.
struct KvChanges {
  WorkerRank of;
  std::uint64_t stored_blocks = 0, removed_blocks = 0;

  friend bool operator==(const KvChanges&, const KvChanges&) = default;
};

// One message of either topic.
struct WorkerKvMessage {
  std::uint64_t publisher = 0, sequence = 0;
  std::vector<KvChanges> changes;
  std::optional<std::pair<WorkerRank, std::uint64_t>> used_blocks;  // Empty if the worker does not know them.
};

// Unknown keys and events of unknown kinds are skipped. A missing key or one of another type is an error that names it.
// Accept any bytes. O(bytes).
[[nodiscard]] core::Result<std::vector<KvChanges>> decode_router_events(std::string_view payload);
[[nodiscard]] core::Result<std::optional<std::pair<WorkerRank, std::uint64_t>>> decode_kv_metrics(
    std::string_view payload);
// An envelope of another topic is an error.
[[nodiscard]] core::Result<WorkerKvMessage> decode_worker_kv(const EventEnvelope& envelope);

// The cache of one worker or rank. Counters begin with the first message that was received.
struct WorkerCache {
  std::optional<std::uint64_t> used_blocks;  // Blocks of running requests; cached blocks without a user do not count.
  std::uint64_t stored_blocks = 0, removed_blocks = 0;
  bool has_events = false;
};

// Adds up the messages of the workers of one fleet.
class WorkerCaches {
 public:
  static constexpr std::size_t kWorkersMax = 10'000;  // All workers are forgotten beyond it; publishers likewise.

  void add(const WorkerKvMessage& message);
  void reject() { ++counts_.rejected; }

  // Lost are gaps in the sequence of a publisher.
  [[nodiscard]] const MessageCounts& counts() const { return counts_; }
  [[nodiscard]] std::optional<WorkerCache> of(std::uint64_t worker) const;  // Empty: nothing was received of it.

 private:
  [[nodiscard]] WorkerCache& cache_of(const WorkerRank& rank);
  void take_sequence(std::uint64_t publisher, std::uint64_t sequence);

  std::map<WorkerRank, WorkerCache> ranks_;
  std::map<std::uint64_t, std::uint64_t> sequences_;  // The last one by publisher.
  MessageCounts counts_;
};

}  // namespace penstock::telemetry
