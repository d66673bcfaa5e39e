#include "evaluation/traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "replay/setup.h"
#include "workload/reader.h"

namespace penstock::evaluation {

using namespace configuration;
using namespace replay;
namespace {

// The ServeGen days are samples of few requests per second. Their copies are moved by up to ten minutes: a service of
// that size does not have the noise of the sample.
constexpr core::Duration kThinSpread = std::chrono::minutes{10};

constexpr EvaluationTrace azure_with_start_up(std::string_view name, std::string_view title, core::Duration start_up,
                                              bool in_quick) {
  EvaluationTrace trace{name, title, "azure2023_code.csv.xz", 8.0};
  trace.start_up = start_up;
  trace.variant = true;
  trace.in_quick = in_quick;
  return trace;
}

constexpr EvaluationTrace thin_day(std::string_view name, std::string_view title, std::string_view file,
                                   double rate_scale, core::Duration quick_window) {
  return {name, title, file, rate_scale, kThinSpread, true, quick_window};
}

constexpr std::array kTraces{
    EvaluationTrace{"built-in", "Built-in workload", "built-in"},
    EvaluationTrace{"mooncake", "Mooncake conversation", "mooncake_conversation.jsonl.xz", 2.0},
    EvaluationTrace{"azure", "Azure 2023 code", "azure2023_code.csv.xz", 8.0},
    azure_with_start_up("azure-30s", "Azure 2023 code, start-up 30 s", std::chrono::seconds{30}, true),
    azure_with_start_up("azure-300s", "Azure 2023 code, start-up 300 s", std::chrono::seconds{300}, false),
    thin_day("servegen-r1", "ServeGen DeepSeek-R1, hours 0 to 14", "servegen_deepseek_r1_h0_14.csv.zst", 24.0,
             std::chrono::hours{2}),
    thin_day("servegen-large", "ServeGen m-large, day 0", "servegen_large_day0_thinned.csv.zst", 48.0,
             std::chrono::hours{2}),
    thin_day("servegen-mid", "ServeGen m-mid, day 1", "servegen_mid_day1_thinned.csv.zst", 36.0, std::chrono::hours{1}),
};

constexpr std::uint32_t kReplicasMax = 32;
constexpr core::Duration kWindowStep = std::chrono::minutes{5};

// Where the window of this length begins that most requests arrive in.
core::Duration busiest_window(const workload::Workload& workload, core::Duration length) {
  std::vector<std::uint64_t> arrivals(static_cast<std::size_t>(workload.span() / kWindowStep) + 1, 0);
  for (const workload::Request& request : workload.requests)
    ++arrivals[static_cast<std::size_t>(request.arrival.time_since_epoch() / kWindowStep)];
  const auto steps = std::min(arrivals.size(), static_cast<std::size_t>(length / kWindowStep));
  std::uint64_t inside = 0, most = 0;
  std::size_t begins = 0;
  for (std::size_t end = 0; end < arrivals.size(); ++end) {
    inside += arrivals[end];
    if (end >= steps) inside -= arrivals[end - steps];
    if (end + 1 >= steps && inside > most) {
      most = inside;
      begins = end + 1 - steps;
    }
  }
  return static_cast<std::int64_t>(begins) * kWindowStep;
}

// The step times, the SLO and the start-up time are the defaults of a replay. The router is that of Dynamo, without
// limits.
configuration::Configuration base_settings(const EvaluationScope& scope) {
  configuration::Configuration settings;
  settings.jobs = scope.jobs;
  settings.run.router = routing::Strategy::kKv;
  settings.run.pools.front().max_replicas = kReplicasMax;
  settings.score_from = scored_from(settings.run.pools.front().start_up);
  return settings;
}

std::string path_of(const EvaluationTrace& trace, const EvaluationScope& scope) {
  if (trace.file == "built-in") return std::string{trace.file};
  return fmt::format("{}{}{}", scope.folder, scope.folder.ends_with('/') ? "" : "/", trace.file);
}

void add_start_ups(std::vector<EvaluationScenario>& scenarios, const std::string& workload) {
  for (const int seconds : {30, 60, 120, 300})
    scenarios.push_back(
        {workload, fmt::format("start-up {} s", seconds), [seconds](configuration::Configuration& settings) {
           settings.run.pools.front().start_up = std::chrono::seconds{seconds};
           settings.score_from = scored_from(settings.run.pools.front().start_up);
         }});
}

void add_faults(std::vector<EvaluationScenario>& scenarios, const std::string& workload) {
  const auto add = [&](const char* name, std::function<void(simulation::Faults&)> change) {
    scenarios.push_back(
        {workload, name, [change = std::move(change)](auto& settings) { change(settings.run.faults); }});
  };
  add("20 % of telemetry lost", [](auto& faults) { faults.telemetry_loss = 0.2; });
  add("5 % of telemetry reads zero", [](auto& faults) { faults.telemetry_lie = 0.05; });
  add("start-up up to twice as long", [](auto& faults) { faults.start_up_spread = 1.0; });
  add("one replica three times slower", [](auto& faults) {
    faults.events = {{simulation::FaultKind::kSlow, {}, {}, 1, {}, 3.0}};
  });
  add("a crash per replica and hour", [](auto& faults) { faults.crashes_per_replica_hour = 1.0; });
  scenarios.push_back({workload, "planner's profile 30 % too fast", {}, 0.7});
  scenarios.push_back({workload, "planner's profile 30 % too slow", {}, 1.3});
}

}  // namespace

std::span<const EvaluationTrace> evaluation_traces() { return kTraces; }

std::vector<EvaluationScenario> evaluation_scenarios() {
  std::vector<EvaluationScenario> scenarios;
  for (const char* workload : {"mooncake", "azure"}) {
    add_start_ups(scenarios, workload);
    add_faults(scenarios, workload);
  }
  const std::string lengths = ",input=2000,input_cv=1,output=200,output_cv=1";
  scenarios.push_back({"synthetic:rate=24..120,shape=step,at=30m,duration=1h" + lengths, "a step of 5× the load", {}});
  scenarios.push_back(
      {"synthetic:rate=24..120,shape=burst,at=30m,length=5m,duration=1h" + lengths, "a flash crowd of 5 minutes", {}});
  scenarios.push_back({"synthetic:rate=80..0,shape=burst,at=20m,length=20m,duration=1h" + lengths,
                       "traffic to zero for 20 minutes and back",
                       {}});
  return scenarios;
}

core::Duration scored_from(core::Duration start_up) { return 2 * start_up + std::chrono::minutes{3}; }

core::Result<configuration::Configuration> settings_of(const EvaluationTrace& trace, const EvaluationScope& scope) {
  configuration::Configuration settings = base_settings(scope);
  settings.traces.names = {path_of(trace, scope)};
  settings.traces.rate_scale.factor = trace.rate_scale;
  if (trace.spread > core::Duration{}) settings.traces.rate_scale.spread = trace.spread;
  settings.run.pools.front().start_up = trace.start_up;
  settings.score_from = scored_from(trace.start_up);
  if (scope.quick && trace.day_long) {
    const auto whole = workload::read_workload(settings.traces.names.front(), {});
    if (!whole) return tl::make_unexpected(whole.error());
    settings.traces.read.from = busiest_window(*whole, trace.quick_window);
    settings.traces.read.to = settings.traces.read.from + trace.quick_window;
  }
  return settings;
}

core::Result<configuration::Configuration> settings_of(const EvaluationScenario& scenario,
                                                       const EvaluationScope& scope) {
  configuration::Configuration settings = base_settings(scope);
  settings.traces.names = {scenario.workload};
  for (const EvaluationTrace& trace : kTraces) {
    if (trace.name != scenario.workload) continue;
    auto of_trace = settings_of(trace, scope);
    if (!of_trace) return of_trace;
    settings = *std::move(of_trace);
  }
  settings.policies = {"penstock"};
  if (scenario.change) scenario.change(settings);
  return settings;
}

}  // namespace penstock::evaluation
