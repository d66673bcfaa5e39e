// Token budgets per minute: reserved at admission, settled by actual usage, refunded on failure.
#pragma once

#include <cstdint>

#include "core/time.h"

namespace penstock::admission {

// A token bucket that refills continuously with tokens_per_minute and holds at most `burst` tokens. A reservation takes
// tokens at once, so concurrent requests never receive more than the bucket holds. Reservations minus refunds within
// any minute never exceed the burst plus one minute's refill. Usage beyond a reservation is charged at settlement and
// delays later requests. What is settled without a reservation may leave the bucket negative.
struct BudgetLimits {
  double tokens_per_minute = 0.0;  // 0 means no limit.
  double burst = 0.0;              // 0 means one minute's tokens.
  [[nodiscard]] bool limited() const { return tokens_per_minute > 0.0; }
  [[nodiscard]] double capacity() const { return burst > 0.0 ? burst : tokens_per_minute; }
};

// Not thread-safe. A time before the latest change counts as the time of that change.
class TokenBudget {
 public:
  // The bucket starts full. Limits must be finite and not negative.
  explicit TokenBudget(const BudgetLimits& limits, core::Instant now);

  // Takes `tokens` and returns true, or takes nothing and returns false. A request for more than the burst is never
  // granted.
  [[nodiscard]] bool reserve(std::uint64_t tokens, core::Instant now);
  // The request used `used` tokens of a reservation of `reserved`. The difference is refunded or charged, which may
  // leave the bucket negative.
  void settle(std::uint64_t reserved, std::uint64_t used, core::Instant now);

  // Other gateways with the same budget took this many tokens since the last call, or returned them if it is negative.
  // They leave the bucket at or above -`debt_most`.
  void charge_elsewhere(std::int64_t tokens, double debt_most, core::Instant now);
  // At least `tokens` are missing in the bucket: another gateway with the same budget knows that they were taken.
  void require_missing(double tokens, double debt_most, core::Instant now);

  // Makes the bucket empty at a time that may be before the latest change.
  void drain(core::Instant at) {
    level_ = 0.0;
    changed_at_ = at;
  }

  [[nodiscard]] double available(core::Instant now) const;  // Infinite without a limit.
  [[nodiscard]] double missing(core::Instant now) const;    // Tokens below the burst; 0 without a limit.
  // Returns the first nanosecond, not before `now`, at which `tokens` could be reserved if nothing else is taken;
  // kNever if `tokens` exceeds the burst.
  [[nodiscard]] core::Instant available_at(std::uint64_t tokens, core::Instant now) const;
  [[nodiscard]] const BudgetLimits& limits() const { return limits_; }
  // New limits keep the level of the bucket, up to the new burst.
  void change(const BudgetLimits& limits, core::Instant now);

 private:
  // The level is computed from the last change, never incrementally, so that queries do not alter later grants.
  void set_level(double level, core::Instant now);

  BudgetLimits limits_;
  double level_ = 0.0;  // Level at changed_at_.
  core::Instant changed_at_;
};

}  // namespace penstock::admission
