// The measurements that were made so far, as text. It is not a profile and cannot be read as one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "profiling/measurement_grid.h"
#include "profiling/profiler.h"

namespace penstock::profiling {

// What was measured, and how. Measurements are continued only if all of it is the same.
struct MeasurementId {
  std::string endpoint, model;
  GridLimits grid;
  bool operator==(const MeasurementId& other) const;
};

[[nodiscard]] std::string progress_text(const MeasurementId& id, const ProfilerState& state);  // Ends with a newline.

// `file` names the text in errors. A text of other measurements is an error that names the difference.
[[nodiscard]] core::Result<ProfilerState> read_progress(std::string_view text, const std::string& file,
                                                        const MeasurementId& id);

// Fields of engine::read_profile(), and what was measured.
struct ProfileDocument {
  MeasurementId id;
  double sequences_max = 0.0;
  // Where max_sequences and max_kv_tokens come from: "flag", "metrics", "engine" (the measurement found the limit), or
  // "measurement" (it ended before one was found).
  std::string sequences_from, kv_tokens_from;
  std::vector<std::string> warnings{};  // About the capacity.
  // Capacity of a replica within the objective.
  double input_tokens = 0.0, output_tokens = 0.0, ttft_objective_ms = 0.0, itl_objective_ms = 0.0;
  double c_in_tokens_per_s = 0.0, c_out_tokens_per_s = 0.0;
};
// `profile` is the text of capacity::profile_json().
[[nodiscard]] std::string profile_document(const std::string& profile, const ProfileDocument& document,
                                           const ProfilerState& state);

}  // namespace penstock::profiling
