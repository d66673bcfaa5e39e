#include "cli/manifests_autoscalers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/pool_flag.h"
#include "cli/scaled_resources.h"
#include "deployment/load_autoscaler.h"
#include "deployment/names.h"
#include "deployment/yaml_text.h"
#include "options/values.h"
#include "report/format.h"

namespace penstock::cli {
namespace {

using deployment::LoadAutoscaler;
using deployment::LoadTarget;
using deployment::ScalingPolicy;

// The bounds of Kubernetes (ValidateHorizontalPodAutoscaler) in seconds, and one on each amount.
constexpr std::uint32_t kPolicyPeriodMax = 1800, kStabilisationMax = 3600, kPolicyAmountMax = 100'000;
constexpr double kLoadTargetMax = 1e9, kTtftSecondsMax = 3600.0, kBurnRateMax = 1000.0;
constexpr const char* kOperatorPrometheus = "http://prometheus-operated.monitoring:9090";

constexpr std::array<std::string_view, 9> kAutoscalerFlags = {
    "--target",           "--scale-up", "--scale-down",  "--scale-up-window",  "--scale-down-window",
    "--polling-interval", "--cooldown", "--rate-window", "--planner-namespace"};

core::Result<std::uint32_t> parse_seconds(std::string_view text, std::uint32_t low, std::uint32_t high) {
  const auto duration = options::parse_duration(text);
  const auto seconds =
      duration ? std::chrono::duration_cast<std::chrono::seconds>(*duration) : std::chrono::seconds{-1};
  if (!duration || seconds != *duration || seconds.count() < low || seconds.count() > high)
    return core::invalid_input({}, fmt::format("must be whole seconds from {}s to {}s", low, high));
  return static_cast<std::uint32_t>(seconds.count());
}

core::Result<ScalingPolicy> parse_policy(const std::string& text) {
  constexpr const char* kExample = "as 3/60s for three pods in a minute, or 200%/60s";
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return core::invalid_input({}, "must be AMOUNT/PERIOD", kExample);
  std::string_view amount{text.data(), slash};
  ScalingPolicy policy;
  policy.is_percent = amount.ends_with('%');
  if (policy.is_percent) amount.remove_suffix(1);
  const auto count = options::parse_count(amount, 1, kPolicyAmountMax);
  if (!count)
    return core::invalid_input(
        {}, fmt::format("needs a number of pods or of percent from 1 to {} before the '/'", kPolicyAmountMax),
        kExample);
  const auto period = parse_seconds(std::string_view{text}.substr(slash + 1), 1, kPolicyPeriodMax);
  if (!period) return core::invalid_input({}, "has a period that " + period.error().what, kExample);
  policy.amount = static_cast<std::uint32_t>(*count);
  policy.period_s = *period;
  return policy;
}

double most_of(deployment::LoadMetric metric) {
  if (metric == deployment::LoadMetric::kKvUtilization) return 1.0;
  return metric == deployment::LoadMetric::kSloBurnRate ? kBurnRateMax : kLoadTargetMax;
}

core::Result<LoadTarget> parse_target(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::vector<std::string_view> names = deployment::load_metric_names();
  const auto metric = deployment::find_load_metric(std::string_view{text}.substr(0, equals));
  if (equals == std::string::npos || !metric)
    return core::invalid_input({}, "must be METRIC=NUMBER with a metric of " + options::choices(names),
                               "as token-out-rate=8000");
  const std::string_view value = std::string_view{text}.substr(equals + 1);
  if (*metric == deployment::LoadMetric::kTtftP95) {
    const auto limit = options::parse_duration(value);
    const double seconds = limit ? std::chrono::duration<double>(*limit).count() : 0.0;
    if (seconds < 0.001 || seconds > kTtftSecondsMax)
      return core::invalid_input({}, "needs a duration from 1ms to 1h after the '='", "as ttft-p95=2s");
    return LoadTarget{*metric, seconds};
  }
  const double high = most_of(*metric);
  const auto number = options::parse_number(value, 0.0, high);
  // The metrics of pods have three digits after the point.
  if (!number || *number < 0.001)
    return core::invalid_input(
        {}, fmt::format("needs a number from 0.001 to {} after the '='", options::format_number(high)));
  return LoadTarget{*metric, *number};
}

core::Result<void> check_policy(const std::string& text) {
  return parse_policy(text).map([](const ScalingPolicy&) {});
}
core::Result<void> check_target(const std::string& text) {
  return parse_target(text).map([](const LoadTarget&) {});
}
core::Result<void> check_window(const std::string& text) {
  return parse_seconds(text, 0, kStabilisationMax).map([](std::uint32_t) {});
}

std::vector<LoadTarget> targets_of(const PoolFlag& flag, const std::string& pool) {
  std::vector<LoadTarget> targets;
  for (const std::string& text : flag.all_of(pool)) {
    const auto target = parse_target(text);
    if (!target) continue;
    const auto same = std::find_if(targets.begin(), targets.end(),
                                   [&](const LoadTarget& each) { return each.metric == target->metric; });
    if (same == targets.end())
      targets.push_back(*target);
    else
      *same = *target;
  }
  return targets;
}

deployment::ScalingRules rules_of(const PoolFlag& policies, const PoolFlag& windows, const std::string& pool) {
  deployment::ScalingRules rules;
  if (const auto policy = parse_policy(policies.of(pool, {}))) rules.policy = *policy;
  if (const auto window = parse_seconds(windows.of(pool, {}), 0, kStabilisationMax)) rules.stabilisation_s = *window;
  return rules;
}

// The autoscalers of all pools, in their order.
std::vector<LoadAutoscaler> load_autoscalers(const std::string& in_namespace, const AutoscalerFlags& flags,
                                             bool is_keda, const configuration::Configuration& made,
                                             options::Reading& reading) {
  const std::vector<deployment::ScaleTarget> scaled = scale_targets(in_namespace, made, reading);
  check_never_zero(made, is_keda ? "a trigger on the load of replicas" : "a HorizontalPodAutoscaler", reading);
  std::vector<std::string> pools;
  for (const deployment::ScaleTarget& each : scaled) pools.push_back(each.pool);
  const PoolFlag targets{"--target", flags.targets, pools}, up{"--scale-up", flags.up, pools},
      down{"--scale-down", flags.down, pools}, up_windows{"--scale-up-window", flags.up_windows, pools},
      down_windows{"--scale-down-window", flags.down_windows, pools};
  targets.report_refused(reading, check_target);
  for (const PoolFlag* policies : {&up, &down}) policies->report_refused(reading, check_policy);
  for (const PoolFlag* windows : {&up_windows, &down_windows}) windows->report_refused(reading, check_window);

  LoadAutoscaler common;
  const auto set_seconds = [&](const char* flag, const std::optional<core::Duration>& duration, std::uint32_t low,
                               std::uint32_t& field) {
    if (!duration) return;
    const std::string text = options::format_duration(*duration);
    if (const auto seconds = parse_seconds(text, low, 24 * 3600))
      field = *seconds;
    else
      reading.report(flag, seconds.error().what + ", is " + text);
  };
  set_seconds("--rate-window", flags.rate_window, 1, common.series.rate_window_s);
  set_seconds("--polling-interval", flags.polling, 1, common.polling_s);
  set_seconds("--cooldown", flags.cooldown, 0, common.cooldown_s);
  for (const auto& [flag, is_given] :
       {std::pair{"--polling-interval", flags.polling.has_value()}, {"--cooldown", flags.cooldown.has_value()}})
    if (!is_keda && is_given) reading.report(flag, "is of --autoscaler keda");
  common.prometheus = made.prometheus.url.empty() ? kOperatorPrometheus : made.prometheus.url;
  if (const auto good = deployment::check_utf8(common.prometheus); !good)
    reading.report("prometheus.url", good.error());

  common.series.in_namespace = flags.planner_namespace.empty() ? in_namespace : flags.planner_namespace;
  if (const auto good = deployment::check_dns_label(common.series.in_namespace); !good)
    reading.report("--planner-namespace", good.error());

  std::vector<LoadAutoscaler> all;
  for (const deployment::ScaleTarget& each : scaled) {
    LoadAutoscaler& autoscaler = all.emplace_back(common);
    autoscaler.target = each;
    autoscaler.series.pool = each.pool;
    autoscaler.targets = targets_of(targets, each.pool);
    if (autoscaler.targets.empty() && reading.good())
      reading.report("--target", fmt::format("is missing for the pool {}", options::quote(each.pool)),
                     "as --target token-out-rate=8000");
    autoscaler.up = rules_of(up, up_windows, each.pool);
    autoscaler.down = rules_of(down, down_windows, each.pool);
  }
  return all;
}

// A latency within its limit says nothing about how many replicas may go.
bool has_latency_only(const LoadAutoscaler& autoscaler) {
  return std::all_of(autoscaler.targets.begin(), autoscaler.targets.end(),
                     [](const LoadTarget& each) { return deployment::is_of_pool(each.metric); });
}

// Sets what KEDA does besides, and returns notes.
std::string set_keda(std::vector<LoadAutoscaler>& all, const KedaFlags& flags, const configuration::Configuration& made,
                     options::Reading& reading) {
  std::vector<deployment::ScaleTarget> targets;
  for (const LoadAutoscaler& each : all) targets.push_back(each.target);
  std::vector<deployment::KedaSettings> settings = keda_settings(targets, flags, reading);
  std::string text;
  for (const std::string& note : add_schedules(made, targets, settings)) text += "# " + report::printable(note) + "\n";
  for (std::size_t i = 0; i < all.size(); ++i) all[i].keda = std::move(settings[i]);
  return text;
}

// Returns true if a pool has times of the calendar, which no HorizontalPodAutoscaler knows.
bool has_schedules(const configuration::Configuration& made) {
  const auto all = configuration::configurations_of(made);
  return std::any_of(all.begin(), all.end(), [](const auto& each) { return !each.planner.schedules.empty(); });
}

}  // namespace

std::span<const std::string_view> autoscaler_flag_names() { return kAutoscalerFlags; }

void add_autoscaler_flags(options::Table& table, AutoscalerFlags& made) {
  using namespace options;
  table.group("Autoscalers, with a value for one pool or for all of them");
  table
      .add({"", "--target",
            "metric and its value per replica: token-in-rate and token-out-rate in tokens per second, kv-utilization "
            "from 0 to 1, queue-depth in requests; or of the pool: ttft-p95 as 2s, and slo-burn-rate, which is 1 "
            "where the error budget is just used up; once for each metric"},
           each_use(made.targets))
      .placeholder("[POOL:]METRIC=NUMBER")
      .repeatable();
  table
      .add({"", "--scale-up", "most pods, or percent of the pods, that are added in a period, as 3/60s or 200%/60s"},
           each_use(made.up))
      .placeholder("[POOL:]AMOUNT/PERIOD")
      .by_default("that of Kubernetes")
      .repeatable();
  table.add({"", "--scale-down", "the same for pods that are taken away"}, each_use(made.down))
      .placeholder("[POOL:]AMOUNT/PERIOD")
      .by_default("that of Kubernetes")
      .repeatable();
  table
      .add({"", "--scale-up-window", "stabilisation window: the lowest proposal of this time is used"},
           each_use(made.up_windows))
      .placeholder("[POOL:]DURATION")
      .by_default("that of Kubernetes, 0s")
      .repeatable();
  table
      .add({"", "--scale-down-window", "stabilisation window: the highest proposal of this time is used"},
           each_use(made.down_windows))
      .placeholder("[POOL:]DURATION")
      .by_default("that of Kubernetes, 300s")
      .repeatable();
  table.group("Autoscalers");
  table.add({"", "--polling-interval", "interval in which KEDA reads the metrics"}, duration_above_zero(made.polling))
      .by_default("30s");
  table
      .add({"", "--cooldown", "time without load after which KEDA goes from one replica to none"},
           duration(made.cooldown))
      .by_default("300s");
  table.add({"", "--rate-window", "window of token rates and of ttft-p95"}, duration_above_zero(made.rate_window));
  table
      .add({"", "--planner-namespace", "namespace of the planner whose metrics are read"}, text(made.planner_namespace))
      .by_default("that of --namespace");
}

std::string autoscalers_text(const AutoscalerRequest& request, const AutoscalerFlags& flags, const KedaFlags& keda,
                             const configuration::Configuration& made, options::Reading& reading) {
  std::vector<LoadAutoscaler> all = load_autoscalers(request.in_namespace, flags, request.is_keda, made, reading);
  std::string text = kDrainNote;
  if (request.is_keda)
    text += set_keda(all, keda, made, reading);
  else
    text +=
        "# The metrics of pods are recorded by --prometheus-rule, and served by prometheus-adapter with the rules of\n"
        "# docs/examples/prometheus-adapter.yaml.\n";
  if (!request.is_keda && has_schedules(made))
    text += "# A HorizontalPodAutoscaler has no planner.schedules: use --autoscaler keda, or a planner.\n";
  std::vector<nlohmann::ordered_json> objects;
  for (const LoadAutoscaler& each : all) {
    if (has_latency_only(each))
      text += "# Pool " + report::printable(each.target.pool) +
              " shrinks whenever its latency is good, and may then be too small: add a --target of its load.\n";
    objects.push_back(request.is_keda ? scaled_object_of(each) : pod_autoscaler_of(each));
  }
  text += deployment::to_yaml(objects);
  const std::vector<LoadAutoscaler> recorded = request.is_keda ? std::vector<LoadAutoscaler>{} : all;
  if (request.prometheus_rule)
    text += "---\n" + deployment::token_rule_of(request.name, request.in_namespace, recorded);
  return text;
}

}  // namespace penstock::cli
