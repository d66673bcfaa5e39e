#include "admission/pressure.h"

#include <gtest/gtest.h>

#include <limits>

namespace penstock::admission {
namespace {

struct JudgeCase {
  const char* name;
  std::optional<double> kv_usage;
  std::uint64_t in_flight;
  std::uint32_t open_requests;
  std::uint64_t prompt_tokens;
  Verdict verdict;
};

TEST(Pressure, SaturationDependsOnKvUsageAndPromptTokensInFlight) {
  const JudgeCase cases[] = {
      {"calm", 0.2, 1000, 3, 2000, Verdict::kAdmit},
      {"up to the limit", 0.2, 30'000, 3, 2768, Verdict::kAdmit},
      {"one above the limit", 0.2, 30'000, 3, 2769, Verdict::kWait},
      {"limit reached", 0.2, 32'768, 3, 1, Verdict::kWait},
      {"limit passed by a long one", 0.2, 100'000, 1, 1, Verdict::kWait},
      {"at the throttle it is not yet throttled", 0.85, 8'192, 3, 1, Verdict::kAdmit},
      {"above the throttle: up to the lower limit", 0.851, 8'000, 3, 192, Verdict::kAdmit},
      {"above the throttle: one above the lower limit", 0.851, 8'000, 3, 193, Verdict::kWait},
      {"just below the limit it waits", 0.8999, 8'192, 3, 1, Verdict::kWait},
      {"from the limit on it is refused", 0.90, 0, 3, 1, Verdict::kReject},
      {"full", 1.0, 8'192, 3, 1, Verdict::kReject},
      {"KV usage unknown: by tokens alone", std::nullopt, 30'000, 3, 2768, Verdict::kAdmit},
      {"KV usage unknown: by tokens alone", std::nullopt, 30'000, 3, 2769, Verdict::kWait},
      {"a prompt above the limit goes where no other is computed", 0.2, 0, 5, 200'000, Verdict::kAdmit},
      {"also above the throttle", 0.87, 0, 5, 200'000, Verdict::kAdmit},
      {"an empty replica takes one whatever it says of itself", 0.95, 0, 0, 200'000, Verdict::kAdmit},
      {"NaN counts as unknown", std::numeric_limits<double>::quiet_NaN(), 30'000, 3, 1, Verdict::kAdmit},
      {"no sum that runs over", 0.2, std::numeric_limits<std::uint64_t>::max(), 3, 2, Verdict::kWait},
  };
  for (const JudgeCase& one : cases)
    EXPECT_EQ(check_saturation({one.kv_usage, one.in_flight, one.open_requests}, one.prompt_tokens, {}), one.verdict)
        << one.name;
}

TEST(Pressure, LimitsHoldForEachWorkerOfAReplica) {
  const auto verdict = [](std::optional<double> kv_usage, std::uint64_t in_flight, std::uint32_t open_requests,
                          std::uint64_t prompt_tokens) {
    return check_saturation({kv_usage, in_flight, open_requests, 4}, prompt_tokens, {});
  };
  EXPECT_EQ(verdict(0.2, 4 * 32'768 - 1, 20, 1), Verdict::kAdmit);
  EXPECT_EQ(verdict(0.2, 4 * 32'768 - 1, 20, 2), Verdict::kWait);
  EXPECT_EQ(verdict(0.87, 4 * 8'192, 20, 1), Verdict::kWait);
  EXPECT_EQ(verdict(0.87, 4 * 8'192 - 1, 20, 1), Verdict::kAdmit);
  EXPECT_EQ(verdict(0.2, 600'000, 3, 200'000), Verdict::kAdmit) << "one of the four workers is idle";
  EXPECT_EQ(verdict(0.2, 600'000, 4, 200'000), Verdict::kWait);
}

TEST(Pressure, ARequestThatDoesNotFitIntoTheKvCacheWaitsUnlessTheReplicaIsIdle) {
  EXPECT_EQ(check_saturation({0.7, 0, 3, 1, 0.31}, 1000, {}), Verdict::kWait);
  EXPECT_EQ(check_saturation({0.7, 0, 3, 1, 0.29}, 1000, {}), Verdict::kAdmit);
  EXPECT_EQ(check_saturation({1.4, 0, 3, 1, 0.01}, 1000, {}), Verdict::kReject);
  EXPECT_EQ(check_saturation({0.0, 0, 0, 1, 2.0}, 1000, {}), Verdict::kAdmit);
}

TEST(Pressure, WithHeadroomAReplicaIsFullEarlier) {
  const PressureLimits limits;
  const PressureLimits less = with_headroom(limits);
  EXPECT_EQ(check_saturation({0.86, 0, 3}, 100, limits), Verdict::kAdmit);
  EXPECT_EQ(check_saturation({0.86, 0, 3}, 100, less), Verdict::kReject);
  EXPECT_EQ(check_saturation({0.2, 8'000, 3}, 193, limits), Verdict::kAdmit);
  EXPECT_EQ(check_saturation({0.2, 8'000, 3}, 193, less), Verdict::kWait);
  EXPECT_EQ(check_saturation({0.2, 8'000, 3}, 192, less), Verdict::kAdmit);
  EXPECT_EQ(check_saturation({0.2, 0, 0}, 100'000, less), Verdict::kAdmit);
}

TEST(Pressure, RetryAfterIsQueuedTokensOverTheAdmittedRate) {
  EXPECT_EQ(retry_after_s(0, 0.0), 1U);
  EXPECT_EQ(retry_after_s(1, 1e9), 1U);
  EXPECT_EQ(retry_after_s(10'000, 1000.0), 10U);
  EXPECT_EQ(retry_after_s(10'001, 1000.0), 11U);
  EXPECT_EQ(retry_after_s(10'000'000, 1000.0), 60U);
  EXPECT_EQ(retry_after_s(1, 0.0), 60U);
  EXPECT_EQ(retry_after_s(1, -1.0), 60U);
  EXPECT_EQ(retry_after_s(1, std::numeric_limits<double>::quiet_NaN()), 60U);
  EXPECT_EQ(retry_after_s(std::numeric_limits<std::uint64_t>::max(), 1e-300), 60U);
}

}  // namespace
}  // namespace penstock::admission
