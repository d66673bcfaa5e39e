#include "allocation/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "configuration/traces.h"
#include "replay/capacities.h"
#include "replay/setup.h"

namespace penstock::allocation {
namespace {

namespace global = planner::global;
using options::Problems;

constexpr std::size_t kShapeRequests = 2000;  // Of a load test with a given shape.
constexpr std::uint64_t kSeed = 1;

simulation::RunOptions run_of(const AllocationDeployment& deployment, const std::vector<std::size_t>& pools) {
  simulation::RunOptions run;
  run.slo = deployment.slo;
  run.seed = kSeed;
  run.pools.clear();
  for (const std::size_t p : pools) {
    run.pools.push_back(deployment.pools[p].spec);
    // A load test has one replica.
    run.pools.back().replicas = run.pools.back().min_replicas = 1;
    run.pools.back().max_replicas = simulation::PoolSpec{}.max_replicas;
  }
  return run;
}

core::Result<workload::Workload> load_workload(std::string trace, double rate_scale) {
  configuration::TraceOptions options;
  options.names = {std::move(trace)};
  options.rate_scale.factor = rate_scale;
  return configuration::load_traces(options, kSeed).and_then([](std::vector<configuration::Trace> traces) {
    return configuration::join_traces(std::move(traces), engine::EngineConfig{}.block_tokens);
  });
}

// Returns identical requests for a load test, which draws their arrivals itself.
core::Result<workload::Workload> requests_of_shape(const AllocationDeployment& deployment) {
  return load_workload(fmt::format("{}requests={},rate=10,input={},output={}", configuration::kSyntheticTrace,
                                   kShapeRequests, deployment.input_tokens, deployment.output_tokens),
                       1.0);
}

// Returns the requests/s of each whole minute.
std::vector<double> by_minute(const workload::Workload& workload) {
  const core::Duration of_one = std::chrono::minutes{1};
  std::vector<double> rates(static_cast<std::size_t>(workload.span() / of_one), 0.0);
  for (const workload::Request& request : workload.requests) {
    const auto minute = static_cast<std::size_t>(request.arrival.time_since_epoch() / of_one);
    if (minute < rates.size()) rates[minute] += 1.0 / 60.0;
  }
  return rates;
}

class Preparing {
 public:
  Preparing(AllocationOptions options, const options::Reading& reading, std::uint32_t jobs,
            const std::function<void(const replay::TaskProgress&)>& show)
      : reading_(reading), jobs_(jobs), show_(show) {
    setup_.options = std::move(options);
  }

  tl::expected<AllocationSetup, Problems> run() {
    for (std::size_t d = 0; d < setup_.options.deployments.size(); ++d) read_deployment(d);
    if (problems_.empty()) even_out_series();
    if (problems_.empty()) run_load_tests();
    for (std::size_t d = 0; problems_.empty() && d < setup_.options.deployments.size(); ++d) make_offers(d);
    if (!problems_.empty()) return tl::make_unexpected(std::move(problems_));
    return std::move(setup_);
  }

 private:
  // A load test of one pool; in a disaggregated deployment the other pool runs as well.
  struct LoadTest {
    std::shared_ptr<const replay::ReplaySetup> replay;
    std::size_t pool = 0;    // Index in the replay.
    std::size_t figure = 0;  // Index in the capacities.
    std::string path;        // Path of the deployment.
  };

  [[nodiscard]] static std::string path_of(std::size_t d) { return fmt::format("deployments[{}]", d); }

  void report(const std::string& path, core::Error error) {
    error.code = core::ErrorCode::kInvalidInput;
    error.where = reading_.location(path);
    problems_.push_back(std::move(error));
  }

