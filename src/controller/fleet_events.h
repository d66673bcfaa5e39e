// What happened to a fleet, for the live page. The log gets the same, with fields.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "core/time.h"
#include "logging/log.h"

namespace penstock::controller {

// A sentence for people. `warning`: a person should look at it.
struct FleetEvent {
  core::Instant at;
  bool warning = false;
  std::string pool, text;
};

// Keeps the newest events.
class FleetEvents {
 public:
  static constexpr std::size_t kEventsMax = 500;

  explicit FleetEvents(logging::Log& log) : log_(log) {}

  void add(core::Instant at, bool warning, std::string pool, std::string text) {
    all_.push_back({at, warning, std::move(pool), std::move(text)});
    if (all_.size() > kEventsMax) all_.erase(all_.begin());
  }
  [[nodiscard]] const std::vector<FleetEvent>& all() const { return all_; }
  [[nodiscard]] logging::Log& log() const { return log_; }

 private:
  logging::Log& log_;
  std::vector<FleetEvent> all_;
};

}  // namespace penstock::controller
