// A step-time model that interpolates a measured profile.
#pragma once

#include <span>
#include <string>

#include "core/result.h"
#include "engine/profile.h"
#include "engine/step_time.h"

namespace penstock::engine {

// A step without decodes takes prefill_ms(all new prompt tokens). A step that decodes takes decode_ms(KV tokens read,
// mean length of the decoding sequences), plus prefill_added_ms(all new prompt tokens) if there are any.
//
// Prefill is linear between measured lengths, constant below the shortest (where the fixed cost dominates), and
// continues along the last two points above the longest. Decode is linear in KV tokens along the line of each measured
// context length, and linear between the two nearest lengths; a length outside the measured range uses the nearest
// line. A line is constant below its first point and continues above its last along the slope from first to last, which
// is robust against noise at the end. Extrapolated slopes are never negative.
class Table final : public StepTimeModel {
 public:
  // `name` is what description() prints after "table:".
  Table(EngineProfile profile, std::string name);

  [[nodiscard]] core::Duration step(const StepShape& shape) const override;
  [[nodiscard]] DecodeRun decode_run(const StepShape& shape, std::uint32_t steps, core::Duration limit) const override;
  [[nodiscard]] std::string description() const override { return "table:" + name_; }

  [[nodiscard]] const EngineProfile& profile() const { return profile_; }
  [[nodiscard]] double prefill_ms(double new_tokens) const;
  [[nodiscard]] double prefill_added_ms(double new_tokens) const;
  [[nodiscard]] double decode_ms(double kv_tokens, double context_tokens) const;

 private:
  [[nodiscard]] double prefill_part_ms(const StepShape& shape) const;
  [[nodiscard]] core::Duration time(double prefill_ms, std::uint32_t sequences, std::uint64_t context_tokens) const;

  EngineProfile profile_;
  std::string name_;
};

}  // namespace penstock::engine
