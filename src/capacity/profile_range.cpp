#include "capacity/profile_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/table.h"

namespace penstock::capacity {
namespace {

constexpr double kTolerance = 0.05;

bool below(const TokenRange& range, double tokens) { return tokens < range.low * (1.0 - kTolerance); }
bool above(const TokenRange& range, double tokens) { return tokens > range.high * (1.0 + kTolerance); }

void compare(const char* what, const TokenRange& range, const core::QuantileSketch& seen, const char* at_the_low_end,
             const char* at_the_high_end, std::vector<std::string>& warnings) {
  // Bounded by the observed maximum, because a sketch's quantile may exceed it slightly.
  const double low = std::min(seen.quantile(0.01), seen.max()), high = std::min(seen.quantile(0.99), seen.max());
  if (above(range, high))
    warnings.push_back(
        fmt::format("{} up to {:.0f} tokens, the profile ends at {:.0f}: {}", what, high, range.high, at_the_high_end));
  if (below(range, low))
    warnings.push_back(
        fmt::format("{} from {:.0f} tokens, the profile begins at {:.0f}: {}", what, low, range.low, at_the_low_end));
}

}  // namespace

ProfileRanges ranges_of(const engine::EngineProfile& profile) {
  ProfileRanges ranges;
  if (!profile.prefill.empty()) ranges.prompt = {profile.prefill.front().x, profile.prefill.back().x};
  if (!profile.decode.empty())
    ranges.context = {profile.decode.front().context_tokens, profile.decode.back().context_tokens};
  for (const engine::DecodeLine& line : profile.decode)
    if (!line.points.empty()) ranges.kv_tokens_max = std::max(ranges.kv_tokens_max, line.points.back().x);
  return ranges;
}

std::optional<ProfileRanges> ranges_of(const engine::StepTimeModel& model, signals::Role role) {
  const auto* table = dynamic_cast<const engine::Table*>(&model);
  if (table == nullptr) return std::nullopt;
  constexpr TokenRange kAny{0.0, std::numeric_limits<double>::infinity()};
  ProfileRanges ranges = ranges_of(table->profile());
  if (role == signals::Role::kDecode) ranges.prompt = kAny;
  if (role == signals::Role::kPrefill) {
    ranges.context = kAny;
    ranges.kv_tokens_max = kAny.high;
  }
  return ranges;
}

ProfileRangeCheck::ProfileRangeCheck(const ProfileRanges& ranges, double kv_capacity_tokens)
    : ranges_{ranges}, kv_capacity_tokens_{kv_capacity_tokens} {}

void ProfileRangeCheck::add(std::uint32_t input_tokens, std::uint32_t output_tokens) {
  const double prompt = input_tokens, context = prompt + output_tokens;
  prompts_.add(prompt);
  contexts_.add(context);
  ++requests_;
  if (below(ranges_.prompt, prompt) || above(ranges_.prompt, prompt) || below(ranges_.context, context) ||
      above(ranges_.context, context))
    ++outside_;
}

ProfileCoverage ProfileRangeCheck::coverage() const {
  ProfileCoverage found;
  if (requests_ > 0) {
    compare("prompts", ranges_.prompt, prompts_, "shorter ones are taken to need as long as that",
            "step times beyond are extrapolated", found.warnings);
    compare("contexts", ranges_.context, contexts_, "shorter ones are taken to decode as slowly",
            "longer ones are taken to decode as fast", found.warnings);
    found.share_outside = static_cast<double>(outside_) / static_cast<double>(requests_);
  }
  if (above({0.0, ranges_.kv_tokens_max}, kv_capacity_tokens_))
    found.warnings.push_back(
        fmt::format("a KV cache of {:.0f} tokens, the profile ends at {:.0f} in flight: step times beyond are "
                    "extrapolated",
                    kv_capacity_tokens_, ranges_.kv_tokens_max));
  return found;
}

}  // namespace penstock::capacity
