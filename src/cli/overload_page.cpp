#include "cli/overload_page.h"

#include <fmt/format.h>

#include <algorithm>

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
              report::format_goal(goal), std::move(requests)});
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

struct Segment {
  admission::Precedence precedence;
  std::string name;
  admission::OverloadAction action;
};

// The first one gives way first. Requests of tenants without a line have the line of their class.
std::vector<Segment> segments_of(const configuration::GatewaySetup& gateway) {
  const dispatch::DispatchOptions& options = gateway.options.dispatch;
  std::vector<Segment> segments;
  for (const auto traffic_class : {admission::Class::kBatch, admission::Class::kInteractive}) {
    const dispatch::ClassOptions& of_class = options.of_class(traffic_class);
    segments.push_back({{traffic_class, 0},
                        fmt::format("class {}", admission::to_string(traffic_class)),
                        admission::action_of({}, of_class.overload, of_class.queue_time)});
    for (const configuration::TenantOptions& tenant : gateway.tenants)
      if (tenant.traffic_class == traffic_class && (tenant.overload || tenant.tier != 0))
        segments.push_back({{traffic_class, tenant.tier},
                            fmt::format("class {}, tenant {}", admission::to_string(traffic_class), tenant.name),
                            admission::action_of(tenant.overload, of_class.overload, of_class.queue_time)});
  }
  std::stable_sort(segments.begin(), segments.end(),
                   [](const Segment& a, const Segment& b) { return a.precedence < b.precedence; });
  return segments;
}

std::string what_happens(const Segment& segment, const dispatch::DispatchOptions& options) {
  using admission::OverloadAction;
  const admission::Class traffic_class = segment.precedence.traffic_class;
  const dispatch::ClassOptions& of_class = options.of_class(traffic_class);
  const bool batch = traffic_class == admission::Class::kBatch;
  const bool defers = batch && options.batch.completion_window > core::Duration{};
  const std::string wait = defers ? fmt::format("wait for spare capacity, {} in all with their answer",
                                                limit(options.batch.completion_window))
                                  : fmt::format("wait for up to {}", limit(of_class.queue_time));
  switch (segment.action) {
    case OverloadAction::kQueue: return wait + ", then 503 queue_timeout";
    case OverloadAction::kDegrade:
      return fmt::format("{}; at most {} output tokens while more than {}{} tokens wait", wait,
                         format_count(of_class.degrade.max_tokens), format_count(of_class.degrade.above_waiting_tokens),
                         batch ? "" : " interactive");
    case OverloadAction::kDrop:
      return fmt::format("wait for up to {}; 503 dropped as soon as a request with precedence waits",
                         limit(of_class.queue_time));
    case OverloadAction::kShed: break;
  }
  return "503 engines_full at once";
}

std::string overload(const configuration::GatewaySetup& gateway) {
  const dispatch::DispatchOptions& options = gateway.options.dispatch;
  report::Grid actions{{{"gives way", true}, {"under overload", true}, {"action", true}, {"what happens", true}}};
  const std::vector<Segment> segments = segments_of(gateway);
  std::size_t order = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (i == 0 || segments[i - 1].precedence < segments[i].precedence) ++order;
    const bool last = segments[i].precedence == segments.back().precedence;
    actions.add({last ? "last" : fmt::format("{}", order), segments[i].name, to_string(segments[i].action),
                 what_happens(segments[i], options)});
  }
  report::Grid limits{{{"limit", true}, {"action", true}}};
  for (const auto traffic_class : {admission::Class::kInteractive, admission::Class::kBatch}) {
    const dispatch::ClassOptions& of_class = options.of_class(traffic_class);
    const std::string name = fmt::format("class {}", admission::to_string(traffic_class));
    if (of_class.budget.limited())
      limits.add({name, fmt::format("at most {} tokens per minute",
                                    report::format_quantity(of_class.budget.tokens_per_minute))});
    if (of_class.time_budget > core::Duration{})
      limits.add({name, fmt::format("end answers after {}", limit(of_class.time_budget))});
  }
  for (const configuration::TenantOptions& tenant : gateway.tenants)
    if (tenant.budget.limited())
      limits.add({"tenant " + tenant.name,
                  fmt::format("above {} tokens per minute {}", report::format_quantity(tenant.budget.tokens_per_minute),
                              tenant.over_budget == dispatch::OverBudget::kReject  ? "refuse"
                              : tenant.over_budget == dispatch::OverBudget::kQueue ? "queue as its class"
                                                                                   : "queue as batch")});
  const admission::PressureLimits& pressure = options.pressure;
  limits.add(
      {"all", fmt::format("send fewer prompts to a replica from {} of its KV cache, none from {}",
                          report::format_share(pressure.kv_throttle), report::format_share(pressure.kv_reject))});
  const admission::PressureLimits less = admission::with_headroom(pressure);
  if (std::any_of(segments.begin(), segments.end(), [](const Segment& each) {
        return admission::leaves_headroom(each.action, each.precedence.traffic_class);
      }))
    limits.add({"batch that sheds or drops",
                fmt::format("send none to a replica with {} prompt tokens in flight, or from {} of its KV cache",
                            format_count(less.prefill_tokens_per_replica), report::format_share(less.kv_reject))});
  limits.add({"all", fmt::format("refuse while {} requests of the class wait", format_count(options.queue.requests))});
  return actions.text() + "\n" + limits.text();
}

}  // namespace

std::string overload_page(const configuration::Configuration& made) {
  std::string text;
  for (const configuration::Configuration& alone : configuration::configurations_of(made)) {
    if (!made.deployments.empty()) text += fmt::format("model {}\n", alone.run.model);
    text += protected_targets(alone) + "\n" + scaled_pools(alone) + "\n";
  }
  return text + overload(made.gateway);
}

}  // namespace penstock::cli
