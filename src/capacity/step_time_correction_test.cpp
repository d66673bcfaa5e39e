#include "capacity/step_time_correction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "capacity/correction_testing.h"
#include "engine/linear.h"
#include "engine/polynomial.h"

namespace penstock::capacity {
namespace {

using testing::BusyEngine;

std::shared_ptr<const engine::StepTimeModel> profile() { return std::make_shared<const engine::Polynomial>(); }

// Engines that are so many times slower than the profile, or have no profile that is right.
class Pool {
 public:
  explicit Pool(const std::vector<double>& factors) {
    for (std::size_t i = 0; i < factors.size(); ++i)
      engines_.emplace_back(testing::times(*profile_, factors[i]), i + 1);
  }
  BusyEngine& engine(std::size_t index) { return engines_[index]; }
  [[nodiscard]] core::Instant now() const { return now_; }

  void go_on(StepTimeCorrection& correction, int intervals) {
    for (int i = 0; i < intervals; ++i) {
      now_ += std::chrono::seconds{5};
      for (BusyEngine& engine : engines_) engine.go_on(5.0);
      show(correction);
    }
  }
  void show(StepTimeCorrection& correction) const {
    std::vector<const BusyEngine*> shown;
    for (const BusyEngine& engine : engines_) shown.push_back(&engine);
    correction.observe(testing::pool_of(shown), now_);
  }

