// KV tokens that an engine with IterationOrder::kPrefillFirst keeps free for sequences that decode.
#pragma once

#include <algorithm>
#include <cstdint>

namespace penstock::engine {

// The reserve of SGLang's scheduler: a share of the tokens that the running sequences will still generate at most. The
// share begins at 0.7, falls to 0.098 within 600 decode steps, and follows the sequences once one had to be preempted
// (sglang/srt/managers/scheduler.py, new_token_ratio; schedule_conservativeness 1).
class DecodeReserve {
 public:
  [[nodiscard]] std::uint64_t tokens(std::uint64_t remaining_tokens) const {
    const double share = std::max(kLeast, from_ - kFallPerStep * static_cast<double>(steps_));
    return static_cast<std::uint64_t>(share * static_cast<double>(remaining_tokens));
  }
  void decode(std::uint32_t steps) { steps_ += steps; }
  // A sequence was preempted; the others have generated so many tokens and will generate so many in all.
  void preempt(std::uint32_t sequences, std::uint64_t generated, std::uint64_t generated_max) {
    const double ahead = static_cast<double>(generated) + kStepsAhead * sequences;
    from_ = std::min(1.0, ahead / (static_cast<double>(generated_max) + 1.0));
    steps_ = 0;
  }
  void reset() { *this = {}; }  // The engine is idle.

 private:
  static constexpr double kFirst = 0.7, kLeast = 0.7 * 0.14, kFallPerStep = (kFirst - kLeast) / 600.0;
  static constexpr double kStepsAhead = 20.0;

  double from_ = kFirst;     // Before it fell.
  std::uint64_t steps_ = 0;  // Since then.
};

}  // namespace penstock::engine
