#include "decision/figures.h"

#include <gtest/gtest.h>

#include <limits>

namespace penstock::decision {
namespace {

PoolDecision with(std::vector<Evidence> evidence) {
  PoolDecision decision;
  decision.evidence = std::move(evidence);
  return decision;
}

TEST(DecisionFigures, EvidenceCountsInItsUnitOnlyAndWhenItIsANumber) {
  const PoolDecision decision =
      with({{"target", 2.0, "requests"}, {"rate", std::numeric_limits<double>::quiet_NaN(), "1/s"}});
  EXPECT_EQ(evidence_value(decision, "target", "requests"), 2.0);
  EXPECT_FALSE(evidence_value(decision, "target", "1/s"));
  EXPECT_FALSE(evidence_value(decision, "rate", "1/s"));
}

TEST(DecisionFigures, TheWorstPoolsEstimateCounts) {
  Decision decision;
  decision.pools = {with({{"estimated_ttft", 900.0, "ms"}}),
                    with({{"estimated_ttft", 400.0, "ms"}, {"estimated_itl", 31.0, "ms"}})};
  EXPECT_EQ(estimate_of(decision).ttft_ms, 900.0);
  EXPECT_EQ(estimate_of(decision).itl_ms, 31.0);
  EXPECT_FALSE(estimate_of({}).ttft_ms);
}

TEST(DecisionFigures, CapacityIsEstimatedOrGivenAndNeverARateOfTrials) {
  Decision told;
  told.pools = {with({{"request_rate", 12.0, "1/s"}, {"target_per_replica", 2.5, "1/s"}}),
                with({{"replica_capacity", 3.5, "1/s"}, {"target_per_replica", 2.5, "1/s"}})};
  EXPECT_EQ(capacity_per_replica(told, 0), 2.5);
  EXPECT_EQ(capacity_per_replica(told, 1), 3.5);

  Decision tried;
  tried.pools = {with({{"request_rate", 12.0, "1/s"}, {"expected_growth", 1.5, "times"}})};
  tried.candidates = {{{8, 8}, 1.0, 1.0, 1.0, false}, {{3, 6}, 0.99, 1.0, 1.0, true}};
  EXPECT_FALSE(capacity_per_replica(tried, 0));
}

}  // namespace
}  // namespace penstock::decision
