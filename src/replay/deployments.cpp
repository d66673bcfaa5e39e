#include "replay/deployments.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "replay/budget_meter.h"
#include "replay/policies.h"
#include "replay/run_notes.h"
#include "replay/schedule_file.h"
#include "replay/shared_budget.h"
#include "report/format.h"
#include "simulation/run.h"

namespace penstock::replay {
namespace {

using decision::Policy;
using decision::RunResult;
using planner::global::SharedBudget;

// Seeds of the deployments differ by this, since the traces of one have seeds that follow each other.
constexpr std::uint64_t kSeedStep = 1'000;

constexpr core::Duration kShorterMin = std::chrono::minutes{1};  // A note names traces that are so much shorter.

core::Instant end_of(const DeploymentsSetup& setup) { return setup.deployments.front().options.runs_until; }

// The runs of one policy for all deployments.
class SharedReplay {
 public:
  SharedReplay(const DeploymentsSetup& setup, const std::vector<std::vector<PoolCapacity>>& capacities,
               std::string_view name)
      : setup_(setup),
        capacities_(capacities),
        name_(name),
        budget_(is_penstock(name) ? make_shared_budget(setup.configuration) : nullptr),
        peaks_(first_claims(setup.configuration), division_limits(setup.configuration)) {}

  core::Result<std::vector<RunResult>> run(const std::function<void(double)>& progress) {
    if (auto made = make_policies(progress); !made) return tl::make_unexpected(made.error());
    simulation::SharedFleets fleets;
    fleets.changed = [&](core::Instant) { peaks_.add(fleets.replicas); };
    if (budget_) budget_->set_counts([&](std::size_t deployment) { return fleets.replicas[deployment]; });
    std::vector<simulation::SharedRun> runs;
    for (std::size_t i = 0; i < policies_.size(); ++i)
      runs.push_back({&setup_.deployments[i].workload, policies_[i].get(), &options_[i]});
    auto results = simulation::run_together(runs, &fleets);
    if (!results) return results;
    for (std::size_t i = 0; i < results->size(); ++i) {
      RunResult& result = (*results)[i];
      result.policy = name_;
      result.goal = goal_of(name_, options_[i].slo_goal);
      result.budget_use = meters_.empty() ? decision::BudgetUse{} : meters_[i]->until(end_of(setup_));
      result.budget_use->peak_gpus = peaks_.gpus_of(i);
    }
    return results;
  }

  [[nodiscard]] report::SharedPolicy summary() const {
    return {std::string{name_}, budget_ != nullptr, peaks_.gpus(), peaks_.resources()};
  }

 private:
  core::Result<void> make_policies(const std::function<void(double)>& progress) {
    const auto longest = std::max_element(setup_.deployments.begin(), setup_.deployments.end(),
                                          [](const ReplaySetup& a, const ReplaySetup& b) {
                                            return a.workload.requests.size() < b.workload.requests.size();
                                          });
    for (std::size_t i = 0; i < setup_.deployments.size(); ++i) {
      const ReplaySetup& deployment = setup_.deployments[i];
      simulation::RunOptions with_goal = deployment.options;
      with_goal.slo_goal = goal_of(name_, with_goal.slo_goal).value_or(with_goal.slo_goal);
      auto policy = make_policy(deployment, capacities_[i], name_, with_goal);
      if (!policy) return tl::make_unexpected(policy.error());
      if (budget_) {
        auto meter = std::make_unique<LimitMeter>(*budget_, i, budget_->limited(i, *std::move(policy)),
                                                  deployment.options.judged_from);
        meters_.push_back(meter.get());
        policies_.push_back(std::move(meter));
      } else {
        policies_.push_back(*std::move(policy));
      }
      options_.push_back(deployment.options);
      if (&deployment == &*longest) options_.back().progress = progress;
    }
    return {};
  }

