// How long replicas of a pool take from their creation until they are ready, learned from those that did.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "core/time.h"

namespace penstock::controller {

struct StartUpSpread {
  core::Duration median{}, shortest{}, longest{};
  std::size_t count = 0;
};

// Of the newest replicas.
class StartUpTimes {
 public:
  static constexpr std::size_t kReplicas = 32;
  // Replicas that take longer, for example because no node had room for them, count with this time.
  static constexpr core::Duration kLongest = std::chrono::hours{1};

  void add(core::Duration time) {
    times_.push_back(std::min(time, kLongest));
    if (times_.size() > kReplicas) times_.pop_front();
  }
  [[nodiscard]] std::vector<core::Duration> all() const { return {times_.begin(), times_.end()}; }  // Oldest first.
  // Takes the times of another planner if it has seen more replicas.
  void restore(const std::vector<core::Duration>& times) {
    if (times.size() <= times_.size()) return;
    times_.clear();
    for (const core::Duration time : times) add(time);
  }
  [[nodiscard]] std::optional<StartUpSpread> spread() const {
    if (times_.empty()) return std::nullopt;
    std::vector<core::Duration> sorted{times_.begin(), times_.end()};
    std::sort(sorted.begin(), sorted.end());
    return StartUpSpread{sorted[sorted.size() / 2], sorted.front(), sorted.back(), sorted.size()};
  }

 private:
  std::deque<core::Duration> times_;
};

}  // namespace penstock::controller
