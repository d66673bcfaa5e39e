// `penstock decide` beside a replay: the same policy, once on the observations of the simulated world and once on the
// lines that another program would write of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/plan_setup.h"
#include "controller/decision_stream.h"
#include "planner/policy.h"
#include "replay/capacities.h"
#include "replay/planner_setup.h"
#include "replay/setup.h"
#include "report/decision_log.h"
#include "simulation/run.h"
#include "workload/synthetic.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::json;

simulation::RunOptions run_options() {
  simulation::RunOptions options;
  simulation::PoolSpec& pool = options.pools.front();
  pool.replicas = 2;
  pool.max_replicas = 16;
  pool.start_up = std::chrono::seconds{60};
  return replay::make_run_options(options).value();
}

std::unique_ptr<decision::Policy> policy_named(const std::string& name, const simulation::RunOptions& options) {
  if (name == "penstock") return replay::make_penstock({}, options);
  const std::vector capacities{replay::PoolCapacity{{3.0, 9000.0, 900.0, 20.0}, {}}};
  return replay::make_policy_with(capacities, name, options).value();
}

double seconds(core::Instant at) { return core::to_seconds(at); }

Json replica_line(const signals::ReplicaObservation& replica) {
  Json made{{"id", replica.replica}, {"state", to_string(replica.state)}, {"since_s", seconds(replica.state_since)}};
  if (!replica.sample) return made;
  const signals::EngineSample& sample = *replica.sample;
  made["sampled_at_s"] = seconds(sample.sampled_at);
  made["running_requests"] = sample.running_requests;
  made["queued_requests"] = sample.queued_requests;
  made["output_tokens_total"] = *sample.generation_tokens_total;
  made["queued_prompt_tokens"] = *sample.queued_prefill_tokens;
  made["running_prompt_tokens"] = *sample.inflight_prefill_tokens;
  made["decoding_tokens"] = *sample.scheduled_kv_tokens;
  made["preempted_tokens"] = *sample.queued_kv_tokens;
  made["oldest_queued_s"] = core::to_seconds(*sample.oldest_queued_age);
  made["kv_used_tokens"] = *sample.kv_used_tokens;
  made["kv_capacity_tokens"] = *sample.kv_capacity_tokens;
  return made;
}

// Writes the observations as lines, and gives each to both.
class Twins final : public decision::Policy {
 public:
  Twins(const std::string& name, const simulation::RunOptions& options)
      : inside_(policy_named(name, options)),
        outside_(policy_named(name, options)),
        stream_(*outside_, made(options)) {}

  [[nodiscard]] std::string_view name() const override { return inside_->name(); }
  [[nodiscard]] core::Duration interval() const override { return inside_->interval(); }
  [[nodiscard]] core::Duration memory() const override {
    return std::max(inside_->memory(), core::Duration{std::chrono::minutes{10}});
  }
  [[nodiscard]] bool wants_segments() const override { return inside_->wants_segments(); }
  [[nodiscard]] decision::Decision decide(const signals::Observation& seen) override {
    const auto answer = stream_.answer(line(seen).dump(), ++lines);
    EXPECT_FALSE(answer.is_error) << answer.text;
    const auto record = report::parse_decision_jsonl(answer.text, "answer");
    decision::Decision decision = inside_->decide(seen);
    const signals::PoolObservation& pool = seen.pools.front();
    const std::uint32_t target =
        std::clamp(decision.pools.front().target, pool.min_replicas, std::max(pool.min_replicas, pool.max_replicas));
    if (!record || record->records.size() != 1) return decision;
    largest = std::max(largest, target);
    if (record->records.front().target != target) ++different;
    return decision;
  }

  std::uint64_t lines = 0, different = 0;
  std::uint32_t largest = 0;

 private:
  static controller::DecisionStreamOptions made(const simulation::RunOptions& options) {
    controller::DecisionStreamOptions made;
    made.pools.assign(options.pools.begin(), options.pools.end());
    made.slo = {options.slo, options.slo_goal, {}};
    return made;
  }

