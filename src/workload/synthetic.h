// Workloads that nobody recorded: arrivals, lengths, shared prefixes and sessions from a few words.
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

// Requests per second over time: `low` is where the rate starts and rests, `high` where it goes.
struct RateCurve {
  RateShape shape = RateShape::kConstant;
  double low = 1.0, high = 1.0;  // constant: low
  core::Duration at{};           // ramp, step, burst: when it begins; diurnal: a time at which the rate is lowest
  core::Duration length{};       // ramp, burst: how long it takes; diurnal: the period
  [[nodiscard]] double at_time(core::Duration since_start) const;
};

struct LengthDistribution {
  double mean = 0.0;            // tokens
  double cv = 0.0;              // standard deviation over mean of a log-normal; 0: always the mean
  std::uint32_t max = 131'072;  // longer draws are cut
};

// The longest that a workload may last; what is asked for by its number of requests alone lasts until they have come.
inline constexpr core::Duration kDurationMax = std::chrono::hours{10 * 365 * 24};

struct SyntheticSpec {
  std::string name = "synthetic";
  core::Duration duration = std::chrono::minutes{10};
  std::uint64_t requests_max = 0;  // 0: as many as arrive within the duration
  RateCurve rate;                  // of requests; sessions start at this rate over `turns`
  double arrival_cv = 1.0;         // of the gaps: 0 evenly spaced, 1 Poisson, others a gamma process
  LengthDistribution input{1000.0, 0.0, 131'072}, output{250.0, 0.0, 16'384};
  std::vector<LengthPair> lengths;  // not empty: drawn from these pairs instead, and cut at the same maxima
  std::uint32_t tenants = 1;        // shares fall off as 1, 1/2, 1/3, …
  double batch_share = 0.0;         // of sessions (requests, where turns is 1) that are of the batch class
  std::uint32_t prefix_groups = 0;  // > 0: each request begins with the prompt of one of so many groups, popular as
                                    // 1, 1/2, 1/3, …, …
  std::uint32_t prefix_tokens = 0;  // … of this length, which counts towards its input
  double turns = 1.0;               // mean requests of a session, geometric; each begins with all of the one before,
                                    // prompt and answer; one that has grown to input.max is the last
  core::Duration think_time = std::chrono::seconds{10};  // mean from one turn's arrival to the next, exponential
  std::uint32_t block_tokens = 512;
};

// "synthetic:rate=5,duration=10m,input=1000,output=250,…"; docs/workloads.md lists the words. Errors name the word.
// Reads the file of `lengths=`.
[[nodiscard]] core::Result<SyntheticSpec> parse_synthetic(std::string_view text);

// Equal seeds give equal workloads, and each concern (arrivals, input, output, tenants, …) draws from a stream of its
// own, so that changing one leaves the others as they were. Blocks have ids where something can be shared: with prefix
// groups or turns; blocks that no other request can ever share are left without. A million requests take less than a
// second. Errors: rates, lengths or shares out of range, nothing that arrives, more than a workload can hold.
[[nodiscard]] core::Result<Workload> make_synthetic(const SyntheticSpec& spec, std::uint64_t seed);

// An error that names the word of the first setting that is out of range. make_synthetic and parse_synthetic ask it.
[[nodiscard]] core::Result<void> check(const SyntheticSpec& spec);

// An hour of a small service with a morning's rise, a flash crowd, three tenants, shared prefixes and sessions: what is
// shown where a user has named no trace. About 6,000 requests.
[[nodiscard]] Workload built_in_workload(std::uint64_t seed);

}  // namespace penstock::workload
