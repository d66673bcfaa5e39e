#include "cli/plan_reload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "cli/gateway_setup.h"
#include "gateway/discovery.h"
#include "replay/setup.h"

namespace penstock::cli {
namespace {

// The options that a planner has. Those of replicas are the gateway's; the planner only reads their credentials.
constexpr std::array<std::string_view, 8> kGroups = {"Fleet",    "Engine",      "Planner",    "SLO",
                                                     "Capacity", "Deployments", "Prometheus", "Log"};

constexpr core::Duration kFilesInterval = std::chrono::milliseconds{250};

// The values that a reload puts in force: those of rows that are marked as reloadable. A setup is that of one
// deployment, or what all share.
template <class Setup>
void copy_reloadable_of(const Setup& from, Setup& to) {
  const auto copy_pool = [](const simulation::PoolSpec& source, simulation::PoolSpec& pool) {
    pool.min_replicas = source.min_replicas;
    pool.max_replicas = source.max_replicas;
    pool.min_asleep = source.min_asleep;
    pool.price_per_gpu_hour = source.price_per_gpu_hour;
    pool.sleep_price = source.sleep_price;
  };
  copy_pool(from.pool, to.pool);
  if (from.run.pools.size() == to.run.pools.size())
    for (std::size_t i = 0; i < to.run.pools.size(); ++i) copy_pool(from.run.pools[i], to.run.pools[i]);
  to.run.slo = from.run.slo;
  to.run.slo_goal = from.run.slo_goal;
  to.run.slo_segments = from.run.slo_segments;
  to.planner.options.guardrails = from.planner.options.guardrails;
  to.planner.options.schedule.warm_pool = from.planner.options.schedule.warm_pool;
  to.planner.schedules = from.planner.schedules;
}

void copy_reloadable(const configuration::Configuration& from, configuration::Configuration& to) {
  copy_reloadable_of(from, to);
  to.gateway.discovery.replicas = from.gateway.discovery.replicas;
  to.gateway.discovery.credentials = from.gateway.discovery.credentials;
  to.gateway.watch = from.gateway.watch;
  to.log.level = from.log.level;
  const bool are_same = std::equal(from.deployments.begin(), from.deployments.end(), to.deployments.begin(),
                                   to.deployments.end(), [](const auto& a, const auto& b) { return a.name == b.name; });
  for (std::size_t i = 0; are_same && i < to.deployments.size(); ++i)
    copy_reloadable_of(from.deployments[i], to.deployments[i]);
}

// Whether the value follows from the bounds of the pool. Replicas count only at the start.
bool is_derived(const options::Change& change, const options::Reading& reading) {
  return (change.key == "replicas" || change.key.ends_with(".replicas")) && !reading.given(change.key);
}

}  // namespace

PlannerReloader::PlannerReloader(const PlanOptions& plan, const LoadedConfiguration& started, const Parsed& parsed,
                                 logging::Logger& log)
    : plan_(plan), parsed_(parsed), log_(log), current_(started.made), started_(started.reading) {
  current_.has_empty_file = started.has_empty_file;
}

void PlannerReloader::read_given(options::Reading reading) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    if (!current_.made.deployments.empty()) reading.set_scope(fmt::format("deployments[{}]", i));
    part.model_is_given = reading.given("model");
    part.given.assign(part.daemon->options().pools.size(), {});
    for (std::size_t pool = 0; pool < part.given.size(); ++pool)
      for (const char* key : {"min_replicas", "max_replicas", "price"})
        if (reading.given(key) || reading.given(fmt::format("pools[{}].{}", pool, key))) part.given[pool].insert(key);
  }
}

void PlannerReloader::annotate(Part& part, simulation::RunOptions& run) {
  std::vector<signals::Pool> pools{run.pools.begin(), run.pools.end()};
  const auto is_given = [&part](std::size_t pool, std::string_view key) {
    return key == "model" ? part.model_is_given : part.given.at(pool).contains(key);
  };
  part.annotation_log.write(controller::apply_annotations(part.annotations, is_given, pools, run.model), log_);
  for (std::size_t i = 0; i < pools.size(); ++i) static_cast<signals::Pool&>(run.pools[i]) = std::move(pools[i]);
}

core::Result<PlannerReloader::Renewed> PlannerReloader::renew(std::size_t deployment,
                                                              const configuration::Configuration& made,
                                                              const simulation::RunOptions& run) const {
  auto options = make_daemon_options(plan_, run);
  if (!options) return tl::make_unexpected(options.error());
  auto policy = make_limited_policy(plan_, made, run, budget_, deployment);
  if (!policy) return tl::make_unexpected(policy.error());
  return Renewed{*std::move(options), *std::move(policy)};
}

void PlannerReloader::follow_annotations() {
  for (std::size_t i = 0; i < parts_.size(); ++i) follow_annotations(i);
}