  const DeploymentsSetup& setup_;
  const std::vector<std::vector<PoolCapacity>>& capacities_;
  std::string_view name_;
  std::unique_ptr<SharedBudget> budget_;  // Null: nothing limits the policies.
  UsePeaks peaks_;
  std::vector<simulation::RunOptions> options_;
  std::vector<std::unique_ptr<Policy>> policies_;
  std::vector<LimitMeter*> meters_;  // Of the policies; empty without a budget.
};

std::vector<std::string> notes_of(const DeploymentsSetup& setup, const report::DeploymentsReport& made) {
  std::vector<std::string> notes;
  for (std::size_t i = 0; i < setup.deployments.size(); ++i) {
    const report::DeploymentReport& deployment = made.deployments[i];
    for (const std::string& note : deployment.report.info.notes) notes.push_back(deployment.name + ": " + note);
    const core::Instant last{setup.deployments[i].workload.span()};
    if (end_of(setup) - last > kShorterMin)
      notes.push_back(fmt::format("{}: its trace ends after {}, the replay after {}", deployment.name,
                                  report::format_seconds(core::to_seconds(last.time_since_epoch())),
                                  report::format_seconds(core::to_seconds(end_of(setup).time_since_epoch()))));
  }
  const auto is_limited = [](const report::SharedPolicy& policy) { return policy.is_limited; };
  if (setup.configuration.budget.is_limited() && !std::all_of(made.policies.begin(), made.policies.end(), is_limited))
    notes.emplace_back("the budget limits the policy penstock only; the rules of others do not know it");
  return notes;
}

}  // namespace

void check_deployments(const configuration::Configuration& made, options::Reading& reading) {
  for (std::size_t i = 0; i < made.deployments.size(); ++i)
    if (made.deployments[i].traces.names.empty())
      reading.report(fmt::format("deployments[{}]", i), "needs the key trace",
                     "name a file, synthetic:rate=5,duration=10m or built-in, here or at the top for all");
  const auto alone = [&](std::string_view path, std::string_view what) {
    reading.report(path, fmt::format("{} takes one deployment, there are {}", what, made.deployments.size()),
                   "leave it out, or give the values of a deployment at the top of a file of its own");
  };
  for (const std::string& policy : made.policies)
    if (is_clairvoyant(policy) || is_schedule(policy))
      alone("policy", fmt::format("the policy {}", decision::name_without_settings(policy)));
  if (!made.frontier.empty()) alone("frontier", "a frontier of static fleets");
  const configuration::OutputOptions& output = made.output;
  if (!output.metrics.empty()) alone("metrics", "the file of metrics");
  if (!output.report_dir.empty() && reading.given("report_dir")) alone("report_dir", "a folder of reports");
}

core::Result<DeploymentsSetup> prepare_deployments(configuration::Configuration configuration) {
  DeploymentsSetup setup;
  core::Duration end{};
  for (configuration::Configuration& alone : configuration::configurations_of(configuration)) {
    alone.run.seed += kSeedStep * setup.deployments.size();
    auto prepared = prepare_replay(std::move(alone));
    if (!prepared) {
      core::Error error = prepared.error();
      error.what += fmt::format(" (deployment {})", configuration.deployments[setup.deployments.size()].name);
      return tl::make_unexpected(std::move(error));
    }
    end = std::max(end, prepared->workload.span());
    setup.deployments.push_back(*std::move(prepared));
  }
  for (ReplaySetup& deployment : setup.deployments) deployment.options.runs_until = core::kStart + end;
  setup.configuration = std::move(configuration);
  return setup;
}

core::Result<report::DeploymentsReport> run_deployments(const DeploymentsSetup& setup,
                                                        const std::function<void(const TaskProgress&)>& show) {
  report::DeploymentsReport made;
  std::vector<std::vector<PoolCapacity>> capacities;
  for (std::size_t i = 0; i < setup.deployments.size(); ++i) {
    const configuration::DeploymentSetup& named = setup.configuration.deployments[i];
    made.deployments.push_back({named.name, named.run.model, named.priority, named.weight, {}});
    report::RunInfo& info = made.deployments.back().report.info;
    info = setup.deployments[i].info;
    made.version = info.version;
    auto found = find_capacities(setup.deployments[i], show);
    if (!found) return tl::make_unexpected(found.error());
    for (std::size_t pool = 0; pool < found->size(); ++pool) {
      if ((*found)[pool].note.empty()) continue;
      info.notes.push_back((*found)[pool].note);
      info.pools[pool].capacity = figures_of((*found)[pool].capacity);
    }
    capacities.push_back(*std::move(found));
  }
  const std::vector<std::string>& policies = setup.configuration.policies;
  made.policies.resize(policies.size());
  std::vector<std::vector<RunResult>> results(policies.size());
  std::vector<Task> tasks;
  for (std::size_t p = 0; p < policies.size(); ++p)
    tasks.push_back({policies[p], 1.0, [&, p](const std::function<void(double)>& progress) -> core::Result<void> {
                       SharedReplay replay{setup, capacities, policies[p]};
                       auto run = replay.run(progress);
                       if (!run) return tl::make_unexpected(run.error());
                       results[p] = *std::move(run);
                       made.policies[p] = replay.summary();
                       return {};
                     }});
  if (auto done = run_tasks(tasks, setup.configuration.jobs, show); !done) return tl::make_unexpected(done.error());
  for (std::size_t i = 0; i < setup.deployments.size(); ++i) {
    report::Report& report = made.deployments[i].report;
    for (std::vector<RunResult>& of_policy : results) report.results.push_back(std::move(of_policy[i]));
    for (std::string& note : run_notes(report.results, setup.deployments[i].configuration.planner))
      report.info.notes.push_back(std::move(note));
  }
  made.notes = notes_of(setup, made);
  return made;
}

}  // namespace penstock::replay
