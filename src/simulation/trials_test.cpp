#include "simulation/trials.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "decision/decision_text.h"
#include "decision/figures.h"
#include "planner/penstock/penstock_planner.h"
#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using signals::RecentRequest;
using testing::at_s;
using testing::options;
using testing::pool;

std::vector<RecentRequest> evenly(std::uint32_t count, double rate_per_s) {
  std::vector<RecentRequest> requests;
  for (std::uint32_t i = 0; i < count; ++i)
    requests.push_back({at_s(100.0 + i / rate_per_s), 500, 50, 50.0F, 10.0F, {}});
  return requests;
}

// At random, and of many lengths.
std::vector<RecentRequest> unevenly(std::uint32_t count, double rate_per_s) {
  core::RandomStream random{7};
  std::vector<RecentRequest> requests;
  double at = 100.0;
  for (std::uint32_t i = 0; i < count; ++i) {
    at += random.exponential(1.0 / rate_per_s);
    const auto input = static_cast<std::uint32_t>(20 + random.below(1500));
    requests.push_back({at_s(at), input, static_cast<std::uint32_t>(1 + random.below(100)), 50.0F, 10.0F, {}});
  }
  return requests;
}

RunOptions tight() {
  RunOptions run_options = options(pool(1));
  run_options.slo = {std::chrono::milliseconds{300}, std::chrono::milliseconds{14}};
  return run_options;
}

double attainment(planner::FleetTrials& trials, std::uint32_t replicas) {
  return trials.attempt(std::array{replicas}).all.attainment();
}

TEST(Trials, LargerFleetsKeepMore) {
  const auto trials = make_trials(tight());
  const auto requests = evenly(400, 60.0);
  trials->load({requests, 1.0});
  double before = 0.0;
  for (const std::uint32_t replicas : {1U, 2U, 4U, 8U}) {
    const auto outcome = trials->attempt(std::array{replicas});
    EXPECT_EQ(outcome.all.requests, 400.0);
    EXPECT_GE(outcome.all.met, before);
    EXPECT_LE(outcome.all.met, std::min(outcome.ttft.met, outcome.itl.met));
    EXPECT_TRUE(outcome.targets.empty());
    before = outcome.all.met;
  }
  EXPECT_GT(before, 0.99 * 400);
}

TEST(Trials, AHigherRateNeedsALargerFleet) {
  const auto trials = make_trials(tight());
  const auto requests = evenly(400, 30.0);
  trials->load({requests, 1.0});
  const double plain = attainment(*trials, 2);
  trials->load({requests, 8.0});
  const auto more = trials->attempt(std::array{2U});
  EXPECT_GT(more.all.requests, 3000.0);
  EXPECT_LT(more.all.attainment(), plain - 0.1);
}

TEST(Trials, ALowerRateIsAShareOfTheTraffic) {
  const auto trials = make_trials(tight());
  const auto requests = evenly(2000, 60.0);
  trials->load({requests, 1.0});
  const double crowded = attainment(*trials, 1);
  trials->load({requests, 0.25});
  const auto fewer = trials->attempt(std::array{1U});
  EXPECT_NEAR(fewer.all.requests, 500.0, 20.0);
  EXPECT_GT(fewer.all.attainment(), crowded + 0.1);
}

TEST(Trials, RunningRequestsTakeTimeAndKvFromTheStart) {
  const auto trials = make_trials(tight());
  const auto requests = evenly(300, 10.0);
  trials->load({requests, 1.0});
  const double empty = attainment(*trials, 2);
  const std::vector<planner::RunningRequest> running(150, {500, 2000, {}, 0});
  planner::TrialTraffic traffic{requests, 1.0, at_s(100.0), core::kNever, running};
  traffic.from = at_s(99.9);
  trials->load(traffic);
  const auto busy = trials->attempt(std::array{2U});
  EXPECT_EQ(busy.all.requests, 300.0);  // Running ones do not count.
  EXPECT_LT(busy.all.attainment(), empty - 0.2);
  EXPECT_GT(attainment(*trials, 16), busy.all.attainment());
  traffic.running_factor = 0.0;
  trials->load(traffic);
  EXPECT_EQ(attainment(*trials, 2), empty);
}