  void read_deployment(std::size_t d) {
    const AllocationDeployment& deployment = setup_.options.deployments[d];
    const std::string path = path_of(d);
    global::ChangingDeployment made;
    made.deployment = {deployment.name, deployment.priority, deployment.weight, deployment.demand.rps, {}};
    std::optional<workload::Workload> trace;
    if (!deployment.demand.trace.empty()) {
      auto loaded = load_workload(deployment.demand.trace, deployment.demand.rate_scale);
      if (loaded) {
        made.rps_by_minute = by_minute(*loaded);
        trace = *std::move(loaded);
      } else {
        // The location of an invalid row in the trace is more precise.
        core::Error error = loaded.error();
        error.what = error.where.empty() ? error.what : error.where + ": " + error.what;
        report(path + ".demand.trace", std::move(error));
      }
    }
    setup_.deployments.push_back(std::move(made));
    plan_load_tests(d, std::move(trace));
  }

  void plan_load_tests(std::size_t d, std::optional<workload::Workload> trace) {
    const AllocationDeployment& deployment = setup_.options.deployments[d];
    const std::size_t first = setup_.capacities.size();
    bool to_test = false;
    for (const AllocationPool& pool : deployment.pools) {
      setup_.capacities.push_back({deployment.name, pool.spec.name, pool.capacity.value_or(0.0), !pool.capacity});
      to_test = to_test || !pool.capacity;
    }
    const auto fleets = fleets_of(d);
    if (!to_test || !problems_.empty()) return;
    if (deployment.input_tokens > 0) {
      auto made = requests_of_shape(deployment);
      if (!made) return report(path_of(d) + ".shape.input", made.error());
      trace = *std::move(made);
    }
    PENSTOCK_ASSERT(trace.has_value(), "without a trace there is a shape");
    for (const auto& [pools, options] : fleets) {
      if (std::none_of(pools.begin(), pools.end(), [&](std::size_t p) { return !deployment.pools[p].capacity; }))
        continue;
      auto replay = std::make_shared<replay::ReplaySetup>(replay::ReplaySetup{{}, *trace, options, {}});
      for (std::size_t i = 0; i < pools.size(); ++i)
        if (!deployment.pools[pools[i]].capacity) tests_.push_back({replay, i, first + pools[i], path_of(d)});
    }
  }

  // Groups the pools that are simulated together: each aggregated pool alone, and prefill with decode. Checks every
  // engine.
  struct Fleet {
    std::vector<std::size_t> pools;
    simulation::RunOptions options;
  };
  std::vector<Fleet> fleets_of(std::size_t d) {
    const AllocationDeployment& deployment = setup_.options.deployments[d];
    std::vector<std::vector<std::size_t>> groups;
    std::vector<std::size_t> apart;
    for (std::size_t p = 0; p < deployment.pools.size(); ++p)
      if (deployment.pools[p].spec.role == signals::Role::kAggregated)
        groups.push_back({p});
      else
        apart.push_back(p);
    if (!apart.empty()) groups.push_back(apart);
    std::vector<Fleet> fleets;
    for (std::vector<std::size_t>& group : groups) {
      auto options = replay::make_run_options(run_of(deployment, group));
      if (options)
        fleets.push_back({std::move(group), *std::move(options)});
      else
        report(fmt::format("{}.pools[{}].engine", path_of(d), faulty_engine(deployment, group)), options.error());
    }
    return fleets;
  }

  static std::size_t faulty_engine(const AllocationDeployment& deployment, const std::vector<std::size_t>& group) {
    for (const std::size_t p : group)
      if (!replay::make_run_options(run_of(deployment, {p}))) return p;
    return group.front();
  }

  // Cuts all series to the length of the shortest trace. A given demand is constant.
  void even_out_series() {
    if (!setup_.options.has_traces()) return;
    std::size_t minutes = SIZE_MAX, shortest = 0;
    for (std::size_t d = 0; d < setup_.deployments.size(); ++d) {
      if (setup_.options.deployments[d].demand.trace.empty()) continue;
      if (setup_.deployments[d].rps_by_minute.size() < minutes) shortest = d;
      minutes = std::min(minutes, setup_.deployments[d].rps_by_minute.size());
    }
    const auto needed = 2 * static_cast<std::size_t>(setup_.options.every / std::chrono::minutes{1});
    if (minutes < needed)
      return report(path_of(shortest) + ".demand.trace",
                    {core::ErrorCode::kInvalidInput,
                     {},
                     fmt::format("must last two intervals, {} minutes, has {}", needed, minutes),
                     "plan more often with `every`, or take a longer trace"});
    for (std::size_t d = 0; d < setup_.deployments.size(); ++d)
      setup_.deployments[d].rps_by_minute.resize(minutes, setup_.options.deployments[d].demand.rps);
  }

