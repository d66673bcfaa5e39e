// The SLO with its segments, and the section of the planner.
#include <gtest/gtest.h>

#include "configuration/configuration_testing.h"

namespace penstock::configuration {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(PlannerOptions, DefaultsArePlannedForTheSlo) {
  const Configuration made = loaded("");
  const planner::PlannerOptions& options = made.planner.options;
  EXPECT_EQ(made.run.slo_goal, 0.99);
  EXPECT_TRUE(made.run.slo_segments.empty());
  EXPECT_EQ(options.target, planner::OptimizationTarget::kSla);
  EXPECT_EQ(options.phase, decision::RolloutPhase::kCost);
  EXPECT_EQ(options.interval, seconds{5});
  EXPECT_EQ(options.throughput_loop.interval, seconds{180});
  EXPECT_EQ(options.load_loop.interval, seconds{20});
  EXPECT_FALSE(options.guardrails.gpu_budget);
  const planner::PlannerOptions without_file;
  EXPECT_EQ(options.memory.slice_least, without_file.memory.slice_least);
}

TEST(PlannerOptions, EveryKeyIsRead) {
  const PlannerSetup setup = loaded(R"(
planner:
  target: latency
  phase: load
  throughput_interval: 90s
  tick_interval: 2s
  load_interval: 10s
  memory: 4m
  utilisation: 80%
  predictor: seasonal
  warm_trace: yesterday.csv
  warm_pool: 2
  utc_offset: +02:00
  start_time: 2024-05-13T08:00:00Z
  schedules:
    - {cron: "0 8 * * 1-5", length: 10h, replicas: 3}
  gpu_budget: 16
  growth: 2
  stabilisation: 10m
  shrink_share: 0.5
  sensitivity: 60
  manual_hold: 20m
  failure_cooldown: 1m
  kv_hot: 0.9
)")
                                 .planner;
  const planner::PlannerOptions& planner = setup.options;
  EXPECT_EQ(planner.target, planner::OptimizationTarget::kLatency);
  EXPECT_EQ(planner.phase, decision::RolloutPhase::kLoad);
  EXPECT_EQ(planner.throughput_loop.interval, seconds{90});
  EXPECT_EQ(planner.interval, seconds{2});
  EXPECT_EQ(planner.load_loop.interval, seconds{10});
  EXPECT_EQ(planner.memory.length, minutes{4});
  EXPECT_EQ(planner.memory.slice_most, minutes{1});
  EXPECT_EQ(planner.utilisation, 0.8);
  EXPECT_EQ(planner.outlook.predictor, "seasonal");
  EXPECT_EQ(setup.warm_trace, "yesterday.csv");
  EXPECT_EQ(planner.schedule.warm_pool, 2U);
  EXPECT_EQ(setup.utc_offset, hours{2});
  EXPECT_EQ(planner.schedule.unix_start, 1'715'587'200);
  ASSERT_EQ(setup.schedules.size(), 1U);
  EXPECT_EQ(setup.schedules[0].cron, "0 8 * * 1-5");
  EXPECT_EQ(setup.schedules[0].location, "p.yaml:16:14: planner.schedules[0].cron");
  EXPECT_EQ(setup.schedules[0].length, hours{10});
  EXPECT_EQ(setup.schedules[0].pool, "default");
  EXPECT_EQ(setup.schedules[0].replicas, 3U);
  const planner::GuardrailOptions& guardrails = planner.guardrails;
  EXPECT_EQ(guardrails.gpu_budget, 16U);
  EXPECT_EQ(guardrails.growth_per_minute, 2.0);
  EXPECT_EQ(guardrails.stabilisation, minutes{10});
  EXPECT_EQ(guardrails.shrink_share, 0.5);
  EXPECT_EQ(guardrails.sensitivity, 60U);
  EXPECT_EQ(guardrails.manual_hold, minutes{20});
  EXPECT_EQ(guardrails.failure_cooldown, minutes{1});
  EXPECT_EQ(guardrails.kv_hot, 0.9);
}

TEST(PlannerOptions, FlagsOverrideTheFile) {
  const planner::PlannerOptions planner =
      loaded("planner: {target: latency, phase: load, load_interval: 10s, gpu_budget: 4}\n",
             {{"--target", "throughput"},
              {"--phase", "observe"},
              {"--throughput-interval", "60s"},
              {"--load-interval", "0s"},
              {"--tick-interval", "3s"},
              {"--gpu-budget", "8"}})
          .planner.options;
  EXPECT_EQ(planner.target, planner::OptimizationTarget::kThroughput);
  EXPECT_EQ(planner.phase, decision::RolloutPhase::kObserve);
  EXPECT_EQ(planner.throughput_loop.interval, seconds{60});
  EXPECT_EQ(planner.load_loop.interval, core::Duration{});
  EXPECT_EQ(planner.interval, seconds{3});
  EXPECT_EQ(planner.guardrails.gpu_budget, 8U);
}

TEST(PlannerOptions, AGpuBudgetOfZeroIsNoLimit) {
  EXPECT_FALSE(loaded("planner: {gpu_budget: 8}\n", {{"--gpu-budget", "0"}}).planner.options.guardrails.gpu_budget);
}

TEST(PlannerOptions, SegmentsTakeWhatTheyLeaveOutFromTheGeneralTarget) {
  const simulation::RunOptions settings =
      loaded(
          "slo:\n"
          "  segments:\n"
          "    - {name: chat, class: interactive, prompt_max: 1000, ttft: 500ms}\n"
          "    - {name: nightly, model: llama, tenant: acme, class: batch, prompt_min: 8, itl: 1s, goal: 90%}\n"
          "model: llama\n",
          {{"--slo", "ttft=3s,itl=40ms,goal=95%"}})
          .run;
  EXPECT_EQ(settings.slo_goal, 0.95);
  ASSERT_EQ(settings.slo_segments.size(), 2U);
  const signals::SegmentSlo& chat = settings.slo_segments[0];
  EXPECT_EQ(chat.traffic_class, "interactive");
  EXPECT_EQ(chat.prompt_min, 0U);
  EXPECT_EQ(chat.prompt_max, 1000U);
  EXPECT_EQ(chat.target.ttft, core::Duration{milliseconds{500}});
  EXPECT_EQ(chat.target.itl, core::Duration{milliseconds{40}});
  EXPECT_EQ(chat.goal, 0.95);
  const signals::SegmentSlo& nightly = settings.slo_segments[1];
  EXPECT_EQ(nightly.model, "llama");
  EXPECT_EQ(nightly.tenant, "acme");
  EXPECT_EQ(nightly.prompt_min, 8U);
  EXPECT_EQ(nightly.prompt_max, UINT32_MAX);
  EXPECT_EQ(nightly.target.ttft, core::Duration{seconds{3}});
  EXPECT_EQ(nightly.goal, 0.9);
}

TEST(PlannerOptions, ANarrowSegmentMayPrecedeAWideOne) {
  EXPECT_EQ(problems("slo: {segments: [{name: a, tenant: x, prompt_max: 9}, {name: b, tenant: x},"
                     "{name: c, prompt_min: 5, prompt_max: 5}]}\n"),
            "");
}

struct Refused {
  std::string yaml;
  std::vector<options::FlagValue> flags;
  std::string message;
};
void expect_refused(const std::vector<Refused>& cases) {
  for (const Refused& refused : cases)
    EXPECT_EQ(problems(refused.yaml, refused.flags), refused.message + "\n") << refused.yaml;
}

// One segment with these keys, at line 2 and column 14.
std::string segment(const std::string& keys) { return "slo:\n  segments: [{" + keys + "}]\n"; }

TEST(PlannerOptions, SegmentsThatContradictAreRefusedAtTheirPlace) {
  const std::string shadowed =
      " never matches, since segment 'a' before it matches all that it does; the first that matches counts; put the "
      "narrower one first";
  expect_refused({
      {"slo: {goal: 0}\n", {}, "p.yaml:1:13: slo.goal: must be above 0 and below 1, is 0"},
      {"slo: {goal: 100%}\n", {}, "p.yaml:1:13: slo.goal: must be above 0 and below 1, is 1"},
      {"", {{"--slo", "goal=1"}}, "--slo goal: must be above 0 and below 1, is 1"},
      {"", {{"--slo", "segments=x"}}, "--slo: unknown key 'segments'; its keys are ttft, itl, e2e or goal"},
      {"slo: {segments: 3}\n",
       {},
       "p.yaml:1:17: slo.segments: must be a list of sections, is '3'; begin each with a dash"},
      {"slo: {segments: []}\n",
       {},
       "p.yaml:1:17: slo.segments: must be a list of sections, is an empty list; begin each with a dash"},
      {"slo: {segments: [x]}\n",
       {},
       "p.yaml:1:18: slo.segments[0]: must be a section, is 'x'; its keys are name, model, class, tenant, prompt_min, "
       "prompt_max, ttft, itl, e2e or goal"},
      {segment("tenant: x"), {}, "p.yaml:2:14: slo.segments[0]: needs the key name"},
      {segment("name: a, tenat: x"), {}, "p.yaml:2:24: slo.segments[0].tenat: unknown key; did you mean tenant?"},
      {segment("name: a, tenant: [x]"), {}, "p.yaml:2:32: slo.segments[0].tenant: must be a text, is a list"},
      {segment("name: a, class: bach"),
       {},
       "p.yaml:2:31: slo.segments[0].class: must be interactive or batch, is 'bach'; did you mean batch?"},
      {segment("name: a, prompt_min: 1k"),
       {},
       "p.yaml:2:36: slo.segments[0].prompt_min: must be a whole number from 0 to 1000000000, is '1k'"},
      {segment("name: a, tenant: x, ttft: 0s"),
       {},
       "p.yaml:2:41: slo.segments[0].ttft: must be longer than 0, is '0s'"},
      {segment("name: a, tenant: x, itl: 0"), {}, "p.yaml:2:40: slo.segments[0].itl: must be longer than 0, is '0'"},
      {segment("name: a, tenant: x, goal: 1"),
       {},
       "p.yaml:2:41: slo.segments[0].goal: must be above 0 and below 1, is 1"},
      {segment("name: a, tenant: x, goal: 101%"),
       {},
       "p.yaml:2:41: slo.segments[0].goal: must be a share from 0 to 1 or 0% to 100%, is '101%'"},
      {segment("name: a, ttft: 1s"),
       {},
       "p.yaml:2:14: slo.segments[0]: selects nothing; give it a model, class, tenant, prompt_min or prompt_max"},
      {segment("name: a, prompt_min: 9, prompt_max: 8"),
       {},
       "p.yaml:2:51: slo.segments[0].prompt_max: must be at least prompt_min (9), is 8"},
      {segment("name: general, tenant: x"),
       {},
       "p.yaml:2:21: slo.segments[0].name: must not be 'general', which is the target of all other requests"},
      {"model: llama\n" + segment("name: a, model: qwen"),
       {},
       "p.yaml:3:31: slo.segments[0].model: never matches, since the deployment serves 'llama'"},
      {segment("name: a, tenant: x}, {name: a, tenant: y"),
       {},
       "p.yaml:2:43: slo.segments[1].name: two segments are called 'a'"},
      {segment("name: a, tenant: x}, {name: b, tenant: x, class: batch"),
       {},
       "p.yaml:2:36: slo.segments[1]:" + shadowed},
      {segment("name: a, prompt_max: 9}, {name: b, prompt_min: 2, prompt_max: 9"),
       {},
       "p.yaml:2:40: slo.segments[1]:" + shadowed},
      {segment("name: a, model: llama}, {name: b, model: qwen"),
       {},
       "p.yaml:2:39: slo.segments[1]: never matches, since segment 'a' before it matches all that it does; without the "
       "key model, a segment of any model matches; name the model that is served"},
      {segment("name: a}, {name: b, tenant: x"),
       {},
       "p.yaml:2:14: slo.segments[0]: selects nothing; give it a model, class, tenant, prompt_min or prompt_max"},
      {"model: llama\n" + segment("name: a, model: llama}, {name: b, tenant: x"),
       {},
       "p.yaml:3:39: slo.segments[1]:" + shadowed},
  });
}

TEST(PlannerOptions, GoalsAndSegmentsNeedAPolicyThatUsesThem) {
  expect_refused({
      {"slo: {goal: 95%}\nplanner: {target: latency}\n",
       {},
       "p.yaml:2:19: planner.target: must be sla, since slo.goal is given, which latency ignores"},
      {segment("name: a, tenant: x"),
       {{"--target", "throughput"}},
       "--target: must be sla, since slo.segments is given, which throughput ignores"},
  });
  EXPECT_EQ(problems("slo: {ttft: 1s, itl: 1s}\nplanner: {target: throughput}\n"), "");
}

TEST(PlannerOptions, LoopsThatCannotWorkAreRefusedAtTheirPlace) {
  expect_refused({
      {"planner: {target: cost}\n", {}, "p.yaml:1:19: planner.target: must be throughput, latency or sla, is 'cost'"},
      {"planner: {phase: guardrail}\n",
       {},
       "p.yaml:1:18: planner.phase: must be observe, guardrails, throughput, load, phase-specific or cost, is "
       "'guardrail'; did you mean guardrails?"},
      {"planner: {load_intervall: 5s}\n",
       {},
       "p.yaml:1:11: planner.load_intervall: unknown key; did you mean load_interval?"},
      {"planner: {load_interval: -5s}\n",
       {},
       "p.yaml:1:26: planner.load_interval: must be a duration such as 120s, 50ms or 1h30m, is '-5s'"},
      {"planner: {load_interval: 10ms}\n",
       {},
       "p.yaml:1:26: planner.load_interval: must be at least 1s, or 0s to switch the loop off, is 10ms"},
      {"planner: {throughput_interval: 1ms}\n",
       {},
       "p.yaml:1:32: planner.throughput_interval: must be at least 1s, or 0s to switch the loop off, is 1ms"},
      {"planner: {load_interval: 181s}\n",
       {},
       "p.yaml:1:26: planner.load_interval: load_interval (181s) must be at most throughput_interval (180s)"},
      {"planner:\n  throughput_interval: 4s\n",
       {},
       "p.yaml:2:24: planner.throughput_interval: throughput_interval (4s) must be at least tick_interval (5s); loops "
       "begin "
       "at ticks; choose a shorter planner.tick_interval"},
      {"planner: {load_interval: 2s}\n",
       {},
       "p.yaml:1:26: planner.load_interval: load_interval (2s) must be at least tick_interval (5s); loops begin at "
       "ticks; "
       "choose a shorter planner.tick_interval"},
      {"planner: {tick_interval: 30s}\n",
       {},
       "p.yaml:1:26: planner.tick_interval: load_interval (20s) must be at least tick_interval (30s); loops begin at "
       "ticks; choose a shorter planner.tick_interval"},
      {"planner: {tick_interval: 0s}\n", {}, "p.yaml:1:26: planner.tick_interval: must be at least 1s, is 0s"},
      {"planner: {throughput_interval: 0s, load_interval: 0s}\n",
       {},
       "p.yaml:1:51: planner.load_interval: both loops are off, so phase 'cost' has no effect; switch one of them on, "
       "or "
       "choose phase: guardrails"},
      {"planner: {throughput_interval: 0s, phase: throughput}\n",
       {},
       "p.yaml:1:32: planner.throughput_interval: the one loop of phase 'throughput' is off; choose phase: load"},
      {"planner: {utilisation: 0.3}\n", {}, "p.yaml:1:24: planner.utilisation: must be from 0.5 to 0.95, is '0.3'"},
      {"planner: {utilisation: 96%}\n", {}, "p.yaml:1:24: planner.utilisation: must be from 0.5 to 0.95, is '96%'"},
      {"planner: {growth: 0.5}\n", {}, "p.yaml:1:19: planner.growth: must be from 1 to 1000, is '0.5'"},
      {"planner: {sensitivity: 101}\n", {}, "p.yaml:1:24: planner.sensitivity: must be from 0 to 100, is '101'"},
      {"planner: {predictor: seasonale}\n",
       {},
       "p.yaml:1:22: planner.predictor: unknown predictor 'seasonale'; did you mean seasonal? there are constant, "
       "linear, seasonal, "
       "arima, kalman, decomposition or auto"},
      {"planner: {start_time: 2024-02-30T00:00:00Z}\n",
       {},
       "p.yaml:1:23: planner.start_time: must be a timestamp such as 2024-05-13T08:00:00Z, is '2024-02-30T00:00:00Z'; "
       "there is no such day"},
      {"planner: {utc_offset: CET}\n",
       {},
       "p.yaml:1:23: planner.utc_offset: must be an offset from UTC in whole minutes such as +02:00, from -12:00 to "
       "+14:00, is 'CET'"},
  });
}

TEST(PlannerOptions, OneLoopMayBeOff) {
  EXPECT_EQ(problems("planner: {throughput_interval: 0s}\n"), "");
  EXPECT_EQ(problems("planner: {load_interval: 0s}\n"), "");
  EXPECT_EQ(problems("planner: {throughput_interval: 0s, load_interval: 0s, phase: guardrails}\n"), "");
  EXPECT_EQ(problems("planner: {throughput_interval: 0s, load_interval: 0s, phase: observe}\n"), "");
}

// One schedule with these keys, at line 2 and column 15.
std::string schedule(const std::string& keys) { return "planner:\n  schedules: [{" + keys + "}]\n"; }

TEST(PlannerOptions, SchedulesThatContradictAreRefusedAtTheirPlace) {
  const std::string pools = "pools: [{role: prefill}, {role: decode, max_replicas: 4}]\n";
  expect_refused({
      {schedule("length: 1h, replicas: 2"), {}, "p.yaml:2:15: planner.schedules[0]: needs the key cron"},
      {schedule("cron: 0 8 * * *, replicas: 2"), {}, "p.yaml:2:15: planner.schedules[0]: needs the key length"},
      {schedule("cron: 0 8 * * *, length: 1h"), {}, "p.yaml:2:15: planner.schedules[0]: needs the key replicas"},
      {schedule("cron: 0 8 * * *, length: 0s, replicas: 2"),
       {},
       "p.yaml:2:41: planner.schedules[0].length: must be whole seconds between 1 minute and 366 days, is '0s'"},
      {schedule("cron: 0 8 * * *, length: 1s, replicas: 2"),
       {},
       "p.yaml:2:41: planner.schedules[0].length: must be whole seconds between 1 minute and 366 days, is '1s'"},
      {schedule("cron: 0 8 * * *, length: 1h, replicas: 0"),
       {},
       "p.yaml:2:55: planner.schedules[0].replicas: must be from 1 to 10000, is '0'"},
      {schedule("cron: 0 8 * * *, lenght: 1h, length: 1h, replicas: 2"),
       {},
       "p.yaml:2:33: planner.schedules[0].lenght: unknown key; did you mean length?"},
      {schedule("cron: 0 8 * * *, length: 1h, replicas: 2, pool: decoder"),
       {},
       "p.yaml:2:64: planner.schedules[0].pool: unknown pool 'decoder'; there is 'default'"},
      {pools + schedule("cron: 0 8 * * *, length: 1h, replicas: 2, pool: decoder"),
       {},
       "p.yaml:3:64: planner.schedules[0].pool: unknown pool 'decoder'; did you mean decode?"},
      {pools + schedule("cron: 0 8 * * *, length: 1h, replicas: 2"),
       {},
       "p.yaml:3:15: planner.schedules[0]: must name its pool; there are 'prefill' and 'decode'"},
      {pools + schedule("cron: 0 8 * * *, length: 1h, replicas: 5, pool: decode"),
       {},
       "p.yaml:3:55: planner.schedules[0].replicas: must be at most max_replicas of the pool (4), is 5"},
  });
}

TEST(PlannerOptions, ABudgetBelowTheFleetIsRefused) {
  const std::string pools = "pools: [{role: prefill, min_replicas: 2, gpus: 4}, {role: decode}]\n";
  expect_refused({
      {pools + "planner: {gpu_budget: 8}\n",
       {},
       "p.yaml:2:23: planner.gpu_budget: must be at least the 9 GPUs of the pools' min_replicas, is 8; raise it, or "
       "lower min_replicas"},
      {"replicas: 4\ngpus: 2\n",
       {{"--gpu-budget", "7"}},
       "--gpu-budget: must be at least the 8 GPUs of the pools' replicas at the start, is 7"},
  });
  EXPECT_EQ(problems(pools + "planner: {gpu_budget: 9}\n"), "");
}

TEST(PlannerOptions, AllFaultsAreReportedAtOnce) {
  EXPECT_EQ(problems("slo:\n  goal: 1\n  segments: [{name: a}]\nplanner: {load_interval: 1h, gpu_budget: 1}\n"
                     "replicas: 2\n"),
            "p.yaml:2:9: slo.goal: must be above 0 and below 1, is 1\n"
            "p.yaml:3:14: slo.segments[0]: selects nothing; give it a model, class, tenant, prompt_min or prompt_max\n"
            "p.yaml:4:26: planner.load_interval: load_interval (1h) must be at most throughput_interval (180s)\n"
            "p.yaml:4:42: planner.gpu_budget: must be at least the 2 GPUs of the pools' replicas at the start, is 1\n");
}

TEST(PlannerOptions, ListsHaveALimit) {
  std::string yaml = "slo:\n  segments:\n";
  for (std::size_t i = 0; i <= signals::kSegmentsMax; ++i)
    yaml += "    - {name: s" + std::to_string(i) + ", tenant: t" + std::to_string(i) + "}\n";
  EXPECT_EQ(problems(yaml), "p.yaml:3:5: slo.segments: must have at most 64 items, has 65\n");
}

}  // namespace
}  // namespace penstock::configuration
