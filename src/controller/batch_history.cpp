#include "controller/batch_history.h"

#include <chrono>

namespace penstock::controller {
namespace {

constexpr std::int64_t kMinutesCompared = 10, kMinutesBetween = 60;
constexpr double kLoadLeast = 0.9;

std::int64_t minute_of(core::Instant at) {
  return std::chrono::duration_cast<std::chrono::minutes>(at.time_since_epoch()).count();
}

}  // namespace

void BatchHistory::observe(core::Instant at, std::optional<double> efficiency,
                           std::optional<double> output_tokens_per_s) {
  if (!efficiency || !output_tokens_per_s) return;
  const std::int64_t number = minute_of(at);
  if (minutes_.empty() || minutes_.back().number != number) minutes_.push_back({number, 0.0, 0.0, 0});
  Minute& minute = minutes_.back();
  minute.efficiency += *efficiency;
  minute.tokens_per_s += *output_tokens_per_s;
  ++minute.samples;
  while (number - minutes_.front().number >= kMinutesBetween + kMinutesCompared) minutes_.pop_front();
}

std::optional<BatchHistory::Means> BatchHistory::means(std::int64_t youngest, std::int64_t oldest) const {
  Means sum;
  std::int64_t found = 0;
  for (const Minute& minute : minutes_) {
    const std::int64_t age = minutes_.back().number - minute.number;
    if (age < youngest || age > oldest) continue;
    sum.efficiency += minute.efficiency / minute.samples;
    sum.tokens_per_s += minute.tokens_per_s / minute.samples;
    ++found;
  }
  if (2 * found < oldest - youngest + 1) return std::nullopt;
  return Means{sum.efficiency / static_cast<double>(found), sum.tokens_per_s / static_cast<double>(found)};
}

std::optional<BatchHistory::Comparison> BatchHistory::at_no_less_load() const {
  const auto now = means(0, kMinutesCompared - 1);
  const auto before = means(kMinutesBetween, kMinutesBetween + kMinutesCompared - 1);
  if (!now || !before || now->tokens_per_s < kLoadLeast * before->tokens_per_s) return std::nullopt;
  return Comparison{now->efficiency, before->efficiency};
}

}  // namespace penstock::controller
