#include "admission/budget.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/result.h"

namespace penstock::admission {
namespace {

constexpr double kNanosecondsPerMinute = 60e9;
constexpr double kWaitNanosecondsMax = 3e18;  // About a century; longer waits count as kNever.

void check(const BudgetLimits& limits) {
  PENSTOCK_ASSERT(std::isfinite(limits.tokens_per_minute) && limits.tokens_per_minute >= 0.0 &&
                      std::isfinite(limits.burst) && limits.burst >= 0.0,
                  "limits are checked where they are read");
}

}  // namespace

TokenBudget::TokenBudget(const BudgetLimits& limits, core::Instant now)
    : limits_(limits), level_(limits.capacity()), changed_at_(now) {
  check(limits);
}

double TokenBudget::available(core::Instant now) const {
  if (!limits_.limited()) return std::numeric_limits<double>::infinity();
  // The function is monotone in `now` in floating point, too; available_at relies on this.
  const auto passed = static_cast<double>(std::max(now, changed_at_).time_since_epoch().count() -
                                          changed_at_.time_since_epoch().count());
  return std::min(limits_.capacity(), level_ + limits_.tokens_per_minute * passed / kNanosecondsPerMinute);
}

void TokenBudget::set_level(double level, core::Instant now) {
  level_ = std::min(level, limits_.capacity());
  changed_at_ = std::max(changed_at_, now);
}

bool TokenBudget::reserve(std::uint64_t tokens, core::Instant now) {
  if (!limits_.limited()) return true;
  const double level = available(now), wanted = static_cast<double>(tokens);
  if (wanted > level) return false;
  set_level(level - wanted, now);
  return true;
}

void TokenBudget::settle(std::uint64_t reserved, std::uint64_t used, core::Instant now) {
  if (!limits_.limited() || reserved == used) return;
  set_level(available(now) + static_cast<double>(reserved) - static_cast<double>(used), now);
}

double TokenBudget::missing(core::Instant now) const {
  return limits_.limited() ? limits_.capacity() - available(now) : 0.0;
}

void TokenBudget::charge_elsewhere(std::int64_t tokens, double debt_most, core::Instant now) {
  if (!limits_.limited() || tokens == 0) return;
  const double level = available(now);
  set_level(std::max(level - static_cast<double>(tokens), std::min(level, -debt_most)), now);
}

void TokenBudget::require_missing(double tokens, double debt_most, core::Instant now) {
  if (!limits_.limited()) return;
  const double level = available(now);
  set_level(std::min(level, std::max(limits_.capacity() - tokens, -debt_most)), now);
}

core::Instant TokenBudget::available_at(std::uint64_t tokens, core::Instant now) const {
  const double wanted = static_cast<double>(tokens);
  if (available(now) >= wanted) return now;
  if (wanted > limits_.capacity()) return core::kNever;
  const double wait = (wanted - level_) * kNanosecondsPerMinute / limits_.tokens_per_minute;
  if (wait >= kWaitNanosecondsMax) return core::kNever;
  // The quotient is precise to a few units in the last place. Bisection between `earlier`, which is too early, and
  // `later` finds the nanosecond at which reserve() succeeds.
  const auto slack = core::Duration{16 + static_cast<std::int64_t>(wait * 1e-12)};
  const auto estimate = changed_at_ + core::Duration{static_cast<std::int64_t>(wait)};
  core::Instant earlier = std::max(now, estimate - slack), later = estimate + slack;
  if (available(earlier) >= wanted) earlier = now;
  while (available(later) < wanted) later += later - estimate;
  while (later - earlier > core::Duration{1}) {
    const core::Instant middle = earlier + (later - earlier) / 2;
    (available(middle) >= wanted ? later : earlier) = middle;
  }
  return later;
}

void TokenBudget::change(const BudgetLimits& limits, core::Instant now) {
  check(limits);
  const double level = limits_.limited() ? available(now) : limits.capacity();
  limits_ = limits;
  set_level(level, now);
}

}  // namespace penstock::admission
