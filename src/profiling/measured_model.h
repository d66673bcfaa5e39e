// A step-time model through measured points.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"
#include "engine/profile.h"
#include "engine/step_time.h"

namespace penstock::profiling {

struct MeasuredPrompt {
  double tokens = 0.0, ttft_ms = 0.0;
};
struct MeasuredStep {
  double line_tokens = 0.0;  // Planned context; steps with the same one form a line.
  double sequences = 0.0, context_tokens = 0.0, step_ms = 0.0;
};
struct MeasuredPoints {
  std::vector<MeasuredPrompt> prompts;
  std::vector<MeasuredStep> steps;
};

// Step times are monotone cubic curves (Fritsch and Carlson, 1980) over the number of sequences for each context, and
// over contexts for each number of sequences. Noise that lets times fall with more tokens or sequences is averaged out
// (pool adjacent violators). A step of a prompt alone takes its TTFT. A prompt adds its TTFT less the time of a
// decode step without sequences, as the curves continue below one. Beyond the measured points curves continue straight.
class MeasuredModel final : public engine::StepTimeModel {
 public:
  // Fails with fewer than two prompts, a context without a step of one sequence, values that are not finite or not
  // above 0, and points that are measured twice.
  [[nodiscard]] static core::Result<MeasuredModel> make(const MeasuredPoints& points);

  [[nodiscard]] core::Duration step(const engine::StepShape& shape) const override;
  [[nodiscard]] std::string description() const override { return "measured"; }

  [[nodiscard]] double prefill_ms(double tokens) const;        // Step of a prompt alone.
  [[nodiscard]] double prefill_added_ms(double tokens) const;  // Time that a prompt adds to a step that decodes.
  [[nodiscard]] double decode_ms(double sequences, double context_tokens) const;
  [[nodiscard]] double longest_prompt() const { return ttft_.back().x; }
  [[nodiscard]] double shortest_prompt() const { return ttft_.front().x; }
  [[nodiscard]] double shortest_context() const { return lines_.front().context_tokens; }
  [[nodiscard]] double longest_context() const { return lines_.back().context_tokens; }
  [[nodiscard]] double most_sequences() const;
  [[nodiscard]] double most_kv_tokens() const;  // Largest product of sequences and context that was measured.

 private:
  struct Line {
    double context_tokens = 0.0;
    std::vector<engine::ProfilePoint> points;  // Over sequences.
  };
  [[nodiscard]] double on_line(std::size_t line, double sequences) const;

  std::vector<engine::ProfilePoint> ttft_;
  std::vector<Line> lines_;
};

}  // namespace penstock::profiling
