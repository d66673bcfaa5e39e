// The diagnosis in worlds that were made sick: each has one fault, and the diagnosis must name it.
#include "planner/diagnosis.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using decision::Cause;
using planner::Diagnosis;
using planner::Finding;
using planner::Phase;
using planner::Symptom;
using testing::at_s;
using testing::disaggregated;
using testing::options;
using testing::pool;

signals::SloPolicy policy_of(const signals::SloTarget& target) {
  signals::SloPolicy slo;
  slo.target = target;
  return slo;
}

// Looks at every observation, every 5 s, and scales as it is told.
class Doctor final : public decision::Policy {
 public:
  using Script = std::function<std::uint32_t(const signals::Observation&, std::size_t pool)>;
  explicit Doctor(const signals::SloTarget& slo, Script script = {}, planner::Diagnoser* diagnoser = nullptr)
      : own_(policy_of(slo)), diagnoser_(diagnoser == nullptr ? &own_ : diagnoser), script_(std::move(script)) {}

  [[nodiscard]] std::string_view name() const override { return "doctor"; }
  [[nodiscard]] core::Duration interval() const override { return std::chrono::seconds{5}; }
  [[nodiscard]] bool wants_segments() const override { return true; }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
    signals::Observation seen = observation;
    seen.now += started;
    for (signals::PoolObservation& each : seen.pools) {
      for (signals::ReplicaObservation& replica : each.replicas) {
        replica.replica += first_replica;
        replica.state_since += started;
        if (replica.sample) replica.sample->sampled_at += started;
      }
    }
    diagnoses.push_back(diagnoser_->observe(seen));
    decision::Decision decision;
    for (std::size_t i = 0; i < observation.pools.size(); ++i) {
      decision::PoolDecision& each = decision.pools.emplace_back();
      each.current = each.target = observation.pools[i].target_replicas;
      if (script_) each.target = script_(observation, i);
    }
    return decision;
  }

  // The diagnosis made most often of those with a symptom.
  [[nodiscard]] Diagnosis verdict() const {
    std::map<std::pair<Symptom, Cause>, std::vector<const Diagnosis*>> votes;
    for (const Diagnosis& diagnosis : diagnoses)
      if (diagnosis.symptom != Symptom::kNone) votes[{diagnosis.symptom, diagnosis.cause()}].push_back(&diagnosis);
    const std::vector<const Diagnosis*>* most = nullptr;
    for (const auto& [what, same] : votes)
      if (most == nullptr || same.size() > most->size()) most = &same;
    return most == nullptr ? Diagnosis{} : *(*most)[most->size() / 2];
  }
  [[nodiscard]] std::size_t times(Cause cause) const {
    std::size_t count = 0;
    for (const Diagnosis& diagnosis : diagnoses) count += diagnosis.cause() == cause ? 1 : 0;
    return count;
  }
  [[nodiscard]] std::size_t sick() const { return diagnoses.size() - times(Cause::kNone); }

  std::vector<Diagnosis> diagnoses;
  core::Duration started{};  // Start of this run, in the time of the diagnoser.
  std::uint32_t first_replica = 0;

 private:
  planner::Diagnoser own_;
  planner::Diagnoser* diagnoser_;
  Script script_;
};

struct Shape {
  std::uint32_t input = 100, output = 50;
};

// Evenly spaced, so that nothing but the fault is late.
void add(workload::Workload& to, double from_s, double until_s, double rate, Shape shape) {
  for (double at = from_s; at < until_s; at += 1.0 / rate) {
    workload::Request request;
    request.arrival = at_s(at);
    request.input_tokens = shape.input;
    request.output_tokens = shape.output;
    to.requests.push_back(request);
  }
}
workload::Workload steady(double until_s, double rate, Shape shape) {
  workload::Workload made;
  made.block_tokens = 16;
  add(made, 0.0, until_s, rate, shape);
  return made;
}
void in_order(workload::Workload& made) {
  std::stable_sort(made.requests.begin(), made.requests.end(),
                   [](const auto& left, const auto& right) { return left.arrival < right.arrival; });
}

void run_ok(const workload::Workload& work, Doctor& doctor, const RunOptions& run_options) {
  const auto result = run(work, doctor, run_options);
  ASSERT_TRUE(result.has_value()) << (result ? "" : result.error().message());
}