// Their prompts are no work of the last seconds, for which a router would avoid their replicas.
TEST(Trials, RunningRequestsLeaveRoomForPrompts) {
  RunOptions run_options = tight();
  run_options.router = routing::Strategy::kLive;
  run_options.pools.front().engine.kv_blocks = 10'000;
  const auto trials = make_trials(run_options);
  const auto requests = evenly(420, 210.0);
  const std::vector<planner::RunningRequest> running(2, {20'000, 200, {}, 0});
  planner::TrialTraffic traffic{requests, 1.0, at_s(100.0) + core::Duration{1}, core::kNever, running};
  traffic.from = at_s(100.0);
  trials->load(traffic);
  const auto outcome = trials->attempt(std::array{4U});
  EXPECT_GT(outcome.all.attainment(), 0.95);
  EXPECT_EQ(outcome.all.requests, 419.0);  // Without those that run, and the first, which arrives when it begins.
}

// The second turns of 20 sessions, whose prompts of 3,000 tokens take 30 ms each if nothing is cached.
TEST(Trials, CachesHoldEarlierPrompts) {
  std::vector<std::vector<std::uint32_t>> blocks(20);
  std::vector<RecentRequest> earlier, requests;
  for (std::uint32_t session = 0; session < 20; ++session) {
    for (std::uint32_t block = 0; block < 187; ++block) blocks[session].push_back(1000 * session + block);
    earlier.push_back({at_s(50.0 + session), 2880, 10, 50.0F, 10.0F, std::span{blocks[session]}.first(180)});
    requests.push_back({at_s(100.0 + session), 3000, 10, 50.0F, 10.0F, blocks[session]});
  }
  for (const routing::Strategy router : {routing::Strategy::kKv, routing::Strategy::kLive}) {
    for (const double load : {1.0, 2.0}) {
      RunOptions run_options = options(pool(1));
      run_options.router = router;
      run_options.slo = {std::chrono::milliseconds{25}, std::chrono::milliseconds{100}};
      run_options.pools.front().engine.kv_blocks = 2000;
      const auto trials = make_trials(run_options);
      planner::TrialTraffic traffic{requests, load};
      traffic.judged_from = traffic.from.emplace(at_s(100.0));
      trials->load(traffic);
      EXPECT_EQ(attainment(*trials, 4), 0.0) << "nothing is cached";
      traffic.earlier = earlier;
      trials->load(traffic);
      EXPECT_EQ(attainment(*trials, 4), 1.0) << "all is cached, load " << load;
      EXPECT_LT(attainment(*trials, 1), 1.0) << "a single cache has no room for all";
    }
  }
}

TEST(Trials, ThePrefillPoolHoldsEarlierPrompts) {
  std::vector<std::uint32_t> blocks(187);
  std::iota(blocks.begin(), blocks.end(), 0U);
  const std::vector<RecentRequest> earlier = {{at_s(50.0), 2880, 10, 50.0F, 10.0F, std::span{blocks}.first(180)}};
  const std::vector<RecentRequest> requests = {{at_s(100.0), 3000, 10, 50.0F, 10.0F, blocks}};
  for (const bool decode_first : {false, true}) {
    RunOptions run_options = testing::disaggregated(1, 1);
    if (decode_first) std::swap(run_options.pools[0], run_options.pools[1]);
    run_options.slo = {std::chrono::milliseconds{35}, std::chrono::milliseconds{100}};
    const auto trials = make_trials(run_options);
    planner::TrialTraffic traffic{requests};
    traffic.judged_from = traffic.from.emplace(at_s(100.0));
    trials->load(traffic);
    EXPECT_EQ(trials->attempt(std::array{1U, 1U}).all.attainment(), 0.0);
    traffic.earlier = earlier;
    trials->load(traffic);
    EXPECT_EQ(trials->attempt(std::array{1U, 1U}).all.attainment(), 1.0) << decode_first;
  }
}

TEST(Trials, AMiddlePartMatchesTheWholeIfItBeginsWithWhatRan) {
  auto requests = unevenly(1200, 20.0);
  for (std::size_t i = 0; i < requests.size(); i += 5) requests[i].output_tokens = 1500;
  const auto trials = make_trials(tight());
  trials->load({requests, 1.0, at_s(131.0), at_s(145.0)});
  const double whole = attainment(*trials, 2);
  const auto middle = std::partition_point(requests.begin(), requests.end(),
                                           [](const auto& request) { return request.arrival < at_s(130.0); });
  const std::span<const RecentRequest> later{middle, requests.end()};
  trials->load({later, 1.0, at_s(131.0), at_s(145.0)});
  const double from_nothing = attainment(*trials, 2);
  // At about 12 ms a token, those of the last 18 s still run.
  std::vector<planner::RunningRequest> running;
  for (auto request = requests.begin(); request != middle; ++request) {
    const auto generated = static_cast<std::uint32_t>(core::to_seconds(at_s(130.0) - request->arrival) / 0.012);
    if (generated > 0 && generated < request->output_tokens)
      running.push_back({request->input_tokens + generated, request->output_tokens - generated, {}, 0});
  }
  planner::TrialTraffic traffic{later, 1.0, at_s(131.0), at_s(145.0), running};
  traffic.from = at_s(130.0);
  trials->load(traffic);
  EXPECT_NEAR(attainment(*trials, 2), whole, 0.05);
  EXPECT_GT(std::abs(from_nothing - whole), std::abs(attainment(*trials, 2) - whole));
}

TEST(Trials, RequestsAfterTheJudgedOnesAreServedAndNotCounted) {
  const auto trials = make_trials(tight());
  const auto requests = evenly(400, 40.0);
  trials->load({requests, 1.0, at_s(102.0), at_s(107.0)});
  EXPECT_EQ(trials->attempt(std::array{2U}).all.requests, 200.0);
}

TEST(Trials, RepeatThemselves) {
  const auto first = make_trials(tight()), second = make_trials(tight());
  const auto requests = evenly(300, 45.0);
  for (const auto& trials : {first.get(), second.get()}) trials->load({requests, 1.7});
  EXPECT_EQ(attainment(*first, 2), attainment(*second, 2));
  EXPECT_EQ(attainment(*first, 2), attainment(*second, 2));
}

TEST(Trials, WithoutTrafficNothingCounts) {
  const auto trials = make_trials(tight());
  EXPECT_EQ(trials->attempt(std::array{1U}).all.requests, 0.0);
  trials->load({});
  EXPECT_EQ(trials->attempt(std::array{1U}).all.requests, 0.0);
  EXPECT_EQ(attainment(*trials, 1), 1.0);
}

// A crowd that one replica cannot serve, then quiet traffic.
TEST(Trials, WarmUpRequestsDoNotCount) {
  const auto trials = make_trials(tight());
  auto requests = evenly(400, 200.0);  // from 100 s to 102 s
  const auto quiet_from = requests.size();
  for (int i = 0; i < 200; ++i) requests.push_back({at_s(102.0 + i), 500, 50, 50.0F, 10.0F, {}});
  trials->load({requests, 1.0, at_s(102.0)});
  const auto queued = trials->attempt(std::array{1U});
  EXPECT_EQ(queued.all.requests, 200.0);
  EXPECT_GT(queued.all.attainment(), 0.5);
  EXPECT_LT(queued.all.attainment(), 1.0);  // the crowd's queue is still there
  trials->load({std::span{requests}.subspan(quiet_from), 1.0, at_s(102.0)});
  EXPECT_EQ(attainment(*trials, 1), 1.0);
  trials->load({requests, 1.0});
  EXPECT_EQ(trials->attempt(std::array{1U}).all.requests, 600.0);
  trials->load({requests, 1.0, at_s(50.0)});  // before all of them
  EXPECT_EQ(trials->attempt(std::array{1U}).all.requests, 600.0);
}

// A fleet that is as it was asked for, in the world where replays run.
decision::RunResult replayed(const std::vector<RecentRequest>& requests, RunOptions run_options,
                             std::uint32_t replicas) {
  workload::Workload workload;
  workload.block_tokens = 16;
  workload.tenants = {"general", "chat"};
  for (const RecentRequest& recent : requests) {
    workload::Request request;
    request.arrival = core::kStart + (recent.arrival - requests.front().arrival);
    request.input_tokens = recent.input_tokens;
    request.output_tokens = recent.output_tokens;
    request.tenant = recent.target;
    workload.requests.push_back(request);
  }
  run_options.pools[0].replicas = replicas;
  run_options.details = true;
  auto still = planner::make_policy("static", {});
  return *run(workload, **still, run_options);
}

TEST(Trials, CountTheTargetsOfSegmentsAsAReplayDoes) {
  RunOptions run_options = tight();
  run_options.slo_segments.resize(1);
  run_options.slo_segments[0].name = run_options.slo_segments[0].tenant = "chat";
  run_options.slo_segments[0].target = {std::chrono::milliseconds{25}, std::chrono::milliseconds{14}};
  auto requests = unevenly(600, 40.0);
  for (std::size_t i = 0; i < requests.size(); i += 3) requests[i].target = 1;
  const auto trials = make_trials(run_options);
  trials->load({requests, 1.0});
  const auto outcome = trials->attempt(std::array{2U});
  const auto full = replayed(requests, run_options, 2);
  ASSERT_EQ(outcome.targets.size(), 2U);
  ASSERT_EQ(full.targets.size(), 2U);
  EXPECT_EQ(outcome.targets[1].requests, 200.0);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(outcome.targets[i].requests, static_cast<double>(full.targets[i].requests));
    EXPECT_EQ(outcome.targets[i].met, static_cast<double>(full.targets[i].met));
  }
  EXPECT_LT(outcome.targets[1].attainment(), outcome.targets[0].attainment());
  EXPECT_DOUBLE_EQ(outcome.all.met, outcome.targets[0].met + outcome.targets[1].met);
}

// The gateway of the live router waits for engines whose KV cache is nearly full. So does a trial, and limits of a
// tenant do not count.
TEST(Trials, WaitForFullEnginesAsTheGatewayDoes) {
  RunOptions run_options = tight();
  run_options.slo.ttft = std::chrono::seconds{1};
  run_options.slo.itl = std::chrono::milliseconds{60};
  run_options.pools[0].engine.kv_blocks = 500;
  auto requests = unevenly(900, 22.0);
  for (std::size_t i = 0; i < requests.size(); i += 4) requests[i].output_tokens = 400;
  const auto unlimited = make_trials(run_options);
  unlimited->load({requests, 1.0});
  run_options.router = routing::Strategy::kLive;
  const double real = replayed(requests, run_options, 3).slo_attainment;
  EXPECT_GT(std::abs(attainment(*unlimited, 3) - real), 0.03);
  run_options.dispatch.emplace().tenants.emplace_back().concurrent = 1;
  const auto trials = make_trials(run_options);
  trials->load({requests, 1.0});
  EXPECT_NEAR(attainment(*trials, 3), real, 0.01);
}

// The gateway knows the tenants, whose answers are short or long, and its router gives each the replica that suits it.
// Of the tenants, a trial knows what the gateway expected of their answers.
TEST(Trials, UseWhatTheGatewayExpectedOfAnswers) {
  RunOptions run_options = tight();
  run_options.router = routing::Strategy::kLive;
  run_options.slo.itl = std::chrono::milliseconds{16};
  run_options.pools[0].engine.max_sequences = 256;
  run_options.pools[0].engine.kv_blocks = 16'000;
  struct Kind {
    std::uint32_t input_tokens, output_tokens, share;
  };
  constexpr std::array<Kind, 3> kKinds{{{300, 3, 60}, {100, 600, 20}, {4000, 30, 20}}};
  core::RandomStream random{3};
  std::vector<RecentRequest> requests;
  workload::Workload whole;
  whole.block_tokens = 16;
  whole.tenants = {"brief", "chat", "documents"};
  for (double at = 100.0; requests.size() < 4000; at += random.exponential(1.0 / 25.0)) {
    std::uint64_t drawn = random.below(100);
    std::uint32_t tenant = 0;
    for (; drawn >= kKinds[tenant].share; ++tenant) drawn -= kKinds[tenant].share;
    requests.push_back({at_s(at), kKinds[tenant].input_tokens, kKinds[tenant].output_tokens, 50.0F, 10.0F, {}});
    workload::Request shape;
    shape.arrival = at_s(at);
    shape.input_tokens = kKinds[tenant].input_tokens;
    shape.output_tokens = kKinds[tenant].output_tokens;
    shape.tenant = tenant;
    whole.requests.push_back(shape);
  }
  RunOptions world = run_options;
  world.pools[0].replicas = world.pools[0].min_replicas = world.pools[0].max_replicas = 3;
  world.judged_from = at_s(130.0);
  auto still = planner::make_policy("static", {});
  const double real = run(whole, **still, world)->slo_attainment;
  const auto trials = make_trials(run_options);
  const auto tried = [&] {
    trials->load({requests, 1.0, at_s(130.0)});
    return attainment(*trials, 3);
  };
  const double without = tried();
  for (RecentRequest& request : requests) request.expected_output_tokens = request.output_tokens;
  EXPECT_NEAR(tried(), real, 0.002);
  EXPECT_LT(without, real - 0.005);
}

TEST(Trials, UseTheLearnedLimitsOfTheEngines) {
  const auto trials = make_trials(tight());
  const auto requests = evenly(400, 30.0);
  trials->load({requests, 1.0});
  const double plain = attainment(*trials, 4);
  trials->correct(std::array{planner::EngineCorrection{1.0, 1, {}}});
  EXPECT_LT(attainment(*trials, 4), plain - 0.1);
  trials->correct(std::array{planner::EngineCorrection{1.0, {}, 1024}});
  EXPECT_LT(attainment(*trials, 4), plain - 0.1);
  trials->correct({});
  EXPECT_EQ(attainment(*trials, 4), plain);
}

TEST(Trials, ACorrectionSlowsEveryStepAsSlowReplicasDo) {
  const auto trials = make_trials(tight());
  const auto requests = unevenly(600, 30.0);
  trials->load({requests, 1.0});
  const double before = attainment(*trials, 3);
  trials->correct(std::array{planner::EngineCorrection{1.3, {}, {}}});
  RunOptions slow = tight();
  slow.faults.events = {{FaultKind::kSlow, {}, {}, 0, {}, 1.3}};
  const double corrected = attainment(*trials, 3);
  EXPECT_DOUBLE_EQ(corrected, replayed(requests, slow, 3).slo_attainment);
  EXPECT_LT(corrected, before);
  trials->correct(std::array{
      planner::EngineCorrection{1.3, {}, {}}});  // The factor applies to the profile, not to the last factor.
  EXPECT_EQ(attainment(*trials, 3), corrected);
  trials->correct(std::array{planner::EngineCorrection{1.0, {}, {}}});
  EXPECT_EQ(attainment(*trials, 3), before);
}

TEST(Trials, UseTheGivenProfileEvenIfItIsWrong) {
  const auto requests = unevenly(600, 30.0);
  const auto off = make_trials(tight(), {.step_time_factor = 1.3}), corrected = make_trials(tight());
  corrected->correct(std::array{planner::EngineCorrection{1.3, {}, {}}});
  for (const auto& trials : {off.get(), corrected.get()}) trials->load({requests, 1.0});
  EXPECT_EQ(attainment(*off, 3), attainment(*corrected, 3));
}

// Quiet, twelve times as much, quiet, nothing, quiet: with faults on top.
workload::Workload crowd() {
  workload::Workload made;
  made.block_tokens = 16;
  const std::pair<double, double> parts[] = {
      {300, 10}, {300, 50}, {600, 8}, {300, 0}, {300, 10}};  // seconds, requests/s
  double start = 0.0;
  std::uint64_t seed = 1;
  for (const auto& [seconds, rate] : parts) {
    if (rate > 0.0)
      for (auto request : testing::random_workload(static_cast<std::uint32_t>(seconds * rate), rate, ++seed).requests) {
        if (core::to_seconds(request.arrival) >= seconds) break;
        request.arrival += core::from_seconds(start);
        request.first_block = request.block_count = 0;
        made.requests.push_back(request);
      }
    start += seconds;
  }
  return made;
}

decision::RunResult planned(const RunOptions& run_options, planner::PlannerOptions planner_options = {}) {
  const signals::SloPolicy slo{run_options.slo, run_options.slo_goal, run_options.slo_segments};
  const auto planner = planner::make_penstock_planner(make_trials(run_options), slo, planner_options);
  return *run(crowd(), *planner, run_options);
}

TEST(PlannerInTheWorld, FollowsABurstAndLosesNoRequest) {
  const auto result = planned(tight());
  EXPECT_EQ(result.failed, 0U);
  EXPECT_GE(result.peak_replicas, 3U);
  EXPECT_GT(result.slo_attainment, 0.85);
  EXPECT_LE(result.direction_changes, 4U);
  EXPECT_LT(result.mean_replicas, result.peak_replicas - 0.3);
}

TEST(PlannerInTheWorld, LosesNoRequestWhenTelemetryFails) {
  RunOptions run_options = tight();
  run_options.faults.telemetry_loss = 0.2;
  run_options.faults.telemetry_lie = 0.05;
  run_options.faults.start_up_spread = 1.0;
  const auto result = planned(run_options);
  EXPECT_EQ(result.failed, 0U);
  EXPECT_GT(result.slo_attainment, 0.8);
}

TEST(PlannerInTheWorld, DecidesTheSameTwice) {
  const auto first = planned(tight()), second = planned(tight());
  ASSERT_EQ(first.decisions.size(), second.decisions.size());
  for (std::size_t i = 0; i < first.decisions.size(); ++i)
    EXPECT_EQ(decision::sentence(first.decisions[i]), decision::sentence(second.decisions[i]));
}

// Remembers what a policy shows at its ticks.
class Watched final : public decision::Policy {
 public:
  explicit Watched(std::unique_ptr<decision::Policy> policy) : policy_(std::move(policy)) {}
  [[nodiscard]] std::string_view name() const override { return policy_->name(); }
  [[nodiscard]] core::Duration interval() const override { return policy_->interval(); }
  [[nodiscard]] core::Duration memory() const override { return policy_->memory(); }
  [[nodiscard]] bool wants_segments() const override { return policy_->wants_segments(); }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
    decision::Decision decision = policy_->decide(observation);
    if (const auto value = decision::evidence_value(decision.pools[0], "load_factor", "times")) factor = *value;
    if (const auto value = decision::evidence_value(decision.pools[0], "trial_error", "points")) error = *value;
    return decision;
  }
  double factor = 0.0, error = 100.0;

 private:
  std::unique_ptr<decision::Policy> policy_;
};

