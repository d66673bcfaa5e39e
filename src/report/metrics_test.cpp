#include "report/metrics.h"

#include <gtest/gtest.h>

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "core/source_root_testing.h"
#include "report/scaling_states.h"
#include "telemetry/exposition.h"

namespace penstock::report {
namespace {

core::Instant at(int second) { return core::kStart + std::chrono::seconds{second}; }

signals::ReplicaObservation replica(std::uint32_t id, int sampled_at_s) {
  signals::ReplicaObservation made;
  made.replica = id;
  made.state = signals::ReplicaState::kReady;
  signals::EngineSample sample;
  sample.sampled_at = at(sampled_at_s);
  sample.queued_prefill_tokens = 4096;
  sample.queued_kv_tokens = 100;
  sample.scheduled_kv_tokens = 2000;
  sample.kv_used_tokens = 250;
  sample.kv_capacity_tokens = 1000;
  made.sample = sample;
  return made;
}

struct Scene {
  signals::Observation observation;
  decision::Decision decision;
  decision::DecisionTotals totals{{2.5}};

  Scene() {
    observation.now = at(60);
    signals::PoolObservation& pool = observation.pools.emplace_back();
    pool.gpus_per_replica = 2;
    pool.max_replicas = 8;
    pool.ready = 2;
    pool.starting = 1;
    pool.replicas = {replica(3, 58), replica(4, 59)};
    pool.last_minute.length = std::chrono::seconds{60};
    pool.last_minute.arrivals = 120;
    pool.last_minute.input_tokens = 120'000;
    pool.last_minute.ttft = {110, 250.0, 0, 0, 0, 0};
    decision::PoolDecision& decided = decision.pools.emplace_back();
    decided.current = 3;
    decided.target = 4;
    decided.reason = decision::Reason::kSloAtRisk;
    decided.limited_by = decision::Limit::kGrowthRate;
    decided.evidence = {{"request_rate", 2.0, "1/s"}};
    decision.candidates = {{{3}, 0.5, 0.6, 0.7, false}, {{4}, 1.0, 1.0, 1.0, true}};
  }
  [[nodiscard]] std::string text() const { return to_prometheus_text(metrics()); }
  [[nodiscard]] PlannerMetrics metrics() const {
    return {.observation = observation, .decision = decision, .totals = totals, .slo = signals::SloTarget{}};
  }
};

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(Metrics, AnAggregatedPoolCountsAsDecodeUnderDynamosNames) {
  const std::string text = Scene{}.text();
  for (const char* line :
       {"dynamo_planner_num_decode_replicas 2", "dynamo_planner_predicted_num_decode_replicas 4",
        "dynamo_planner_observed_requests_per_second 2", "dynamo_planner_observed_ttft_ms 250",
        "dynamo_planner_observed_input_sequence_tokens 1000", "dynamo_planner_sla_target_ttft_ms 2000",
        "dynamo_planner_sla_target_itl_ms 50", "# TYPE dynamo_planner_num_decode_replicas gauge"})
    EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;
  EXPECT_EQ(text.find("num_prefill_replicas"), std::string::npos);
}

TEST(Metrics, AnswersWithoutAStreamHaveTheirOwnSeries) {
  Scene scene;
  EXPECT_EQ(scene.text().find("penstock_unstreamed"), std::string::npos);
  EXPECT_EQ(scene.text().find("penstock_slo_e2e_seconds"), std::string::npos);
  signals::TrafficWindow& window = scene.observation.pools[0].last_minute;
  window.e2e = {.count = 4, .mean_ms = 1500.0};
  window.tpot = {.count = 4, .mean_ms = 25.0};
  PlannerMetrics metrics = scene.metrics();
  metrics.slo->e2e = std::chrono::seconds{20};
  const std::string text = to_prometheus_text(metrics);
  for (const char* line :
       {"penstock_unstreamed_e2e_seconds 1.5", "penstock_unstreamed_tpot_seconds 0.025", "penstock_slo_e2e_seconds 20"})
    EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;
}

TEST(Metrics, TokensBearTheCostOfTheFleet) {
  Scene scene;
  scene.totals.count(scene.observation, scene.decision);
  signals::PoolObservation& pool = scene.observation.pools[0];
  pool.price_per_gpu_hour = 2.0;  // Three replicas with two GPUs cost 12 USD an hour.
  pool.last_minute.output_tokens = 60'000;
  EXPECT_EQ(scene.text().find("penstock_gpu_cost_per_million"), std::string::npos) << "the part of prompts is unknown";
  scene.decision.pools[0].evidence.push_back({"input_time_share", 0.25, "share"});
  // 7.2M prompt tokens an hour for 3 USD, 3.6M output tokens for 9 USD.
  EXPECT_TRUE(has_line(scene.text(), "penstock_gpu_cost_per_million_tokens_usd{kind=\"output\"} 2.5")) << scene.text();
  EXPECT_NE(scene.text().find("penstock_gpu_cost_per_million_tokens_usd{kind=\"input\"} 0.41666"), std::string::npos);
  pool.role = signals::Role::kPrefill;
  EXPECT_EQ(scene.text().find("penstock_gpu_cost_per_million_tokens_usd{kind=\"output\"}"), std::string::npos);
}

TEST(Metrics, TenantsHaveTheirPartOfTheGpuCost) {
  const Scene scene;
  PlannerMetrics metrics = scene.metrics();
  metrics.tenants = {{"shop", "llama", 1.5}, {"shop", "qwen", 0.25}};
  const std::string text = to_prometheus_text(metrics);
  for (const char* line : {"penstock_tenant_gpu_cost_usd_total{tenant=\"shop\",model=\"llama\"} 1.5",
                           "penstock_tenant_gpu_cost_usd_total{tenant=\"shop\",model=\"qwen\"} 0.25"})
    EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;
  // The label of a deployment is not written twice.
  metrics.model = "llama";
  metrics.tenants = {{"shop", "llama", 1.5}};
  EXPECT_TRUE(
      has_line(to_prometheus_text(metrics), "penstock_tenant_gpu_cost_usd_total{model=\"llama\",tenant=\"shop\"} 1.5"));
}

TEST(Metrics, AnUncalibratedEngineModelIsMarked) {
  Scene scene;
  EXPECT_TRUE(has_line(scene.text(), "penstock_engine_model_uncalibrated{pool=\"default\"} 0"));
  scene.decision.pools[0].evidence.push_back({"uncalibrated_default_engine", 1.0, "model"});
  EXPECT_TRUE(has_line(scene.text(), "penstock_engine_model_uncalibrated{pool=\"default\"} 1"));
}

TEST(Metrics, UnknownFiguresHaveNoSeries) {
  const std::string text = Scene{}.text();
  // 2 requests a second on the 4 replicas that were chosen are no capacity.
  for (const char* name : {"capacity_requests_per_second", "dynamo_planner_observed_itl_ms",
                           "dynamo_planner_observed_output_sequence_tokens",
                           "dynamo_planner_predicted_requests_per_second", "dynamo_planner_estimated_ttft_ms",
                           "penstock_diagnosis", "penstock_rollout_phase", "penstock_slo_attainment_ratio"})
    EXPECT_EQ(text.find(name), std::string::npos) << name;
  EXPECT_EQ(to_prometheus_text(PlannerMetrics{}), "");
  PlannerMetrics metrics;
  metrics.slo_attainment = std::numeric_limits<double>::infinity();
  EXPECT_EQ(to_prometheus_text(metrics), "");
  Scene scene;
  scene.decision.pools[0].evidence.push_back({"estimated_ttft", std::numeric_limits<double>::infinity(), "ms"});
  EXPECT_EQ(scene.text().find("dynamo_planner_estimated_ttft_ms"), std::string::npos);
}

TEST(Metrics, EveryStateOfAnEnumIsASeriesAndOneOfThemIsOne) {
  const std::string text = Scene{}.text();
  const std::string name = "dynamo_planner_load_scaling_decision";
  for (const std::string_view state : kLoadScalingStates)
    EXPECT_TRUE(has_line(text, name + "{state=\"" + std::string(state) + "\"," + name + "=\"" + std::string(state) +
                                   "\"} " + (state == "scale_up" ? "1" : "0")))
        << state;
  EXPECT_NE(text.find("dynamo_planner_throughput_scaling_decision{state=\"scale\""), std::string::npos);
}

TEST(Metrics, EnginesCarryWorkerAndRankAndVanishWithTheirTelemetry) {
  Scene scene;
  EXPECT_TRUE(
      has_line(scene.text(), "dynamo_planner_engine_queued_prefill_tokens{worker_id=\"3\",dp_rank=\"0\"} 4096"));
  EXPECT_TRUE(
      has_line(scene.text(), "dynamo_planner_engine_inflight_decode_kv_tokens{worker_id=\"4\",dp_rank=\"0\"} 2000"));
  EXPECT_TRUE(has_line(scene.text(), "penstock_kv_usage_ratio{pool=\"default\"} 0.25"));
  EXPECT_TRUE(has_line(scene.text(), "penstock_telemetry_age_seconds{pool=\"default\"} 2"));
  scene.observation.pools[0].replicas[0].sample->sampled_at = at(10);  // 50 s old
  scene.observation.pools[0].replicas[1].sample.reset();
  const std::string silent = scene.text();
  EXPECT_EQ(silent.find("worker_id"), std::string::npos);
  EXPECT_EQ(silent.find("penstock_kv_usage_ratio"), std::string::npos);
  EXPECT_TRUE(has_line(silent, "penstock_silent_replicas{pool=\"default\"} 2"));
}

TEST(Metrics, WithoutDataNoTargetAndNoFigureOfTheGatewayIsExported) {
  Scene scene;
  PlannerMetrics metrics{.observation = scene.observation, .decision = scene.decision, .slo_attainment = 1.0};
  metrics.data = {.state = signals::DataState::kNoGateway, .gateway_up = false, .has_target = false};
  const std::string blind = to_prometheus_text(metrics);
  for (const char* absent : {"\npenstock_target_replicas{", "\ndynamo_planner_predicted_num_decode_replicas ",
                             "\npenstock_replicas{", "\ndynamo_planner_observed_requests_per_second ",
                             "\npenstock_slo_attainment_ratio ", "\npenstock_next_phase_target_replicas{"})
    EXPECT_EQ(blind.find(absent), std::string::npos) << absent;
  EXPECT_TRUE(has_line(blind, "penstock_gateway_up 0"));
  EXPECT_TRUE(has_line(blind, "penstock_data_state{state=\"no_gateway\"} 1"));
  EXPECT_TRUE(has_line(blind, "penstock_min_replicas{pool=\"default\"} 1"));
  metrics.data = {.state = signals::DataState::kNoTelemetry, .gateway_up = true, .has_target = false};
  const std::string silent = to_prometheus_text(metrics);
  EXPECT_EQ(silent.find("\npenstock_target_replicas{"), std::string::npos);
  EXPECT_NE(silent.find("\npenstock_engine_up{pool=\"default\",worker_id=\"3\"} 1\n"), std::string::npos);
  EXPECT_NE(silent.find("\ndynamo_planner_observed_requests_per_second "), std::string::npos);
}

TEST(Metrics, DecisionsCandidatesAndTotalsAreThere) {
  Scene scene;
  scene.totals.count(scene.observation, scene.decision);
  scene.observation.now = at(3660);
  scene.totals.count(scene.observation, scene.decision);
  const std::string text = scene.text();
  for (const char* line :
       {"penstock_target_replicas{pool=\"default\"} 4", "penstock_replicas{pool=\"default\",state=\"starting\"} 1",
        "penstock_decision{pool=\"default\",reason=\"slo_at_risk\",limited_by=\"growth_rate\"} 1",
        "penstock_decisions_total{pool=\"default\",reason=\"slo_at_risk\",limited_by=\"growth_rate\"} 2",
        "penstock_decision_evidence{pool=\"default\",name=\"request_rate\",unit=\"1/s\"} 2",
        "penstock_candidate_slo_attainment_ratio{replicas=\"default=3\",chosen=\"false\"} 0.5",
        "penstock_candidate_itl_attainment_ratio{replicas=\"default=4\",chosen=\"true\"} 1",
        // 3 replicas of 2 GPUs for an hour
        "penstock_gpu_seconds_total{pool=\"default\"} 21600", "penstock_gpu_cost_usd_total{pool=\"default\"} 15",
        "dynamo_planner_gpu_hours 6"})
    EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;
}

TEST(Metrics, AClockThatStepsBackAddsNoGpuTime) {
  Scene scene;
  scene.totals.count(scene.observation, scene.decision);
  scene.observation.now = at(30);
  scene.totals.count(scene.observation, scene.decision);
  EXPECT_EQ(scene.totals.gpu_time(0), core::Duration{});
  scene.observation.now = at(61);
  scene.totals.count(scene.observation, scene.decision);
  EXPECT_EQ(scene.totals.gpu_time(0), std::chrono::seconds{6});
}

TEST(Metrics, LabelsAreEscapedAndNoSeriesComesTwice) {
  Scene scene;
  scene.observation.pools[0].name = "a\"b\\c\nd\xff";
  scene.decision.pools[0].evidence.push_back({"request_rate", 3.0, "1/s"});
  scene.decision.candidates.push_back({{4}, 0.9, 0.9, 0.9, false});
  const std::string text = scene.text();
  EXPECT_TRUE(has_line(text, "penstock_target_replicas{pool=\"a\\\"b\\\\c\\nd?\"} 4")) << text;
  std::set<std::string> series;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    EXPECT_TRUE(series.insert(line.substr(0, line.starts_with('#') ? line.size() : line.rfind(' '))).second) << line;
  }
}

TEST(Metrics, StatesFollowFromReasonsAndLimitsOfAllPools) {
  decision::Decision decision;
  EXPECT_EQ(load_scaling_state(decision), LoadScaling::kUnset);
  const auto add = [&](std::uint32_t current, std::uint32_t target, decision::Reason reason, decision::Limit limit) {
    decision.pools.push_back({current, target, reason, limit, {}});
  };
  add(2, 2, decision::Reason::kFixed, decision::Limit::kNone);
  EXPECT_EQ(load_scaling_state(decision), LoadScaling::kDisabled);
  EXPECT_EQ(throughput_scaling_state(decision), ThroughputScaling::kDisabled);
  add(2, 2, decision::Reason::kConsolidationRefused, decision::Limit::kNone);
  EXPECT_EQ(load_scaling_state(decision), LoadScaling::kScaleDownRefusedConsolidation);
  add(2, 2, decision::Reason::kSloMet, decision::Limit::kStaleTelemetry);
  EXPECT_EQ(load_scaling_state(decision), LoadScaling::kNoFpmData);
  EXPECT_EQ(throughput_scaling_state(decision), ThroughputScaling::kSetLowerBound);
  add(2, 1, decision::Reason::kSloMet, decision::Limit::kNone);
  EXPECT_EQ(load_scaling_state(decision), LoadScaling::kScaleDown);
  add(2, 3, decision::Reason::kSloAtRisk, decision::Limit::kNone);
  EXPECT_EQ(load_scaling_state(decision), LoadScaling::kScaleUp);
  EXPECT_EQ(throughput_scaling_state(decision), ThroughputScaling::kScale);
}

TEST(Metrics, LimitsAndPhasesHaveTheirStates) {
  using decision::Limit;
  using decision::Reason;
  const auto decided = [](Reason reason, Limit limit) {
    decision::Decision decision;
    decision.pools.push_back({3, 3, reason, limit});
    return decision;
  };
  const auto load = [&](Reason reason, Limit limit) { return load_scaling_state(decided(reason, limit)); };
  EXPECT_EQ(load(Reason::kSloMet, Limit::kStartingOrDraining), LoadScaling::kScalingInProgress);
  EXPECT_EQ(load(Reason::kSloMet, Limit::kConsolidation), LoadScaling::kScaleDownRefusedConsolidation);
  EXPECT_EQ(load(Reason::kSloMet, Limit::kManualChange), LoadScaling::kWorkerCountMismatch);
  EXPECT_EQ(load(Reason::kSloMet, Limit::kHotKvCache), LoadScaling::kNoChange);
  EXPECT_EQ(load(Reason::kInsufficientData, Limit::kNone), LoadScaling::kInsufficientData);
  EXPECT_EQ(load(Reason::kNoData, Limit::kNone), LoadScaling::kNoFpmData);

  decision::Decision capped = decided(Reason::kCheapestThatKeepsSlo, Limit::kNone);
  capped.pools[0].evidence = {{"floor", 3.0, "replicas"}, {"load_based_target", 2.0, "replicas"}};
  EXPECT_EQ(load_scaling_state(capped), LoadScaling::kScaleDownCappedByThroughput);
  capped.pools[0].evidence[1].value = 3.0;
  EXPECT_EQ(load_scaling_state(capped), LoadScaling::kNoChange);

  decision::Decision phased = decided(Reason::kCheapestThatKeepsSlo, Limit::kNone);
  using decision::RolloutPhase;
  const auto states = [&](std::optional<RolloutPhase> phase) {
    phased.phase = phase;
    return std::pair{load_scaling_state(phased), throughput_scaling_state(phased)};
  };
  EXPECT_EQ(states(RolloutPhase::kGuardrails), std::pair(LoadScaling::kDisabled, ThroughputScaling::kDisabled));
  EXPECT_EQ(states(RolloutPhase::kThroughput), std::pair(LoadScaling::kDisabled, ThroughputScaling::kSetLowerBound));
  EXPECT_EQ(states(RolloutPhase::kCost), std::pair(LoadScaling::kNoChange, ThroughputScaling::kSetLowerBound));
  EXPECT_EQ(states(std::nullopt), std::pair(LoadScaling::kNoChange, ThroughputScaling::kSetLowerBound));
  phased.forecast.emplace();
  EXPECT_EQ(states(RolloutPhase::kLoad).second, ThroughputScaling::kPredictFailed);
  phased.forecast->requests_per_s = 2.0;
  EXPECT_EQ(states(RolloutPhase::kLoad).second, ThroughputScaling::kSetLowerBound);
}

TEST(Metrics, DiagnosisPhaseAndForecastOfADecisionAreSeries) {
  Scene scene;
  scene.decision.cause = decision::Cause::kQueue;
  scene.decision.phase = decision::RolloutPhase::kGuardrails;
  scene.decision.pools[0].next_phase_target = 7;
  scene.decision.forecast = decision::Forecast{2.5, 1024.0, {}, 0.25, 0.5};
  scene.decision.pools[0].evidence.push_back({"estimated_ttft", 640.0, "ms"});
  scene.decision.pools[0].evidence.push_back({"replica_capacity", 0.75, "1/s"});
  const std::string text = scene.text();
  for (const char* line :
       {"penstock_diagnosis{pool=\"default\",cause=\"queue\"} 1",
        "penstock_diagnosis{pool=\"default\",cause=\"none\"} 0",
        "penstock_diagnosis{pool=\"default\",cause=\"preemption\"} 0", "penstock_rollout_phase{phase=\"guardrails\"} 1",
        "penstock_rollout_phase{phase=\"cost\"} 0", "penstock_next_phase_target_replicas{pool=\"default\"} 7",
        "penstock_forecast_error_requests_per_second{forecast=\"planner\"} 0.25",
        "penstock_forecast_error_requests_per_second{forecast=\"naive\"} 0.5",
        "dynamo_planner_predicted_requests_per_second 2.5", "dynamo_planner_predicted_input_sequence_tokens 1024",
        "dynamo_planner_estimated_ttft_ms 640", "dynamo_planner_engine_decode_capacity_requests_per_second 0.75",
        "dynamo_planner_engine_decode_requests_per_second 0.75",
        "penstock_replica_capacity_requests_per_second{pool=\"default\"} 0.75"})
    EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;
  EXPECT_EQ(text.find("predicted_output_sequence_tokens"), std::string::npos);
  EXPECT_EQ(Scene{}.text().find("penstock_diagnosis"), std::string::npos);
}

// Reads the text format 0.0.4 to the letter; the number of samples, or what is wrong with it.
std::string strictly_read(const std::string& text, std::map<std::string, double>& samples) {
  std::set<std::string> finished;
  std::string family, type;
  std::size_t at = 0;
  const auto is_name = [&](char c) { return c == '_' || (std::isalnum(static_cast<unsigned char>(c)) != 0); };
  const auto name = [&](const std::string& line, std::size_t& from) {
    const std::size_t begin = from;
    while (from < line.size() && is_name(line[from])) ++from;
    return line.substr(begin, from - begin);
  };
  for (std::size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = text.substr(at, end - at);
    if (line.starts_with("# HELP ")) {
      std::size_t place = 7;
      finished.insert(std::exchange(family, name(line, place)));
      if (finished.contains(family)) return "twice: " + line;
      type.clear();
      continue;
    }
    if (line.starts_with("# TYPE ")) {
      if (line != "# TYPE " + family + " gauge" && line != "# TYPE " + family + " counter") return "type: " + line;
      type = line;
      continue;
    }
    std::size_t place = 0;
    if (name(line, place) != family || type.empty()) return "family: " + line;
    if (place < line.size() && line[place] == '{') {
      std::set<std::string> labels;
      do {
        const std::string label = name(line, ++place);
        if (label.empty() || !labels.insert(label).second || line.substr(place, 2) != "=\"") return "label: " + line;
        for (place += 2; place < line.size() && line[place] != '"'; ++place)
          if (line[place] == '\\' && std::string_view{"\\\"n"}.find(line[++place]) == std::string_view::npos)
            return "escape: " + line;
        ++place;
      } while (place < line.size() && line[place] == ',');
      if (place >= line.size() || line[place++] != '}') return "labels: " + line;
    }
    double value = 0.0;
    const char* const last = line.data() + line.size();
    if (place >= line.size() || line[place] != ' ') return "value: " + line;
    if (const auto read = std::from_chars(line.data() + place + 1, last, value); read.ptr != last)
      return "value: " + line;
    if (!samples.emplace(line.substr(0, place), value).second) return "twice: " + line;
  }
  return at == text.size() ? "" : "the last line has no end";
}

TEST(Metrics, SeveralPoliciesShareTheHeadsOfTheirFamilies) {
  Scene scene;
  scene.decision.cause = decision::Cause::kQueue;
  scene.decision.phase = decision::RolloutPhase::kLoad;
  scene.decision.forecast = decision::Forecast{2.5, 1024.0, 256.0, 0.25, 0.5};
  std::vector<PlannerMetrics> both(2, scene.metrics());
  both[0].policy = "penstock";
  both[1].policy = "a \"quoted\"\nname\\";
  std::map<std::string, double> samples, alone;
  EXPECT_EQ(strictly_read(to_prometheus_text(both), samples), "");
  EXPECT_EQ(strictly_read(scene.text(), alone), "");
  EXPECT_EQ(samples.size(), 2 * alone.size());
  EXPECT_EQ(samples["penstock_target_replicas{policy=\"penstock\",pool=\"default\"}"], 4.0);
  EXPECT_EQ(samples["dynamo_planner_gpu_hours{policy=\"a \\\"quoted\\\"\\nname\\\\\"}"], 0.0);
  const std::string text = to_prometheus_text(both);
  std::map<std::string, double> again, twice;
  EXPECT_EQ(strictly_read(text.substr(0, text.size() - 1), again), "the last line has no end");
  EXPECT_NE(strictly_read(text + text, twice), "");
}

class Once final : public decision::Policy {
 public:
  explicit Once(Scene scene) : scene_(std::move(scene)) {}
  [[nodiscard]] std::string_view name() const override { return "once"; }
  [[nodiscard]] core::Duration interval() const override { return std::chrono::seconds{7}; }
  [[nodiscard]] core::Duration memory() const override { return std::chrono::seconds{8}; }
  [[nodiscard]] bool wants_segments() const override { return true; }
  [[nodiscard]] decision::Decision decide(const signals::Observation&) override { return scene_.decision; }

