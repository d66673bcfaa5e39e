// Several deployments in one file, and the budget that they share.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "configuration/configuration.h"
#include "connect/kubernetes/scale_target.h"
#include "options/values.h"

namespace penstock::configuration {
namespace {

using namespace options;

constexpr std::size_t kDeploymentsMax = 64;
constexpr std::size_t kHardwareMax = 64;
constexpr std::uint64_t kBudgetGpusMax = 10'000'000;

void add_deployment(Table& table, DeploymentSetup& made) {
  table.group("Deployments");
  table.add({"name", "", "name of the deployment: lower-case letters, digits and dashes"}, text(made.name)).required();
  table.add({"priority", "", "class of the shared budget; higher ones are served first"},
            whole_number(made.priority, 1'000'000));
  table.add({"weight", "", "weight within the class"}, number_above_zero(made.weight, 1e6));
  add_traces(table, made.traces);
  add_slo(table, made.run);
  add_fleet(table, made.pool, made.run);
  add_capacity(table, made.capacity);
  add_planner(table, made.planner);
}

void add_stock(Table& table, planner::global::Hardware& hardware) {
  table.group("Deployments");
  table.add({"name", "", "kind of GPU, which pools name as their hardware"}, text(hardware.name)).required();
  table.add({"gpus", "", "GPUs of this kind in stock"}, count(hardware.gpus, 0, kBudgetGpusMax)).required();
}

// The name is part of names of pools, files and objects of Kubernetes.
bool is_good_name(const std::string& name) {
  const auto is_alphanumeric = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
  };
  return !name.empty() && name.size() <= 40 && is_alphanumeric(name.front()) && is_alphanumeric(name.back()) &&
         std::all_of(name.begin(), name.end(), [&](char letter) { return is_alphanumeric(letter) || letter == '-'; });
}

void qualify_pools(const std::string& deployment, Configuration& made) {
  const auto qualify = [&](std::string& pool) { pool = pool == "default" ? deployment : deployment + "." + pool; };
  for (simulation::PoolSpec& pool : made.run.pools) qualify(pool.name);
  for (Schedule& schedule : made.planner.schedules) qualify(schedule.pool);
  for (simulation::FaultEvent& event : made.run.faults.events)
    if (!event.pool.empty()) qualify(event.pool);
  for (std::string& pool : made.planner.kubernetes.single_node) qualify(pool);
}

class DeploymentChecker {
 public:
  DeploymentChecker(Configuration& made, Reading& reading) : made_(made), reading_(reading) {}

  void check_all() {
    if (made_.deployments.empty()) return check_unused();
    const std::string pools = reading_.first_given({"pools[0]", "pools"});
    if (reading_.given(pools))
      return reading_.report(pools, "belongs to the deployments where there are several",
                             "give each deployment its pools");
    check_hardware();
    for (std::size_t i = 0; i < made_.deployments.size(); ++i) settle_one(i);
    check_budget();
    set_gateway_slo();
  }

 private:
  [[nodiscard]] static std::string item(std::size_t index) { return fmt::format("deployments[{}]", index); }

  void check_unused() {
    const std::string path = reading_.first_given(
        {"budget.gpus", "budget.money_per_hour", "budget.objective", "budget.hardware", std::string{}});
    if (!path.empty() && reading_.is_read("deployments"))
      reading_.report(path, "has no effect without deployments", "planner.gpu_budget limits the pools of one model");
  }

