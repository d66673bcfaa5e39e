#include "planner/penstock/traffic_outlook.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <vector>

#include "core/random.h"
#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using forecast::TrafficSample;
using signals::Observation;
using signals::PoolObservation;
using signals::Role;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::at_s;

constexpr core::Duration kMemory = minutes{20};
constexpr core::Duration kHorizon = minutes{3};

TrafficOutlookOptions with_predictor(const char* name) {
  TrafficOutlookOptions options;
  options.predictor = options.length_predictor = name;
  return options;
}

// A prefill and a decode pool whose counters go on as they are told, looked at every 5 s.
class Traffic {
 public:
  explicit Traffic(TrafficOutlook& outlook) : outlook_(outlook) {
    observation_.pools.resize(2);
    observation_.pools[0].role = Role::kPrefill;
    observation_.pools[1].role = Role::kDecode;
    observe();
  }

  void run(core::Duration time, const std::function<double(double)>& rate_at_s, std::uint64_t input = 1000,
           std::uint64_t output = 200) {
    for (const core::Instant until = observation_.now + time; observation_.now < until;) {
      observation_.now += seconds{5};
      owed_ += 5.0 * rate_at_s(core::to_seconds(observation_.now));
      const auto requests = static_cast<std::uint64_t>(owed_);
      owed_ -= static_cast<double>(requests);
      pool(0).arrivals_total += requests;
      pool(0).input_tokens_total += requests * input;
      pool(0).completed_total += requests;  // The prefill pool generates one token per request.
      pool(0).output_tokens_total += requests;
      pool(1).completed_total += requests;
      pool(1).output_tokens_total += requests * output;
      observe();
    }
  }
  void run(core::Duration time, double rate, std::uint64_t input = 1000, std::uint64_t output = 200) {
    run(
        time, [rate](double) { return rate; }, input, output);
  }
  void observe() { outlook_.observe(observation_); }

  PoolObservation& pool(std::size_t index) { return observation_.pools[index]; }
  Observation& observation() { return observation_; }

 private:
  TrafficOutlook& outlook_;
  Observation observation_;
  double owed_ = 0.0;
};

TEST(TrafficOutlook, SamplesRatesAndPromptsWhereTheyEnterAndAnswersWhereTheyEnd) {
  TrafficOutlook outlook(with_predictor("constant"), kMemory, kHorizon);
  Traffic traffic(outlook);
  traffic.run(minutes{5}, 4.0, 900, 150);
  const Forecast expected = outlook.expected();
  EXPECT_NEAR(*expected.requests_per_s, 4.0, 1e-9);
  EXPECT_NEAR(*expected.input_tokens, 900.0, 1e-9);
  EXPECT_NEAR(*expected.output_tokens, 150.0, 1e-9);
}

TEST(TrafficOutlook, ADecodePoolThatIsNamedFirstIsNotWhereRequestsEnter) {
  TrafficOutlook outlook(with_predictor("constant"), kMemory, kHorizon);
  Observation observation;
  observation.pools.resize(2);
  observation.pools[0].role = Role::kDecode;
  observation.pools[1].role = Role::kPrefill;
  for (int i = 0; i <= 10; ++i) {
    observation.now = at_s(30.0 * i);
    observation.pools[1].arrivals_total = static_cast<std::uint64_t>(60 * i);
    observation.pools[0].completed_total = static_cast<std::uint64_t>(i);
    observation.pools[0].output_tokens_total = static_cast<std::uint64_t>(70 * i);
    outlook.observe(observation);
  }
  EXPECT_NEAR(*outlook.expected().requests_per_s, 2.0, 1e-9);
  EXPECT_NEAR(*outlook.expected().output_tokens, 70.0, 1e-9);
}

TEST(TrafficOutlook, LengthsOfAnswersAreThoseOfTheOnesThatEnded) {
  TrafficOutlook outlook(with_predictor("constant"), kMemory, kHorizon);
  Observation observation;
  observation.pools.resize(1);
  PoolObservation& pool = observation.pools[0];
  for (int i = 0; i <= 10; ++i) {
    observation.now = at_s(30.0 * i);
    pool.completed_total = static_cast<std::uint64_t>(i);             // few have ended …
    pool.output_tokens_total = static_cast<std::uint64_t>(9000 * i);  // … of the many that are answered
    pool.last_minute.completed = 2;
    pool.last_minute.completed_output_tokens = 600;
    outlook.observe(observation);
  }
  EXPECT_NEAR(*outlook.expected().output_tokens, 300.0, 1e-9);
}

