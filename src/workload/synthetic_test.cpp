#include "workload/synthetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "workload/statistics.h"
#include "workload/workload_testing.h"

namespace penstock::workload {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::same;

SyntheticSpec steady(double rate, core::Duration duration) {
  SyntheticSpec spec;
  spec.rate.low = rate;
  spec.duration = duration;
  return spec;
}

double mean_of(const Workload& workload, std::uint32_t Request::*tokens) {
  double sum = 0.0;
  for (const auto& request : workload.requests) sum += request.*tokens;
  return sum / static_cast<double>(workload.requests.size());
}

double cv_of(const Workload& workload, std::uint32_t Request::*tokens) {
  const double mean = mean_of(workload, tokens);
  double squares = 0.0;
  for (const auto& request : workload.requests) squares += (request.*tokens - mean) * (request.*tokens - mean);
  return std::sqrt(squares / static_cast<double>(workload.requests.size())) / mean;
}

TEST(Synthetic, EqualSeedsGiveEqualWorkloadsAndOthersDoNot) {
  SyntheticSpec spec = steady(5.0, minutes{5});
  spec.arrival_cv = 2.0;
  spec.input.cv = 1.0;
  spec.turns = 2.0;
  spec.tenants = 4;
  EXPECT_TRUE(same(*make_synthetic(spec, 1), *make_synthetic(spec, 1)));
  EXPECT_FALSE(same(*make_synthetic(spec, 1), *make_synthetic(spec, 2)));
}

TEST(Synthetic, CvZeroIsEvenlySpaced) {
  SyntheticSpec spec = steady(2.0, seconds{2});
  spec.arrival_cv = 0.0;
  const Workload workload = *make_synthetic(spec, 1);
  EXPECT_EQ(testing::arrivals_s(workload), (std::vector<double>{0.25, 0.75, 1.25, 1.75}));
  EXPECT_EQ(workload.requests[0].input_tokens, 1000U);
  EXPECT_EQ(workload.requests[0].output_tokens, 250U);
  EXPECT_EQ(workload.requests[0].block_count, 0U);
  EXPECT_EQ(workload.requests[0].session, kNoSession);
  EXPECT_EQ(workload.tenants, std::vector<std::string>{"default"});
}

TEST(Synthetic, GapsHaveTheirCvAndArrivalsTheirRate) {
  for (const double cv : {0.3, 1.0, 2.5}) {
    SyntheticSpec spec = steady(20.0, hours{2});
    spec.arrival_cv = cv;
    const Statistics statistics = describe(*make_synthetic(spec, 1));
    EXPECT_NEAR(statistics.gap_cv / cv, 1.0, 0.05) << cv;
    // The count's standard deviation is cv·√n.
    EXPECT_NEAR(static_cast<double>(statistics.requests), 144'000.0, 4.0 * cv * std::sqrt(144'000.0)) << cv;
  }
}

// A short duration holds rate times duration arrivals on average, however bursty they are.
TEST(Synthetic, BurstyArrivalsHaveNoBiasAtTheStart) {
  SyntheticSpec spec = steady(1.0, seconds{20});
  spec.arrival_cv = 3.0;
  double arrivals = 0.0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed)
    if (const auto workload = make_synthetic(spec, seed)) arrivals += static_cast<double>(workload->requests.size());
  EXPECT_NEAR(arrivals / 2000.0, 20.0, 1.2);
}

TEST(Synthetic, ArrivalsFollowTheRateCurve) {
  const RateCurve curves[] = {{RateShape::kRamp, 2.0, 40.0, minutes{5}, minutes{20}},
                              {RateShape::kStep, 2.0, 40.0, minutes{30}, {}},
                              {RateShape::kBurst, 5.0, 60.0, minutes{20}, minutes{10}},
                              {RateShape::kDiurnal, 2.0, 40.0, {}, minutes{60}}};
  for (const RateCurve& curve : curves) {
    SyntheticSpec spec;
    spec.rate = curve;
    spec.duration = hours{1};
    const Workload workload = *make_synthetic(spec, 1);
    EXPECT_TRUE(testing::is_sorted_by_arrival(workload));
    std::vector<double> counts(12, 0.0);
    for (const double arrival : testing::arrivals_s(workload)) ++counts.at(static_cast<std::size_t>(arrival / 300.0));
    for (int window = 0; window < 12; ++window) {
      double expected = 0.0;
      for (int second = 0; second < 300; ++second)
        expected += curve.at_time(std::chrono::milliseconds{(300 * window + second) * 1000 + 500});
      EXPECT_NEAR(counts[static_cast<std::size_t>(window)], expected, 4.5 * std::sqrt(expected))
          << static_cast<int>(curve.shape) << " window " << window;
    }
  }
}

