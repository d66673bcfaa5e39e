// How fast the requests that may miss the SLO are being used up.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "core/state_archive.h"
#include "core/time.h"
#include "signals/observation.h"
#include "signals/slo.h"

namespace penstock::planner {

struct BurnRateOptions {
  core::Duration judged_after = std::chrono::seconds{30};  // of its arrival: what has no first token by then is late
  core::Duration short_window = std::chrono::minutes{5};
  core::Duration long_window = std::chrono::hours{1};
  double short_burns = 2.0;  // times the misses that the goal allows; both windows must pass theirs
  double long_burns = 1.0;
};

// Misses in a window over those that the goals allow: 1 uses up exactly what there is.
class BurnRate {
 public:
  BurnRate(signals::SloPolicy slo, const BurnRateOptions& options = {}) : slo_(std::move(slo)), options_(options) {}

  // Every tick; requests are judged some time after their arrival, each once. `best`: the share that a fleet of any size
  // would keep, of which the goal is a part.
  void observe(const signals::Observation& observation, double best);
  [[nodiscard]] double over_short_window() const { return over(options_.short_window); }
  [[nodiscard]] double over_long_window() const { return over(options_.long_window); }
  // Both windows burn: it is neither a moment's matter nor long over.
  [[nodiscard]] bool burning() const;
  // How long less than what is allowed was missed, by the long window and by the short one.
  [[nodiscard]] core::Duration held_for() const { return held_since_ ? now_ - *held_since_ : core::Duration{}; }

  void archive(core::StateArchive& state) { state("burn_rate", spans_, now_, judged_to_, held_since_); }

 private:
  struct Span {
    core::Instant at;
    double requests = 0.0, missed = 0.0, allowed = 0.0;
    void archive(core::StateArchive& state) { state.values_of(at, requests, missed, allowed); }
  };
  [[nodiscard]] bool missed(const signals::RecentRequest& request) const;
  [[nodiscard]] double over(core::Duration window) const;

  signals::SloPolicy slo_;
  BurnRateOptions options_;
  std::deque<Span> spans_;  // by minute
  core::Instant now_{}, judged_to_{};
  std::optional<core::Instant> held_since_;
};

}  // namespace penstock::planner
