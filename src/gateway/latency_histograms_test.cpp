#include "gateway/latency_histograms.h"

#include <gtest/gtest.h>

#include <thread>

#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;

const telemetry::Histogram& of(const LatencyTotals& totals, const LatencyKey& key, Latency latency) {
  return totals.at(key)[static_cast<std::size_t>(latency)].classic;
}

TEST(LatencyHistograms, AreTheSameAsThoseOfTelemetry) {
  LatencyHistogram histogram{telemetry::ttft_bounds_s()};
  telemetry::Histogram expected{telemetry::ttft_bounds_s()};
  for (const core::Duration value : {0ns, 500us + 0ns, 1ms + 0ns, 1ms + 1ns, 99ms + 0ns, 40s + 0ns, 9999s + 0ns}) {
    histogram.add(value, 2);
    expected.add(core::to_seconds(value), 2);
  }
  EXPECT_EQ(histogram.read().classic.counts, expected.counts);
  EXPECT_NEAR(histogram.read().classic.sum, expected.sum, 1e-6);
  EXPECT_EQ(histogram.read().native.count(), expected.count());
  EXPECT_EQ(histogram.read().native.zero_count, 2U);
  histogram.add(-5ms);
  EXPECT_EQ(histogram.read().classic.counts.front(), expected.counts.front() + 1) << "a negative value counts as 0";
  EXPECT_EQ(histogram.read().native.zero_count, 3U);
}

TEST(LatencyHistograms, AddTheWorkersByModelAndClass) {
  LatencyHistograms first, second;
  first.row("m", "interactive").add(Latency::kItl, 20ms, 3);
  second.row("m", "interactive").add(Latency::kItl, 21ms);
  second.row("m", "batch").add(Latency::kE2e, 3s);
  LatencyTotals totals;
  first.add_to(totals);
  second.add_to(totals);
  ASSERT_EQ(totals.size(), 2U);
  EXPECT_EQ(of(totals, {"m", "interactive"}, Latency::kItl).count(), 4U);
  EXPECT_NEAR(of(totals, {"m", "interactive"}, Latency::kItl).sum, 0.081, 1e-9);
  EXPECT_EQ(of(totals, {"m", "interactive"}, Latency::kTtft).count(), 0U);
  EXPECT_EQ(of(totals, {"m", "batch"}, Latency::kE2e).count(), 1U);
}

TEST(LatencyHistograms, HaveALimitedNumberOfRows) {
  LatencyHistograms histograms;
  for (int i = 0; i < 1000; ++i) histograms.row("m" + std::to_string(i), "interactive").add(Latency::kE2e, 1s);
  LatencyTotals totals;
  histograms.add_to(totals);
  EXPECT_EQ(totals.size(), LatencyHistograms::kRowsMax + 1);
  EXPECT_EQ(of(totals, {"other", "interactive"}, Latency::kE2e).count(), 1000 - LatencyHistograms::kRowsMax);
  EXPECT_EQ(&histograms.row("m7", "interactive"), &histograms.row("m7", "interactive"));
}

TEST(LatencyHistograms, AreReadWhileTheyGrow) {
  LatencyHistograms histograms;
  std::thread writer{[&] {
    for (int i = 0; i < 20'000; ++i) histograms.row("m" + std::to_string(i % 50), "batch").add(Latency::kItl, 1ms);
  }};
  std::uint64_t last = 0;
  while (last < 20'000) {
    LatencyTotals totals;
    histograms.add_to(totals);
    std::uint64_t count = 0;
    for (const auto& [key, row] : totals) {
      const LatencyCounts& counts = row[static_cast<std::size_t>(Latency::kItl)];
      EXPECT_GE(counts.native.count(), counts.classic.count());
      count += counts.classic.count();
    }
    EXPECT_GE(count, last);
    last = count;
  }
  writer.join();
}

TEST(Gateway, CountsTheGapsBetweenTheTokensOfAStream) {
  TestReplica replica{[](Peer& peer, const std::string& request, int) {
    if (request.find(R"("stream":true)") == std::string::npos) return peer.send(good_answer());
    peer.send(chunked_head() + chunk(text_event("one")));
    for (int i = 0; i < 2; ++i) {
      std::this_thread::sleep_for(30ms);
      peer.send(chunk(text_event("next")));
    }
    std::string end;
    api::append_finish_event(end, kFrame, api::FinishReason::kStop);
    peer.send(chunk(end + std::string{api::kDoneEvent}) + "0\r\n\r\n");
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  EXPECT_EQ(ask(gateway, chat_body("hi", kStream)).status, 200);
  EXPECT_EQ(ask(gateway, chat_body()).status, 200);
  static_cast<void>(gateway.closed(2));
  const std::string metrics = gateway.admin("/metrics");
  const auto has = [&](const std::string& line) {
    EXPECT_NE(metrics.find("penstock_request_" + line), std::string::npos) << line << metrics;
  };
  const std::string row = R"({model="m",class="interactive")";
  has("queue_seconds_count" + row + "} 2\n");
  has("ttft_seconds_count" + row + "} 1\n");
  has("itl_seconds_bucket" + row + R"(,le="0.025"} 0)" + "\n");
  has("itl_seconds_count" + row + "} 2\n");
  has("tpot_seconds_bucket" + row + R"(,le="0.025"} 0)" + "\n");
  has("tpot_seconds_count" + row + "} 1\n");
  has("e2e_seconds_count" + row + "} 2\n");
}

}  // namespace
}  // namespace penstock::gateway
