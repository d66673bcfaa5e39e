// The file by which a planner, or any script, tells gateways who serves. JSON, which is YAML, too.
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
  kWarming,   // may be asked for its health and metrics; gets no users' requests
  kServing,   // takes requests
  kDraining,  // gets no new ones
};
[[nodiscard]] const char* to_string(ReplicaTraffic traffic);  // "warming", "serving", "draining"

struct ReplicaEntry {
  std::string id;   // unique in the file; the same id is the same replica, with the same caches
  std::string url;  // "http://127.0.0.1:9001", unique
  std::string model{};
  std::string pool = "default";
  signals::Role role = signals::Role::kAggregated;
  ReplicaTraffic state = ReplicaTraffic::kServing;
  double weight = 1.0;
  std::string kv_events{};                      // ZeroMQ endpoint; empty: none
  std::optional<std::uint32_t> block_tokens{};  // of its KV cache; none: not known
  std::optional<std::uint64_t> kv_blocks{};

  friend bool operator==(const ReplicaEntry&, const ReplicaEntry&) = default;
};

inline constexpr std::size_t kReplicasMax = 10'000;  // in one file
inline constexpr std::uint64_t kReplicasFileBytes = 16ULL * 1024 * 1024;

// Strict: errors name the file and the place ("replicas.json: replicas[2].url"). Only id and url must be there; names that
// are not known are left alone, so that later versions can add to it. A file of another version is refused.
[[nodiscard]] core::Result<std::vector<ReplicaEntry>> read_replicas(std::string_view text, const std::string& file);
// The same from a file. One that is not there (yet) is an error.
[[nodiscard]] core::Result<std::vector<ReplicaEntry>> load_replicas(const std::string& path);

// One replica a line, so that a person or a diff can read it.
[[nodiscard]] std::string replicas_text(std::span<const ReplicaEntry> replicas);
// Atomically: a reader has the old list or the new one.
[[nodiscard]] core::Result<void> save_replicas(const std::string& path, std::span<const ReplicaEntry> replicas);

}  // namespace penstock::connect