  void run_load_tests() {
    std::vector<std::optional<core::Error>> errors(tests_.size());
    std::vector<replay::Task> tasks;
    for (std::size_t i = 0; i < tests_.size(); ++i)
      tasks.push_back({"load test " + setup_.capacities[tests_[i].figure].deployment, 1.0,
                       [this, i, &errors](const std::function<void(double)>&) -> core::Result<void> {
                         const auto found = replay::find_capacity(*tests_[i].replay, tests_[i].pool);
                         if (found)
                           setup_.capacities[tests_[i].figure].requests_per_s = found->capacity.requests_per_s;
                         else
                           errors[i] = found.error();
                         return {};
                       }});
    if (auto done = replay::run_tasks(tasks, jobs_, show_); !done) problems_.push_back(done.error());
    for (std::size_t i = 0; i < tests_.size(); ++i) {
      if (!errors[i]) continue;
      // The hint of the error refers to flags of another command.
      errors[i]->hint = "choose a looser slo or a faster engine, or give the pool its capacity";
      report(reading_.given(tests_[i].path + ".slo") ? tests_[i].path + ".slo" : tests_[i].path, *errors[i]);
    }
  }

  [[nodiscard]] global::DisaggregatedSide side(const AllocationPool& pool, double rps) const {
    return {{pool.spec.name, pool.hardware, pool.spec.gpus_per_replica},
            {pool.spec.min_replicas, pool.spec.max_replicas},
            rps};
  }

  void make_offers(std::size_t d) {
    const AllocationDeployment& deployment = setup_.options.deployments[d];
    global::ChangingDeployment& made = setup_.deployments[d];
    const PoolFigures* figures = setup_.capacities.data();
    for (std::size_t before = 0; before < d; ++before) figures += setup_.options.deployments[before].pools.size();
    std::optional<global::DisaggregatedSide> prefill, decode;
    core::Duration prefill_start{}, decode_start{};
    for (std::size_t p = 0; p < deployment.pools.size(); ++p) {
      const AllocationPool& pool = deployment.pools[p];
      const global::DisaggregatedSide of_one = side(pool, figures[p].requests_per_s);
      if (pool.spec.role == signals::Role::kAggregated) {
        made.deployment.offers.push_back(global::linear_offer(of_one.pool, of_one.range, of_one.rps_per_replica));
        made.start_up.push_back(pool.spec.start_up);
      } else {
        (pool.spec.role == signals::Role::kPrefill ? prefill : decode) = of_one;
        (pool.spec.role == signals::Role::kPrefill ? prefill_start : decode_start) = pool.spec.start_up;
      }
    }
    if (!prefill) return;
    auto offer = global::disaggregated_offer(*prefill, *decode);
    if (!offer) return report(path_of(d) + ".pools", offer.error());
    made.deployment.offers.push_back(*std::move(offer));
    made.start_up.push_back(prefill_start);
    made.start_up.push_back(decode_start);
  }

  const options::Reading& reading_;
  std::uint32_t jobs_;
  const std::function<void(const replay::TaskProgress&)>& show_;
  AllocationSetup setup_;
  std::vector<LoadTest> tests_;
  Problems problems_;
};

}  // namespace

tl::expected<AllocationSetup, Problems> prepare_allocation(
    AllocationOptions options, const options::Reading& reading, std::uint32_t jobs,
    const std::function<void(const replay::TaskProgress&)>& show) {
  return Preparing{std::move(options), reading, jobs, show}.run();
}

}  // namespace penstock::allocation