 private:
  Scene scene_;
};

TEST(Metrics, AMeteredPolicyIsThatPolicyAndKeepsItsLastDecision) {
  Scene scene;
  Once once{scene};
  MeteredPolicy metered{once, {2.5}};
  EXPECT_EQ(metered.name(), "once");
  EXPECT_EQ(metered.interval(), std::chrono::seconds{7});
  EXPECT_EQ(metered.memory(), std::chrono::seconds{8});
  EXPECT_TRUE(metered.wants_segments());

  decision::RunResult result;
  result.requests = result.completed = 10;
  result.slo_attainment = 0.75;
  result.e2e_ms.mean = 2500.0;
  result.gpu_hours = 9.0;
  std::string text = to_prometheus_text(metered.at_end(result, {}));  // it never decided
  EXPECT_TRUE(has_line(text, "dynamo_planner_gpu_hours{policy=\"once\"} 9"));
  EXPECT_TRUE(has_line(text, "dynamo_planner_sla_target_itl_ms{policy=\"once\"} 50"));
  EXPECT_EQ(text.find("num_decode_replicas"), std::string::npos);

  EXPECT_EQ(metered.decide(scene.observation).pools[0].target, 4U);
  scene.observation.now = at(3660);
  static_cast<void>(metered.decide(scene.observation));
  text = to_prometheus_text(metered.at_end(result, {}));
  for (const char* line :
       {"dynamo_planner_gpu_hours{policy=\"once\"} 6", "penstock_target_replicas{policy=\"once\",pool=\"default\"} 4",
        "penstock_slo_attainment_ratio{policy=\"once\"} 0.75",
        "penstock_gpu_cost_usd_total{policy=\"once\",pool=\"default\"} 15",
        "dynamo_planner_observed_request_duration_seconds{policy=\"once\"} 2.5"})
    EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;
}

TEST(Metrics, PoolsOfKubernetesHaveTheSeriesOfWva) {
  const Scene scene;
  PlannerMetrics metrics = scene.metrics();
  EXPECT_EQ(to_prometheus_text(metrics).find("wva_"), std::string::npos) << "only with a namespace";
  metrics.variants = {{"default", "chat-hpa", "llm", "H100"}};
  metrics.data = DataSources{};
  const std::string labels = "{variant_name=\"chat-hpa\",namespace=\"llm\",accelerator_type=\"H100\"}";
  std::string text = to_prometheus_text(metrics);
  for (const std::string& line : {"wva_current_replicas" + labels + " 3", "wva_desired_replicas" + labels + " 4",
                                  "wva_desired_ratio" + labels + " 1.3333333333333333"})
    EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;

  metrics.variants[0].accelerator.clear();
  metrics.observation.pools[0].ready = metrics.observation.pools[0].starting = 0;
  text = to_prometheus_text(metrics);
  EXPECT_TRUE(has_line(
      text, "wva_desired_ratio{variant_name=\"chat-hpa\",namespace=\"llm\",accelerator_type=\"unresolved\"} 4"));

  metrics.data->has_target = false;  // A follower, or without data.
  text = to_prometheus_text(metrics);
  EXPECT_EQ(text.find("wva_desired"), std::string::npos);
  EXPECT_NE(text.find("wva_current"), std::string::npos);
  for (const signals::DataState state : {signals::DataState::kNoGateway, signals::DataState::kNoFleet}) {
    metrics.data->state = state;
    EXPECT_EQ(to_prometheus_text(metrics).find("wva_"), std::string::npos) << to_string(state);
  }
}

TEST(Metrics, TicksAreHistogramsOfWallAndCpuTime) {
  PlannerMetrics metrics = Scene{}.metrics();
  EXPECT_EQ(to_prometheus_text(metrics).find("penstock_plan_tick"), std::string::npos) << "a replay has no ticks";
  metrics.ticks.emplace();
  metrics.ticks->wall_s.add(0.03);
  metrics.ticks->wall_s.add(0.004);
  metrics.ticks->cpu_s.add(0.02, 2);
  metrics.data = DataSources{.state = signals::DataState::kNoGateway};  // They need no data.
  const std::string text = to_prometheus_text(metrics);
  EXPECT_TRUE(telemetry::parse_exposition(text, "metrics"));
  for (const char* line :
       {"# TYPE penstock_plan_tick_seconds histogram", "penstock_plan_tick_seconds_bucket{le=\"0.0025\"} 0",
        "penstock_plan_tick_seconds_bucket{le=\"0.025\"} 1", "penstock_plan_tick_seconds_bucket{le=\"0.05\"} 2",
        "penstock_plan_tick_seconds_count 2", "# TYPE penstock_plan_tick_cpu_seconds histogram",
        "penstock_plan_tick_cpu_seconds_bucket{le=\"0.025\"} 2", "penstock_plan_tick_cpu_seconds_sum 0.04"})
    EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;
}

TEST(Metrics, TheReferencePageIsUpToDate) {
  const auto path = core::testing::source_root() / "docs/reference/metrics.md";
  if (std::getenv("PENSTOCK_UPDATE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << metrics_markdown();
  std::ifstream file(path, std::ios::binary);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(page, metrics_markdown()) << "PENSTOCK_UPDATE_GOLDEN=1 rewrites it";
}

}  // namespace
}  // namespace penstock::report
