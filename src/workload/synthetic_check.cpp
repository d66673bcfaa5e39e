// check(): validates the settings of a synthetic workload and names the invalid one.
#include <fmt/format.h>

#include <cmath>

#include "workload/assembly.h"
#include "workload/rate_curve.h"
#include "workload/synthetic.h"

namespace penstock::workload {
namespace {

constexpr double kRateMax = 1e6;
constexpr double kCvMax = 20.0;
constexpr double kLengthMax = 1 << 24;
constexpr double kTurnsMax = 1000.0;
constexpr double kTenantsMax = 10'000;
constexpr double kPrefixGroupsMax = 1'000'000;
constexpr double kBlockTokensMax = 1 << 20;

struct Bounded {
  const char* word;
  double value, low, high;
};

core::Result<void> out_of_range(const Bounded& setting) {
  return core::invalid_input(
      fmt::format("synthetic: {}", setting.word),
      fmt::format("must be between {:.15g} and {:.15g}, is {:.15g}", setting.low, setting.high, setting.value));
}

core::Result<void> wrong(const char* word, std::string what, std::string hint = {}) {
  return core::invalid_input(fmt::format("synthetic: {}", word), std::move(what), std::move(hint));
}

core::Result<void> check_rate(const SyntheticSpec& spec) {
  const RateCurve& rate = spec.rate;
  const bool constant = rate.shape == RateShape::kConstant;
  if (constant ? rate.low <= 0.0 : rate.low <= 0.0 && rate.high <= 0.0) return wrong("rate", "must be above 0");
  if (rate.at < core::Duration{} || rate.at > kDurationMax) return wrong("at", "must be between 0 and ten years");
  const bool has_length = !constant && rate.shape != RateShape::kStep;
  if (has_length && (rate.length <= core::Duration{} || rate.length > kDurationMax))
    return wrong("length", "must be above 0 and at most ten years");
  const double expected = ExpectedArrivals{rate, spec.duration}.all();
  if (spec.requests_max == 0 && expected > static_cast<double>(kRequestsMax))
    return wrong("rate", fmt::format("would make {:.0f} requests, more than {}", expected, kRequestsMax),
                 "lower rate or duration, or set requests");
  return {};
}

core::Result<void> check_prefix(const SyntheticSpec& spec) {
  if (spec.prefix_groups == 0 && spec.prefix_tokens == 0) return {};
  if (spec.prefix_groups == 0) return wrong("prefix_groups", "must be at least 1 where prefix_tokens is given");
  if (spec.prefix_tokens == 0) return wrong("prefix_tokens", "must be at least 1 where prefix_groups is given");
  const double below = spec.lengths.empty() ? spec.input.mean : spec.input.max;
  if (spec.prefix_tokens + 1.0 > below)
    return wrong("prefix_tokens",
                 fmt::format("must leave a token of the input ({:.15g}), is {}", below, spec.prefix_tokens),
                 "raise input: the prefix counts towards it");
  return {};
}

}  // namespace

core::Result<void> check(const SyntheticSpec& spec) {
  const bool drawn = spec.lengths.empty();  // With length pairs the means are unused.
  const Bounded settings[] = {
      {"rate", spec.rate.low, 0.0, kRateMax},
      {"rate", spec.rate.shape == RateShape::kConstant ? 0.0 : spec.rate.high, 0.0, kRateMax},
      {"requests", static_cast<double>(spec.requests_max), 0.0, static_cast<double>(kRequestsMax)},
      {"cv", spec.arrival_cv, 0.0, kCvMax},
      {"input_max", static_cast<double>(spec.input.max), 1.0, kLengthMax},
      {"output_max", static_cast<double>(spec.output.max), 1.0, kLengthMax},
      {"input", drawn ? spec.input.mean : 1.0, 1.0, static_cast<double>(spec.input.max)},
      {"output", drawn ? spec.output.mean : 1.0, 1.0, static_cast<double>(spec.output.max)},
      {"input_cv", spec.input.cv, 0.0, kCvMax},
      {"output_cv", spec.output.cv, 0.0, kCvMax},
      {"tenants", static_cast<double>(spec.tenants), 1.0, kTenantsMax},
      {"batch", spec.batch_share, 0.0, 1.0},
      {"prefix_groups", static_cast<double>(spec.prefix_groups), 0.0, kPrefixGroupsMax},
      {"turns", spec.turns, 1.0, kTurnsMax},
      {"block", static_cast<double>(spec.block_tokens), 1.0, kBlockTokensMax},
  };
  for (const Bounded& setting : settings)
    if (!(setting.value >= setting.low && setting.value <= setting.high)) return out_of_range(setting);
  if (spec.duration <= core::Duration{} || spec.duration > kDurationMax)
    return wrong("duration", "must be above 0 and at most ten years");
  if (spec.think_time < core::Duration{} || spec.think_time > kDurationMax)
    return wrong("think", "must be between 0 and ten years");
  const auto rate = check_rate(spec);
  return rate ? check_prefix(spec) : rate;
}

}  // namespace penstock::workload
