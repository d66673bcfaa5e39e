// Decides which requests an endpoint is measured with, and collects the times.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "profiling/measured_model.h"
#include "profiling/measurement_grid.h"
#include "profiling/step_samples.h"

namespace penstock::profiling {

struct ProfilerOptions {
  GridLimits grid;
  std::uint32_t context_tokens_max = 0;  // Prompt and answer together; 0 if unknown.
  double kv_tokens_max = 0.0;            // KV cache of the endpoint; 0 if unknown.
  double round_trip_ms = 0.0;            // Subtracted from each TTFT.
};

// Requests of equal size that are sent at the same time to an idle endpoint.
struct Burst {
  GridPoint point;  // Without tokens for a warm-up request.
  std::uint32_t requests = 1;
  std::uint32_t prompt_words = 1;  // A word is about one token.
  std::uint32_t output_tokens = 1;

  [[nodiscard]] bool is_warm_up() const { return point.tokens == 0; }
};

// Samples of one point.
struct PointSamples {
  GridPoint point;
  std::vector<double> ms;      // TTFT or step time.
  std::vector<double> tokens;  // Actual prompt tokens, or mean context.
};

// What was measured so far. A profiler that is made with it continues.
struct ProfilerState {
  std::vector<PointSamples> points;      // Points with samples.
  std::uint32_t sequences_max = 0;       // Limit of the endpoint; 0 if none was found.
  std::uint64_t kv_tokens_too_many = 0;  // KV tokens that did not fit; 0 if all did.
  double prompt_tokens_per_step = 1024;  // Prompt tokens that the endpoint computes in one step.
};

struct Progress {
  std::size_t measured = 0, total = 0;  // Points.
  core::Duration remaining{};           // Estimate.
};

class Profiler {
 public:
  explicit Profiler(const ProfilerOptions& options, const ProfilerState& state = {});

  // Returns the next requests to send; empty when all points are measured.
  [[nodiscard]] std::optional<Burst> next() const;

  // Takes the answers to next(), which all succeeded. Fails if the samples of a point contradict each other, or if
  // answers cannot be used: no text, prompts that were cached.
  [[nodiscard]] core::Result<void> take(const Burst& burst, std::span<const TimedAnswer> answers);

  [[nodiscard]] Progress progress() const;
  [[nodiscard]] bool has_required() const;  // The profile has no holes.
  [[nodiscard]] ProfilerState state() const;
  // Limit of sequences at once that was found; 0 if the endpoint ran as many as were sent.
  [[nodiscard]] std::uint32_t sequences_max() const { return learned_.sequences_max; }

  // The error names the first required point that was not measured.
  [[nodiscard]] core::Result<MeasuredModel> model() const;

 private:
  struct Entry {
    PointSamples samples;
    std::uint32_t output_tokens = 0;         // After a window that was too short; 0 means the estimate.
    std::uint32_t at_once = 0, retries = 0;  // Of the windows that were too short.
    std::uint32_t times_limited = 0;         // Longer answers did not run more sequences at once.
    bool is_left_out = false;                // The endpoint does not run so many sequences, or cannot hold them.
  };

  [[nodiscard]] static bool is_done(const Entry& entry);
  [[nodiscard]] const Entry* next_entry() const;
  [[nodiscard]] Entry& entry_of(const GridPoint& point);
  [[nodiscard]] std::uint32_t words_for(std::uint32_t tokens) const;
  [[nodiscard]] std::uint32_t output_of(const Entry& entry) const;
  [[nodiscard]] std::uint32_t output_max(const GridPoint& point) const;
  [[nodiscard]] double estimated_ms(const Entry& entry) const;
  [[nodiscard]] core::Result<void> take_warm_up(const Burst& burst, const TimedAnswer& answer);
  [[nodiscard]] core::Result<void> take_prompt(Entry& entry, const TimedAnswer& answer);
  [[nodiscard]] core::Result<void> take_steps(Entry& entry, const Burst& burst, std::span<const TimedAnswer> answers);
  [[nodiscard]] core::Result<void> take_short_window(Entry& entry, const Burst& burst, std::uint32_t at_once);
  void learn_limit(const GridPoint& point, std::uint32_t at_once);
  void leave_out();

  ProfilerOptions options_;
  ProfilerState learned_;  // Without points.
  std::vector<Entry> entries_;
  std::vector<std::pair<double, double>> calibration_;  // Words and tokens of the warm-up prompts.
  double prompt_token_ms_ = 0.1, step_ms_ = 20.0;       // Latest, for the estimate of the remaining time.
};

}  // namespace penstock::profiling