  void check_hardware() {
    for (std::size_t i = 0; i < made_.budget.hardware.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (made_.budget.hardware[i].name == made_.budget.hardware[j].name)
          reading_.report(fmt::format("budget.hardware[{}].name", i),
                          quote(made_.budget.hardware[i].name) + " is used twice");
    if (reading_.given("budget.objective") && !made_.budget.is_limited() && reading_.is_read("budget"))
      reading_.report("budget.objective", "has no effect without a limit",
                      "give budget.gpus, budget.money_per_hour or budget.hardware");
  }

  void settle_one(std::size_t index) {
    DeploymentSetup& deployment = made_.deployments[index];
    const std::string path = item(index);
    if (!is_good_name(deployment.name))
      reading_.report(path + ".name", fmt::format("{} is no name of a deployment", quote(deployment.name)),
                      "use at most 40 lower-case letters, digits and dashes");
    if (deployment.run.model.empty() && made_.deployments.size() > 1)
      reading_.report(path, "needs the key model", "name the model that it serves");
    for (std::size_t other = 0; other < index; ++other) {
      if (made_.deployments[other].name == deployment.name)
        reading_.report(path + ".name", quote(deployment.name) + " is used twice", "give each a name of its own");
      if (!deployment.run.model.empty() && made_.deployments[other].run.model == deployment.run.model)
        reading_.report(
            path + ".model",
            fmt::format("deployments {} and {} serve the same model {}", quote(made_.deployments[other].name),
                        quote(deployment.name), quote(deployment.run.model)),
            "give each deployment the model that it serves");
    }
    // Lists that all share may come after the deployments in the file.
    if (!reading_.given(path + ".slo.segments")) deployment.run.slo_segments = made_.run.slo_segments;
    if (made_.run.dispatch)
      signals::add_deferred_segment(deployment.run.slo_segments, deployment.run.slo_goal,
                                    made_.run.dispatch->batch.completion_window);
    if (!reading_.given(path + ".planner.schedules")) deployment.planner.schedules = made_.planner.schedules;
    deployment.run.faults.events = made_.run.faults.events;
    Configuration alone = of_deployment(made_, index);
    reading_.set_scope(path);
    settle(alone, reading_);
    settle_planner(alone, reading_);
    for (std::size_t p = 0; p < alone.run.pools.size(); ++p) check_pool(alone.run.pools[p], p);
    reading_.set_scope({});
    deployment.pool = std::move(alone.pool);
    deployment.run = std::move(alone.run);
    deployment.run.dispatch = made_.run.dispatch;
    deployment.planner = std::move(alone.planner);
  }

  // In the scope of its deployment.
  void check_pool(const simulation::PoolSpec& pool, std::size_t index) {
    const std::string path = fmt::format("pools[{}]", index);
    std::vector<std::string_view> kinds;
    for (const planner::global::Hardware& kind : made_.budget.hardware) kinds.push_back(kind.name);
    if (!pool.hardware.empty() && std::find(kinds.begin(), kinds.end(), pool.hardware) == kinds.end() &&
        reading_.is_read("budget.hardware")) {
      const std::string close = suggestion(pool.hardware, kinds);
      reading_.report(path + ".hardware", quote(pool.hardware) + " is not in budget.hardware",
                      !close.empty()  ? close
                      : kinds.empty() ? "add budget: {hardware: [{name: NAME, gpus: NUMBER}]}"
                                      : "there are " + choices(kinds));
    }
    const auto target = connect::parse_scale_target(pool.kubernetes);
    if (pool.kubernetes.empty() || !target) return;
    if (std::any_of(targets_.begin(), targets_.end(), [&](const auto& each) { return is_same(each, *target); }))
      reading_.report(path + ".kubernetes", fmt::format("two pools have the target {}", to_string(*target)),
                      "give each pool an object of its own");
    targets_.push_back(*target);
  }

  // The replicas at the start must fit every limit.
  void check_budget() {
    if (!reading_.is_valid("deployments") ||
        !reading_.are_read({"replicas", "min_replicas", "max_replicas", "gpus", "engine", "price"}))
      return;
    const BudgetSetup& budget = made_.budget;
    double gpus = 0.0, money = 0.0;
    std::vector<double> by_kind(budget.hardware.size(), 0.0);
    for (const DeploymentSetup& deployment : made_.deployments)
      for (const simulation::PoolSpec& pool : deployment.run.pools) {
        const double here = static_cast<double>(pool.replicas) * pool.gpus_per_replica;
        gpus += here;
        money += here * pool.price_per_gpu_hour;
        for (std::size_t k = 0; k < by_kind.size(); ++k)
          if (budget.hardware[k].name == pool.hardware) by_kind[k] += here;
      }
    const auto check = [&](const std::string& path, double available, double needed, std::string_view unit) {
      if (needed <= available + 1e-8) return;
      reading_.report(path,
                      fmt::format("must be at least the {}{} of all pools' replicas at the start, is {}",
                                  format_number(needed), unit, format_number(available)),
                      "raise it, or lower replicas and min_replicas");
    };
    if (budget.budget.gpus) check("budget.gpus", static_cast<double>(*budget.budget.gpus), gpus, " GPUs");
    if (budget.budget.money_per_hour)
      check("budget.money_per_hour", *budget.budget.money_per_hour, money, " USD per hour");
    for (std::size_t k = 0; k < by_kind.size(); ++k)
      check(fmt::format("budget.hardware[{}].gpus", k), static_cast<double>(*budget.hardware[k].gpus), by_kind[k],
            " GPUs");
  }

  // The gateway judges requests by the SLO of their model. More segments than it takes are left out.
  void set_gateway_slo() {
    std::vector<signals::SegmentSlo> segments;
    for (const DeploymentSetup& deployment : made_.deployments) {
      for (signals::SegmentSlo segment : deployment.run.slo_segments) {
        if (segment.model.empty()) segment.model = deployment.run.model;
        segment.name = deployment.name + "." + segment.name;
        segments.push_back(std::move(segment));
      }
      signals::SegmentSlo general;
      general.name = deployment.name;
      general.model = deployment.run.model;
      general.target = deployment.run.slo;
      general.goal = deployment.run.slo_goal;
      segments.push_back(std::move(general));
    }
    if (segments.size() <= signals::kSegmentsMax) made_.gateway.options.dispatch.slo.segments = std::move(segments);
  }

  Configuration& made_;
  Reading& reading_;
  std::vector<connect::ScaleTarget> targets_;
};

}  // namespace

void add_deployments(Table& table, Configuration& made) {
  using planner::global::Objective;
  table.group("Deployments");
  table.list<DeploymentSetup>(
      {"deployments", "",
       "models that are planned, or replayed, together; each may also have the keys of Workload, "
       "Fleet, Engine, SLO, Capacity "
       "and Planner, which at the top count for all of them"},
      made.deployments, kDeploymentsMax, add_deployment, [&made] {
        DeploymentSetup deployment;
        deployment.traces = made.traces;
        deployment.pool = made.pool;
        deployment.run = made.run;
        deployment.run.pools.clear();
        deployment.capacity = made.capacity;
        deployment.planner = made.planner;
        return deployment;
      });
  table.add({"budget.gpus", "", "GPUs of all deployments together"}, count(made.budget.budget.gpus, 0, kBudgetGpusMax))
      .by_default("no limit");
  table
      .add({"budget.money_per_hour", "", "money per hour of all deployments together (USD)"},
           number(made.budget.budget.money_per_hour, 0.0, 1e12))
      .by_default("no limit");
  table.add({"budget.objective", "",
             "how scarce GPUs are divided within a class: max-min (equal shares of what is proposed, by weight) or "
             "most-traffic (most weight per GPU)"},
            named_choice(made.budget.objective,
                         {{"max-min", Objective::kMaxMin}, {"most-traffic", Objective::kMostTraffic}}));
  table.list<planner::global::Hardware>({"budget.hardware", "", "kinds of GPUs that are limited"}, made.budget.hardware,
                                        kHardwareMax, add_stock);
}

Configuration of_deployment(const Configuration& made, std::size_t index) {
  const DeploymentSetup& deployment = made.deployments.at(index);
  Configuration alone = made;
  alone.deployments.clear();
  alone.budget = {};
  alone.traces = deployment.traces;
  alone.pool = deployment.pool;
  alone.run = deployment.run;
  alone.capacity = deployment.capacity;
  alone.planner = deployment.planner;
  return alone;
}

std::vector<Configuration> configurations_of(const Configuration& made) {
  if (made.deployments.empty()) return {made};
  std::vector<Configuration> all;
  for (std::size_t i = 0; i < made.deployments.size(); ++i) {
    all.push_back(of_deployment(made, i));
    qualify_pools(made.deployments[i].name, all.back());
  }
  return all;
}

std::vector<simulation::PoolSpec> all_pools(const Configuration& made) {
  std::vector<simulation::PoolSpec> pools;
  for (const Configuration& alone : configurations_of(made))
    pools.insert(pools.end(), alone.run.pools.begin(), alone.run.pools.end());
  return pools;
}

void settle_deployments(Configuration& made, Reading& reading) { DeploymentChecker{made, reading}.check_all(); }

}  // namespace penstock::configuration
