#include "planner/penstock/output_lengths.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random.h"
#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using testing::at_s;

signals::RecentRequest completed(double at, std::uint32_t output) { return {at_s(at), 500, output, 100.0F, 20.0F, {}}; }
signals::RecentRequest open(double at, float ttft_ms = 100.0F) { return {at_s(at), 500, 0, ttft_ms, -1.0F, {}}; }

// Log-normal outputs with a median of 400 and a mean of 1232 tokens, at 20 ms each, as they are known at `now`.
std::vector<signals::RecentRequest> long_tailed(double now, double rate_per_s) {
  core::RandomStream random{5};
  std::vector<signals::RecentRequest> requests;
  for (double at = 0.0; at < now; at += 1.0 / rate_per_s) {
    const auto output = static_cast<std::uint32_t>(1.0 + random.log_normal(400.0, 1.5));
    const bool ended = at + 0.1 + 0.02 * (output - 1) <= now;
    requests.push_back(ended ? completed(at, output) : open(at));
  }
  return requests;
}

TEST(OutputLengths, CensoredRequestsRemoveTheBiasOfCompletedOnes) {
  const double truth = 400.0 * std::exp(1.5 * 1.5 / 2.0);
  const auto requests = long_tailed(60.0, 200.0);  // Outputs above 3000 tokens have not ended.
  double completed_sum = 0.0, completed_count = 0.0;
  for (const auto& request : requests)
    if (request.output_tokens > 0) {
      completed_sum += request.output_tokens;
      ++completed_count;
    }
  EXPECT_LT(completed_sum / completed_count, 0.5 * truth);
  OutputLengths lengths;
  lengths.observe(requests, at_s(60.0));
  EXPECT_NEAR(lengths.quantile(0.5), 400.0, 40.0);
  EXPECT_NEAR(lengths.quantile(0.75), 400.0 * std::exp(1.5 * 0.6745), 110.0);
  EXPECT_NEAR(lengths.quantile(0.85), 400.0 * std::exp(1.5 * 1.0364), 250.0);
}

TEST(OutputLengths, OpenRequestsGetLengthsBeyondWhatTheyHaveGenerated) {
  OutputLengths lengths;
  std::vector<signals::RecentRequest> requests;
  for (int i = 0; i < 500; ++i) requests.push_back(completed(i * 0.1, i % 2 == 0 ? 100 : 1000));
  lengths.observe(requests, at_s(100.0));
  EXPECT_EQ(lengths.generated(open(90.0), at_s(100.0)), 496U);  // 9.9 s at 20 ms
  double sum = 0.0;
  for (int i = 0; i < 400; ++i) {
    const std::uint32_t fresh = lengths.length(open(99.95 + i * 1e-4), at_s(100.0));
    sum += fresh;
    EXPECT_NEAR(lengths.length(open(90.0 + i * 1e-3), at_s(100.0)), 1000.0, 35.0);
    EXPECT_EQ(lengths.length(open(90.0), at_s(100.0)), lengths.length(open(90.0), at_s(100.0)));
  }
  EXPECT_NEAR(sum / 400, 550.0, 60.0);
  // No output was so long before.
  EXPECT_GT(lengths.length(open(50.0), at_s(100.0)), 2496U);
  EXPECT_EQ(lengths.length(completed(1.0, 7), at_s(100.0)), 7U);
}

TEST(OutputLengths, FailedRequestsAreNotRunning) {
  std::vector<signals::RecentRequest> requests;
  for (int i = 0; i < 100; ++i) requests.push_back(completed(i, 100));
  for (int i = 0; i < 100; ++i) {
    requests.push_back(open(100.0 + i));
    requests.back().end = signals::RequestEnd::kFailed;
  }
  OutputLengths lengths;
  lengths.observe(requests, at_s(2000.0));
  EXPECT_NEAR(lengths.quantile(0.99), 100.0, 4.0);
}

TEST(OutputLengths, RequestsWithTheSameExpectationAreSimilar) {
  const auto expecting = [](signals::RecentRequest request, std::uint32_t tokens) {
    request.expected_output_tokens = tokens;
    return request;
  };
  std::vector<signals::RecentRequest> requests;
  for (int i = 0; i < 300; ++i) {
    requests.push_back(expecting(completed(i * 0.1, 100), 90));
    requests.push_back(expecting(completed(i * 0.1, 3000), 2800));
    if (i < 100) requests.push_back(expecting(completed(i * 0.1, 5), 8));
  }
  OutputLengths lengths;
  lengths.observe(requests, at_s(100.0));
  EXPECT_NEAR(lengths.length(expecting(open(99.9), 90), at_s(100.0)), 100.0, 4.0);
  EXPECT_NEAR(lengths.length(expecting(open(99.9), 2100), at_s(100.0)), 3000.0, 100.0);
  // Few of them have completed, or the gateway expected nothing: of all requests 300 in 700 have 3000 tokens.
  for (const std::uint32_t expected : {8U, 0U}) {
    double sum = 0.0;
    for (int i = 0; i < 400; ++i) sum += lengths.length(expecting(open(99.9 + i * 1e-4), expected), at_s(100.0));
    EXPECT_NEAR(sum / 400, (300 * 3000 + 300 * 100 + 100 * 5) / 700.0, 130.0);
  }
}

// No completed request with its expected length was longer than what it has generated.
TEST(OutputLengths, ARequestBeyondItsExpectationIsLikeAllOthers) {
  std::vector<signals::RecentRequest> requests;
  for (int i = 0; i < 300; ++i) {
    requests.push_back(completed(i * 0.1, 100));
    requests.back().expected_output_tokens = 90;
    requests.push_back(completed(i * 0.1, 3000));
    requests.back().expected_output_tokens = 2800;
  }
  OutputLengths lengths;
  lengths.observe(requests, at_s(100.0));
  signals::RecentRequest beyond = open(90.0);  // 496 tokens so far.
  beyond.expected_output_tokens = 90;
  EXPECT_NEAR(lengths.length(beyond, at_s(100.0)), 3000.0, 100.0);
}

TEST(OutputLengths, WithoutCompletedRequestsALengthIsAssumed) {
  OutputLengths lengths;
  lengths.observe({}, at_s(0.0));
  EXPECT_EQ(lengths.length(open(0.0, -1.0F), at_s(1.0)), 256U);
  const std::vector<signals::RecentRequest> requests{open(0.0), open(1.0)};
  lengths.observe(requests, at_s(20.0));
  EXPECT_GT(lengths.length(requests[0], at_s(20.0)), 996U);
}

TEST(OutputLengths, RequestTimeIsTtftAndDecoding) {
  std::vector<signals::RecentRequest> requests;
  for (int i = 0; i < 100; ++i) requests.push_back(completed(i * 0.1, 51));
  OutputLengths lengths;
  lengths.observe(requests, at_s(20.0));
  EXPECT_NEAR(core::to_seconds(lengths.request_time(0.9)), 0.1 + 51 * 0.02, 0.03);
}

}  // namespace
}  // namespace penstock::planner
