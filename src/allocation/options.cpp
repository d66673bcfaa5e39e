#include "allocation/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "configuration/configuration.h"
#include "options/values.h"

namespace penstock::allocation {
namespace {

using namespace options;

constexpr double kFigureMax = 1e6;  // Of requests/s, prices and weights.
constexpr std::uint64_t kGpusMax = 1'000'000;
constexpr std::uint64_t kPromptTokensMax = 10'000'000;
constexpr std::size_t kItemsMax = 10'000;
constexpr core::Duration kMinute = std::chrono::minutes{1};

void add_hardware(Table& table, planner::global::Hardware& hardware) {
  table.add({"name", "", "kind of GPU"}, text(hardware.name)).required();
  table.add({"price", "", "price of one GPU for one hour (USD)"}, number(hardware.price_per_gpu_hour, 0.0, kFigureMax))
      .required();
  table.add({"gpus", "", "GPUs in stock"}, count(hardware.gpus, 0, kGpusMax)).by_default("no limit");
}

void add_allocation_pool(Table& table, AllocationPool& pool) {
  simulation::PoolSpec& spec = pool.spec;
  table.add({"name", "", "name of the pool"}, text(spec.name)).by_default("name of the hardware");
  table.add({"hardware", "", "kind of GPU, of the list of hardware"}, text(pool.hardware)).required();
  table.add({"role", "", "aggregated, prefill or decode"},
            choice(spec.role, {signals::Role::kAggregated, signals::Role::kPrefill, signals::Role::kDecode}));
  table.add({"gpus", "", "GPUs of one replica; tp × pp of a roofline engine"},
            count(spec.gpus_per_replica, 1, configuration::kReplicasMax));
  table.add({"engine", "", "step-time model of a replica, for its load test"}, text(spec.step_time_model));
  table.add({"min_replicas", "", "fewest replicas"}, count(spec.min_replicas, 0, configuration::kReplicasMax));
  table.add({"max_replicas", "", "most replicas"}, count(spec.max_replicas, 0, configuration::kReplicasMax));
  table
      .add({"capacity", "", "requests per second that one replica carries within the SLO"},
           number_above_zero(pool.capacity, kFigureMax))
      .by_default("load-tested");
  table.add({"start_up", "", "from the request for a replica until it is ready"}, duration(spec.start_up));
}

void add_deployment(Table& table, AllocationDeployment& made) {
  table.add({"name", "", "name of the deployment"}, text(made.name)).required();
  table.add({"priority", "", "a higher priority is served first"}, whole_number(made.priority, 1'000'000));
  table.add({"weight", "", "weight within the priority"}, number_above_zero(made.weight, kFigureMax));
  table.add({"demand", "", "requests per second"}, number(made.demand.rps, 0.0, kFigureMax)).required();
  table.add({"demand.trace", "", "trace whose requests are the demand"}, text(made.demand.trace));
  table.add({"demand.rate_scale", "", "its requests per second count this many times"},
            number_above_zero(made.demand.rate_scale, 1000.0));
  table.add({"slo.ttft", "", "longest time to first token"}, duration_above_zero(made.slo.ttft));
  table.add({"slo.itl", "", "longest mean gap between the tokens of a request"}, duration_above_zero(made.slo.itl));
  table.add({"shape.input", "", "prompt tokens of a request"}, count(made.input_tokens, 1, kPromptTokensMax));
  table.add({"shape.output", "", "output tokens of a request"}, count(made.output_tokens, 1, kPromptTokensMax));
  table.list<AllocationPool>({"pools", "", "pools of the deployment"}, made.pools, kItemsMax, add_allocation_pool)
      .required();
}

void add_previous(Table& table, planner::global::PoolReplicas& entry) {
  table.add({"deployment", "", "name of the deployment"}, text(entry.deployment)).required();
  table.add({"pool", "", "name of the pool"}, text(entry.pool)).required();
  table.add({"replicas", "", "replicas in the current plan"}, count(entry.replicas, 0, configuration::kReplicasMax))
      .required();
}

class AllocationChecker {
 public:
  AllocationChecker(AllocationOptions& made, options::Reading& reading) : made_(made), reading_(reading) {}

  void check_all() {
    for (std::size_t i = 0; i < made_.hardware.size(); ++i) hardware_names_.push_back(made_.hardware[i].name);
    check_unique(hardware_names_, "hardware");
    std::vector<std::string_view> names;
    for (const AllocationDeployment& deployment : made_.deployments) names.push_back(deployment.name);
    check_unique(names, "deployments");
    for (std::size_t i = 0; i < made_.deployments.size(); ++i) check_deployment(i);
    check_previous(names);
    check_every();
    if (reading_.good()) check_budgets();
  }

 private:
  void report(const std::string& path, std::string what, std::string hint = {}) {
    reading_.report(path, std::move(what), std::move(hint));
  }

  void check_unique(const std::vector<std::string_view>& names, const std::string& list) {
    for (std::size_t i = 0; i < names.size(); ++i)
      if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
          names.begin() + static_cast<std::ptrdiff_t>(i))
        report(name_path(fmt::format("{}[{}]", list, i)), quote(names[i]) + " is used twice",
               "give each a name of its own");
  }

