#include "dispatch/circuit_breaker.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::dispatch {
namespace {

using namespace std::chrono_literals;
constexpr core::Instant kNow = core::kStart + 100s;

CircuitBreakerOptions options() {
  CircuitBreakerOptions made;
  made.failures = 3;
  made.open = 10s;
  made.open_max = 35s;
  return made;
}

CircuitBreaker ejected(core::Instant now = kNow) {
  CircuitBreaker breaker{options()};
  breaker.eject(EjectionCause::kConsecutiveFailures, now);
  return breaker;
}

TEST(CircuitBreaker, CountsConsecutiveFailures) {
  CircuitBreaker breaker{options()};
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(breaker.failed(0, kNow));
    EXPECT_TRUE(breaker.failed(0, kNow));
    EXPECT_FALSE(breaker.has_too_many_failures());
    EXPECT_TRUE(breaker.is_suspect());
    breaker.succeeded(0, kNow);
    EXPECT_FALSE(breaker.is_suspect());
  }
  for (int i = 0; i < 3; ++i) static_cast<void>(breaker.failed(0, kNow));
  EXPECT_TRUE(breaker.has_too_many_failures());
  EXPECT_TRUE(breaker.lets_through(kNow)) << "the caller decides about the ejection";
}

TEST(CircuitBreaker, AReplicaThatIsNotReachedHasTooManyFailuresAtOnceIfTheOptionsSaySo) {
  CircuitBreaker patient{options()};
  EXPECT_TRUE(patient.failed(0, kNow, false));
  EXPECT_FALSE(patient.has_too_many_failures());
  CircuitBreakerOptions at_once = options();
  at_once.ejects_unreached = true;
  CircuitBreaker breaker{at_once};
  EXPECT_TRUE(breaker.failed(0, kNow, true));
  EXPECT_FALSE(breaker.has_too_many_failures()) << "it was reached";
  EXPECT_TRUE(breaker.failed(0, kNow, false));
  EXPECT_TRUE(breaker.has_too_many_failures());
  at_once.failures = CircuitBreakerOptions::kNever;
  CircuitBreaker never{at_once};
  EXPECT_TRUE(never.failed(0, kNow, false));
  EXPECT_FALSE(never.has_too_many_failures());
}

TEST(CircuitBreaker, AllowsOneTrialAfterTheEjection) {
  CircuitBreaker breaker = ejected();
  EXPECT_EQ(breaker.cause(), EjectionCause::kConsecutiveFailures);
  EXPECT_FALSE(breaker.lets_through(kNow + 9s));
  EXPECT_TRUE(breaker.lets_through(kNow + 10s));
  const std::uint32_t period = breaker.dispatched();
  EXPECT_FALSE(breaker.lets_through(kNow + 10s));
  breaker.succeeded(period, kNow + 20s);
  EXPECT_EQ(breaker.state(), CircuitBreaker::State::kClosed);
  EXPECT_EQ(breaker.cause(), EjectionCause::kNone);
}

TEST(CircuitBreaker, EachFurtherEjectionLastsTwiceAsLongUpToTheMaximum) {
  CircuitBreaker breaker = ejected();
  core::Instant now = kNow;
  for (const core::Duration time : {10s, 20s, 35s, 35s}) {
    EXPECT_EQ(breaker.open_until(), now + time);
    now = breaker.open_until();
    ASSERT_TRUE(breaker.lets_through(now));
    EXPECT_FALSE(breaker.failed(breaker.dispatched(), now));
    EXPECT_EQ(breaker.cause(), EjectionCause::kFailedTrial);
  }
}

TEST(CircuitBreaker, AnEjectionLongAfterTheReturnIsShortAgain) {
  CircuitBreaker breaker = ejected();
  ASSERT_TRUE(breaker.lets_through(kNow + 10s));
  EXPECT_FALSE(breaker.failed(breaker.dispatched(), kNow + 10s));
  ASSERT_TRUE(breaker.lets_through(kNow + 30s));
  breaker.succeeded(breaker.dispatched(), kNow + 30s);
  CircuitBreaker later = breaker;
  breaker.eject(EjectionCause::kSuccessRate, kNow + 49s);
  EXPECT_EQ(breaker.open_until(), kNow + 49s + 35s);
  later.eject(EjectionCause::kSuccessRate, kNow + 50s);
  EXPECT_EQ(later.open_until(), kNow + 60s);
}

TEST(CircuitBreaker, AttemptsFromBeforeTheEjectionDecideNothing) {
  CircuitBreaker breaker = ejected();
  breaker.succeeded(0, kNow + 1s);
  EXPECT_FALSE(breaker.lets_through(kNow + 1s));
  ASSERT_TRUE(breaker.lets_through(kNow + 10s));
  EXPECT_FALSE(breaker.failed(0, kNow + 10s));
  EXPECT_EQ(breaker.state(), CircuitBreaker::State::kTrying);
}

TEST(CircuitBreaker, ATrialWhoseClientLeftIsNoTrial) {
  CircuitBreaker breaker = ejected();
  ASSERT_TRUE(breaker.lets_through(kNow + 10s));
  breaker.undecided(breaker.dispatched());
  EXPECT_TRUE(breaker.lets_through(kNow + 10s));
}

TEST(CircuitBreaker, AHealthyReplicaMayBeTriedAtOnce) {
  CircuitBreaker breaker = ejected();
  breaker.end_ejection();
  EXPECT_TRUE(breaker.lets_through(kNow));
  static_cast<void>(breaker.dispatched());
  EXPECT_FALSE(breaker.lets_through(kNow));
}

TEST(OutlierDetection, TheWindowForgetsOldOutcomes) {
  OutcomeWindow window{60s};
  window.add(false, kNow);
  window.add(true, kNow + 30s);
  EXPECT_EQ(window.counts(kNow + 30s).attempts(), 2U);
  EXPECT_EQ(window.counts(kNow + 70s).attempts(), 1U);
  EXPECT_EQ(window.counts(kNow + 70s).failed, 0U);
  EXPECT_EQ(window.counts(kNow + 200s).attempts(), 0U);
}

TEST(OutlierDetection, ComparesSuccessRatesWithPeers) {
  using Counts = OutcomeWindow::Counts;
  const struct {
    Counts own;
    std::vector<Counts> peers;
    bool outlier;
    const char* why;
  } cases[] = {
      {{80, 20}, {{100, 0}, {100, 0}, {100, 0}}, true, "far below peers without failures"},
      {{95, 5}, {{100, 0}, {100, 0}, {100, 0}}, false, "less than a tenth below"},
      {{60, 40}, {{60, 40}, {70, 30}, {65, 35}}, false, "all are bad"},
      {{60, 40}, {{100, 0}, {60, 40}, {80, 20}}, false, "peers differ as much"},
      {{8, 11}, {{100, 0}}, false, "too few attempts"},
      {{9, 11}, {{9, 11}}, true, "below the floor"},
      {{80, 20}, {}, false, "no peers"},
      {{80, 20}, {{5, 0}, {5, 0}}, false, "no peer with enough attempts"},
  };
  for (const auto& each : cases)
    EXPECT_EQ(is_outlier(each.own, each.peers, CircuitBreakerOptions{}), each.outlier) << each.why;
}

}  // namespace
}  // namespace penstock::dispatch