 private:
  std::shared_ptr<const engine::StepTimeModel> profile_ = profile();
  std::vector<BusyEngine> engines_;
  core::Instant now_;
};

TEST(StepTimeCorrection, FindsHowMuchSlowerTheEnginesAre) {
  Pool pool{{1.3, 1.3, 1.3}};
  StepTimeCorrection correction{profile()};
  pool.go_on(correction, 40);
  ASSERT_TRUE(correction.factor().has_value());
  EXPECT_NEAR(*correction.factor(), 1.3, 0.01);
  EXPECT_LT(*correction.error(), 0.02);
  EXPECT_NEAR(*correction.profile_error(), 1.0 - 1.0 / 1.3, 0.02);
  EXPECT_GT(*correction.standard_error(), 0.0);
  EXPECT_LT(*correction.standard_error(), 0.01);
  EXPECT_GT(correction.samples(), 100U);
  EXPECT_EQ(correction.rejected(), 0U);
}

TEST(StepTimeCorrection, HasNoResultWithFewSamples) {
  Pool pool{{1.3}};
  StepTimeCorrection correction{profile()};
  EXPECT_FALSE(correction.factor().has_value());
  EXPECT_FALSE(correction.error().has_value());
  EXPECT_FALSE(correction.standard_error().has_value());
  pool.go_on(correction, 5);  // four intervals between five samples
  EXPECT_FALSE(correction.factor().has_value());
  pool.go_on(correction, 1);
  EXPECT_TRUE(correction.factor().has_value());
  EXPECT_FALSE(correction.factor_of(7).has_value());
}

TEST(StepTimeCorrection, TellsASlowReplicaFromTheOthers) {
  Pool pool{{1.0, 1.0, 2.0, 1.0, 1.0}};
  StepTimeCorrection correction{profile()};
  pool.go_on(correction, 30);
  EXPECT_NEAR(*correction.factor(), 1.0, 0.01);  // the median
  EXPECT_NEAR(*correction.factor_of(2), 2.0, 0.02);
  EXPECT_NEAR(*correction.factor_of(1), 1.0, 0.01);
  EXPECT_GT(*correction.standard_error(), 0.1);  // they differ, so that the next may, too
}

TEST(StepTimeCorrection, ARepeatedSampleCountsOnce) {
  Pool pool{{1.2}};
  StepTimeCorrection once{profile()}, twice{profile()};
  for (int i = 0; i < 20; ++i) {
    pool.go_on(once, 1);
    pool.show(twice);
    pool.show(twice);
  }
  EXPECT_EQ(once.samples(), twice.samples());
  EXPECT_EQ(once.factor(), twice.factor());
  EXPECT_EQ(once.error(), twice.error());
}

TEST(StepTimeCorrection, LeavesOutliersOutAndCountsThem) {
  Pool pool{{1.1}};
  StepTimeCorrection correction{profile()};
  pool.go_on(correction, 20);
  const double before = *correction.factor();
  pool.engine(0).sample.iterations.decode.busy += std::chrono::milliseconds{900};  // 4 s have passed.
  pool.go_on(correction, 1);
  EXPECT_EQ(correction.outliers(), 1U);
  EXPECT_EQ(correction.rejected(), 0U);
  EXPECT_EQ(*correction.factor(), before);
}

TEST(StepTimeCorrection, FollowsALastingChange) {
  Pool before{{1.0}}, after{{1.5}};
  StepTimeCorrection correction{profile(), {.half_life = std::chrono::minutes{1}}};
  before.go_on(correction, 60);
  EXPECT_NEAR(*correction.factor(), 1.0, 0.01);
  // The same replica goes on, slower from now on: its counters are those before and the new engine's on top.
  const signals::EngineSample base = before.engine(0).sample;
  for (int i = 0; i < 120; ++i) {
    after.engine(0).go_on(5.0);
    signals::EngineSample sample = after.engine(0).sample;
    core::IterationTotals& totals = sample.iterations;
    const core::IterationTotals& old = base.iterations;
    for (auto [sums, added] : {std::pair{&totals.prefill, &old.prefill}, std::pair{&totals.decode, &old.decode}}) {
      sums->steps += added->steps;
      sums->busy += added->busy;
      sums->decode_sequences += added->decode_sequences;
      sums->decode_context_tokens += added->decode_context_tokens;
      sums->active_kv_tokens += added->active_kv_tokens;
    }
    totals.prefill_requests += old.prefill_requests;
    totals.prefill_new_tokens += old.prefill_new_tokens;
    totals.prefill_new_tokens_squared += old.prefill_new_tokens_squared;
    totals.prefill_attention_pairs += old.prefill_attention_pairs;
    sample.sampled_at = base.sampled_at + (sample.sampled_at - core::kStart);
    BusyEngine shown = after.engine(0);
    shown.sample = sample;
    correction.observe(testing::pool_of({&shown}), sample.sampled_at);
  }
  EXPECT_NEAR(*correction.factor(), 1.5, 0.03);
  EXPECT_GT(correction.outliers(), 3U);  // The change was rejected at first.
  EXPECT_LT(correction.outliers(), 15U);
}

TEST(StepTimeCorrection, StartsAfreshWhenAReplicaDoes) {
  Pool pool{{1.4}};
  StepTimeCorrection correction{profile()};
  pool.go_on(correction, 20);
  pool.engine(0).sample.iterations = {};
  pool.go_on(correction, 1);
  EXPECT_FALSE(correction.factor_of(0).has_value());
  EXPECT_NEAR(*correction.factor(), 1.4, 0.01);  // what was known goes on until more is
  pool.go_on(correction, 10);
  EXPECT_NEAR(*correction.factor_of(0), 1.4, 0.01);
  EXPECT_EQ(correction.rejected(), 0U);
}

TEST(StepTimeCorrection, ForgetsReplicasThatAreGone) {
  Pool pool{{1.0, 1.6}};
  StepTimeCorrection correction{profile()};
  pool.go_on(correction, 20);
  EXPECT_TRUE(correction.factor_of(0).has_value());
  correction.observe(testing::pool_of({nullptr, &pool.engine(1)}), pool.now());
  EXPECT_FALSE(correction.factor_of(0).has_value());
  EXPECT_NEAR(*correction.factor(), 1.6, 0.02);
}

TEST(StepTimeCorrection, RejectsImpossibleSamples) {
  Pool pool{{1.2}};
  StepTimeCorrection correction{profile()};
  pool.go_on(correction, 20);
  const double factor = *correction.factor();

  BusyEngine liar = pool.engine(0);
  liar.go_on(5.0);
  liar.sample.iterations.decode.busy += std::chrono::seconds{60};
  correction.observe(testing::pool_of({&liar}), liar.sample.sampled_at);
  EXPECT_EQ(correction.rejected(), 1U);
  liar.sample.iterations.prefill_new_tokens_squared = std::nan("");
  liar.sample.sampled_at += std::chrono::seconds{5};
  correction.observe(testing::pool_of({&liar}), liar.sample.sampled_at);
  EXPECT_EQ(correction.rejected(), 2U);
  liar.sample.sampled_at += std::chrono::hours{5};  // from the future
  correction.observe(testing::pool_of({&liar}), liar.sample.sampled_at - std::chrono::hours{4});
  EXPECT_EQ(correction.rejected(), 3U);
  EXPECT_EQ(*correction.factor(), factor);

  pool.go_on(correction, 5);
  EXPECT_NEAR(*correction.factor(), 1.2, 0.01);
  EXPECT_EQ(correction.outliers(), 0U);
}

TEST(StepTimeCorrection, RecoversFromABadFirstSample) {
  Pool pool{{1.2}};
  StepTimeCorrection correction{profile()};
  pool.go_on(correction, 2);
  BusyEngine liar = pool.engine(0);
  liar.go_on(1.0);
  liar.sample.iterations.prefill_new_tokens_squared = 0.0;  // lower than before, and yet the engine goes on
  liar.sample.iterations.prefill_new_tokens = 0;
  correction.observe(testing::pool_of({&liar}), liar.sample.sampled_at);
  pool.go_on(correction, 20);
  EXPECT_NEAR(*correction.factor(), 1.2, 0.01);
}

TEST(StepTimeCorrection, PutsShortIntervalsTogether) {
  Pool pool{{1.3}};
  StepTimeCorrection correction{profile(), {.busy_least = std::chrono::seconds{10}}};
  pool.go_on(correction, 30);           // About 4 s busy each.
  EXPECT_EQ(correction.samples(), 9U);  // three of them make one
  EXPECT_NEAR(*correction.factor(), 1.3, 0.01);
}

TEST(StepTimeCorrection, LearnsALawWithoutAnyProfile) {
  const auto law = *engine::Linear::make({6.0, 0.08, 0.03, 0.00005});
  BusyEngine engine{testing::times(law, 1.0), 5};
  StepTimeCorrection correction{nullptr};
  for (int i = 0; i < 60; ++i) {
    engine.go_on(5.0);
    correction.observe(testing::pool_of({&engine}), engine.sample.sampled_at);
  }
  EXPECT_FALSE(correction.factor().has_value());
  EXPECT_GT(correction.samples(), 50U);
  const auto model = correction.learned_model();
  ASSERT_NE(model, nullptr);
  engine::StepShape shape;
  shape.prefill_requests = 1;
  shape.prefill_new_tokens = 1500;
  shape.decode_sequences = 30;
  shape.decode_context_tokens = 40'000;
  EXPECT_NEAR(core::to_milliseconds(model->step(shape)) / core::to_milliseconds(law.step(shape)), 1.0, 0.02);
}

// Whatever comes, no figure is anything but finite, and the same observations give the same figures.
TEST(StepTimeCorrection, StaysFiniteAndRepeatableOnAnyGarbage) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    core::RandomStream random{seed};
    StepTimeCorrection first{profile()}, second{profile()};
    Pool pool{{1.0, 1.2, 0.7}};
    core::Instant now;
    for (int i = 0; i < 150; ++i) {
      now += core::from_seconds(random.uniform(0.0, 8.0));
      std::vector<BusyEngine> shown;
      for (std::size_t replica = 0; replica < 3; ++replica) {
        pool.engine(replica).go_on(random.uniform(0.1, 6.0), random.uniform(0.0, 1.0));
        shown.push_back(pool.engine(replica));
        signals::EngineSample& sample = shown.back().sample;
        if (random.below(2) == 0) sample.sampled_at = now;
        core::IterationTotals& totals = sample.iterations;
        const double wild = std::vector{std::nan(""), -1.0, 0.0, 1e300, HUGE_VAL}[random.below(5)];
        switch (random.below(12)) {
          case 0: totals = {}; break;
          case 1: totals.decode.busy = core::Duration{static_cast<std::int64_t>(random.next())}; break;
          case 2: totals.prefill_new_tokens_squared = wild; break;
          case 3: totals.prefill_attention_pairs = wild; break;
          case 4: totals.prefill_new_tokens = random.next(); break;
          case 5: totals.decode.decode_context_tokens = random.next(); break;
          case 6: sample.kv_capacity_tokens = 0; break;
          case 7: totals.prefill.steps = random.next(); break;
          default: break;
        }
      }
      std::vector<const BusyEngine*> pointers;
      for (const BusyEngine& engine : shown) pointers.push_back(random.below(20) == 0 ? nullptr : &engine);
      first.observe(testing::pool_of(pointers), now);
      second.observe(testing::pool_of(pointers), now);
      for (const auto& figure : {first.factor(), first.error(), first.profile_error(), first.standard_error(),
                                 first.factor_of(0), first.factor_of(1), first.factor_of(2)})
        if (figure) {
          ASSERT_TRUE(std::isfinite(*figure) && *figure >= 0.0);
        }
      if (first.factor()) {
        ASSERT_GE(*first.factor(), 0.01);
        ASSERT_LE(*first.factor(), 100.0);
      }
      ASSERT_EQ(first.factor(), second.factor());
      ASSERT_EQ(first.samples(), second.samples());
      ASSERT_EQ(first.standard_error(), second.standard_error());
    }
  }
}

}  // namespace
}  // namespace penstock::capacity