TEST(TrafficOutlook, NothingIsKnownBeforeTheFirstSample) {
  TrafficOutlook outlook({}, kMemory, kHorizon);
  Observation observation;
  outlook.observe(observation);  // no pools
  observation.pools.resize(1);
  observation.pools[0].arrivals_total = 1'000'000'000;  // counted before anybody looked
  outlook.observe(observation);
  const Forecast expected = outlook.expected();
  EXPECT_FALSE(expected.requests_per_s || expected.input_tokens || expected.output_tokens);
  EXPECT_FALSE(expected.error || expected.naive_error);
  EXPECT_EQ(outlook.growth(10.0), 1.0);
}

TEST(TrafficOutlook, ARiseIsPredictedOnceForecastsHaveProvedBetter) {
  TrafficOutlook outlook({}, kMemory, kHorizon);
  Traffic traffic(outlook);
  const auto rising = [](double now_s) { return 2.0 + now_s / 200.0; };
  traffic.run(minutes{10}, rising);
  EXPECT_FALSE(outlook.trusted());  // 13 forecasts were scored
  EXPECT_EQ(outlook.growth(3.5), 1.0);
  traffic.run(minutes{50}, rising);
  EXPECT_TRUE(outlook.trusted());
  const double now = rising(3600.0), memory = rising(3600.0 - 600.0), ahead = rising(3600.0 + 90.0);
  EXPECT_NEAR(outlook.growth(memory), ahead / memory, 0.05);
  const Forecast expected = outlook.expected();
  EXPECT_GT(*expected.requests_per_s, 0.97 * now);
  EXPECT_LT(*expected.error, 0.5 * *expected.naive_error);
}

TEST(TrafficOutlook, NoiseAroundALevelIsNotTrusted) {
  TrafficOutlook outlook(with_predictor("linear"), kMemory, kHorizon);
  Traffic traffic(outlook);
  core::RandomStream random(5);
  traffic.run(hours{4}, [&](double) { return random.exponential(4.0); });
  EXPECT_FALSE(outlook.trusted());
  EXPECT_EQ(outlook.growth(1.0), 1.0);
  EXPECT_GT(*outlook.expected().error, 0.95 * *outlook.expected().naive_error);
}

