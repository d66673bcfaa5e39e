// The times between the tokens of sequences.
#pragma once

#include <cstdint>
#include <utility>

#include "core/sketch.h"
#include "core/time.h"

namespace penstock::engine {

class TokenGaps {
 public:
  // Records nothing from now on.
  void skip() { skips_ = true; }
  // The engine computed nothing for `time` before the next iteration.
  void pause(core::Duration time) { pause_ += time; }
  [[nodiscard]] core::Duration take_pause() { return std::exchange(pause_, {}); }

  void add(core::Duration gap) {
    if (!skips_) gaps_ms_.add(core::to_milliseconds(gap));
  }
  // `sequences` got a token in each of `steps` iterations that took `time` together; the pause preceded the first.
  void add_run(std::uint64_t sequences, std::uint32_t steps, core::Duration time) {
    const core::Duration paused = take_pause();
    if (skips_) return;
    const double gap_ms = core::to_milliseconds(time) / steps;
    const bool first_differs = paused > core::Duration{};
    gaps_ms_.add(gap_ms, sequences * (first_differs ? steps - 1 : steps));
    if (first_differs) gaps_ms_.add(gap_ms + core::to_milliseconds(paused), sequences);
  }
  void clear() { gaps_ms_.clear(); }
  [[nodiscard]] const core::QuantileSketch& milliseconds() const { return gaps_ms_; }

 private:
  core::QuantileSketch gaps_ms_;
  core::Duration pause_{};
  bool skips_ = false;
};

}  // namespace penstock::engine