// Nothing measures the steps of the engines here, so that only checks of trials show that their model is off.
TEST(PlannerInTheWorld, ChecksOfTrialsCorrectAModelThatIsOff) {
  RunOptions run_options = tight();
  run_options.slo.itl = std::chrono::milliseconds{40};
  run_options.pools[0].engine.max_sequences = 4;
  run_options.pools[0].replicas = 6;
  planner::PlannerOptions planner_options;
  planner_options.controller = planner::Controller{.allowance = 1.0, .hold = {}};
  const auto workload = testing::random_workload(20'000, 12.0);
  for (const double off : {0.7, 1.0, 1.3}) {
    const signals::SloPolicy slo{run_options.slo, run_options.slo_goal, {}};
    Watched policy{
        planner::make_penstock_planner(make_trials(run_options, {.step_time_factor = off}), slo, planner_options)};
    const auto result = *run(workload, policy, run_options);
    double arrived = 0.0, met = 0.0, replicas = 0.0, points = 0.0;
    for (const decision::SeriesPoint& point : result.series) {
      if (point.at < at_s(core::to_seconds(workload.span()) / 2)) continue;
      arrived += static_cast<double>(point.arrived);
      met += static_cast<double>(point.met_slo);
      replicas += point.ready;
      points += 1.0;
    }
    SCOPED_TRACE(::testing::Message() << "attainment " << met / arrived << ", error " << policy.error << ", factor "
                                      << policy.factor << ", replicas " << replicas / points);
    EXPECT_GE(met / arrived, 0.988) << off;
    EXPECT_LE(policy.error, 1.0) << off;
  }
}

TEST(PlannerInTheWorld, ObservesWithoutAnyEffect) {
  planner::PlannerOptions watching;
  watching.phase = decision::RolloutPhase::kObserve;
  const auto result = planned(tight(), watching);
  EXPECT_EQ(result.scaling_actions, 0U);
  EXPECT_EQ(result.peak_replicas, 1U);
}

}  // namespace
}  // namespace penstock::simulation
