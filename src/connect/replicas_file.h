// The replica list that a planner, or any script, writes for gateways. The format is JSON, which is also valid YAML.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "signals/observation.h"

namespace penstock::connect {

enum class ReplicaTraffic : std::uint8_t {
  kWarming,   // Health and metrics may be read; user requests are not routed here.
  kServing,   // Takes requests.
  kDraining,  // Gets no new requests.
};
[[nodiscard]] const char* to_string(ReplicaTraffic traffic);  // "warming", "serving", "draining"

struct ReplicaEntry {
  static constexpr std::size_t kEndpointsMax = 256;
  static constexpr std::uint32_t kWorkersMax = 100'000;

  std::string id;   // Unique in the file; the same id means the same replica with the same caches.
  std::string url;  // "http://127.0.0.1:9001", unique
  std::string model{};
  std::string pool = "default";
  signals::Role role = signals::Role::kAggregated;
  ReplicaTraffic state = ReplicaTraffic::kServing;
  double weight = 1.0;
  std::string kv_events{};                      // ZeroMQ endpoint; empty if there is none.
  std::optional<std::uint32_t> block_tokens{};  // Block size of its KV cache; empty if it is not known.
  std::optional<std::uint64_t> kv_blocks{};
  std::string kv_events_replay{};          // ZeroMQ endpoint that sends missed events again.
  std::vector<std::string> fpm{};          // ZeroMQ endpoints of its forward pass metrics.
  std::optional<std::uint32_t> workers{};  // Behind its URL; empty if it is not known.

  friend bool operator==(const ReplicaEntry&, const ReplicaEntry&) = default;
};

inline constexpr std::size_t kReplicasMax = 10'000;  // Maximum in one file.
inline constexpr std::uint64_t kReplicasFileBytes = 16ULL * 1024 * 1024;

// Strict: errors name the file and the location ("replicas.json: replicas[2].url"). Only id and url are required;
// unknown names are ignored, so that later versions can add fields. Another version of the file is an error.
[[nodiscard]] core::Result<std::vector<ReplicaEntry>> read_replicas(std::string_view text, const std::string& file);
// Reads from a file. A missing file is an error.
[[nodiscard]] core::Result<std::vector<ReplicaEntry>> load_replicas(const std::string& path);

// Writes one replica per line, so that people and diffs can read it.
[[nodiscard]] std::string replicas_text(std::span<const ReplicaEntry> replicas);
// Replaces the file atomically.
[[nodiscard]] core::Result<void> save_replicas(const std::string& path, std::span<const ReplicaEntry> replicas);

}  // namespace penstock::connect
