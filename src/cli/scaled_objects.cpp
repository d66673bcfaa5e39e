#include "cli/scaled_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/scaled_resources.h"
#include "deployment/names.h"
#include "deployment/scaled_object.h"
#include "deployment/yaml_text.h"
#include "options/values.h"
#include "planner/hpa_targets.h"
#include "replay/hpa_queries.h"
#include "report/answer.h"
#include "report/format.h"
#include "report/ranking.h"

namespace penstock::cli {
namespace {

constexpr const char* kPrometheus = "http://prometheus-operated.monitoring:9090";
constexpr const char* kPlanner = "penstock-planner";

bool keda_can_run(std::string_view policy) {
  return decision::name_without_settings(policy) == configuration::kPenstock || planner::has_hpa_targets(policy);
}

std::string_view engine_of(const configuration::Configuration& made) {
  return made.prometheus.preset == "none" ? std::string_view{"vllm"} : std::string_view{made.prometheus.preset};
}

// The cheapest policies that reach the goal first, then those with the highest attainment.
std::vector<report::RankedResult> in_order(const report::Report& report) {
  std::vector<report::RankedResult> all = report::rank(report.results);
  std::erase_if(all, [](const report::RankedResult& each) {
    const std::string_view policy = decision::name_without_settings(each.result->policy);
    return policy == "static" || policy == configuration::kClairvoyant || policy == configuration::kSchedule;
  });
  const double goal = report.info.slo_goal;
  std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    const bool first = report::reaches_goal(*a.result, goal), second = report::reaches_goal(*b.result, goal);
    if (first != second) return first;
    return first && report::is_cheaper(*a.result, *b.result);
  });
  return all;
}

std::string comment(const std::string& text) { return "# " + report::printable(text) + "\n"; }

std::string threshold(double value) {
  return value >= 100.0 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

deployment::ScaledObject object_of(const EmitOptions& options, const configuration::Configuration& made,
                                   const deployment::ScaleTarget& target, const simulation::PoolSpec& pool,
                                   const std::string& policy, const planner::ReplicaCapacity& capacity) {
  deployment::ScaledObject object;
  object.target = target;
  if (decision::name_without_settings(policy) == configuration::kPenstock) {
    object.scaler = deployment::scaler_address(kPlanner, options.in_namespace);
    return object;
  }
  std::string matchers = made.prometheus.matchers;
  if (matchers.empty()) matchers = fmt::format("namespace=\"{}\",pod=~\"{}-.*\"", target.in_namespace, target.name);
  const auto targets = planner::hpa_targets(policy, capacity, pool.role).value();
  for (const planner::MetricTarget& each : targets)
    object.triggers.push_back({std::string{replay::trigger_name(each.metric)},
                               made.prometheus.url.empty() ? kPrometheus : made.prometheus.url,
                               replay::hpa_query(each.metric, engine_of(made), matchers), threshold(each.per_replica)});
  return object;
}

}  // namespace

options::Table emit_table(EmitOptions& made) {
  using namespace options;
  Table table;
  table.group("Output");
  table
      .add({"", "--emit",
            "keda: print the ScaledObjects of the cheapest policy that reaches the goal; the table goes to standard "
            "error"},
           named_choice(made.kind, {{"none", Emit::kNothing}, {"keda", Emit::kKeda}}))
      .placeholder("KIND");
  table.add({"", "--namespace", "namespace of the emitted objects"}, text(made.in_namespace)).placeholder("NAME");
  add_keda_flags(table, made.flags);
  return table;
}

void check_emit(EmitOptions& options, const configuration::Configuration& made, options::Reading& reading) {
  if (options.kind == Emit::kNothing) return;
  options.targets = scale_targets(options.in_namespace, made, reading);
  check_never_zero(made, "a trigger on the load of replicas", reading);
  options.settings = keda_settings(options.targets, options.flags, reading);
  for (const auto& [path, text] :
       {std::pair{"prometheus.url", made.prometheus.url}, {"prometheus.matchers", made.prometheus.matchers}})
    if (const auto good = deployment::check_utf8(text); !good) reading.report(path, good.error());
  if (const auto good = deployment::check_dns_label(options.in_namespace); !good)
    reading.report("--namespace", options::quote(options.in_namespace) + " " + good.error().what, good.error().hint);
  const std::vector<std::string_view> engines = replay::queried_engines();
  if (std::find(engines.begin(), engines.end(), engine_of(made)) == engines.end())
    reading.report("prometheus.preset", fmt::format("no series of {} are known for --emit keda", engine_of(made)),
                   "there are " + options::choices(engines));
  if (std::any_of(made.policies.begin(), made.policies.end(), keda_can_run)) return;
  std::string reasons;
  for (const std::string& policy : made.policies)
    if (const auto targets = planner::hpa_targets(policy, {}, signals::Role::kAggregated); !targets)
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", policy, targets.error().what);
  reading.report("--emit", "KEDA can run none of the policies: " + reasons,
                 "add penstock, hpa-rate, hpa-concurrency or keda-tokens");
}

std::string scaled_objects(const EmitOptions& options, const configuration::Configuration& made,
                           const std::vector<planner::ReplicaCapacity>& capacities, const report::Report& report) {
  std::string text = comment("Written by `" + report.info.command + "`.");
  if (const std::string answer = report::answer_of(report).text; !answer.empty()) text += comment(answer);
  const auto figures = [&](const report::RankedResult& each) {
    return fmt::format("{} of the requests within the SLO at {} GPU-hours",
                       report::format_share(each.result->slo_attainment),
                       report::format_quantity(each.result->gpu_hours));
  };
  const std::vector<report::RankedResult> all = in_order(report);
  const auto chosen =
      std::find_if(all.begin(), all.end(), [](const auto& each) { return keda_can_run(each.result->policy); });
  PENSTOCK_ASSERT(chosen != all.end(), "the policies were checked");
  for (auto each = all.begin(); each != chosen; ++each)
    text +=
        comment(fmt::format("KEDA cannot run {} ({}): {}.", each->label, figures(*each),
                            planner::hpa_targets(each->result->policy, {}, signals::Role::kAggregated).error().what));
  const std::string& policy = chosen->result->policy;
  text += comment(
      fmt::format("{}: {}{}.", chosen->label, figures(*chosen),
                  report::reaches_goal(*chosen->result, report.info.slo_goal) ? "" : ", which misses the goal"));
  if (decision::name_without_settings(policy) == configuration::kPenstock)
    text += comment("The planner must run: `penstock manifests planner FILE --autoscaler keda` writes it.");
  else if (made.prometheus.url.empty())
    text += comment(fmt::format("Replace {} by the address of your Prometheus.", kPrometheus));
  if (policy == "hpa-rate")
    text += comment(
        "Engines count a request at its end, so that this rate follows arrivals late; a gateway counts them at once.");

  std::vector<nlohmann::ordered_json> objects;
  for (std::size_t i = 0; i < options.targets.size(); ++i) {
    deployment::ScaledObject object = object_of(options, made, options.targets[i], made.run.pools[i], policy,
                                                i < capacities.size() ? capacities[i] : planner::ReplicaCapacity{});
    object.keda = options.settings[i];
    objects.push_back(deployment::manifest_of(object));
  }
  return text + deployment::to_yaml(objects);
}

}  // namespace penstock::cli
