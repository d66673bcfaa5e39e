#include "dispatch/circuit_breaker.h"

#include <gtest/gtest.h>

namespace penstock::dispatch {
namespace {

using namespace std::chrono_literals;
constexpr core::Instant kNow = core::kStart + 100s;
constexpr CircuitBreakerOptions kOptions{3, 10s};

TEST(CircuitBreaker, OpensAfterFailuresInARow) {
  CircuitBreaker breaker{kOptions};
  breaker.failed(kNow);
  breaker.failed(kNow);
  EXPECT_TRUE(breaker.lets_through(kNow));
  breaker.failed(kNow);
  EXPECT_FALSE(breaker.lets_through(kNow));
  EXPECT_EQ(breaker.openings(), 1U);
}

TEST(CircuitBreaker, ASuccessBetweenFailuresBeginsTheCountAnew) {
  CircuitBreaker breaker{kOptions};
  for (int i = 0; i < 10; ++i) {
    breaker.failed(kNow);
    breaker.failed(kNow);
    breaker.succeeded();
  }
  EXPECT_TRUE(breaker.lets_through(kNow));
}

TEST(CircuitBreaker, AllowsOneTrialAfterItsOpenTime) {
  CircuitBreaker breaker{kOptions};
  for (int i = 0; i < 3; ++i) breaker.failed(kNow);
  EXPECT_FALSE(breaker.lets_through(kNow + 9s));
  EXPECT_TRUE(breaker.lets_through(kNow + 10s));
  breaker.dispatched();
  EXPECT_FALSE(breaker.lets_through(kNow + 10s));
  breaker.succeeded();
  EXPECT_TRUE(breaker.lets_through(kNow + 10s));
}

TEST(CircuitBreaker, OpensAgainAtOnceWhenTheTrialFails) {
  CircuitBreaker breaker{kOptions};
  for (int i = 0; i < 3; ++i) breaker.failed(kNow);
  ASSERT_TRUE(breaker.lets_through(kNow + 10s));
  breaker.dispatched();
  breaker.failed(kNow + 11s);
  EXPECT_FALSE(breaker.lets_through(kNow + 20s));
  EXPECT_TRUE(breaker.lets_through(kNow + 21s));
}

TEST(CircuitBreaker, ATrialWhoseClientLeftIsNoTrial) {
  CircuitBreaker breaker{kOptions};
  for (int i = 0; i < 3; ++i) breaker.failed(kNow);
  ASSERT_TRUE(breaker.lets_through(kNow + 10s));
  breaker.dispatched();
  breaker.undecided();
  EXPECT_TRUE(breaker.lets_through(kNow + 10s));
}

}  // namespace
}  // namespace penstock::dispatch
