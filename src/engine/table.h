// A measured engine as a step-time model: interpolation in a profile.
#pragma once

#include <span>
#include <string>

#include "core/result.h"
#include "engine/profile.h"
#include "engine/step_time.h"

namespace penstock::engine {

// A step is prefill_ms(all new prompt tokens), when there are any, plus decode_ms(KV tokens read, mean length of the
// decoding sequences), when any decode.
//
// Prefill: linear between measured lengths; below the shortest its time (the fixed cost rules there); above the longest
// along the last two points. Decode: linear in KV tokens along the line of each measured context length, and linear
// between the two nearest lengths; a length outside the measured takes the nearest line. A line goes on below its first
// point at that point's time and above its last along the slope from its first to its last, which noise at the end
// moves least. Slopes of an extrapolation are never negative.
class Table final : public StepTimeModel {
 public:
  // `name` is what description() prints after "table:".
  Table(EngineProfile profile, std::string name);

  [[nodiscard]] core::Duration step(const StepShape& shape) const override;
  [[nodiscard]] DecodeRun decode_run(const StepShape& shape, std::uint32_t steps, core::Duration limit) const override;
  [[nodiscard]] std::string description() const override { return "table:" + name_; }

  [[nodiscard]] const EngineProfile& profile() const { return profile_; }
  [[nodiscard]] double prefill_ms(double new_tokens) const;
  [[nodiscard]] double decode_ms(double kv_tokens, double context_tokens) const;

 private:
  [[nodiscard]] double prefill_part_ms(const StepShape& shape) const;
  [[nodiscard]] core::Duration time(double prefill_ms, std::uint32_t sequences, std::uint64_t context_tokens) const;

  EngineProfile profile_;
  std::string name_;
};

}  // namespace penstock::engine
