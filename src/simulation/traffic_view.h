// What a policy sees of requests: the meters of its pools, single requests, and latencies by segment.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/time.h"
#include "dispatch/request.h"
#include "engine/engine.h"
#include "signals/request_meter.h"
#include "simulation/fleet.h"
#include "simulation/recorder.h"
#include "simulation/timeline.h"

namespace penstock::simulation {

// Counts what the traffic log of a gateway counts. A request that a limit of its tenant or class holds up is no work
// for replicas before that limit lets it go: until then no policy sees it, and its TTFT begins then.
class TrafficView {
 public:
  // `memory`: for how long the policy wants to see requests. `segments`: whether it wants to see segments.
  TrafficView(const workload::Workload& workload, const RunOptions& options, const Timeline& timeline, Fleet& fleet,
              const Recorder& recorder, core::Duration memory, bool segments);

  // The dispatcher has received it: it belongs to a pool, and has arrived if it is work.
  void received(std::uint32_t request, const dispatch::ArrivalResult& result);
  // The life of a request. The first call makes it visible; calls for a request that is not do nothing.
  // `completion_window`: for how long it may wait for spare capacity; 0: it does not.
  void arrived(std::uint32_t request, core::Duration completion_window = {});
  // A request that waited at the gateway goes to a replica. If it was deferred, its latencies begin at `from`, and the
  // result is false.
  bool granted(std::uint32_t request, core::Instant from);
  void submitted(std::uint32_t request);  // Its prompt, to an engine.
  void prefilled(std::uint32_t request, const engine::EngineEvent& event);
  void first_token(std::uint32_t request);  // It reached the client.
  void transferred(std::uint32_t request);  // Its KV, to the decode pool.
  void completed(std::uint32_t request, std::uint32_t pool, std::uint32_t output_tokens);
  void failed(std::uint32_t request, std::uint32_t pool);
  // The request is gone: it failed, its client left, or it will arrive again.
  void forget(std::uint32_t request);

  [[nodiscard]] bool sees(std::uint32_t request) const { return visible_[request]; }
  // The pool in which the request is counted before it is decoded.
  [[nodiscard]] std::uint32_t entry_pool(std::uint32_t request) const {
    return own_pools_.empty() ? entry_pool_ : own_pools_[request];
  }
  // So many of the requests are counted there.
  [[nodiscard]] std::uint32_t count_at(std::uint32_t pool, std::span<const std::uint32_t> requests) const;
  [[nodiscard]] std::optional<std::uint32_t> decode_pool() const { return decode_pool_; }
  // Requests that arrived within the memory of the policy, oldest first.
  [[nodiscard]] std::span<const signals::RecentRequest> recent();
  [[nodiscard]] core::Instant prefilled_at(std::uint32_t request) const { return passages_[request].prefilled; }
  [[nodiscard]] std::uint64_t arrivals() const { return arrivals_; }

 private:
  struct Passage {            // When a request went from one part of its time to the next.
    core::Instant submitted;  // To the engine that computed its prompt.
    core::Instant admitted, prefilled;
  };
  [[nodiscard]] core::Instant arrival_of(std::uint32_t request) const;
  [[nodiscard]] double ttft_ms(std::uint32_t request) const;
  [[nodiscard]] signals::RecentRequest* recent_of(std::uint32_t request);
  [[nodiscard]] signals::RequestTraits traits_of(std::uint32_t request) const;
  [[nodiscard]] signals::FirstTokenTimes times_of(std::uint32_t request) const;  // At its first token, with segments.

  const workload::Workload& workload_;
  const Timeline& timeline_;
  Fleet& fleet_;
  const Recorder& recorder_;
  core::Duration memory_;
  std::uint32_t entry_pool_ = 0;         // The last one, of several.
  std::vector<std::uint8_t> own_pools_;  // By request; empty without several aggregated pools.
  std::optional<std::uint32_t> decode_pool_;

  std::uint64_t arrivals_ = 0;
  std::vector<bool> visible_;                               // By request.
  std::vector<bool> may_defer_;                             // By request.
  std::unordered_map<std::uint32_t, core::Instant> later_;  // Arrivals here that are not those of the workload.
  std::vector<signals::RecentRequest> recent_;
  std::vector<std::uint32_t> recent_numbers_;  // By request, from 1; 0: none. Empty without memory.
  std::vector<std::uint32_t> expected_;        // Output tokens that the dispatcher expects, likewise; 0: unknown.
  std::size_t recent_from_ = 0;
  std::vector<Passage> passages_;            // By request; empty without segments.
  std::vector<core::Duration> ttft_limits_;  // By the target of a request.
};

}  // namespace penstock::simulation
