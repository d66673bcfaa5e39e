#include "load/sources.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "load/setup.h"

namespace penstock::load {
namespace {

using namespace std::chrono_literals;
using workload::TrafficClass;

workload::Workload small_trace() {
  workload::Workload trace;
  trace.block_tokens = 100;
  trace.tenants = {"a", "b"};
  trace.block_ids = {7, 8, 9, 10};
  workload::Request request;
  request.arrival = core::kStart + 2s;
  request.input_tokens = 250;
  request.output_tokens = 30;
  request.block_count = 4;  // the third is not full, and the fourth lies over the answer
  trace.requests.push_back(request);
  request.arrival = core::kStart + 6s;
  request.tenant = 1;
  request.traffic_class = TrafficClass::kBatch;
  trace.requests.push_back(request);
  return trace;
}

TEST(TraceSource, KeepsLengthsAndSharesOnlyFullBlocksOfThePrompt) {
  const auto trace = small_trace();
  auto source = trace_source(trace, RequestMix{{}, 1}, {.speed = 2.0, .tenants = {0, 1}});
  const auto first = source();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->at, 1s);
  EXPECT_EQ(first->shape.input_tokens, 250U);
  EXPECT_EQ(first->shape.output_tokens, 30U);
  ASSERT_EQ(first->shape.blocks.size(), 2U);
  EXPECT_EQ(first->shape.blocks[1], 8U);
  EXPECT_EQ(first->shape.block_tokens, 100U);
  const auto second = source();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->at, 3s);
  EXPECT_EQ(second->shape.tenant, 1U);
  EXPECT_EQ(second->shape.traffic_class, TrafficClass::kBatch);
  EXPECT_FALSE(source());
  EXPECT_FALSE(source()) << "and stays so";
}

TEST(TraceSource, StreamsWhatTheTraceStreamedUnlessTheMixDecides) {
  auto trace = small_trace();
  trace.requests.front().streamed = false;
  MixOptions whole;
  whole.whole_share = 1.0;
  auto source = trace_source(trace, RequestMix{whole, 1}, {.tenants = {0, 1}});
  EXPECT_FALSE(source()->shape.stream);
  EXPECT_TRUE(source()->shape.stream);
  auto mixed = trace_source(trace, RequestMix{whole, 1}, {.tenants = {0, 1}, .own_streaming = false});
  EXPECT_FALSE(mixed()->shape.stream);
  EXPECT_FALSE(mixed()->shape.stream);
}

TEST(TraceSource, EndsAtTheDurationAndTheNumberOfRequests) {
  const auto trace = small_trace();
  auto by_time = trace_source(trace, RequestMix{{}, 1}, {.tenants = {0, 0}, .duration = 6s});
  EXPECT_TRUE(by_time());
  EXPECT_FALSE(by_time());
  auto by_count = trace_source(trace, RequestMix{{}, 1}, {.tenants = {0, 0}, .requests_max = 1});
  EXPECT_TRUE(by_count());
  EXPECT_FALSE(by_count());
}

TEST(RequestMix, KeepsEveryShare) {
  MixOptions options;
  options.prefix_tokens = 500;
  options.prefixes = 3;
  options.prefix_share = 0.8;
  options.batch_share = 0.25;
  options.whole_share = 0.1;
  options.tenant_shares = {3.0, 1.0};
  RequestMix mix{options, 5};
  constexpr int kDraws = 20'000;
  std::map<std::uint32_t, int> prefixes;
  int with_prefix = 0, batch = 0, whole = 0, first_tenant = 0;
  for (int i = 0; i < kDraws; ++i) {
    const RequestShape shape = mix.next();
    if (!shape.blocks.empty()) {
      ++with_prefix;
      ++prefixes[shape.blocks.front()];
      EXPECT_EQ(shape.block_tokens, 500U);
    }
    batch += shape.traffic_class == TrafficClass::kBatch ? 1 : 0;
    whole += shape.stream ? 0 : 1;
    first_tenant += shape.tenant == 0 ? 1 : 0;
  }
  EXPECT_NEAR(with_prefix, 0.8 * kDraws, 300);
  EXPECT_NEAR(batch, 0.25 * kDraws, 300);
  EXPECT_NEAR(whole, 0.1 * kDraws, 300);
  EXPECT_NEAR(first_tenant, 0.75 * kDraws, 300);
  ASSERT_EQ(prefixes.size(), 3U);
  EXPECT_NEAR(static_cast<double>(prefixes[0]) / prefixes[2], 3.0, 0.3) << "popular as 1, 1/2, 1/3";
}

TEST(RequestMix, DrawsLengthsThatAnotherShareDoesNotChange) {
  MixOptions options;
  options.input = *LengthMix::parse("100..8000");
  RequestMix plain{options, 9};
  options.batch_share = 0.5;
  options.prefix_tokens = 64;
  RequestMix changed{options, 9};
  for (int i = 0; i < 50; ++i) EXPECT_EQ(plain.next().input_tokens, changed.next().input_tokens);
}