  // If a pool is named after its hardware, the error refers to the hardware.
  [[nodiscard]] std::string name_path(const std::string& item) const {
    const std::string name = item + ".name";
    return reading_.given(name) ? name : item + ".hardware";
  }

  [[nodiscard]] std::string unknown(std::string_view name, const std::vector<std::string_view>& names) const {
    const std::string close = suggestion(name, names);
    return close.empty() ? "there are " + choices(names) : close;
  }

  void check_deployment(std::size_t index) {
    AllocationDeployment& deployment = made_.deployments[index];
    const std::string path = fmt::format("deployments[{}]", index);
    std::vector<std::string_view> names;
    for (std::size_t p = 0; p < deployment.pools.size(); ++p) {
      AllocationPool& pool = deployment.pools[p];
      const std::string pool_path = fmt::format("{}.pools[{}]", path, p);
      if (std::find(hardware_names_.begin(), hardware_names_.end(), pool.hardware) == hardware_names_.end())
        report(pool_path + ".hardware", quote(pool.hardware) + " is not in the list of hardware",
               unknown(pool.hardware, hardware_names_));
      if (pool.spec.name.empty()) pool.spec.name = pool.hardware;
      names.push_back(pool.spec.name);
      check_bounds(pool, pool_path);
      configuration::settle_gpus(pool.spec, pool_path + ".gpus", reading_);
      configuration::settle_engine_limits(pool.spec.engine, pool.spec.step_time_model, {}, reading_);
    }
    check_unique(names, path + ".pools");
    if (reading_.given(path + ".demand.rate_scale") && !reading_.given(path + ".demand.trace"))
      report(path + ".demand", "needs the key trace");
    check_roles(deployment, path);
    check_shape(deployment, path);
  }

  void check_bounds(AllocationPool& pool, const std::string& path) {
    const std::string most = path + ".max_replicas";
    if (!reading_.given(most)) pool.spec.max_replicas = std::max(pool.spec.max_replicas, pool.spec.min_replicas);
    if (pool.spec.min_replicas > pool.spec.max_replicas)
      report(most,
             fmt::format("must be at least min_replicas ({}), is {}", pool.spec.min_replicas, pool.spec.max_replicas));
  }

  void check_roles(const AllocationDeployment& deployment, const std::string& path) {
    const auto with_role = [&](signals::Role role) {
      return std::count_if(deployment.pools.begin(), deployment.pools.end(),
                           [&](const AllocationPool& pool) { return pool.spec.role == role; });
    };
    const auto prefill = with_role(signals::Role::kPrefill), decode = with_role(signals::Role::kDecode);
    if (prefill != decode || prefill > 1)
      report(path + ".pools",
             fmt::format("must have one prefill and one decode pool or neither, has {} and {}", prefill, decode),
             "give each pool its role");
  }

  void check_shape(const AllocationDeployment& deployment, const std::string& path) {
    const bool has_input = deployment.input_tokens > 0, has_output = deployment.output_tokens > 0;
    const bool to_test = std::any_of(deployment.pools.begin(), deployment.pools.end(),
                                     [](const AllocationPool& pool) { return !pool.capacity; });
    const bool has_trace = !deployment.demand.trace.empty();
    if (has_input == has_output && (has_input || !to_test || has_trace)) return;
    const std::string what = has_input == has_output ? "shape" : has_input ? "shape.output" : "shape.input";
    reading_.report(
        path,
        has_input == has_output
            ? fmt::format("needs the key {}, since a pool has no capacity: a load test needs requests", what)
            : fmt::format("needs the key {}", what),
        "give shape: {input: TOKENS, output: TOKENS}");
  }

  void check_previous(const std::vector<std::string_view>& deployments) {
    for (std::size_t i = 0; i < made_.planner.previous.size(); ++i) {
      const planner::global::PoolReplicas& entry = made_.planner.previous[i];
      const std::string path = fmt::format("previous[{}]", i);
      const auto found = std::find(deployments.begin(), deployments.end(), entry.deployment);
      if (found == deployments.end()) {
        report(path + ".deployment", "unknown deployment " + quote(entry.deployment),
               unknown(entry.deployment, deployments));
        continue;
      }
      std::vector<std::string_view> pools;
      for (const AllocationPool& pool : made_.deployments[static_cast<std::size_t>(found - deployments.begin())].pools)
        pools.push_back(pool.spec.name);
      if (std::find(pools.begin(), pools.end(), entry.pool) == pools.end())
        report(path + ".pool", quote(entry.deployment) + " has no pool " + quote(entry.pool),
               unknown(entry.pool, pools));
      for (std::size_t j = 0; j < i; ++j)
        if (made_.planner.previous[j].deployment == entry.deployment && made_.planner.previous[j].pool == entry.pool)
          report(path + ".pool", quote(entry.pool) + " is used twice");
    }
  }