TEST(TrafficOutlook, GrowthIsBounded) {
  TrafficOutlook outlook({}, kMemory, kHorizon);
  Traffic traffic(outlook);
  traffic.run(hours{1}, [](double now_s) { return 2.0 + now_s / 200.0; });
  ASSERT_TRUE(outlook.trusted());
  EXPECT_EQ(outlook.growth(1e-3), 3.0);
  EXPECT_EQ(outlook.growth(1e6), 0.5);
  for (const double odd :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    EXPECT_EQ(outlook.growth(odd), 1.0);
}

TEST(TrafficOutlook, PredictorsAreComparedOnTheSameTimestamps) {
  // Wild at first, when "arima" says nothing yet; then a level on which neither errs.
  TrafficOutlook outlook(with_predictor("arima"), kMemory, minutes{1});
  Traffic traffic(outlook);
  traffic.run(minutes{20}, [](double now_s) { return std::fmod(now_s, 600.0) < 300.0 ? 1.0 : 9.0; });
  EXPECT_FALSE(outlook.expected().error);
  traffic.run(minutes{30}, 5.0);
  ASSERT_TRUE(outlook.expected().error);
  EXPECT_LT(*outlook.expected().naive_error, 0.6);
}

TEST(TrafficOutlook, QuantilesSpreadAroundTheExpectation) {
  TrafficOutlook outlook({}, kMemory, kHorizon);
  Traffic traffic(outlook);
  core::RandomStream random(7);
  traffic.run(hours{2}, [&](double) { return random.exponential(4.0); });
  const auto forecast = outlook.forecast();
  ASSERT_TRUE(forecast.requests_per_s && forecast.input_tokens && forecast.output_tokens);
  EXPECT_EQ(forecast.requests_per_s->horizon, kHorizon);
  EXPECT_LT(forecast.requests_per_s->level.quantile(0.1), *outlook.expected().requests_per_s);
  EXPECT_GT(forecast.requests_per_s->level.quantile(0.9), *outlook.expected().requests_per_s);
}

// ---- what is no sample ----------------------------------------------------------------------------------------------

TEST(TrafficOutlook, CounterResetsGiveNoSample) {
  TrafficOutlook outlook(with_predictor("constant"), kMemory, kHorizon);
  Traffic traffic(outlook);
  traffic.run(minutes{5}, 4.0);
  for (std::size_t i : {0, 1})
    traffic.pool(i).arrivals_total = traffic.pool(i).input_tokens_total = traffic.pool(i).completed_total =
        traffic.pool(i).output_tokens_total = 0;
  traffic.run(minutes{5}, 4.0);
  EXPECT_NEAR(*outlook.expected().requests_per_s, 4.0, 1e-9);
  EXPECT_NEAR(*outlook.expected().input_tokens, 1000.0, 1e-9);
  EXPECT_NEAR(*outlook.expected().output_tokens, 200.0, 1e-9);
}

TEST(TrafficOutlook, ClockJumpsDoNotCountAsQuietTime) {
  for (const core::Duration jump : {core::Duration{hours{3}}, -core::Duration{minutes{2}}}) {
    TrafficOutlook outlook(with_predictor("constant"), kMemory, kHorizon);
    Traffic traffic(outlook);
    traffic.run(minutes{10}, 4.0);
    traffic.observation().now += jump;
    traffic.run(minutes{10}, 4.0);
    EXPECT_NEAR(*outlook.expected().requests_per_s, 4.0, 1e-9);
  }
}

TEST(TrafficOutlook, AStandingClockAddsNoSamples) {
  TrafficOutlook outlook(with_predictor("constant"), kMemory, kHorizon);
  Traffic traffic(outlook);
  traffic.run(minutes{5}, 4.0);
  for (int i = 0; i < 100; ++i) {
    traffic.pool(0).arrivals_total += 20;
    traffic.observe();
  }
  EXPECT_NEAR(*outlook.expected().requests_per_s, 4.0, 1e-9);
}

TEST(TrafficOutlook, TimeWithoutRequestsHasARateButNoLengths) {
  TrafficOutlook outlook(with_predictor("constant"), kMemory, kHorizon);
  Traffic traffic(outlook);
  traffic.run(minutes{5}, 4.0);
  traffic.run(minutes{30}, 0.0);
  EXPECT_NEAR(*outlook.expected().requests_per_s, 0.0, 1e-9);
  EXPECT_NEAR(*outlook.expected().input_tokens, 1000.0, 1e-9);
}

TEST(TrafficOutlook, HorizonsAndMemoriesOutOfRangeAreCut) {
  for (const core::Duration time : {core::Duration::min(), core::Duration{}, core::Duration::max()}) {
    TrafficOutlook outlook(with_predictor("seasonal"), time, time);
    Traffic traffic(outlook);
    traffic.run(minutes{5}, 4.0);
    EXPECT_NEAR(*outlook.expected().requests_per_s, 4.0, 1e-6);
  }
}

std::uint64_t draw_step(core::RandomStream& random, std::uint64_t counter) {
  switch (random.below(12)) {
    case 0: return 0;
    case 1: return counter / 2;
    case 2: return counter;
    case 3: return random.next();
    default: return counter + random.below(5000);
  }
}

core::Instant draw_time(core::RandomStream& random, core::Instant now) {
  switch (random.below(40)) {
    case 0: return now;
    case 1: return now - core::from_seconds(random.uniform(0.0, 1e5));
    case 2: return now + core::from_seconds(random.uniform(0.0, 1e6));
    case 3: return random.below(20) == 0 ? core::kNever : now;
    case 4: return random.below(20) == 0 ? core::Instant::min() : now;
    case 5: return core::Instant{core::Duration{static_cast<std::int64_t>(random.next() >> 2)}};
    default:
      return core::kStart + core::from_seconds(std::fmod(core::to_seconds(now), 1e7) + random.uniform(0.0, 40.0));
  }
}

TEST(TrafficOutlook, ForecastsAreFiniteForAnyInput) {
  const auto names = forecast::predictor_names();
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    core::RandomStream random(seed);
    TrafficOutlook outlook(with_predictor(std::string(names[seed % names.size()]).c_str()), kMemory,
                           core::from_seconds(random.uniform(1.0, 900.0)));
    Observation observation;
    observation.pools.resize(1 + random.below(3));
    const auto check = [](const std::optional<double>& value) {
      EXPECT_TRUE(!value || (std::isfinite(*value) && *value >= 0.0)) << *value;
    };
    for (int step = 0; step < 400; ++step) {
      observation.now = draw_time(random, observation.now);
      for (PoolObservation& pool : observation.pools) {
        pool.role = static_cast<Role>(random.below(3));
        for (auto* counter :
             {&pool.arrivals_total, &pool.input_tokens_total, &pool.output_tokens_total, &pool.completed_total,
              &pool.last_minute.completed, &pool.last_minute.completed_output_tokens})
          *counter = draw_step(random, *counter);
      }
      outlook.observe(observation);
      if (step % 10 != 0) continue;
      const Forecast expected = outlook.expected();
      for (const auto* value : {&expected.requests_per_s, &expected.input_tokens, &expected.output_tokens,
                                &expected.error, &expected.naive_error})
        check(*value);
      const double growth = outlook.growth(random.log_normal(1.0, 5.0));
      EXPECT_TRUE(growth >= 0.5 && growth <= 3.0) << growth;
    }
  }
}

