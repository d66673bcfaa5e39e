// Segments with objectives of their own.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "planner/diagnosis_testing.h"

namespace penstock::planner {
namespace {

using namespace diagnosis_testing;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

// Half of the requests of the last minute are of the class batch, which may wait for 30 s.
class DiagnosisObjectives : public ::testing::Test {
 protected:
  DiagnosisObjectives() {
    slo = general_slo();
    signals::SegmentSlo& batch = slo.segments.emplace_back();
    batch.name = "batch";
    batch.traffic_class = "batch";
    batch.target = {30s, 200ms, {}};
    pool = queued(late(&signals::FirstTokenWindow::queue), 6);
    pool.last_minute.itl = latency(150.0);
    pool.detail->segments = {{"traffic class", "batch", latency(8000.0), latency(150.0)}};
    requests.resize(80);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const bool is_batch = i % 2 == 1;
      requests[i].arrival = at_s(80);
      requests[i].target = is_batch ? 1 : 0;
      requests[i].ttft_ms = is_batch ? 8000.0F : 900.0F;
      requests[i].itl_ms = is_batch ? 150.0F : 20.0F;
      requests[i].output_tokens = 100;
      requests[i].e2e_ms = 15'000.0F;
    }
  }

  Diagnosis diagnose() {
    Observation seen;
    seen.now = at_s(100);
    for (auto& replica : pool.replicas) replica.sample->sampled_at = seen.now;
    seen.pools = {pool};
    seen.recent = requests;
    seen.tenants = tenants;
    return Diagnoser{slo}.observe(seen);
  }
  void set_ttft(std::uint8_t target, float ms) {
    for (signals::RecentRequest& request : requests)
      if (request.target == target) request.ttft_ms = ms;
  }

  signals::SloPolicy slo;
  PoolObservation pool;
  std::vector<signals::RecentRequest> requests;
  std::vector<std::string> tenants{"acme", "shop"};
};

TEST_F(DiagnosisObjectives, NothingIsWrongWhileEachSegmentMeetsItsOwn) {
  EXPECT_EQ(sentence(diagnose()), "latency meets the SLO");
  for (auto& replica : pool.replicas) replica.sample->oldest_queued_age = 20s;
  EXPECT_EQ(sentence(diagnose()), "latency meets the SLO") << "batch may wait so long";
}

TEST_F(DiagnosisObjectives, TheSegmentThatMissesItsObjectiveIsNamedWithItsLimit) {
  set_ttft(1, 45'000.0F);
  std::string text = sentence(diagnose());
  EXPECT_TRUE(text.starts_with("TTFT is bad in pool web for SLO segment batch, in the engine queue: ")) << text;
  EXPECT_NE(text.find("(ttft_p95 45000 ms, ttft_limit 30000 ms, "), std::string::npos) << text;
  set_ttft(1, 8000.0F);
  set_ttft(0, 2500.0F);
  text = sentence(diagnose());
  EXPECT_TRUE(text.starts_with("TTFT is bad in pool web for SLO segment general, ")) << text;
  EXPECT_NE(text.find("(ttft_p95 2500 ms, ttft_limit 2000 ms, "), std::string::npos) << text;
}

// 160 requests, of which each objective has a half and each tenant a half of that.
TEST_F(DiagnosisObjectives, ThePromptLengthOrTheTenantThatIsLateInItIsNamed) {
  const auto more = requests;
  requests.insert(requests.end(), more.begin(), more.end());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].tenant = i / 2 % 2;
    requests[i].input_tokens = 500;
  }
  const auto slow_down = [&](auto is_slow, float ms) {
    for (signals::RecentRequest& request : requests)
      if (request.target == 0) request.ttft_ms = is_slow(request) ? ms : 900.0F;
  };
  slow_down([](const auto& request) { return request.tenant == 1; }, 4000.0F);
  std::string text = sentence(diagnose());
  EXPECT_TRUE(text.starts_with("TTFT is bad in pool web for SLO segment general, tenant shop, in the engine queue: "))
      << text;
  EXPECT_NE(text.find("(ttft_p95 4000 ms, ttft_limit 2000 ms, "), std::string::npos) << text;

  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].input_tokens = i / 4 % 2 == 0 ? 500 : 20'000;
  slow_down([](const auto& request) { return request.input_tokens == 20'000; }, 4000.0F);
  text = sentence(diagnose());
  EXPECT_TRUE(text.starts_with("TTFT is bad in pool web for SLO segment general, prompt tokens 16k-64k, ")) << text;

  // Where all are late, or the others are too few, nothing is named.
  slow_down([](const auto&) { return true; }, 4000.0F);
  EXPECT_EQ(diagnose().findings.front().segment, "SLO segment general");
  requests.resize(60);
  slow_down([](const auto& request) { return request.tenant == 1; }, 4000.0F);
  EXPECT_EQ(diagnose().findings.front().segment, "SLO segment general");
}

TEST_F(DiagnosisObjectives, EachOfSeveralPoolsIsJudgedByItsOwnRequests) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].pool = i / 2 % 2;
    if (requests[i].pool == 1 && requests[i].target == 0) requests[i].ttft_ms = 4000.0F;
  }
  Observation seen;
  seen.now = at_s(100);
  seen.pools = {pool, pool};
  seen.pools[1].name = "long";
  for (auto& each : seen.pools)
    for (auto& replica : each.replicas) replica.sample->sampled_at = seen.now;
  seen.recent = requests;
  const Diagnosis diagnosis = Diagnoser{slo}.observe(seen);
  ASSERT_EQ(diagnosis.findings.size(), 1U) << sentence(diagnosis);
  EXPECT_EQ(diagnosis.findings[0].pool_name, "long");
  EXPECT_EQ(diagnosis.findings[0].segment, "SLO segment general");
}

TEST_F(DiagnosisObjectives, AStricterObjectiveThanTheGeneralOneCounts) {
  slo.segments[0].target = {500ms, 10ms, {}};
  set_ttft(1, 900.0F);
  const Diagnosis diagnosis = diagnose();
  ASSERT_FALSE(diagnosis.findings.empty());
  EXPECT_EQ(diagnosis.symptom, Symptom::kBoth);
  EXPECT_EQ(diagnosis.findings[0].segment, "SLO segment batch") << sentence(diagnosis);
}

TEST_F(DiagnosisObjectives, AWaitBeyondTheLongestLimitIsBad) {
  for (auto& replica : pool.replicas) replica.sample->oldest_queued_age = 40s;
  const std::string text = sentence(diagnose());
  EXPECT_TRUE(text.starts_with("TTFT is bad in pool web, ")) << text;
}

}  // namespace
}  // namespace penstock::planner