#define EXPECT_VERDICT(doctor, symptom_is, phase_is, cause_is)                                               \
  do {                                                                                                       \
    const Diagnosis diagnosed = (doctor).verdict();                                                          \
    ASSERT_FALSE(diagnosed.findings.empty());                                                                \
    EXPECT_STREQ(to_string(diagnosed.symptom), to_string(Symptom::symptom_is)) << sentence(diagnosed);       \
    EXPECT_STREQ(to_string(diagnosed.findings[0].phase), to_string(Phase::phase_is)) << sentence(diagnosed); \
    EXPECT_STREQ(to_string(diagnosed.cause()), to_string(Cause::cause_is)) << sentence(diagnosed);           \
    EXPECT_GE((doctor).times(Cause::cause_is) * 10, (doctor).sick() * 7) << sentence(diagnosed);             \
  } while (false)

TEST(DiagnosisInTheWorld, AFleetThatMeetsItsSloHasNoFinding) {
  const RunOptions run_options = options(pool(2));
  Doctor doctor{run_options.slo};
  run_ok(steady(120, 10, {}), doctor, run_options);
  EXPECT_EQ(doctor.sick(), 0U) << sentence(doctor.verdict());
  EXPECT_GT(doctor.diagnoses.size(), 20U);
}

// 32 sequences of 200 tokens at 10 ms each: 16 requests a second at most; 20 come.
TEST(DiagnosisInTheWorld, OverloadIsAQueue) {
  RunOptions run_options = options(pool(1));
  run_options.pools[0].engine.kv_blocks = 10'000;
  Doctor doctor{run_options.slo};
  run_ok(steady(60, 20, {50, 200}), doctor, run_options);
  EXPECT_VERDICT(doctor, kTtft, kQueue, kQueue);
}

// A burst; a policy that sees it asks for three more replicas, which need 30 s.
TEST(DiagnosisInTheWorld, ABurstWhileReplicasStartIsAColdStart) {
  RunOptions run_options = options(pool(1));
  run_options.pools[0].engine.kv_blocks = 10'000;
  run_options.pools[0].start_up = std::chrono::seconds{30};
  Doctor doctor{run_options.slo,
                [](const signals::Observation& seen, std::size_t) { return seen.now < at_s(40) ? 1U : 4U; }};
  workload::Workload work = steady(40, 5, {50, 200});
  add(work, 40, 60, 25, {50, 200});
  add(work, 60, 80, 5, {50, 200});
  run_ok(work, doctor, run_options);
  EXPECT_VERDICT(doctor, kTtft, kQueue, kColdStart);
}

TEST(DiagnosisInTheWorld, ACrashOfTheOnlyReplicaIsAColdStart) {
  RunOptions run_options = options(pool(1));
  run_options.pools[0].start_up = std::chrono::seconds{40};
  run_options.faults.crashes_per_replica_hour = 50.0;
  run_options.seed = 3;
  Doctor doctor{run_options.slo};
  run_ok(steady(200, 5, {}), doctor, run_options);
  EXPECT_VERDICT(doctor, kTtft, kReplicaWait, kColdStart);
}