TEST(Synthetic, TheNumberOfRequestsIsExactWhereItIsGiven) {
  for (const double turns : {1.0, 5.0}) {
    SyntheticSpec spec = steady(200.0, kDurationMax);
    spec.requests_max = 100'000;
    spec.turns = turns;
    const Workload workload = *make_synthetic(spec, 1);
    EXPECT_EQ(workload.requests.size(), 100'000U);
    EXPECT_TRUE(testing::is_sorted_by_arrival(workload));
    EXPECT_NEAR(core::to_seconds(workload.span()), 500.0, 15.0 * turns);
  }
}

TEST(Synthetic, LengthsHaveTheirMeanAndSpreadAndLimits) {
  SyntheticSpec spec = steady(50.0, hours{1});
  spec.input = {800.0, 0.7, 100'000};
  spec.output = {120.0, 0.4, 16'384};
  const Workload workload = *make_synthetic(spec, 1);
  EXPECT_NEAR(mean_of(workload, &Request::input_tokens) / 800.0, 1.0, 0.01);
  EXPECT_NEAR(mean_of(workload, &Request::output_tokens) / 120.0, 1.0, 0.01);
  EXPECT_NEAR(cv_of(workload, &Request::input_tokens), 0.7, 0.02);
  EXPECT_NEAR(cv_of(workload, &Request::output_tokens), 0.4, 0.01);

  spec.input = {800.0, 2.0, 1000};
  spec.output = {1.0, 2.0, 3};
  const Workload cut = *make_synthetic(spec, 1);
  for (const auto& request : cut.requests) {
    EXPECT_LE(request.input_tokens, 1000U);
    EXPECT_GE(request.output_tokens, 1U);
    EXPECT_LE(request.output_tokens, 3U);
  }
}

TEST(Synthetic, OneConcernDoesNotShiftTheDrawsOfAnother) {
  SyntheticSpec spec = steady(5.0, minutes{10});
  spec.input.cv = 1.0;
  const Workload before = *make_synthetic(spec, 1);
  spec.output.cv = 1.0;
  spec.tenants = 5;
  spec.batch_share = 0.5;
  spec.prefix_groups = 7;
  spec.prefix_tokens = 10;
  const Workload after = *make_synthetic(spec, 1);
  EXPECT_EQ(testing::arrivals_s(after), testing::arrivals_s(before));
  spec.prefix_groups = 0;
  spec.prefix_tokens = 0;
  spec.arrival_cv = 2.0;
  const Workload other = *make_synthetic(spec, 1);
  for (std::size_t index = 0; index < std::min(before.requests.size(), other.requests.size()); ++index)
    EXPECT_EQ(other.requests[index].input_tokens, before.requests[index].input_tokens);
}

TEST(Synthetic, PairsAreDrawnTogether) {
  SyntheticSpec spec = steady(10.0, minutes{10});
  spec.lengths = {{100, 10}, {200, 20}, {900'000, 90'000}};
  std::map<std::uint32_t, int> seen;
  const Workload workload = *make_synthetic(spec, 1);
  for (const auto& request : workload.requests) {
    ++seen[request.input_tokens];
    const std::map<std::uint32_t, std::uint32_t> pairs = {{100, 10}, {200, 20}, {131'072, 16'384}};
    EXPECT_EQ(request.output_tokens, pairs.at(request.input_tokens));
  }
  for (const auto& [input, count] : seen) EXPECT_NEAR(count, 2000, 200) << input;
}

TEST(Synthetic, TenantsAndClassesHaveTheirShares) {
  SyntheticSpec spec = steady(20.0, hours{1});
  spec.tenants = 3;
  spec.batch_share = 0.3;
  const Workload workload = *make_synthetic(spec, 1);
  EXPECT_EQ(workload.tenants, (std::vector<std::string>{"tenant-1", "tenant-2", "tenant-3"}));
  const auto total = static_cast<double>(workload.requests.size());
  std::vector<double> counts(3, 0.0);
  double batch = 0.0;
  for (const auto& request : workload.requests) {
    ++counts[request.tenant];
    batch += request.traffic_class == TrafficClass::kBatch ? 1.0 : 0.0;
  }
  const double whole = 1.0 + 1.0 / 2.0 + 1.0 / 3.0;
  for (int tenant = 0; tenant < 3; ++tenant)
    EXPECT_NEAR(counts[static_cast<std::size_t>(tenant)] / total, 1.0 / (tenant + 1) / whole, 0.01);
  EXPECT_NEAR(batch / total, 0.3, 0.01);
}

TEST(Synthetic, RequestsOfAGroupShareTheWholeBlocksOfItsPrompt) {
  SyntheticSpec spec = steady(20.0, hours{1});
  spec.input = {3000.0, 0.5, 131'072};
  spec.prefix_groups = 4;
  spec.prefix_tokens = 1300;  // two blocks and a piece
  const Workload workload = *make_synthetic(spec, 1);
  std::map<std::vector<std::uint32_t>, double> groups;
  for (std::size_t index = 0; index < workload.requests.size(); ++index) {
    EXPECT_GT(workload.requests[index].input_tokens, 1300U);
    ++groups[testing::ids_of(workload, index)];
  }
  ASSERT_EQ(groups.size(), 4U);
  double rank = 1.0;
  for (const auto& [ids, count] : groups) {
    EXPECT_EQ(ids, (std::vector<std::uint32_t>{2 * static_cast<std::uint32_t>(rank) - 2,
                                               2 * static_cast<std::uint32_t>(rank) - 1}));
    EXPECT_NEAR(count / static_cast<double>(workload.requests.size()), 1.0 / rank / (25.0 / 12.0), 0.01);
    ++rank;
  }
  // The prefix counts towards the input, whose mean and spread stay what they were asked to be.
  EXPECT_NEAR(mean_of(workload, &Request::input_tokens) / 3000.0, 1.0, 0.01);
  EXPECT_NEAR(cv_of(workload, &Request::input_tokens), 0.5, 0.02);
  EXPECT_NEAR(describe(workload).prefix_reuse, 1024.0 / 3000.0, 0.01);
}

TEST(Synthetic, EachTurnBeginsWithAllOfTheOneBefore) {
  SyntheticSpec spec = steady(5.0, hours{1});
  spec.input.cv = 0.5;
  spec.output.cv = 0.5;
  spec.turns = 4.0;
  spec.prefix_groups = 2;
  spec.prefix_tokens = 600;
  const Workload workload = *make_synthetic(spec, 1);
  std::map<std::uint32_t, std::size_t> last;  // turn of each session
  std::size_t follow_ups = 0;
  for (std::size_t index = 0; index < workload.requests.size(); ++index) {
    const Request& request = workload.requests[index];
    const auto ids = workload.blocks_of(request);
    if (const auto before = last.find(request.session); before != last.end()) {
      const Request& turn = workload.requests[before->second];
      const std::uint32_t context = turn.input_tokens + turn.output_tokens;
      EXPECT_GT(request.input_tokens, context);
      EXPECT_GE(ids.size(), context / 512);
      const auto known = workload.blocks_of(turn);
      for (std::uint32_t block = 0; block < context / 512; ++block) EXPECT_EQ(ids[block], known[block]);
      ++follow_ups;
    }
    last[request.session] = index;
  }
  EXPECT_NEAR(static_cast<double>(workload.requests.size()) / static_cast<double>(last.size()), 4.0, 0.2);
  EXPECT_EQ(follow_ups, workload.requests.size() - last.size());
  EXPECT_NEAR(static_cast<double>(workload.requests.size()), 18'000.0, 1200.0);  // the rate is that of requests
}

TEST(Synthetic, ThinkTimeLiesBetweenTheTurns) {
  SyntheticSpec spec = steady(5.0, hours{4});
  spec.turns = 2.0;
  spec.think_time = seconds{30};
  std::map<std::uint32_t, double> last;
  double sum_s = 0.0;
  int gaps = 0;
  const Workload workload = *make_synthetic(spec, 1);
  for (const auto& request : workload.requests) {
    const double now = core::to_seconds(request.arrival);
    if (const auto before = last.find(request.session); before != last.end()) {
      sum_s += now - before->second;
      ++gaps;
    }
    last[request.session] = now;
  }
  EXPECT_NEAR(sum_s / gaps, 30.0, 1.0);
}

TEST(Synthetic, SessionsEndAtTheLongestInput) {
  SyntheticSpec spec = steady(5.0, minutes{30});
  spec.input.max = 4000;
  spec.turns = 100.0;
  spec.think_time = {};
  std::uint32_t longest = 0;
  const Workload workload = *make_synthetic(spec, 1);
  for (const auto& request : workload.requests) longest = std::max(longest, request.input_tokens);
  EXPECT_EQ(longest, 4000U);
}

TEST(Synthetic, SettingsThatMakeNoSenseAreErrorsThatNameTheirWord) {
  const auto message = [](auto change) {
    SyntheticSpec spec;
    change(spec);
    const auto made = make_synthetic(spec, 1);
    return made ? std::string{} : made.error().message();
  };
  EXPECT_EQ(message([](SyntheticSpec& s) { s.rate.low = 0.0; }), "synthetic: rate: must be above 0");
  EXPECT_EQ(message([](SyntheticSpec& s) { s.rate.low = std::nan(""); }),
            "synthetic: rate: must be between 0 and 1000000, is nan");
  EXPECT_EQ(message([](SyntheticSpec& s) { s.input.mean = 0.5; }),
            "synthetic: input: must be between 1 and 131072, is 0.5");
  EXPECT_EQ(message([](SyntheticSpec& s) { s.turns = 0.5; }), "synthetic: turns: must be between 1 and 1000, is 0.5");
  EXPECT_EQ(message([](SyntheticSpec& s) { s.duration = {}; }),
            "synthetic: duration: must be above 0 and at most ten years");
  EXPECT_EQ(message([](SyntheticSpec& s) {
              s.rate = {RateShape::kRamp, 1.0, 2.0, {}, {}};
            }),
            "synthetic: length: must be above 0 and at most ten years");
  EXPECT_EQ(message([](SyntheticSpec& s) { s.prefix_groups = 3; }),
            "synthetic: prefix_tokens: must be at least 1 where prefix_groups is given");
  EXPECT_EQ(message([](SyntheticSpec& s) { s.prefix_groups = 3, s.prefix_tokens = 1000; }),
            "synthetic: prefix_tokens: must leave a token of the input (1000), is 1000; raise input: the prefix counts "
            "towards it");
  EXPECT_EQ(
      message([](SyntheticSpec& s) { s.rate.low = 1e6, s.duration = hours{1}; }),
      "synthetic: rate: would make 3600000000 requests, more than 100000000; lower rate or duration, or set requests");
  EXPECT_EQ(message([](SyntheticSpec& s) { s.rate.low = 1e-9; }),
            "synthetic: no request arrives within its duration; raise rate or duration");
}

TEST(BuiltIn, IsAnHourOfThreeTenantsWithSharedPrefixesAndACrowd) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Workload workload = built_in_workload(seed);
    EXPECT_EQ(workload.name, "built-in");
    EXPECT_EQ(workload.tenants, (std::vector<std::string>{"chat", "documents", "agents"}));
    EXPECT_TRUE(testing::is_sorted_by_arrival(workload));
    const Statistics statistics = describe(workload);
    EXPECT_NEAR(static_cast<double>(statistics.requests), 6000.0, 600.0);
    EXPECT_NEAR(core::to_seconds(statistics.span), 3600.0, 60.0);
    EXPECT_EQ(statistics.tenants, 3U);
    EXPECT_GT(statistics.prefix_reuse, 0.4);
    EXPECT_GT(statistics.peak_60s, 2.0);
    EXPECT_LE(statistics.input_tokens.max, 28'000.0);
  }
}

TEST(BuiltIn, EqualSeedsGiveEqualWorkloads) {
  EXPECT_TRUE(same(built_in_workload(4), built_in_workload(4)));
  EXPECT_FALSE(same(built_in_workload(4), built_in_workload(5)));
}

}  // namespace
}  // namespace penstock::workload