// ---- warm start -----------------------------------------------------------------------------------------------------

// Traffic of a day, from midnight on: least at 3:00, most at 15:00.
double day_rate(double now_s) {
  const double hour = std::fmod(now_s / 3600.0 + 240.0, 24.0);
  return 6.0 - 4.0 * std::cos((hour - 3.0) / 12.0 * std::numbers::pi);
}

// Days that end at `end_s`, in samples that end somewhere in the past of another clock.
std::vector<TrafficSample> days_before(double end_s, int days, double interval_s = 30.0) {
  std::vector<TrafficSample> history;
  for (double at = end_s - 86'400.0 * days + interval_s; at <= end_s; at += interval_s)
    history.push_back({at_s(at + 5e6), day_rate(at - interval_s / 2), 800.0, 300.0});
  return history;
}

TEST(TrafficOutlook, HistoryPredictsARiseBeforeTheFirstTick) {
  constexpr double kSixOClock = 6.0 * 3600.0;
  TrafficOutlook warm({}, kMemory, minutes{10}), cold({}, kMemory, minutes{10});
  warm.warm_up(days_before(kSixOClock, 3));
  EXPECT_TRUE(warm.trusted());
  EXPECT_FALSE(cold.trusted());
  EXPECT_NEAR(*warm.expected().requests_per_s, day_rate(kSixOClock + 300.0), 0.15);
  EXPECT_NEAR(*warm.expected().input_tokens, 800.0, 1.0);
  EXPECT_NEAR(*warm.expected().output_tokens, 300.0, 1.0);
  EXPECT_LT(*warm.expected().error, 0.7 * *warm.expected().naive_error);
  const double memory = day_rate(kSixOClock - 600.0);
  EXPECT_NEAR(warm.growth(memory), day_rate(kSixOClock + 300.0) / memory, 0.03);

  // The run goes on from there.
  for (TrafficOutlook* outlook : {&warm, &cold}) {
    Traffic traffic(*outlook);
    traffic.run(minutes{3}, [](double now_s) { return day_rate(kSixOClock + now_s); });
  }
  EXPECT_NEAR(*warm.expected().requests_per_s, day_rate(kSixOClock + 480.0), 0.3);
  EXPECT_EQ(cold.growth(4.0), 1.0);
}

TEST(TrafficOutlook, AHistoryOfShorterIntervalsDoesAsWell) {
  constexpr double kSixOClock = 6.0 * 3600.0;
  TrafficOutlook fine({}, kMemory, minutes{10}), same({}, kMemory, minutes{10});
  fine.warm_up(days_before(kSixOClock, 2, 10.0));
  same.warm_up(days_before(kSixOClock, 2));
  EXPECT_NEAR(*fine.expected().requests_per_s, *same.expected().requests_per_s, 0.05);
  EXPECT_NEAR(*fine.expected().error, *same.expected().error, 0.05);
}

TEST(TrafficOutlook, AnEmptyHistoryIsNone) {
  TrafficOutlook outlook({}, kMemory, kHorizon);
  outlook.warm_up({});
  EXPECT_FALSE(outlook.expected().requests_per_s);
  Traffic traffic(outlook);
  traffic.run(minutes{5}, 4.0);
  EXPECT_TRUE(outlook.expected().requests_per_s);
}

}  // namespace
}  // namespace penstock::planner