// A prompt of 60,000 tokens takes 30 steps of 30 ms, a short one hardly more than 10 ms.
TEST(DiagnosisInTheWorld, LongPromptsArePrefillAndNamedByTheirLength) {
  RunOptions run_options = options(pool(8));
  for (PoolSpec& spec : run_options.pools) spec.engine.kv_blocks = 20'000;
  run_options.slo.ttft = std::chrono::milliseconds{500};
  Doctor doctor{run_options.slo};
  workload::Workload work = steady(120, 10, {100, 20});
  add(work, 0.5, 120, 0.5, {60'000, 20});
  in_order(work);
  run_ok(work, doctor, run_options);
  const Diagnosis diagnosed = doctor.verdict();
  ASSERT_FALSE(diagnosed.findings.empty());
  EXPECT_EQ(diagnosed.cause(), Cause::kPrefill) << sentence(diagnosed);
  EXPECT_EQ(diagnosed.findings[0].phase, Phase::kPrefill) << sentence(diagnosed);
  EXPECT_EQ(diagnosed.findings[0].segment, "prompt tokens 16k-64k") << sentence(diagnosed);
}

// A step takes 30 ms, and 1 ms more for each sequence in it: 24 sequences at this rate.
TEST(DiagnosisInTheWorld, ManyDecodesAreADecodeBatch) {
  RunOptions run_options = options(pool(2));
  run_options.pools[0].engine.kv_blocks = 10'000;
  run_options.pools[0].step_time = std::make_shared<engine::testing::LinearNanoseconds>(
      engine::testing::LinearNanoseconds::Terms{30'000'000, 10'000, 1'000'000, 0, 0});
  Doctor doctor{run_options.slo};
  run_ok(steady(120, 3.6, {50, 250}), doctor, run_options);
  EXPECT_VERDICT(doctor, kItl, kDecode, kDecodeBatch);
}

// One prompt in eleven has 20,000 tokens: ten steps take 30 ms instead of 10, and what decodes beside it feels it.
TEST(DiagnosisInTheWorld, LongPromptsBesideDecodesArePrefillToo) {
  RunOptions run_options = options(pool(4));
  run_options.pools[0].engine.kv_blocks = 20'000;
  run_options.router = routing::Strategy::kRoundRobin;
  run_options.slo.itl = std::chrono::microseconds{12'500};
  Doctor doctor{run_options.slo};
  workload::Workload work = steady(120, 20, {50, 50});
  add(work, 0.05, 120, 2, {20'000, 10});
  in_order(work);
  run_ok(work, doctor, run_options);
  EXPECT_VERDICT(doctor, kItl, kDecode, kPrefill);
}

// Two of the prompts fill 60 of the 80 blocks, and their answers 4 more: the third waits, and no request is preempted.
TEST(DiagnosisInTheWorld, FewBlocksAreKvPressure) {
  RunOptions run_options = options(pool(1));
  run_options.pools[0].engine.kv_blocks = 80;
  Doctor doctor{run_options.slo};
  run_ok(steady(60, 8, {480, 30}), doctor, run_options);
  EXPECT_VERDICT(doctor, kTtft, kQueue, kKvPressure);
}

// Short prompts are let in by the dozen and grow to many times their size.
TEST(DiagnosisInTheWorld, LongAnswersInFewBlocksArePreemption) {
  RunOptions run_options = options(pool(1));
  run_options.pools[0].engine.kv_blocks = 200;
  Doctor doctor{run_options.slo};
  run_ok(steady(60, 3, {32, 800}), doctor, run_options);
  EXPECT_EQ(doctor.verdict().cause(), Cause::kPreemption) << sentence(doctor.verdict());
}

// 512 tokens of 128 KiB over 20 MB/s: 3.3 s each, on four links.
TEST(DiagnosisInTheWorld, ASlowLinkIsTransfer) {
  RunOptions run_options = disaggregated(4, 4);
  run_options.kv_transfer_bytes_per_s = 20e6;
  Doctor doctor{run_options.slo};
  run_ok(steady(120, 1, {512, 50}), doctor, run_options);
  EXPECT_VERDICT(doctor, kTtft, kTransfer, kTransfer);
}

// Two dozen families of prompts with 3,200 tokens in common; a replica holds the prefixes of five.
workload::Workload families(double until_s, double rate) {
  workload::Workload work = steady(until_s, rate, {3216, 4});
  std::uint32_t fresh = 1'000'000;
  core::RandomStream random{1};
  for (workload::Request& request : work.requests) {
    const auto family = static_cast<std::uint32_t>(random.below(24)) * 1000;
    request.first_block = static_cast<std::uint32_t>(work.block_ids.size());
    request.block_count = 201;
    for (std::uint32_t block = 0; block < 200; ++block) work.block_ids.push_back(family + block);
    work.block_ids.push_back(fresh++);
  }
  return work;
}

TEST(DiagnosisInTheWorld, ARouterThatForgetsThePrefixesIsRoutingCache) {
  RunOptions run_options = options(pool(8));
  run_options.pools[0].engine.kv_blocks = 1200;
  run_options.pools[0].step_time = std::make_shared<engine::testing::LinearNanoseconds>(
      engine::testing::LinearNanoseconds::Terms{10'000'000, 100'000, 0, 0, 0});
  run_options.slo.ttft = std::chrono::milliseconds{200};
  run_options.slo.itl = std::chrono::seconds{1};
  planner::Diagnoser diagnoser{policy_of(run_options.slo)};
  const workload::Workload work = families(200, 12);

  run_options.router = routing::Strategy::kKv;
  Doctor before{run_options.slo, {}, &diagnoser};
  run_ok(work, before, run_options);

  run_options.router = routing::Strategy::kRoundRobin;
  Doctor after{run_options.slo, {}, &diagnoser};
  after.started = std::chrono::seconds{210};
  after.first_replica = 1000;
  run_ok(work, after, run_options);
  EXPECT_LT(before.sick() * 2, before.diagnoses.size()) << sentence(before.verdict());  // while caches fill
  EXPECT_EQ(before.diagnoses.back().cause(), Cause::kNone) << sentence(before.diagnoses.back());
  EXPECT_VERDICT(after, kTtft, kPrefill, kRoutingCache);
}

TEST(DiagnosisInTheWorld, PrefillAndDecodePoolsHaveTheirOwnFindings) {
  RunOptions run_options = disaggregated(1, 4);
  for (PoolSpec& spec : run_options.pools) spec.engine.kv_blocks = 20'000;
  Doctor doctor{run_options.slo};
  run_ok(steady(60, 60, {2000, 20}), doctor, run_options);  // one prefill replica does 68 a second in 2048s
  for (const Diagnosis& diagnosis : doctor.diagnoses)
    for (const Finding& finding : diagnosis.findings) EXPECT_EQ(finding.pool_name, "prefill") << sentence(diagnosis);
  EXPECT_EQ(doctor.verdict().cause(), Cause::kQueue) << sentence(doctor.verdict());
}

TEST(DiagnosisInTheWorld, LostTelemetryMakesTheCauseUnknown) {
  RunOptions run_options = options(pool(1));
  run_options.pools[0].engine.kv_blocks = 10'000;
  run_options.faults.telemetry_loss = 1.0;
  Doctor doctor{run_options.slo};
  run_ok(steady(90, 20, {50, 200}), doctor, run_options);
  EXPECT_GT(doctor.sick(), 10U);
  EXPECT_EQ(doctor.times(Cause::kQueue), 0U);
  EXPECT_EQ(doctor.times(Cause::kUnknown), doctor.sick());
}

TEST(DiagnosisInTheWorld, AnEngineWithFalseTelemetryIsNotUsed) {
  RunOptions run_options = options(pool(1));
  run_options.pools[0].engine.kv_blocks = 10'000;
  run_options.faults.telemetry_lie = 1.0;
  Doctor doctor{run_options.slo};
  run_ok(steady(60, 20, {50, 200}), doctor, run_options);
  EXPECT_GT(doctor.sick(), 5U);
  EXPECT_EQ(doctor.times(Cause::kUnknown), doctor.sick()) << sentence(doctor.verdict());
}

// ---- what the world shows -------------------------------------------------------------------------------------------

TEST(DetailInTheWorld, IsOnlyCollectedForPoliciesThatNeedIt) {
  testing::Scripted policy{[](const signals::Observation& seen, std::size_t) {
    EXPECT_FALSE(seen.pools[0].detail.has_value());
    return 1U;
  }};
  ASSERT_TRUE(run(steady(20, 5, {}), policy, options(pool(1))).has_value());
}

// The parts of the time to the first token of a request sum to it: routed at once, queued, computed, moved.
TEST(DetailInTheWorld, PartsOfTheTimeToTheFirstTokenSumToIt) {
  for (const bool split : {false, true}) {
    RunOptions run_options = split ? disaggregated(2, 2) : options(pool(2));
    run_options.kv_transfer_bytes_per_s = 1e9;
    run_options.faults.crashes_per_replica_hour = 20.0;
    run_options.slo.ttft = core::Duration{};  // all are slow
    std::uint64_t compared = 0;
    Doctor doctor{run_options.slo, [&](const signals::Observation& seen, std::size_t index) {
                    if (index > 0) return seen.pools[index].target_replicas;
                    const auto& window = seen.pools[0].last_minute.ttft;
                    const auto& parts = seen.pools[0].detail->first_tokens;
                    EXPECT_EQ(parts.count, window.count);
                    const double sum = parts.admission.mean_ms + parts.replica_wait.mean_ms + parts.queue.mean_ms +
                                       parts.prefill.mean_ms + parts.transfer.mean_ms;
                    EXPECT_NEAR(sum, window.mean_ms, 1e-3 * window.mean_ms);
                    compared += window.count;
                    return seen.pools[0].target_replicas;
                  }};
    run_ok(testing::random_workload(2000, 20.0), doctor, run_options);
    EXPECT_GT(compared, 2000U);
  }
}

}  // namespace
}  // namespace penstock::simulation
