// One observation of a fleet as a line of JSON, which another program writes for `penstock decide`: docs/decide.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "signals/observation.h"

namespace penstock::connect {

struct ObservedReplica {
  std::string id;  // Unique in its pool.
  signals::ReplicaState state = signals::ReplicaState::kReady;
  std::optional<core::Instant> since;
  std::optional<signals::EngineSample> sample;
};

struct ObservedPool {
  std::string name;  // Empty if the line does not give it.
  std::uint32_t starting = 0, ready = 0, draining = 0, asleep = 0;
  std::optional<std::uint32_t> target, asleep_target;
  std::vector<ObservedReplica> replicas;  // Of the counts above; empty if only the counts are known.
  std::uint32_t waiting = 0;
  std::optional<signals::TrafficWindow> last_minute;
  std::uint64_t failed_total = 0, actions_failed_total = 0;
};

// The state of a request that is new, or has changed, since the line before.
struct ObservedRequest {
  std::string id;  // Empty: it is never mentioned again.
  core::Instant arrival;
  std::uint32_t prompt_tokens = 0, output_tokens = 0;
  bool streamed = true;
  std::optional<double> ttft_ms, itl_ms;
  std::optional<core::Instant> ended;
  signals::RequestEnd end = signals::RequestEnd::kNone;
  std::string model, traffic_class, tenant;
  std::vector<std::uint64_t> blocks;  // Of its prompt.
  // It may wait for spare capacity until so long after its arrival; 0: it does not. It waited for `deferred_s`, and
  // `ttft_ms` begins with the end of that wait.
  double completion_window_s = 0.0, deferred_s = 0.0;
};

struct ObservationLine {
  core::Instant at;
  std::vector<ObservedPool> pools;                       // Never empty.
  std::optional<std::vector<ObservedRequest>> requests;  // In the order of the line.
};

// Limits of a line.
inline constexpr std::size_t kObservationBytesMax = std::size_t{16} << 20;
inline constexpr std::size_t kObservedReplicasMax = 10'000;  // Of a pool.
inline constexpr std::size_t kObservedRequestsMax = 100'000;

// Strict: an unknown key, a figure that is not finite or out of its range, and figures that contradict each other are
// errors that name the field.
[[nodiscard]] core::Result<ObservationLine> read_observation(std::string_view json);

}  // namespace penstock::connect
