#include "controller/scaling_recorder.h"

#include <gtest/gtest.h>

#include "core/random.h"

namespace penstock::controller {
namespace {

using signals::RequestEnds;

core::Instant at_s(double seconds) { return core::kStart + core::from_seconds(seconds); }

signals::PoolObservation pool_with(std::uint32_t target, std::uint32_t starting, std::uint32_t ready,
                                   std::uint32_t draining, const std::string& name = "chat") {
  signals::PoolObservation pool;
  pool.name = name;
  pool.target_replicas = target;
  pool.starting = starting;
  pool.ready = ready;
  pool.draining = draining;
  return pool;
}

TEST(ScalingRecorder, CountsWhatEndsWhileAPoolChanges) {
  ScalingRecorder book;
  const auto look = [&](double second, const signals::PoolObservation& pool, const RequestEnds& ends) {
    book.observe(at_s(second), {&pool, 1}, ends);
  };
  look(1, pool_with(3, 0, 3, 0), {100, 7, 0, 0, 0});
  EXPECT_TRUE(book.events().empty());
  look(2, pool_with(1, 0, 1, 2), {110, 7, 0, 0, 0});
  look(5, pool_with(1, 0, 1, 2), {130, 8, 0, 1, 2});
  ASSERT_EQ(book.events().size(), 1U);
  EXPECT_EQ(book.events()[0].settled, core::kNever);
  look(6, pool_with(1, 0, 1, 0), {140, 8, 0, 1, 2});
  look(7, pool_with(1, 0, 1, 0), {150, 8, 4, 1, 2});  // told of a moment later
  look(8, pool_with(1, 0, 1, 0), {160, 8, 4, 1, 2});
  look(9, pool_with(1, 0, 1, 0), {900, 99, 99, 99, 99});
  ASSERT_EQ(book.events().size(), 1U);
  const ScalingEvent event = book.events()[0];
  EXPECT_EQ(event.pool, "chat");
  EXPECT_EQ(event.from, 3U);
  EXPECT_EQ(event.to, 1U);
  EXPECT_EQ(event.began, at_s(2));
  EXPECT_EQ(event.settled, at_s(6));
  EXPECT_EQ(event.ends, (RequestEnds{50, 1, 4, 1, 2}));
  ASSERT_EQ(book.totals().size(), 1U);
  EXPECT_EQ(book.totals()[0].events, 1U);
  EXPECT_EQ(book.totals()[0].ends, event.ends);
}

TEST(ScalingRecorder, AReversedChangeIsOneEvent) {
  ScalingRecorder book;
  const auto look = [&](double second, const signals::PoolObservation& pool) {
    book.observe(at_s(second), {&pool, 1}, {});
  };
  look(0, pool_with(1, 0, 1, 0));
  look(1, pool_with(3, 2, 1, 0));
  look(2, pool_with(2, 1, 1, 0));
  look(3, pool_with(2, 0, 2, 0));
  look(4, pool_with(4, 2, 2, 0));  // before it was settled for long
  look(9, pool_with(4, 0, 4, 0));
  look(12, pool_with(4, 0, 4, 0));
  ASSERT_EQ(book.events().size(), 1U);
  EXPECT_EQ(book.events()[0].from, 1U);
  EXPECT_EQ(book.events()[0].to, 4U);
  EXPECT_EQ(book.events()[0].settled, at_s(9));
}

TEST(ScalingRecorder, CountsThatFallDoNotWrapAround) {
  ScalingRecorder book;
  const auto look = [&](double second, const signals::PoolObservation& pool, const RequestEnds& ends) {
    book.observe(at_s(second), {&pool, 1}, ends);
  };
  look(1, pool_with(3, 0, 3, 0), {100, 7, 0, 0, 0});
  look(2, pool_with(1, 0, 1, 2), {100, 7, 0, 0, 0});
  look(3, pool_with(1, 0, 1, 2), {10, 9, 0, 0, 0});
  EXPECT_EQ(book.events()[0].ends, (RequestEnds{0, 2, 0, 0, 0}));
  EXPECT_EQ(book.totals()[0].ends, (RequestEnds{0, 2, 0, 0, 0}));
}

// A lost replica is a change without a request.
TEST(ScalingRecorder, AReplacementIsAnEventToo) {
  ScalingRecorder book;
  const auto look = [&](double second, const signals::PoolObservation& pool) {
    book.observe(at_s(second), {&pool, 1}, {});
  };
  look(0, pool_with(2, 0, 2, 0));
  look(1, pool_with(2, 0, 1, 0));
  ASSERT_EQ(book.events().size(), 1U);
  EXPECT_EQ(book.events()[0].from, 2U);
  EXPECT_EQ(book.events()[0].to, 2U);
}

TEST(ScalingRecorder, KeepsTheNewestAndCountsAll) {
  ScalingRecorder book{3};
  core::RandomStream random{5};
  RequestEnds ends;
  std::uint64_t failed_meanwhile = 0;
  std::uint32_t ready = 1;
  for (int i = 0; i < 10; ++i) {
    const std::uint32_t target = ready + 1;
    const signals::PoolObservation before = pool_with(ready, 0, ready, 0), meanwhile = pool_with(target, 1, ready, 0),
                                   after = pool_with(target, 0, target, 0);
    book.observe(at_s(i * 100), {&before, 1}, ends);
    ends.failed += random.below(5);  // between changes
    book.observe(at_s(i * 100 + 10), {&meanwhile, 1}, ends);
    const std::uint64_t failed = random.below(5);
    ends.failed += failed;
    failed_meanwhile += failed;
    book.observe(at_s(i * 100 + 20), {&after, 1}, ends);
    book.observe(at_s(i * 100 + 30), {&after, 1}, ends);
    ready = target;
  }
  ASSERT_EQ(book.events().size(), 3U);
  EXPECT_EQ(book.events()[0].to, 11U);
  EXPECT_EQ(book.events()[2].to, 9U);
  EXPECT_EQ(book.totals()[0].events, 10U);
  EXPECT_EQ(book.totals()[0].ends.failed, failed_meanwhile);
}

}  // namespace
}  // namespace penstock::controller