  // What a gateway would write of a request that is new or has changed; null for the others.
  Json request_line(const signals::RecentRequest& request, core::Instant now) {
    const bool ended = request.e2e_ms >= 0.0F || request.end != signals::RequestEnd::kNone;
    int& told = told_[request.arrival];
    const int knows = ended ? 3 : request.ttft_ms >= 0.0F ? 2 : 1;
    if (std::exchange(told, knows) >= knows) return nullptr;
    Json made{{"id", request.arrival.time_since_epoch().count()},
              {"arrival_s", seconds(request.arrival)},
              {"prompt_tokens", request.input_tokens},
              {"blocks", request.block_ids}};
    if (request.ttft_ms >= 0.0F) made["ttft_ms"] = request.ttft_ms;
    if (!ended) return made;
    const double total_s = std::max(0.0F, request.e2e_ms) / 1000.0;
    made["ended_s"] = std::min(seconds(now), seconds(request.arrival) + total_s);
    made["outcome"] = request.end == signals::RequestEnd::kNone ? "completed" : "failed";
    if (request.output_tokens > 0) made["output_tokens"] = request.output_tokens;
    if (request.itl_ms >= 0.0F) made["itl_ms"] = request.itl_ms;
    return made;
  }

  Json line(const signals::Observation& seen) {
    const signals::PoolObservation& pool = seen.pools.front();
    Json replicas = Json::array(), requests = Json::array();
    for (const signals::ReplicaObservation& replica : pool.replicas) replicas.push_back(replica_line(replica));
    for (const signals::RecentRequest& request : seen.recent)
      if (Json made = request_line(request, seen.now); !made.is_null()) requests.push_back(std::move(made));
    return {{"at_s", seconds(seen.now)},
            {"pools", Json::array({{{"target", pool.target_replicas},
                                    {"replicas", replicas},
                                    {"waiting", pool.unrouted_requests},
                                    {"failed_total", pool.failed_total}}})},
            {"requests", requests}};
  }

  std::unique_ptr<decision::Policy> inside_, outside_;
  controller::DecisionStream stream_;
  std::map<core::Instant, int> told_;
};

Twins twins_of(const std::string& name) {
  const simulation::RunOptions options = run_options();
  Twins twins{name, options};
  workload::SyntheticSpec spec;
  spec.duration = std::chrono::minutes{10};
  spec.rate = {workload::RateShape::kStep, 2.0, 15.0, std::chrono::minutes{3}, {}};
  spec.input = {3000.0, 0.5, 20'000};
  spec.output = {250.0, 0.5, 2000};
  const auto workload = workload::make_synthetic(spec, 3);
  EXPECT_TRUE(workload) << (workload ? "" : workload.error().message());
  const auto result = simulation::run(*workload, twins, options);
  EXPECT_TRUE(result) << (result ? "" : result.error().message());
  return twins;
}

TEST(Decide, RulesOnTelemetryDecideAsInAReplay) {
  for (const char* name : {"hpa-concurrency", "kpa", "apa", "llmd-queue-guard", "llmd-token-aware", "dynamo-latency"}) {
    const Twins twins = twins_of(name);
    EXPECT_GT(twins.lines, 30U) << name;
    EXPECT_EQ(twins.different, 0U) << name << " of " << twins.lines;
    EXPECT_GT(twins.largest, 2U) << name;
  }
}
TEST(Decide, RulesOnTrafficDecideAsInAReplay) {
  for (const char* name : {"hpa-rate", "llmd-slo"}) {
    const Twins twins = twins_of(name);
    EXPECT_EQ(twins.different, 0U) << name << " of " << twins.lines;
    EXPECT_GT(twins.largest, 2U) << name;
  }
}
TEST(Decide, ThePlannerDecidesAsInAReplay) {
  const Twins twins = twins_of("penstock");
  EXPECT_GT(twins.largest, 2U);
  EXPECT_EQ(twins.different, 0U) << "of " << twins.lines;
}

TEST(Decide, ErrorsInThePolicyNameTheFlag) {
  const auto error_of = [](std::string_view policy) {
    const auto checked = check_deployable(policy);
    return checked ? std::string{"none"} : checked.error().message();
  };
  for (const char* policy : {"penstock", "penstock:goal=95%", "static", "llmd-slo:up=0.5:down=0.3"})
    EXPECT_EQ(error_of(policy), "none");
  EXPECT_TRUE(error_of("penstock,static")
                  .starts_with("--policy: unknown policy 'penstock,static'; name one of penstock, static, hpa-rate, "));
  EXPECT_EQ(error_of("schedule:plan.csv"),
            "--policy: 'schedule:plan.csv' is for `penstock replay` only; name one policy, as penstock");
}

}  // namespace
}  // namespace penstock::cli