  void check_every() {
    const auto every = made_.every;
    if (every < kMinute || every % kMinute != core::Duration{})
      report("every", fmt::format("must be one or more whole minutes, is {}", format_duration(every)));
    bool was_trace = false;  // Also if a rate on the command line replaced it.
    for (std::size_t i = 0; i < made_.deployments.size(); ++i)
      was_trace = was_trace || reading_.given(fmt::format("deployments[{}].demand.trace", i));
    if (reading_.given("every") && !was_trace)
      report("every", "is for a demand that changes, and no deployment's comes from a trace",
             "give a demand as {trace: FILE}, or remove it");
  }

  // The minimum replicas of all pools together must fit every limit.
  void check_budgets() {
    double gpus = 0.0, money = 0.0;
    std::vector<double> by_kind(made_.hardware.size(), 0.0);
    for (const AllocationDeployment& deployment : made_.deployments)
      for (const AllocationPool& pool : deployment.pools) {
        const auto kind = static_cast<std::size_t>(
            std::find(hardware_names_.begin(), hardware_names_.end(), pool.hardware) - hardware_names_.begin());
        const double here = static_cast<double>(pool.spec.min_replicas) * pool.spec.gpus_per_replica;
        gpus += here;
        by_kind[kind] += here;
        money += here * made_.hardware[kind].price_per_gpu_hour;
      }
    const std::string hint = "raise it, or lower min_replicas";
    const auto hold = [&](const std::string& path, double there, double needed, std::string_view unit) {
      if (needed <= there) return;
      report(path,
             fmt::format("must hold min_replicas of every pool, which take {}{}, is {}: {} short",
                         format_number(needed), unit, format_number(there), format_number(needed - there)),
             hint);
    };
    for (std::size_t i = 0; i < by_kind.size(); ++i)
      if (made_.hardware[i].gpus)
        hold(fmt::format("hardware[{}].gpus", i), static_cast<double>(*made_.hardware[i].gpus), by_kind[i], " GPUs");
    if (made_.budget.gpus) hold("budget.gpus", static_cast<double>(*made_.budget.gpus), gpus, " GPUs");
    // The tolerance covers rounding of sums of prices.
    if (made_.budget.money_per_hour && money > *made_.budget.money_per_hour + 1e-8)
      hold("budget.money_per_hour", *made_.budget.money_per_hour, money, " an hour");
  }

  AllocationOptions& made_;
  options::Reading& reading_;
  std::vector<std::string_view> hardware_names_;
};

void set_rate(const std::string& rate, AllocationOptions& made, Reading& reading) {
  const std::size_t equals = rate.rfind('=');
  if (equals == std::string::npos || equals == 0)
    return reading.report("--rate", "must be like NAME=RPS, is " + quote(rate));
  auto rps = parse_number(rate.substr(equals + 1), 0.0, kFigureMax);
  if (!rps) return reading.report("--rate", rps.error());
  const std::string name = rate.substr(0, equals);
  std::vector<std::string_view> known;
  for (AllocationDeployment& deployment : made.deployments) {
    known.push_back(deployment.name);
    if (deployment.name != name) continue;
    deployment.demand = {*rps, {}, 1.0};
    return;
  }
  const std::string close = suggestion(name, known);
  reading.report("--rate", "unknown deployment " + quote(name), close.empty() ? "there are " + choices(known) : close);
}

}  // namespace

bool AllocationOptions::has_traces() const {
  return std::any_of(deployments.begin(), deployments.end(),
                     [](const AllocationDeployment& deployment) { return !deployment.demand.trace.empty(); });
}

Table allocation_table(AllocationOptions& made) {
  using planner::global::Objective;
  Table table;
  table.list<planner::global::Hardware>({"hardware", "", "price list"}, made.hardware, kItemsMax, add_hardware)
      .required();
  table.add({"budget.gpus", "", "GPUs of all kinds together"}, count(made.budget.gpus, 0, kGpusMax));
  table.add({"budget.money_per_hour", "", "money per hour (USD)"}, number(made.budget.money_per_hour, 0.0, 1e12));
  table.add({"objective", "", "most-traffic or max-min"},
            named_choice(made.planner.objective,
                         {{"most-traffic", Objective::kMostTraffic}, {"max-min", Objective::kMaxMin}}));
  table
      .list<AllocationDeployment>({"deployments", "", "deployments that share the budget"}, made.deployments, kItemsMax,
                                  add_deployment)
      .required();
  table.list<planner::global::PoolReplicas>({"previous", "", "the plan in force"}, made.planner.previous, kItemsMax,
                                            add_previous);
  table.add({"every", "", "from one plan to the next, where demand comes from traces"}, duration(made.every));
  return table;
}

void settle_allocation(AllocationOptions& made, const std::vector<std::string>& rates, Reading& reading) {
  // A value that could not be read would be reported again, as a contradiction with its default.
  const bool was_good = reading.good();
  if (!made.deployments.empty())
    for (const std::string& rate : rates) set_rate(rate, made, reading);
  if (was_good && reading.good()) AllocationChecker{made, reading}.check_all();
}

}  // namespace penstock::allocation
