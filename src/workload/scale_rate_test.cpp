#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "workload/statistics.h"
#include "workload/synthetic.h"
#include "workload/transform.h"
#include "workload/workload_testing.h"

namespace penstock::workload {
namespace {

using testing::same;
using testing::workload_of;

Workload made(const char* text, std::uint64_t seed = 1) { return *make_synthetic(*parse_synthetic(text), seed); }

TEST(ScaleRate, FactorOneChangesNothing) {
  const Workload workload = built_in_workload(1);
  EXPECT_TRUE(same(*scale_rate(workload, 1.0, 7), workload));
  EXPECT_EQ(scale_rate(workload, 1.0, 7)->block_ids, workload.block_ids);
}

TEST(ScaleRate, EqualSeedsGiveEqualWorkloadsAndOthersDoNot) {
  const Workload workload = built_in_workload(1);
  for (const double factor : {0.3, 2.0, 2.6}) {
    EXPECT_TRUE(same(*scale_rate(workload, factor, 7), *scale_rate(workload, factor, 7)));
    EXPECT_FALSE(same(*scale_rate(workload, factor, 7), *scale_rate(workload, factor, 8)));
  }
}

TEST(ScaleRate, FactorsOutsideOfTheRangeAreErrors) {
  const Workload workload = workload_of({{0.0}, {1.0}});
  EXPECT_EQ(scale_rate(workload, 0.0, 1).error().message(),
            "rows: a factor of 0 cannot scale its rate; use one above 0 and at most 1000");
  for (const double factor : {-1.0, 1000.5, std::nan("")}) EXPECT_FALSE(scale_rate(workload, factor, 1).has_value());
  EXPECT_EQ(scale_rate(workload, 0.1, 1).error().message(),
            "rows: a factor of 0.1 leaves none of its 2 requests; use a larger one");
}

TEST(ScaleRate, WholeFactorsLoseNoRequestAndAddNone) {
  const Workload workload = built_in_workload(1);
  const Workload scaled = *scale_rate(workload, 3.0, 1);
  EXPECT_EQ(scaled.requests.size(), 3 * workload.requests.size());
  EXPECT_EQ(scaled.block_ids.size(), 3 * workload.block_ids.size());
  std::uint64_t tokens = 0;
  std::uint64_t scaled_tokens = 0;
  for (const auto& request : workload.requests) tokens += request.input_tokens;
  for (const auto& request : scaled.requests) scaled_tokens += request.input_tokens;
  EXPECT_EQ(scaled_tokens, 3 * tokens);
}

TEST(ScaleRate, ArrivalsStaySortedAndWithinTheSpan) {
  const Workload workload = built_in_workload(1);
  for (const double factor : {0.4, 1.7, 8.0}) {
    const Workload scaled = *scale_rate(workload, factor, 5);
    EXPECT_TRUE(testing::is_sorted_by_arrival(scaled)) << factor;
    EXPECT_GE(scaled.requests.front().arrival, core::kStart);
    EXPECT_LE(scaled.span(), workload.span());
  }
}

TEST(ScaleRate, FractionsComeWithinOneUnitOfTheirShare) {
  const Workload plain = made("synthetic:requests=10000,rate=10");
  for (const double factor : {0.01, 0.25, 0.5, 0.999, 1.5, 3.1})
    EXPECT_NEAR(static_cast<double>(scale_rate(plain, factor, 2)->requests.size()), factor * 10'000.0, 1.0) << factor;
  // Units of up to 1 % of all requests.
  const Workload shared = built_in_workload(1);
  const auto requests = static_cast<double>(shared.requests.size());
  for (const double factor : {0.25, 0.5, 1.5})
    EXPECT_NEAR(static_cast<double>(scale_rate(shared, factor, 2)->requests.size()), factor * requests,
                0.01 * requests);
}

TEST(ScaleRate, FirstCopyIsTheTrafficAsItWasAndOthersAreShiftedByLittle) {
  const Workload workload = made("synthetic:rate=2,duration=2h,cv=2");
  const Workload scaled = *scale_rate(workload, 2.0, 1);
  auto before = testing::arrivals_s(workload);
  auto after = testing::arrivals_s(scaled);
  std::vector<double> second;
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(), std::back_inserter(second));
  ASSERT_EQ(second.size(), before.size());
  const double shift = second[before.size() / 2] - before[before.size() / 2];
  EXPECT_LE(std::abs(shift), 31.0);
  std::size_t moved = 0;  // by the same shift, but for those that came back at the other end
  for (const double arrival : before)
    moved +=
        std::any_of(second.begin(), second.end(), [&](double at) { return std::abs(at - arrival) < 31.0; }) ? 1 : 0;
  EXPECT_GE(moved, before.size() - 10);
}

TEST(ScaleRate, AWiderSpreadMovesCopiesFartherAndSmoothsMinutes) {
  const Workload workload = made("synthetic:rate=0.5,duration=4h,cv=1");
  const double span_s = core::to_seconds(workload.span());
  const auto cv_of = [&](std::optional<core::Duration> spread) {
    return testing::count_cv(*scale_rate(workload, RateScale{24.0, spread}, 3), 60.0, span_s);
  };
  EXPECT_LT(cv_of(std::chrono::minutes{10}), 0.6 * cv_of(std::nullopt));
  EXPECT_TRUE(same(*scale_rate(workload, RateScale{2.0, std::chrono::seconds{30}}, 3), *scale_rate(workload, 2.0, 3)));
  EXPECT_TRUE(same(*scale_rate(workload, RateScale{2.0, std::chrono::minutes{10}}, 3),
                   *scale_rate(workload, RateScale{2.0, std::chrono::minutes{10}}, 3)));
}

TEST(ScaleRate, ASpreadOfMoreThanHalfTheSpanIsAnError) {
  const Workload workload = workload_of({{0.0}, {100.0}});
  EXPECT_TRUE(scale_rate(workload, RateScale{2.0, std::chrono::seconds{50}}, 1).has_value());
  EXPECT_EQ(scale_rate(workload, RateScale{2.0, std::chrono::seconds{51}}, 1).error().message(),
            "rows: its copies cannot be moved by 51 s; use a spread of at most half of its 100 s");
}

TEST(ScaleRate, SessionsStayWholeAndCopiesShareNothing) {
  const Workload workload = made("synthetic:rate=5,duration=20m,turns=4,think=5s");
  std::map<std::uint32_t, std::size_t> turns;
  for (const auto& request : workload.requests) ++turns[request.session];
  const Workload scaled = *scale_rate(workload, 2.5, 3);
  std::map<std::uint32_t, std::size_t> scaled_turns;
  std::map<std::uint32_t, std::set<std::uint32_t>> sessions_of_block;
  const auto sessions = turns.rbegin()->first + 1;
  for (const auto& request : scaled.requests) {
    ++scaled_turns[request.session];
    for (const auto id : scaled.blocks_of(request)) sessions_of_block[id].insert(request.session);
  }
  for (const auto& [session, count] : scaled_turns) EXPECT_EQ(count, turns.at(session % sessions));
  for (const auto& [id, of] : sessions_of_block) EXPECT_EQ(of.size(), 1U) << id;
}

TEST(ScaleRate, SmallGroupsThatShareAPrefixAreTakenWhole) {
  // 200 groups of five requests without sessions.
  std::vector<testing::Row> rows;
  for (std::uint32_t index = 0; index < 1000; ++index)
    rows.push_back({0.1 * index, 1024, 1, {index % 200, 200 + index}});
  const Workload half = *scale_rate(workload_of(rows), 0.5, 1);
  std::map<std::uint32_t, int> members;
  for (std::size_t index = 0; index < half.requests.size(); ++index) ++members[testing::ids_of(half, index)[0]];
  EXPECT_NEAR(static_cast<double>(members.size()), 100.0, 1.0);
  for (const auto& [group, count] : members) EXPECT_EQ(count, 5) << group;
}

TEST(ScaleRate, APrefixThatAllShareIsStillSharedByTheRest) {
  std::vector<testing::Row> rows;
  for (std::uint32_t index = 0; index < 1000; ++index) rows.push_back({0.1 * index, 1024, 1, {0, 1 + index / 4}});
  const Workload tenth = *scale_rate(workload_of(rows), 0.1, 1);
  EXPECT_EQ(tenth.requests.size(), 100U);
  std::map<std::uint32_t, int> members;
  for (std::size_t index = 0; index < tenth.requests.size(); ++index) {
    EXPECT_EQ(testing::ids_of(tenth, index)[0], 0U);
    ++members[testing::ids_of(tenth, index)[1]];
  }
  for (const auto& [group, count] : members) EXPECT_EQ(count, 4) << group;
}

TEST(ScaleRate, PrefixReuseStaysTheSame) {
  const Workload workload = built_in_workload(1);
  const double reuse = describe(workload).prefix_reuse;
  for (const double factor : {0.5, 2.0, 2.5, 5.0})
    EXPECT_NEAR(describe(*scale_rate(workload, factor, 4)).prefix_reuse, reuse, 0.05) << factor;
}

TEST(ScaleRate, LengthsAndTenantsKeepTheirShares) {
  const Workload workload = built_in_workload(1);
  const Statistics before = describe(workload);
  for (const double factor : {0.5, 2.5}) {
    const Workload scaled = *scale_rate(workload, factor, 4);
    const Statistics after = describe(scaled);
    EXPECT_EQ(scaled.tenants, workload.tenants);
    EXPECT_NEAR(after.input_tokens.mean / before.input_tokens.mean, 1.0, 0.08);
    EXPECT_NEAR(after.output_tokens.mean / before.output_tokens.mean, 1.0, 0.08);
    EXPECT_NEAR(after.largest_tenant, before.largest_tenant, 0.06);
  }
}

// n copies have n times the mean of the counts and n(1 + (n − 1)ρ) times their variance. Windows of 10 s that are
// moved apart by up to 30 s overlap by ρ = 1/6 of a window on average; the rate is flat, so nothing else is common.
TEST(ScaleRate, BurstinessScalesAsSuperpositionPredicts) {
  const Workload workload = made("synthetic:rate=4,duration=2h,cv=3");
  const double span_s = core::to_seconds(workload.span());
  const double cv = testing::count_cv(workload, 10.0, span_s);
  for (const double factor : {2.0, 4.0, 8.0}) {
    double variance = 0.0;
    for (std::uint64_t seed = 0; seed < 10; ++seed)
      variance += std::pow(testing::count_cv(*scale_rate(workload, factor, seed), 10.0, span_s), 2.0) / 10.0;
    const double predicted = cv * cv * (1.0 + (factor - 1.0) / 6.0) / factor;
    EXPECT_NEAR(variance / predicted, 1.0, 0.15) << factor;
  }
}

// A request that stays with probability f: variance f²·V + f(1 − f)·mean.
TEST(ScaleRate, ThinningScalesBurstinessAsPredicted) {
  const Workload workload = made("synthetic:rate=4,duration=4h,cv=3");
  const double span_s = core::to_seconds(workload.span());
  const double cv = testing::count_cv(workload, 10.0, span_s);
  const double mean = 10.0 * static_cast<double>(workload.requests.size()) / span_s;
  for (const double share : {0.2, 0.5}) {
    const double predicted = std::sqrt(cv * cv + (1.0 - share) / (share * mean));
    EXPECT_NEAR(testing::count_cv(*scale_rate(workload, share, 2), 10.0, span_s) / predicted, 1.0, 0.05) << share;
  }
}

TEST(ScaleRate, BurstsOfMinutesStayBursts) {
  const Workload workload = made("synthetic:rate=2..20,shape=burst,duration=2h,length=10m");
  const double before = describe(workload).peak_60s;
  EXPECT_NEAR(describe(*scale_rate(workload, 5.0, 2)).peak_60s / before, 1.0, 0.1);
}

}  // namespace
}  // namespace penstock::workload
