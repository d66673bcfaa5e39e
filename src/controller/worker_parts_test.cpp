#include "controller/worker_parts.h"

#include <gtest/gtest.h>

#include "controller/output_tokens.h"

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;
using Numbers = std::vector<std::uint32_t>;

signals::EngineSample report(std::uint64_t tokens, std::uint32_t running = 0) {
  signals::EngineSample made;
  made.generation_tokens_total = tokens;
  made.running_requests = running;
  made.itl_s = telemetry::HistogramTotals{tokens, 0.01 * static_cast<double>(tokens)};
  return made;
}

signals::PoolObservation seen(const WorkerParts& parts, const signals::EngineSample& whole) {
  signals::PoolObservation pool;
  for (std::size_t i = 0; i < parts.workers().size(); ++i)
    pool.replicas.push_back({parts.workers()[i], signals::ReplicaState::kReady, core::kStart, parts.part(i, whole)});
  return pool;
}

TEST(WorkerParts, AddUpToTheWhole) {
  WorkerParts parts;
  parts.set({7, 8, 9}, std::nullopt);
  std::uint64_t tokens = 0, running = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const signals::EngineSample part = parts.part(i, report(1000, 11));
    tokens += *part.generation_tokens_total;
    running += part.running_requests;
    EXPECT_FALSE(part.prompt_tokens_total) << "what the address does not report";
  }
  EXPECT_EQ(tokens, 1000U);
  EXPECT_EQ(running, 11U);
}

TEST(WorkerParts, CountersOnlyGrowByWhatTheAddressCounts) {
  WorkerParts parts;
  OutputTokens output;
  core::Instant now = core::kStart + 1h;
  std::uint64_t tokens = 900'000'000;
  parts.set({1, 2}, report(tokens));
  output.observe(seen(parts, report(tokens)), now);
  ASSERT_EQ(output.total(), 0U);
  std::uint64_t grown = 0;
  for (const Numbers& workers :
       {Numbers{1, 2, 3}, Numbers{1, 2, 3, 4, 5}, Numbers{1, 4, 5}, Numbers{1}, Numbers{1, 6}}) {
    parts.set(workers, report(tokens));
    for (int i = 0; i < 3; ++i) {
      tokens += 1'000;
      grown += 1'000;
      now += 5s;
      output.observe(seen(parts, report(tokens)), now);
    }
    // The first counter of a worker counts from its value.
    EXPECT_LE(output.total(), grown);
    EXPECT_GE(output.total() + 1'000, grown / 2);
  }
}

TEST(WorkerParts, HistogramsDoNotFallEither) {
  WorkerParts parts;
  parts.set({1, 2}, report(1'000));
  const auto before = *parts.part(0, report(1'000)).itl_s;
  parts.set({1, 2, 3, 4}, report(1'000));
  const auto after = *parts.part(0, report(1'400)).itl_s;
  EXPECT_EQ(before.count, 500U);
  EXPECT_EQ(after.count, 600U);
  EXPECT_NEAR(after.sum, 6.0, 1e-9);
}

TEST(WorkerParts, AnAddressThatStartsAgainCountsFromZero) {
  WorkerParts parts;
  parts.set({1, 2}, report(1'000));
  parts.set({1, 2, 3}, report(1'000));
  EXPECT_EQ(*parts.part(0, report(300)).generation_tokens_total, 100U);
}

}  // namespace
}  // namespace penstock::controller
