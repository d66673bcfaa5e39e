// Token budgets per minute: reserved before a request is let in, settled by what it took, refunded when it failed.
#pragma once

#include <cstdint>

#include "core/time.h"

namespace penstock::admission {

// A bucket that refills evenly: tokens_per_minute a minute, at most `burst` tokens in it. Reserving takes tokens at once,
// so that however many requests come together, they never get more than there is. What is reserved less what is given back
// within any minute never exceeds the burst and a minute's refill; late settlement comes on top, and delays what follows.
struct BudgetLimits {
  double tokens_per_minute = 0.0;  // 0: no limit
  double burst = 0.0;              // 0: as much as a minute's
  [[nodiscard]] bool limited() const { return tokens_per_minute > 0.0; }
  [[nodiscard]] double capacity() const { return burst > 0.0 ? burst : tokens_per_minute; }
};

// Not thread-safe. A moment before the latest one that changed it counts as that one.
class TokenBudget {
 public:
  // Begins full. Limits are finite and not negative.
  explicit TokenBudget(const BudgetLimits& limits, core::Instant now);

  // True: `tokens` are taken. False: nothing is taken. A request for more than the burst is never granted.
  [[nodiscard]] bool reserve(std::uint64_t tokens, core::Instant now);
  // The request took `used` where `reserved` had been taken: the difference goes back, or is taken late, which may leave
  // the bucket below zero for a while.
  void settle(std::uint64_t reserved, std::uint64_t used, core::Instant now);

  [[nodiscard]] double available(core::Instant now) const;  // infinite where there is no limit
  // The first nanosecond, not before `now`, at which `tokens` could be reserved if nobody else took any; kNever if that
  // is more than the burst.
  [[nodiscard]] core::Instant available_at(std::uint64_t tokens, core::Instant now) const;
  [[nodiscard]] const BudgetLimits& limits() const { return limits_; }
  // New limits keep what is in the bucket, up to the new burst.
  void change(const BudgetLimits& limits, core::Instant now);

 private:
  // What is in it is computed from the last change, never step by step, so that looking does not alter what is granted.
  void set_level(double level, core::Instant now);

  BudgetLimits limits_;
  double level_ = 0.0;  // at changed_at_
  core::Instant changed_at_;
};

}  // namespace penstock::admission
