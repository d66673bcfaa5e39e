// Synthetic workloads: arrivals, lengths, shared prefixes and sessions from a short specification.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "workload/reader.h"
#include "workload/request.h"

namespace penstock::workload {

enum class RateShape : std::uint8_t { kConstant, kRamp, kStep, kBurst, kDiurnal };

// Requests per second over time: the rate starts at `low` and changes to `high`.
struct RateCurve {
  RateShape shape = RateShape::kConstant;
  double low = 1.0, high = 1.0;  // A constant rate uses `low`.
  core::Duration at{};           // Start of a ramp, step or burst; for diurnal a time at which the rate is lowest.
  core::Duration length{};       // Length of a ramp or burst; for diurnal the period.
  [[nodiscard]] double at_time(core::Duration since_start) const;
};

struct LengthDistribution {
  double mean = 0.0;            // Tokens.
  double cv = 0.0;              // Standard deviation over mean of a log-normal distribution; 0 means always the mean.
  std::uint32_t max = 131'072;  // Longer draws are truncated.
};

// Maximum duration of a workload. A workload with only a number of requests lasts until they have arrived.
inline constexpr core::Duration kDurationMax = std::chrono::hours{10 * 365 * 24};

struct SyntheticSpec {
  std::string name = "synthetic";
  core::Duration duration = std::chrono::minutes{10};
  std::uint64_t requests_max = 0;  // 0 means no limit within the duration.
  RateCurve rate;                  // Rate of requests; sessions start at this rate divided by `turns`.
  // Coefficient of variation of the gaps: 0 evenly spaced, 1 Poisson, other values a gamma process.
  double arrival_cv = 1.0;
  LengthDistribution input{1000.0, 0.0, 131'072}, output{250.0, 0.0, 16'384};
  // If not empty, lengths are drawn from these pairs and truncated at the same maxima.
  std::vector<LengthPair> lengths;
  std::uint32_t tenants = 1;  // Their shares are proportional to 1, 1/2, 1/3, ….
  double batch_share = 0.0;   // Share of sessions (requests, if turns is 1) in the batch class.
  // If positive, each request starts with the prompt of one of this number of groups, whose shares are proportional to
  // 1, 1/2, 1/3, ….
  std::uint32_t prefix_groups = 0;
  std::uint32_t prefix_tokens = 0;  // Length of the group's prompt, which is part of the input.
  // Mean number of requests per session, geometrically distributed. Each request starts with the prompt and output of
  // the previous one; a session ends when its input reaches input.max.
  double turns = 1.0;
  // Mean time between the arrivals of two turns, exponentially distributed.
  core::Duration think_time = std::chrono::seconds{10};
  std::uint32_t block_tokens = 512;
};

// Parses "synthetic:rate=5,duration=10m,input=1000,output=250,…"; docs/workloads.md lists the settings. Errors name the
// setting. Reads the file of `lengths=`.
[[nodiscard]] core::Result<SyntheticSpec> parse_synthetic(std::string_view text);

// Equal seeds give equal workloads. Each aspect (arrivals, input, output, tenants, …) draws from a separate stream, so
// that a change of one does not affect the others. Blocks have ids only if they can be shared, through prefix groups or
// turns. A million requests take less than a second. Errors: rates, lengths or shares out of range, no arrivals, or
// limits of a workload.
[[nodiscard]] core::Result<Workload> make_synthetic(const SyntheticSpec& spec, std::uint64_t seed);

// Returns an error that names the first setting out of range. make_synthetic and parse_synthetic call it.
[[nodiscard]] core::Result<void> check(const SyntheticSpec& spec);

// One hour of a small service with a morning ramp, a flash crowd, three tenants, shared prefixes and sessions, used
// when no trace is given. About 6,000 requests.
[[nodiscard]] Workload built_in_workload(std::uint64_t seed);

}  // namespace penstock::workload