void PlannerReloader::follow_annotations(std::size_t deployment) {
  Part& part = parts_[deployment];
  std::vector<std::vector<connect::VariantAnnotations>> annotations;
  for (std::size_t i = 0; i < part.daemon->options().pools.size(); ++i) {
    annotations.push_back(part.daemon->fleet().annotations(i));
    controller::check_models(controller::models_of(part.daemon->gateways().state()), annotations.back());
  }
  if (annotations == part.annotations) return;
  part.annotations = std::move(annotations);
  const configuration::Configuration made = configuration::configurations_of(current_.made).at(deployment);
  auto run = replay::make_run_options(made.run);
  if (!run) return;  // It was valid before.
  annotate(part, *run);
  const controller::DaemonOptions& now = part.daemon->options();
  const bool is_same =
      run->model == now.model && std::equal(run->pools.begin(), run->pools.end(), now.pools.begin(), now.pools.end(),
                                            [](const signals::Pool& left, const signals::Pool& right) {
                                              return left.min_replicas == right.min_replicas &&
                                                     left.max_replicas == right.max_replicas &&
                                                     left.price_per_gpu_hour == right.price_per_gpu_hour;
                                            });
  if (is_same) return;
  auto renewed = renew(deployment, made, *run);
  if (renewed)
    part.daemon->reconfigure(std::move(renewed->options), std::move(renewed->policy), false);
  else
    log_problems(log_, parsed_.value_of("--config"), {renewed.error()});
}

void PlannerReloader::reloads(const std::vector<PlannedDeployment>& deployments, planner::global::SharedBudget* budget,
                              dashboard::Dashboard* board) {
  for (const PlannedDeployment& deployment : deployments) parts_.push_back({.daemon = deployment.daemon.get()});
  budget_ = budget;
  board_ = board;
  if (started_) read_given(*started_);
}

void PlannerReloader::follow_files() {
  configuration::GatewaySetup watched;  // Of the gateway's section, a planner reads the credentials of replicas.
  watched.admin = plan_.access;
  watched.discovery = current_.made.gateway.discovery;
  stamps_.follow(watched_files(parsed_.value_of("--config"), watched));
}

void PlannerReloader::watch(net::Loop& loop) {
  follow_files();
  loop.every(kFilesInterval, [this] {
    if (current_.made.gateway.watch && stamps_.changed()) reload();
  });
}

void PlannerReloader::reload() {
  stamps_.accept();  // Before the files are read: a later change is noticed.
  if (const options::Problems problems = apply(); !problems.empty())
    return log_problems(log_, parsed_.value_of("--config"), problems);
  follow_files();
}

options::Problems PlannerReloader::apply() {
  if (parts_.empty()) return {core::Error{core::ErrorCode::kEnvironment, {}, "the planner is not ready", {}}};
  LoadedConfiguration next{live_defaults()};
  if (options::Problems problems = read_again(parsed_, current_, next); !problems.empty()) return problems;
  LoadedConfiguration merged{current_.made};
  copy_reloadable(next.made, merged.made);

  read_given(*next.reading);
  std::vector<Renewed> renewed;
  for (const configuration::Configuration& made : configuration::configurations_of(merged.made)) {
    auto run = replay::make_run_options(made.run);
    if (!run) return {run.error()};
    annotate(parts_[renewed.size()], *run);
    auto one = renew(renewed.size(), made, *run);
    if (!one) return {one.error()};
    renewed.push_back(*std::move(one));
  }
  auto access = make_access(plan_.access);
  if (!access) return {access.error()};
  auto credentials = gateway::load_credentials(merged.made.gateway.discovery);
  if (!credentials) return {credentials.error()};

  ReloadChanges changes{options::changes(current_.table, merged.table),
                        {},
                        loosened_of(configuration::LoosenedLimit::Process::kPlanner, next)};
  for (options::Change& change : options::changes(merged.table, next.table))
    if (std::find(kGroups.begin(), kGroups.end(), change.group) != kGroups.end() && !is_derived(change, *next.reading))
      changes.pending.push_back(std::move(change));
  const bool slo_changed = std::any_of(changes.applied.begin(), changes.applied.end(),
                                       [](const options::Change& change) { return change.group == "SLO"; });
  for (const auto& store : credentials_) *store = *credentials;
  if (board_ != nullptr) board_->set_access(std::move(access->options), std::move(access->tls));
  log_.set_level(merged.made.log.level);
  for (std::size_t i = 0; i < parts_.size(); ++i)
    parts_[i].daemon->reconfigure(std::move(renewed[i].options), std::move(renewed[i].policy), slo_changed);
  log_reload(log_, parsed_.value_of("--config"), changes);
  current_.made = std::move(merged.made);
  current_.has_empty_file = next.has_empty_file;
  return {};
}

}  // namespace penstock::cli
