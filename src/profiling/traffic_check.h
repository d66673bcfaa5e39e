// Detects requests of others by what an engine exposes between two bursts, when none of ours is in flight.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "telemetry/adapters.h"

namespace penstock::profiling {

class TrafficCheck {
 public:
  // Adds requests of ours that were answered.
  void record_ours(std::uint64_t requests, std::uint64_t prompt_tokens);

  // Returns true if the engine reports requests in flight. Engines update their gauges with a delay, so the caller
  // repeats the scrape for a while.
  [[nodiscard]] static bool is_busy(const telemetry::EngineScrape& scrape);

  // Returns what shows that others send requests; empty if nothing does. Counters count from the first call. Figures
  // that the engine does not expose are not checked.
  [[nodiscard]] std::optional<std::string> take(const telemetry::EngineScrape& scrape);

 private:
  struct Counters {
    std::optional<std::uint64_t> requests, prompt_tokens;
  };
  std::optional<Counters> first_;
  std::uint64_t requests_ = 0, prompt_tokens_ = 0;
};

}  // namespace penstock::profiling
