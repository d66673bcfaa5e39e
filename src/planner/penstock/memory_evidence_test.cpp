#include "planner/penstock/memory_evidence.h"

#include <gtest/gtest.h>

#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using namespace std::chrono_literals;

TEST(MemoryEvidence, IsTheShortestTimeOfTheReadyReplicas) {
  signals::PoolObservation pool = testing::pool_of(3, testing::engine(0));
  pool.replicas[0].sample->kv_full_in = 90s;
  pool.replicas[1].sample->kv_full_in = 30s;
  pool.replicas[1].sample->gpu_utilisation = 0.9;
  pool.replicas[2].sample->gpu_utilisation = 0.7;
  pool.replicas[2].sample->gpu_memory_full_in = 10s;
  PoolDecision decision;
  add_memory_evidence(pool, testing::at_s(1), decision);
  EXPECT_NE(sentence(decision).find("gpu_utilisation 0.8 share, kv_full_in 30 s, gpu_memory_full_in 10 s"),
            std::string::npos)
      << sentence(decision);
  pool.replicas[1].state = signals::ReplicaState::kDraining;
  PoolDecision later;
  add_memory_evidence(pool, testing::at_s(1), later);
  EXPECT_NE(sentence(later).find("kv_full_in 90 s"), std::string::npos) << sentence(later);
}

TEST(MemoryEvidence, IsMissingWithoutFigures) {
  PoolDecision decision;
  add_memory_evidence(testing::pool_of(3, testing::engine(0)), testing::at_s(1), decision);
  EXPECT_TRUE(decision.evidence.empty());
}

}  // namespace
}  // namespace penstock::planner
