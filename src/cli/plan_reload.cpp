#include "cli/plan_reload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cli/gateway_setup.h"
#include "gateway/discovery.h"
#include "replay/setup.h"

namespace penstock::cli {
namespace {

// The options that a planner has. Those of replicas are the gateway's; the planner only reads their credentials.
constexpr std::array<std::string_view, 7> kGroups = {"Fleet",    "Engine",     "Planner", "SLO",
                                                     "Capacity", "Prometheus", "Log"};

// The values that a reload puts in force: those of rows that are marked as reloadable.
void copy_reloadable(const configuration::Configuration& from, configuration::Configuration& to) {
  const auto copy_bounds = [](const simulation::PoolSpec& source, simulation::PoolSpec& pool) {
    pool.min_replicas = source.min_replicas;
    pool.max_replicas = source.max_replicas;
    pool.min_asleep = source.min_asleep;
    pool.sleep_price = source.sleep_price;
  };
  copy_bounds(from.pool, to.pool);
  if (from.run.pools.size() == to.run.pools.size())
    for (std::size_t i = 0; i < to.run.pools.size(); ++i) copy_bounds(from.run.pools[i], to.run.pools[i]);
  to.run.slo = from.run.slo;
  to.run.slo_goal = from.run.slo_goal;
  to.run.slo_segments = from.run.slo_segments;
  to.planner.options.guardrails = from.planner.options.guardrails;
  to.planner.options.schedule.warm_pool = from.planner.options.schedule.warm_pool;
  to.planner.schedules = from.planner.schedules;
  to.gateway.discovery.replicas = from.gateway.discovery.replicas;
  to.gateway.discovery.credentials = from.gateway.discovery.credentials;
  to.log.level = from.log.level;
}

// Whether the value follows from the bounds of the pool. Replicas count only at the start.
bool is_derived(const options::Change& change, const options::Reading& reading) {
  return (change.key == "replicas" || change.key.ends_with(".replicas")) && !reading.given(change.key);
}

}  // namespace

PlannerReloader::PlannerReloader(const PlanOptions& plan, const LoadedConfiguration& started, const Parsed& parsed,
                                 logging::Logger& log)
    : plan_(plan), parsed_(parsed), log_(log), current_(started.made) {
  if (started.reading) read_given(*started.reading, started.made.run.pools.size());
}

void PlannerReloader::read_given(const options::Reading& reading, std::size_t pools) {
  model_is_given_ = reading.given("model");
  given_.assign(pools, {});
  for (std::size_t i = 0; i < pools; ++i)
    for (const char* key : {"min_replicas", "max_replicas", "price"})
      if (reading.given(key) || reading.given(fmt::format("pools[{}].{}", i, key))) given_[i].insert(key);
}

void PlannerReloader::annotate(simulation::RunOptions& run) {
  std::vector<signals::Pool> pools{run.pools.begin(), run.pools.end()};
  const auto is_given = [this](std::size_t pool, std::string_view key) {
    return key == "model" ? model_is_given_ : given_.at(pool).contains(key);
  };
  annotation_log_.write(controller::apply_annotations(annotations_, is_given, pools, run.model), log_);
  for (std::size_t i = 0; i < pools.size(); ++i) static_cast<signals::Pool&>(run.pools[i]) = std::move(pools[i]);
}

void PlannerReloader::follow_annotations() {
  if (daemon_ == nullptr) return;
  std::vector<std::vector<connect::VariantAnnotations>> annotations;
  for (std::size_t i = 0; i < daemon_->options().pools.size(); ++i) {
    annotations.push_back(daemon_->fleet().annotations(i));
    controller::check_models(controller::models_of(daemon_->gateway()), annotations.back());
  }
  if (annotations == annotations_) return;
  annotations_ = std::move(annotations);
  auto run = replay::make_run_options(current_.made.run);
  if (!run) return;  // It was valid before.
  annotate(*run);
  const controller::DaemonOptions& now = daemon_->options();
  const bool is_same =
      run->model == now.model && std::equal(run->pools.begin(), run->pools.end(), now.pools.begin(), now.pools.end(),
                                            [](const signals::Pool& left, const signals::Pool& right) {
                                              return left.min_replicas == right.min_replicas &&
                                                     left.max_replicas == right.max_replicas &&
                                                     left.price_per_gpu_hour == right.price_per_gpu_hour;
                                            });
  if (is_same) return;
  auto options = make_daemon_options(plan_, *run);
  auto policy = make_live_policy(plan_, current_.made, *run);
  if (options && policy)
    daemon_->reconfigure(*std::move(options), *std::move(policy), false);
  else
    log_problems(log_, parsed_.value_of("--config"), {options ? policy.error() : options.error()});
}

void PlannerReloader::reloads(controller::PlannerDaemon& daemon, dashboard::Dashboard* board) {
  daemon_ = &daemon;
  board_ = board;
}

void PlannerReloader::reload() {
  if (const options::Problems problems = apply(); !problems.empty())
    log_problems(log_, parsed_.value_of("--config"), problems);
}

options::Problems PlannerReloader::apply() {
  if (daemon_ == nullptr) return {core::Error{core::ErrorCode::kEnvironment, {}, "the planner is not ready", {}}};
  LoadedConfiguration next{live_defaults()};
  if (options::Problems problems = read_again(parsed_, next); !problems.empty()) return problems;
  LoadedConfiguration merged{current_.made};
  copy_reloadable(next.made, merged.made);

  auto run = replay::make_run_options(merged.made.run);
  if (!run) return {run.error()};
  read_given(*next.reading, run->pools.size());
  annotate(*run);
  auto options = make_daemon_options(plan_, *run);
  if (!options) return {options.error()};
  auto policy = make_live_policy(plan_, merged.made, *run);
  if (!policy) return {policy.error()};
  auto access = make_access(plan_.access);
  if (!access) return {access.error()};
  auto credentials = gateway::load_credentials(merged.made.gateway.discovery);
  if (!credentials) return {credentials.error()};

  ReloadChanges changes{options::changes(current_.table, merged.table), {}};
  for (options::Change& change : options::changes(merged.table, next.table))
    if (std::find(kGroups.begin(), kGroups.end(), change.group) != kGroups.end() && !is_derived(change, *next.reading))
      changes.pending.push_back(std::move(change));
  const bool slo_changed = std::any_of(changes.applied.begin(), changes.applied.end(),
                                       [](const options::Change& change) { return change.group == "SLO"; });
  if (credentials_) *credentials_ = *std::move(credentials);
  if (board_ != nullptr) board_->set_access(std::move(access->options), std::move(access->tls));
  log_.set_level(merged.made.log.level);
  daemon_->reconfigure(*std::move(options), *std::move(policy), slo_changed);
  log_reload(log_, parsed_.value_of("--config"), changes);
  current_.made = std::move(merged.made);
  return {};
}

}  // namespace penstock::cli
