#include "load/expectation.h"

#include <gtest/gtest.h>

namespace penstock::load {
namespace {

using namespace std::chrono_literals;

// TTFT 100, 200, …, 1000 ms, ITL 20 ms, eleven tokens; one that failed.
Tally sample() {
  Tally tally{{"default"}};
  for (int i = 1; i <= 10; ++i) {
    RequestRecord record;
    record.first_byte = record.first_token = i * 100ms;
    record.last_token = record.end = i * 100ms + 200ms;
    record.tokens = record.text_events = 11;
    record.max_gap = 40ms;
    tally.record_end(record, {.output_tokens = 11}, {});
  }
  RequestRecord failed;
  failed.outcome = Outcome::kFailed;
  failed.end = 2s;
  tally.record_end(failed, {}, {});
  return tally;
}

std::string verdict_on(const std::string& text, const Tally& tally) {
  const auto expectations = parse_expectations(text);
  EXPECT_TRUE(expectations) << expectations.error().message();
  std::string met;
  for (const Verdict& verdict : check_expectations(*expectations, tally)) met += verdict.is_met ? '+' : '-';
  return met;
}

TEST(Expectations, AreMetUpToTheirLimit) {
  const Tally tally = sample();
  EXPECT_EQ(verdict_on("ttft_p50=510ms,ttft_p50=400ms,ttft_max=1s,ttft_max=999ms", tally), "+-+-");
  EXPECT_EQ(verdict_on("itl_p95=21ms,itl_p95=19ms,itl_mean=21ms,max_gap_p99.9=41ms", tally), "+-++");
  EXPECT_EQ(verdict_on("tpot_p95=21ms,tpot_p95=19ms,tpot_mean=21ms", tally), "+-+") << "the same as itl";
  EXPECT_EQ(verdict_on("errors=1,errors=0,failed=1,truncated=0,refused=0,cancelled=0", tally), "+-++++");
  EXPECT_EQ(verdict_on("errors=10%,errors=9%", tally), "+-");
  EXPECT_EQ(verdict_on("rate=4.9,rate=5.1,tokens=54,tokens=56", tally), "+-+-");
}

TEST(Expectations, OnAnUnmeasuredLatencyAreMissed) {
  const Tally nothing{{"default"}};
  EXPECT_EQ(verdict_on("ttft_p95=1h,itl_p95=1h,rate=1,errors=5%", nothing), "----");
  Tally failed{{"default"}};
  RequestRecord record;
  record.outcome = Outcome::kFailed;
  failed.record_end(record, {}, {});
  EXPECT_EQ(check_expectations(*parse_expectations("ttft_p95=1h"), failed).front().measured, "nothing measured");
}

TEST(Expectations, WithoutARequestAreMissed) {
  const Tally nothing{{"default"}};
  EXPECT_EQ(verdict_on("errors=0,failed=0,refused=100,cancelled=100%,rate=0,tokens=0", nothing), "------");
  EXPECT_EQ(check_expectations(*parse_expectations("errors=0"), nothing).front().measured, "no request was measured");
}

TEST(Expectations, WithErrorsAreRefused) {
  for (const auto& [text, says] : {std::pair{"ttft_p95", "has no limit"},
                                   {"ttft_p95=soon", "ttft_p95"},
                                   {"ttft_p95=2", "ttft_p95"},
                                   {"tft_p95=2s", "did you mean ttft_p95"},
                                   {"ttft=2s", "unknown metric"},
                                   {"ttft_p100=2s", "unknown metric"},
                                   {"ttft_q95=2s", "unknown metric"},
                                   {"errors=-1", "errors"},
                                   {"errors=some", "errors"},
                                   {"errors=101%", "errors"},
                                   {"rate=fast", "rate"},
                                   {"errors=0,,failed=0", ""},
                                   {"", ""}}) {
    const auto expectations = parse_expectations(text);
    ASSERT_FALSE(expectations) << text;
    EXPECT_NE(expectations.error().message().find(says), std::string::npos) << expectations.error().message();
  }
}

}  // namespace
}  // namespace penstock::load
