#include "signals/segment_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace penstock::signals {
namespace {

core::Instant at_s(double seconds) { return core::kStart + core::from_seconds(seconds); }

FirstTokenTimes after(double queue_s, double prefill_s) {
  FirstTokenTimes times;
  times.queue = core::from_seconds(queue_s);
  times.prefill = core::from_seconds(prefill_s);
  return times;
}

const SegmentWindow* find(const PoolDetail& detail, std::string_view dimension, std::string_view label) {
  for (const SegmentWindow& segment : detail.segments)
    if (segment.dimension == dimension && segment.label == label) return &segment;
  return nullptr;
}

const std::vector<std::string> kTenants = {"acme", "globex"};

TEST(SegmentMeter, GroupsRequestsIntoSegments) {
  SegmentMeter meter{std::chrono::seconds{2}};
  for (int i = 0; i < 100; ++i) {
    meter.first_token(at_s(10), {500, 0, false, true}, after(0.0, 0.1));
    meter.first_token(at_s(10), {20'000, 1, true, false}, after(1.0, 4.0));
  }
  const PoolDetail detail = meter.read(at_s(20), kTenants);
  EXPECT_EQ(detail.segments.size(), 8U);  // two of each dimension without the output lengths, which are still unknown
  for (const auto& [dimension, label] : {std::pair{"prompt tokens", "below 1k"},
                                         {"traffic class", "interactive"},
                                         {"prefix cache", "hit"},
                                         {"tenant", "acme"}}) {
    const SegmentWindow* segment = find(detail, dimension, label);
    ASSERT_NE(segment, nullptr) << dimension;
    EXPECT_EQ(segment->ttft.count, 100U);
    EXPECT_NEAR(segment->ttft.p95_ms, 100.0, 1.0);
    EXPECT_EQ(segment->itl.count, 0U);
  }
  ASSERT_NE(find(detail, "prompt tokens", "16k-64k"), nullptr);
  EXPECT_NEAR(find(detail, "tenant", "globex")->ttft.p50_ms, 5000.0, 50.0);
}

TEST(SegmentMeter, ARequestWithALimitOfItsOwnIsSlowByThatLimit) {
  SegmentMeter meter{std::chrono::seconds{2}};
  FirstTokenTimes patient = after(4.0, 1.0), strict = after(0.5, 0.5);
  patient.limit = std::chrono::seconds{60};
  strict.limit = std::chrono::milliseconds{500};
  meter.first_token(at_s(10), {}, patient);
  meter.first_token(at_s(10), {}, strict);
  const FirstTokenWindow window = meter.read(at_s(12), kTenants).first_tokens;
  EXPECT_EQ(window.slow, 1U);
  EXPECT_NEAR(window.queue.slow_mean_ms, 500.0, 1e-6);
}

TEST(SegmentMeter, PartsOfTheSlowOnesSumToTheirMean) {
  SegmentMeter meter{std::chrono::seconds{2}};
  for (int i = 0; i < 90; ++i) meter.first_token(at_s(10), {}, after(0.1, 0.2));
  for (int i = 0; i < 10; ++i) meter.first_token(at_s(10), {}, after(4.0, 1.0));
  const FirstTokenWindow window = meter.read(at_s(12), kTenants).first_tokens;
  EXPECT_EQ(window.count, 100U);
  EXPECT_EQ(window.slow, 10U);
  EXPECT_NEAR(window.queue.slow_mean_ms, 4000.0, 1e-6);
  EXPECT_NEAR(window.prefill.slow_mean_ms, 1000.0, 1e-6);
  EXPECT_EQ(window.transfer.slow_mean_ms, 0.0);
  EXPECT_NEAR(window.queue.mean_ms, 490.0, 1e-6);
  EXPECT_NEAR(window.queue.p95_ms, 4000.0, 40.0);
}

TEST(SegmentMeter, AnOutputLengthIsKnownAtTheEnd) {
  SegmentMeter meter{std::chrono::seconds{2}};
  meter.completed(at_s(10), {500, 0, false, false}, 100, {300.0, 20.0, {}});
  meter.completed(at_s(10), {500, 0, false, false}, 1, {300.0, 0.0, {}});  // has no gap between tokens
  const PoolDetail detail = meter.read(at_s(12), kTenants);
  const SegmentWindow* output = find(detail, "output tokens", "64-256");
  ASSERT_NE(output, nullptr);
  EXPECT_EQ(output->ttft.count, 1U);
  EXPECT_EQ(output->itl.count, 1U);
  EXPECT_EQ(find(detail, "output tokens", "below 64")->itl.count, 0U);
  EXPECT_EQ(find(detail, "prompt tokens", "below 1k")->itl.count, 1U);
}

TEST(SegmentMeter, SeparatesRoutes) {
  SegmentMeter meter{std::chrono::seconds{2}};
  meter.first_token(at_s(10), {500, 0, false, false, "/v1/chat/completions"}, after(0.0, 1.0));
  meter.completed(at_s(11), {500, 0, false, false, "/v1/chat/completions"}, 10, {1000.0, 20.0, {}});
  meter.first_token(at_s(10), {500, 0, false, false, "/v1/completions"}, after(0.0, 3.0));
  meter.first_token(at_s(10), {500, 0, false, false}, after(0.0, 9.0));
  const PoolDetail detail = meter.read(at_s(12), kTenants);
  EXPECT_NEAR(find(detail, "route", "/v1/chat/completions")->ttft.p50_ms, 1000.0, 10.0);
  EXPECT_NEAR(find(detail, "route", "/v1/chat/completions")->itl.p50_ms, 20.0, 0.5);
  EXPECT_NEAR(find(detail, "route", "/v1/completions")->ttft.p50_ms, 3000.0, 30.0);
  EXPECT_EQ(find(detail, "route", ""), nullptr);
}

TEST(SegmentMeter, LimitsTheNumberOfRoutes) {
  std::vector<std::string> names;
  names.reserve(100);
  for (int i = 0; i < 100; ++i) names.push_back("/other/" + std::to_string(i));
  SegmentMeter meter{std::chrono::seconds{2}};
  for (const std::string& name : names) meter.first_token(at_s(10), {500, 0, false, false, name}, after(0.0, 1.0));
  const PoolDetail detail = meter.read(at_s(12), kTenants);
  EXPECT_EQ(std::count_if(detail.segments.begin(), detail.segments.end(),
                          [](const SegmentWindow& segment) { return segment.dimension == "route"; }),
            static_cast<std::ptrdiff_t>(SegmentMeter::kRoutesTracked));
}

TEST(SegmentMeter, DropsDataAfterAMinute) {
  SegmentMeter meter{std::chrono::seconds{2}};
  meter.first_token(at_s(1), {}, after(3.0, 0.0));
  EXPECT_EQ(meter.read(at_s(59), kTenants).first_tokens.slow, 1U);
  EXPECT_EQ(meter.read(at_s(61), kTenants).first_tokens.count, 0U);
  EXPECT_TRUE(meter.read(at_s(61), kTenants).segments.empty());
}

TEST(SegmentMeter, TenantsBeyondTheLimitCountTogether) {
  std::vector<std::string> names;
  SegmentMeter meter{std::chrono::seconds{2}};
  for (std::uint32_t tenant = 0; tenant < 100; ++tenant) {
    names.push_back("t" + std::to_string(tenant));
    for (std::uint32_t i = 0; i <= tenant % 20; ++i)
      meter.first_token(at_s(10), {100, tenant, false, false}, after(0, 1));
  }
  std::size_t shown = 0;
  std::uint64_t requests = 0;
  const PoolDetail detail = meter.read(at_s(12), names);
  for (const SegmentWindow& segment : detail.segments) {
    if (segment.dimension != "tenant") continue;
    ++shown;
    requests += segment.ttft.count;
  }
  EXPECT_EQ(shown, SegmentMeter::kTenantsShown + 1);
  EXPECT_EQ(requests, 5U * 210U);  // each request is counted
  EXPECT_NE(find(detail, "tenant", "t19"), nullptr);
  EXPECT_NE(find(detail, "tenant", "all others"), nullptr);
}

}  // namespace
}  // namespace penstock::signals
