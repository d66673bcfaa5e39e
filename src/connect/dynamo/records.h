// What NVIDIA Dynamo's discovery says about a fleet: the workers, and where they publish (ai-dynamo 1.3 to 1.6).
//
// Each record is a JSON object under a key: of a worker under "v1/mdc/…" (its model card), of a publisher of events
// under "v1/event_channels/…". The discovery by file has a file for each key, the one by etcd a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace penstock::connect {

// Absent figures are not known.
struct DynamoWorker {
  std::uint64_t id = 0;  // The `worker_id` of its messages.
  std::string model;
  std::string component;  // "namespace/component"
  std::optional<std::uint64_t> kv_tokens, context_tokens;
  std::optional<std::uint64_t> block_tokens;  // Tokens of one block of its KV cache.
  std::optional<std::uint64_t> max_sequences, max_batched_tokens;

  friend bool operator==(const DynamoWorker&, const DynamoWorker&) = default;
};

enum class DynamoTopic : std::uint8_t { kForwardPass, kKvCache };  // kKvCache: "kv-events" and "kv_metrics".

// A publisher of one topic, over ZeroMQ or NATS.
struct DynamoChannel {
  std::string component;  // As in DynamoWorker; empty if the record names none.
  std::string endpoint;   // "tcp://127.0.0.1:41475"; empty over NATS.
  // "namespace.dynamo.component.backend.forward-pass-metrics", which all workers of a component have in common.
  std::string subject{};
  DynamoTopic topic = DynamoTopic::kForwardPass;

  friend bool operator==(const DynamoChannel&, const DynamoChannel&) = default;
};

struct DynamoRecords {
  std::vector<DynamoWorker> workers;
  std::vector<DynamoChannel> channels;
  std::string rejection;  // Why the first malformed record was left out; empty if none was.

  // Endpoints of a topic, of the components whose workers serve the model, sorted; an empty model stands for all. Those
  // over NATS are subjects on the server, "nats://127.0.0.1:4222".
  [[nodiscard]] std::vector<std::string> endpoints_of(std::string_view model, std::string_view nats_server,
                                                      DynamoTopic topic) const;
  [[nodiscard]] std::vector<DynamoWorker> workers_of(std::string_view model) const;
};

inline constexpr std::size_t kDynamoRecordsMax = 10'000;  // Further records are left out.
inline constexpr std::size_t kDynamoRecordBytes = 1024 * 1024;

// Adds the record with this key. Records of other kinds are ignored; a malformed one sets `rejection`.
void add_dynamo_record(std::string_view key, std::string_view json, DynamoRecords& records);

// Reads the folder that DYN_FILE_KV names. A folder without records is an empty fleet; a missing one is an error.
[[nodiscard]] core::Result<DynamoRecords> read_dynamo_folder(const std::string& folder);

}  // namespace penstock::connect
