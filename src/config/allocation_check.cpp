#include "config/allocation_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "config/scalars.h"

namespace penstock::config {
namespace {

constexpr core::Duration kMinute = std::chrono::minutes{1};

class AllocationChecker {
 public:
  AllocationChecker(AllocationSettings& settings, Problems& problems) : settings_(settings), problems_(problems) {}

  void check_all() {
    for (std::size_t i = 0; i < settings_.hardware.size(); ++i) hardware_names_.push_back(settings_.hardware[i].name);
    check_unique(hardware_names_, "hardware");
    std::vector<std::string_view> names;
    for (const AllocationDeployment& deployment : settings_.deployments) names.push_back(deployment.name);
    check_unique(names, "deployments");
    for (std::size_t i = 0; i < settings_.deployments.size(); ++i) check_deployment(i);
    check_previous(names);
    check_every();
    if (problems_.empty()) check_budgets();
  }

 private:
  void report(const std::string& path, std::string what, std::string hint = {}) {
    problems_.push_back({core::ErrorCode::kInvalidInput, settings_.place(path), std::move(what), std::move(hint)});
  }

  void check_unique(const std::vector<std::string_view>& names, const std::string& list) {
    for (std::size_t i = 0; i < names.size(); ++i)
      if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
          names.begin() + static_cast<std::ptrdiff_t>(i))
        report(name_path(fmt::format("{}[{}]", list, i)), quoted(names[i]) + " is there twice",
               "give each a name of its own");
  }

  // A pool's name may be that of its hardware, which then is the one to blame.
  [[nodiscard]] std::string name_path(const std::string& item) const {
    const std::string name = item + ".name";
    return settings_.origins.contains(name) ? name : item + ".hardware";
  }

  [[nodiscard]] std::string unknown(std::string_view name, const std::vector<std::string_view>& names) const {
    const std::string close = suggestion(name, names);
    return close.empty() ? "there are " + choices(names) : close;
  }

  void check_deployment(std::size_t index) {
    AllocationDeployment& deployment = settings_.deployments[index];
    const std::string path = fmt::format("deployments[{}]", index);
    std::vector<std::string_view> names;
    for (std::size_t p = 0; p < deployment.pools.size(); ++p) {
      AllocationPool& pool = deployment.pools[p];
      const std::string pool_path = fmt::format("{}.pools[{}]", path, p);
      if (std::find(hardware_names_.begin(), hardware_names_.end(), pool.hardware) == hardware_names_.end())
        report(pool_path + ".hardware", quoted(pool.hardware) + " is not in the list of hardware",
               unknown(pool.hardware, hardware_names_));
      if (pool.name.empty()) pool.name = pool.hardware;
      names.push_back(pool.name);
      check_bounds(pool, pool_path);
    }
    check_unique(names, path + ".pools");
    check_roles(deployment, path);
    check_shape(deployment, path);
  }

  void check_bounds(AllocationPool& pool, const std::string& path) {
    const std::string most = path + ".max_replicas";
    if (!settings_.origins.contains(most)) pool.max_replicas = std::max(pool.max_replicas, pool.min_replicas);
    if (pool.min_replicas > pool.max_replicas)
      report(most, fmt::format("must be at least min_replicas ({}), is {}", pool.min_replicas, pool.max_replicas));
  }

  void check_roles(const AllocationDeployment& deployment, const std::string& path) {
    const auto with_role = [&](std::string_view role) {
      return std::count_if(deployment.pools.begin(), deployment.pools.end(),
                           [&](const AllocationPool& pool) { return pool.role == role; });
    };
    const auto prefill = with_role("prefill"), decode = with_role("decode");
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
    // Blamed is the deployment: what is missing has no place of its own.
    problems_.push_back(
        {core::ErrorCode::kInvalidInput, settings_.place(path) + "." + what,
         has_input == has_output ? "is missing, and a pool has no capacity: a load test needs requests" : "is missing",
         "give shape: {input: TOKENS, output: TOKENS}"});
  }

  void check_previous(const std::vector<std::string_view>& deployments) {
    for (std::size_t i = 0; i < settings_.previous.size(); ++i) {
      const AllocationPrevious& entry = settings_.previous[i];
      const std::string path = fmt::format("previous[{}]", i);
      const auto found = std::find(deployments.begin(), deployments.end(), entry.deployment);
      if (found == deployments.end()) {
        report(path + ".deployment", "no deployment is called " + quoted(entry.deployment),
               unknown(entry.deployment, deployments));
        continue;
      }
      std::vector<std::string_view> pools;
      for (const AllocationPool& pool :
           settings_.deployments[static_cast<std::size_t>(found - deployments.begin())].pools)
        pools.push_back(pool.name);
      if (std::find(pools.begin(), pools.end(), entry.pool) == pools.end())
        report(path + ".pool", quoted(entry.deployment) + " has no pool " + quoted(entry.pool),
               unknown(entry.pool, pools));
      for (std::size_t j = 0; j < i; ++j)
        if (settings_.previous[j].deployment == entry.deployment && settings_.previous[j].pool == entry.pool)
          report(path + ".pool", quoted(entry.pool) + " is there twice");
    }
  }

  void check_every() {
    const auto every = settings_.every;
    if (every < kMinute || every % kMinute != core::Duration{})
      report("every", fmt::format("must be one or more whole minutes, is {}", format_duration(every)));
    const bool was_trace = std::any_of(settings_.origins.begin(), settings_.origins.end(),
                                       [](const auto& origin) { return origin.first.ends_with(".demand.trace"); });
    if (settings_.origins.contains("every") && !was_trace)
      report("every", "is for a demand that changes, and no deployment's comes from a trace",
             "give a demand as {trace: FILE}, or remove it");
  }

  // The floors of all pools together must fit every limit.
  void check_budgets() {
    double gpus = 0.0, money = 0.0;
    std::vector<double> by_kind(settings_.hardware.size(), 0.0);
    for (const AllocationDeployment& deployment : settings_.deployments)
      for (const AllocationPool& pool : deployment.pools) {
        const auto kind = static_cast<std::size_t>(
            std::find(hardware_names_.begin(), hardware_names_.end(), pool.hardware) - hardware_names_.begin());
        const double here = static_cast<double>(pool.min_replicas) * pool.gpus;
        gpus += here;
        by_kind[kind] += here;
        money += here * settings_.hardware[kind].price;
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
      if (settings_.hardware[i].gpus)
        hold(fmt::format("hardware[{}].gpus", i), static_cast<double>(*settings_.hardware[i].gpus), by_kind[i],
             " GPUs");
    if (settings_.budget_gpus) hold("budget.gpus", static_cast<double>(*settings_.budget_gpus), gpus, " GPUs");
    // A hundredth of a millionth: sums of prices round.
    if (settings_.budget_money_per_hour && money > *settings_.budget_money_per_hour + 1e-8)
      hold("budget.money_per_hour", *settings_.budget_money_per_hour, money, " an hour");
  }

  AllocationSettings& settings_;
  Problems& problems_;
  std::vector<std::string_view> hardware_names_;
};

}  // namespace

void check_allocation(AllocationSettings& settings, Problems& problems) {
  AllocationChecker{settings, problems}.check_all();
}

}  // namespace penstock::config
