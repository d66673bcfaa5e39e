#include "planner/penstock/early_signs.h"

#include <gtest/gtest.h>

namespace penstock::planner {
namespace {

using namespace std::chrono_literals;

class EarlySigns : public ::testing::Test {
 protected:
  EarlySigns() {
    slo.target = {2s, 50ms};
    seen.pools.resize(1);
    seen.pools[0].name = "chat";
    seen.pools[0].replicas.resize(1);
    seen.pools[0].replicas[0].sample.emplace();
  }
  std::string words() const {
    const auto finding = early_sign(seen, slo);
    return finding ? sentence(*finding) : "";
  }

  signals::SloPolicy slo;
  signals::Observation seen;
};

TEST_F(EarlySigns, AreEmptyForAHealthyFleet) {
  seen.pools[0].last_minute.ttft = {.count = 5, .p95_ms = 1900.0};
  seen.pools[0].replicas[0].sample->oldest_queued_age = 900ms;
  EXPECT_EQ(words(), "");
}

TEST_F(EarlySigns, IncludeARequestWithoutAReplica) {
  seen.pools[0].unrouted_requests = 3;
  EXPECT_TRUE(words().starts_with(
      "TTFT is at risk in pool chat, while waiting for a replica: early signs (unrouted 3 requests); "))
      << words();
}

TEST_F(EarlySigns, IncludeAWaitForHalfOfTheStrictestLimit) {
  seen.pools[0].replicas[0].sample->oldest_queued_age = 900ms;
  slo.segments.resize(1);
  slo.segments[0].target = {1s, 50ms};
  EXPECT_NE(words().find("in the engine queue: early signs (oldest_waiting 900 ms)"), std::string::npos) << words();
}

TEST_F(EarlySigns, IncludeAP95OfFewRequests) {
  seen.pools[0].last_minute.ttft = {.count = 5, .p95_ms = 2100.0};
  EXPECT_NE(words().find("ttft_p95"), std::string::npos) << words();
  seen.pools[0].last_minute.ttft = {};
  seen.pools[0].last_minute.itl = {.count = 5, .p95_ms = 60.0};
  EXPECT_TRUE(words().starts_with("ITL is at risk")) << words();
}

// Long prompts may take longer. The p95 of all requests is theirs.
TEST_F(EarlySigns, EachObjectiveHasTheP95OfItsOwnRequests) {
  slo.segments.resize(1);
  slo.segments[0].target = {20s, 200ms};
  seen.now = core::kStart + 100s;
  seen.pools[0].last_minute.ttft = {.count = 20, .p95_ms = 9000.0};
  std::vector<signals::RecentRequest> requests(20);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].arrival = core::kStart + 80s;
    requests[i].target = i % 2;
    requests[i].ttft_ms = i % 2 == 0 ? 900.0F : 9000.0F;
  }
  seen.recent = requests;
  EXPECT_EQ(words(), "");
  for (std::size_t i = 0; i < 10; i += 2) requests[i].ttft_ms = 2500.0F;
  EXPECT_NE(words().find("ttft_p95 2500 ms"), std::string::npos) << words();
  for (signals::RecentRequest& request : requests) request.arrival = core::kStart + 10s;  // More than a minute ago.
  EXPECT_EQ(words(), "");
  requests[1].arrival = core::kStart + 90s;
  requests[1].itl_ms = 300.0F;
  requests[1].e2e_ms = 5000.0F;
  requests[1].output_tokens = 20;
  EXPECT_TRUE(words().starts_with("ITL is at risk")) << words();
}

}  // namespace
}  // namespace penstock::planner