TEST(LoadSetup, RefusesAPrefixThatLeavesNoTextOfAPrompt) {
  LoadOptions made;
  made.mix.prefix_tokens = 1000;
  const options::Arguments given{false, {}, {{"--concurrency", "1"}}};
  const auto refused = make_load_setup(made, "http://127.0.0.1:1", given);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "--shared-prefix-tokens");
  made.mix.input = *LengthMix::parse("500..1001");
  EXPECT_TRUE(make_load_setup(made, "http://127.0.0.1:1", given));
}

TEST(LoadSetup, RefusesFlagsThatChangeNothing) {
  const auto refusal = [](std::vector<options::FlagValue> flags) {
    const auto made = make_load_setup({}, "http://127.0.0.1:1", {false, {}, std::move(flags)});
    return made ? std::string{} : made.error().message();
  };
  EXPECT_EQ(refusal({{"--concurrency", "1"}, {"--prefixes", "8"}}),
            "--prefixes: has no effect without --shared-prefix-tokens");
  EXPECT_EQ(refusal({{"--profile", "diurnal"}, {"--burst-every", "1m"}}),
            "--burst-every: has no effect without --burst-factor");
  EXPECT_EQ(refusal({{"--concurrency", "1"}, {"--trace-model", "x"}}),
            "--trace-model: has no effect with --concurrency");
  EXPECT_EQ(refusal({{"--concurrency", "1"}, {"--chat", "true"}, {"--completions", "true"}}),
            "--completions: does not go together with --chat");
  EXPECT_EQ(refusal({{"--concurrency", "1"}, {"--api-key", "k"}, {"--tenant", "a=k2"}}),
            "--api-key: does not go together with --tenant");
  EXPECT_EQ(refusal({{"--concurrency", "1"}, {"--tenant", "a=k2"}}), "");
}

TEST(LoadSetup, ATraceMayHaveBadRowsAndIsWarnedOfWhereItLastsForDays) {
  const std::string path = ::testing::TempDir() + "penstock-load-trace.csv";
  std::ofstream{path} << "arrival_s,input_tokens,output_tokens\n0,10,1\n1,0,1\n2,10,1\n864002,10,1\n";
  LoadOptions made;
  made.trace.names = {path};
  std::vector<options::FlagValue> flags{{"--trace", path}};
  const auto setup = [&] { return make_load_setup(made, "http://127.0.0.1:1", {false, {}, flags}); };
  EXPECT_FALSE(setup());
  made.trace.read.skip_bad_rows = true;
  const auto read = setup();
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_TRUE(read->traffic.ends_with("3 requests, 1 invalid row skipped")) << read->traffic;
  ASSERT_EQ(read->warnings.size(), 1U);
  EXPECT_EQ(read->warnings[0], path +
                                   ":5: no request arrives for 10.0 days, and the run takes as long; correct the "
                                   "time of the row if it is wrong, or end before it with --duration 3s");
  made.speed = 100.0;
  EXPECT_TRUE(setup()->warnings.empty());
  made.speed = 1.0;
  made.requests_max = 2;
  EXPECT_TRUE(setup()->warnings.empty());
  made.requests_max = 0;
  made.duration = 3s;
  flags.push_back({"--duration", "3s"});
  EXPECT_TRUE(setup()->warnings.empty());
}

TEST(LoadSetup, ARateOfSessionsNeedsATraceOfSessions) {
  LoadOptions made;
  made.trace.names = {"synthetic:rate=1,duration=10s"};
  made.trace.read.session_rate = 0.1;
  const auto setup = make_load_setup(made, "http://127.0.0.1:1", {false, {}, {{"--trace", made.trace.names.front()}}});
  ASSERT_FALSE(setup);
  EXPECT_EQ(setup.error().where, "--session-rate");
}

TEST(LoadSetup, FlagsOfATraceNeedATrace) {
  for (const char* flag : {"--skip-bad-rows", "--session-rate", "--think-time-max"}) {
    const auto made = make_load_setup({}, "http://127.0.0.1:1", {false, {}, {{"--rate", "1"}, {flag, "1"}}});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().message(), fmt::format("{}: has no effect with --rate", flag));
  }
}

TEST(MixedSource, GivesRisingTimesAndAsManyAsWanted) {
  RateProfile profile;
  profile.curve.low = 100.0;
  auto source =
      mixed_source(RequestMix{{}, 1}, Arrivals{profile, ArrivalKind::kPoisson, 10s, core::RandomStream{1}}, 50);
  core::Duration before{};
  int made = 0;
  while (const auto planned = source()) {
    EXPECT_GE(planned->at, before);
    before = planned->at;
    ++made;
  }
  EXPECT_EQ(made, 50);
}

TEST(TimelessSource, EndsAfterTheNumberOfRequestsIfThereIsOne) {
  auto three = timeless_source(RequestMix{{}, 1}, 3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(three());
  EXPECT_FALSE(three());
  auto endless = timeless_source(RequestMix{{}, 1}, 0);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(endless());
}

}  // namespace
}  // namespace penstock::load
