#include "cli/overload_page.h"

#include <fmt/format.h>

#include "report/format.h"
#include "report/grid.h"

namespace penstock::cli {
namespace {

using report::format_count;

std::string limit(core::Duration time) { return report::format_seconds(core::to_seconds(time)); }

std::string requests_of(const signals::SegmentSlo& segment) {
  std::vector<std::string> parts;
  if (!segment.model.empty()) parts.push_back("model " + segment.model);
  if (!segment.traffic_class.empty()) parts.push_back("class " + segment.traffic_class);
  if (!segment.tenant.empty()) parts.push_back("tenant " + segment.tenant);
  if (segment.prompt_min > 0)
    parts.push_back(fmt::format("prompts of {} tokens or more", format_count(segment.prompt_min)));
  if (segment.prompt_max < signals::SegmentSlo{}.prompt_max)
    parts.push_back(fmt::format("prompts of {} tokens or fewer", format_count(segment.prompt_max)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string protected_targets(const configuration::Configuration& made) {
  report::Grid grid{{{"protected", true}, {"TTFT"}, {"ITL"}, {"end to end"}, {"goal"}, {"requests", true}}};
  const auto add = [&](const std::string& name, const signals::SloTarget& target, double goal, std::string requests) {
    grid.add({name, limit(target.ttft), limit(target.itl), target.e2e ? limit(*target.e2e) : "–",
              report::format_share(goal), std::move(requests)});
  };
  for (const signals::SegmentSlo& segment : made.run.slo_segments)
    add(segment.name, segment.target, segment.goal, requests_of(segment));
  add(std::string{signals::kGeneralTarget}, made.run.slo, made.run.slo_goal,
      made.run.slo_segments.empty() ? "all" : "all others");
  return grid.text();
}

// The pools that help against a bad TTFT or ITL.
std::string pools_against(const configuration::Configuration& made, signals::Role role) {
  std::string pools;
  for (const simulation::PoolSpec& pool : made.run.pools)
    if (pool.role == role || pool.role == signals::Role::kAggregated)
      pools += fmt::format("{}{}, {} to {} replicas", pools.empty() ? "" : "; ", pool.name, pool.min_replicas,
                           pool.max_replicas);
  return pools;
}

std::string scaled_pools(const configuration::Configuration& made) {
  report::Grid grid{{{"when it is missed", true}, {"phase", true}, {"pool that is scaled", true}}};
  grid.add({"TTFT", "prefill", pools_against(made, signals::Role::kPrefill)});
  grid.add({"ITL", "decode", pools_against(made, signals::Role::kDecode)});
  std::string text = grid.text();
  if (made.planner.options.guardrails.gpu_budget)
    text += fmt::format("All pools together have at most {} GPUs.\n", *made.planner.options.guardrails.gpu_budget);
  return text;
}

std::string of_class(const dispatch::ClassOptions& options) {
  std::string text = options.queue_time > core::Duration{}
                         ? fmt::format("queue for up to {}, then refuse", limit(options.queue_time))
                         : "refuse at once (shed)";
  if (options.budget.limited())
    text += fmt::format("; at most {} tokens per minute", report::format_quantity(options.budget.tokens_per_minute));
  if (options.time_budget > core::Duration{}) text += fmt::format("; end answers after {}", limit(options.time_budget));
  return text;
}

std::string overload(const configuration::GatewaySetup& gateway) {
  const dispatch::DispatchOptions& options = gateway.options.dispatch;
  report::Grid grid{{{"under overload", true}, {"action", true}}};
  grid.add({"class interactive", of_class(options.interactive)});
  grid.add({"class batch", of_class(options.batch)});
  for (const configuration::TenantOptions& tenant : gateway.tenants)
    if (tenant.budget.limited())
      grid.add({"tenant " + tenant.name,
                fmt::format("above {} tokens per minute {}", report::format_quantity(tenant.budget.tokens_per_minute),
                            tenant.over_budget == dispatch::OverBudget::kQueue ? "queue as its class" : "refuse")});
  const admission::PressureLimits& pressure = options.pressure;
  grid.add(
      {"all", fmt::format("shorten answers to {} tokens (degrade) while more than {} tokens wait",
                          format_count(pressure.clamp_max_tokens), format_count(pressure.clamp_above_queue_tokens))});
  grid.add({"all", fmt::format("send fewer prompts to a replica from {} of its KV cache, none from {}",
                               report::format_share(pressure.kv_throttle), report::format_share(pressure.kv_reject))});
  grid.add({"all", fmt::format("refuse while {} requests of the class wait", format_count(options.queue.requests))});
  return grid.text();
}

}  // namespace

std::string overload_page(const configuration::Configuration& made) {
  return protected_targets(made) + "\n" + scaled_pools(made) + "\n" + overload(made.gateway);
}

}  // namespace penstock::cli
