#include "evaluation/traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "options/arguments.h"
#include "replay/setup.h"
#include "workload/reader.h"

namespace penstock::evaluation {

using namespace configuration;
using namespace replay;
namespace {

// The ServeGen days are samples of few requests per second. Their copies are moved by up to ten minutes: a service of
// that size does not have the noise of the sample.
constexpr core::Duration kThinSpread = std::chrono::minutes{10};

constexpr std::string_view kAzure = "azure2023_code.csv.xz";

// The Azure trace in another world.
constexpr EvaluationTrace azure_with(std::string_view name, std::string_view title, double rate_scale,
                                     std::string_view flags) {
  EvaluationTrace trace{name, title, kAzure, rate_scale};
  trace.variant = true;
  trace.in_quick = false;
  trace.flags = flags;
  trace.few_runs = true;
  trace.seeds = 3;
  return trace;
}

constexpr EvaluationTrace azure_with_start_up(std::string_view name, std::string_view title, core::Duration start_up,
                                              bool in_quick) {
  EvaluationTrace trace = azure_with(name, title, 8.0, {});
  trace.start_up = start_up;
  trace.in_quick = in_quick;
  return trace;
}

constexpr EvaluationTrace thin_day(std::string_view name, std::string_view title, std::string_view file,
                                   double rate_scale, core::Duration quick_window) {
  EvaluationTrace trace{name, title, file, rate_scale, kThinSpread, true, quick_window};
  trace.few_runs = true;
  return trace;
}

constexpr EvaluationTrace with_seeds(EvaluationTrace trace, std::uint32_t seeds) {
  trace.seeds = seeds;
  return trace;
}

// Sessions of coding agents, whose prompts are long and mostly in the cache.
constexpr EvaluationTrace claude_code() {
  EvaluationTrace trace{"claude-code", "Claude Code, closed loop", "claude_code_sessions.jsonl.zst"};
  trace.flags = "--session-rate 0.05 --think-time-max 2m --to 40m --block-size 64 --kv-blocks 16000";
  trace.in_quick = false;
  trace.few_runs = true;
  trace.request_cost = 50.0;  // A prompt has hundreds of blocks.
  return trace;
}

constexpr std::array kTraces{
    // An hour with one burst of six minutes: what a policy attains depends on where it falls.
    with_seeds({"built-in", "Built-in workload", "built-in"}, 8),
    with_seeds({"mooncake", "Mooncake conversation", "mooncake_conversation.jsonl.xz", 2.0}, 3),
    with_seeds({"azure", "Azure 2023 code", kAzure, 8.0}, 3),
    azure_with_start_up("azure-30s", "Azure 2023 code, start-up 30 s", std::chrono::seconds{30}, true),
    azure_with_start_up("azure-300s", "Azure 2023 code, start-up 300 s", std::chrono::seconds{300}, false),
    azure_with("azure-dense", "Azure 2023 code, Llama 3.1 70B", 4.0,
               "--engine roofline:llama-3.1-70b,h100,tp=4,precision=fp8"),
    azure_with("azure-mixture", "Azure 2023 code, Qwen3 30B-A3B", 8.0,
               "--engine roofline:qwen3-30b-a3b,h100,precision=bf16"),
    azure_with("azure-pools", "Azure 2023 code, prefill and decode pools", 16.0,
               "--pool role=prefill --pool role=decode"),
    with_seeds(claude_code(), 3),
    with_seeds(thin_day("servegen-r1", "ServeGen DeepSeek-R1, hours 0 to 14", "servegen_deepseek_r1_h0_14.csv.zst",
                        24.0, std::chrono::hours{1}),
               2),
    thin_day("servegen-large", "ServeGen m-large, day 0", "servegen_large_day0_thinned.csv.zst", 36.0,
             std::chrono::hours{1}),
    thin_day("servegen-mid", "ServeGen m-mid, day 1", "servegen_mid_day1_thinned.csv.zst", 18.0, std::chrono::hours{1}),
};

constexpr std::uint64_t kSeeds[] = {1, 2, 3, 4, 5, 6, 7, 8};
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

// The step times, the SLO, the start-up time and the router, which is the gateway, are the defaults of a replay.
core::Result<configuration::Configuration> base_settings(const EvaluationScope& scope, std::string_view flags) {
  auto settings = settings_of_flags(fmt::format("--max-replicas {} {}", kReplicasMax, flags));
  if (!settings) return settings;
  settings->jobs = scope.jobs;
  settings->score_from = scored_from(settings->run.pools.front().start_up);
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

std::span<const std::uint64_t> seeds_of(const EvaluationTrace& trace) { return std::span{kSeeds}.first(trace.seeds); }

std::vector<EvaluationScenario> evaluation_scenarios(bool quick) {
  std::vector<EvaluationScenario> scenarios;
  for (const char* workload : {"mooncake", "azure"}) {
    if (quick && std::string_view{workload} == "mooncake") continue;
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

const EvaluationTrace* find_trace(std::string_view name) {
  const auto* found = std::find_if(kTraces.begin(), kTraces.end(), [&](const auto& each) { return each.name == name; });
  return found == kTraces.end() ? nullptr : found;
}

core::Result<configuration::Configuration> settings_of_flags(std::string_view flags) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < flags.size();) {
    const std::size_t space = std::min(flags.find(' ', at), flags.size());
    if (space > at) words.emplace_back(flags.substr(at, space - at));
    at = space + 1;
  }
  Configuration settings;
  const options::Table table = configuration_table(settings);
  const options::Usage usage{"replay", {}, {}, false, options::flags_of(table, replay_groups()), {}};
  auto given = options::parse_words(usage, words);
  if (!given) return tl::make_unexpected(given.error());
  const auto loaded = load(settings, table, {{}, {}, std::move(given->flags)});
  if (!loaded) return tl::make_unexpected(loaded.error().front());
  return settings;
}

core::Result<configuration::Configuration> settings_of(const EvaluationTrace& trace, const EvaluationScope& scope,
                                                       std::string_view more_flags) {
  auto settings = base_settings(scope, fmt::format("{} {}", trace.flags, more_flags));
  if (!settings) return settings;
  settings->traces.names = {path_of(trace, scope)};
  settings->traces.rate_scale.factor = trace.rate_scale;
  if (trace.spread > core::Duration{}) settings->traces.rate_scale.spread = trace.spread;
  for (simulation::PoolSpec& pool : settings->run.pools) pool.start_up = trace.start_up;
  settings->score_from = scored_from(trace.start_up);
  if (scope.quick && trace.day_long) {
    const auto whole = workload::read_workload(settings->traces.names.front(), {});
    if (!whole) return tl::make_unexpected(whole.error());
    settings->traces.read.from = busiest_window(*whole, trace.quick_window);
    settings->traces.read.to = settings->traces.read.from + trace.quick_window;
  }
  return settings;
}

core::Result<configuration::Configuration> settings_of(const EvaluationScenario& scenario,
                                                       const EvaluationScope& scope) {
  const EvaluationTrace* trace = find_trace(scenario.workload);
  auto settings = trace == nullptr ? base_settings(scope, {}) : settings_of(*trace, scope);
  if (!settings) return settings;
  if (trace == nullptr) settings->traces.names = {scenario.workload};
  settings->policies = {"penstock"};
  if (scenario.change) scenario.change(*settings);
  return settings;
}

}  // namespace penstock::evaluation
