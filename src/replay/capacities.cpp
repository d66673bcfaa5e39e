#include "replay/capacities.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "options/scalars.h"
#include "report/format.h"

namespace penstock::replay {
namespace {

constexpr std::size_t kIdleRequests = 200;
constexpr core::Duration kIdleGap = std::chrono::hours{1};  // Longer than any request.
constexpr double kLeastAttainment = 0.5;                    // Below this share a load test is meaningless.
constexpr double kFullAttainment = 0.95;                    // The goal of a load test.

// Selects requests across the workload and separates them so far that each runs alone.
workload::Workload one_by_one(const workload::Workload& from) {
  workload::Workload made;
  made.name = from.name;
  made.block_ids = from.block_ids;
  made.block_tokens = from.block_tokens;
  made.tenants = from.tenants;
  const std::size_t count = std::min(kIdleRequests, from.requests.size());
  for (std::size_t i = 0; i < count; ++i) {
    made.requests.push_back(from.requests[i * from.requests.size() / count]);
    made.requests.back().arrival = core::kStart + static_cast<std::int64_t>(i) * kIdleGap;
  }
  return made;
}

// Returns the SLO attainment of requests that run alone, which no rate exceeds.
core::Result<double> idle_attainment(const ReplaySetup& setup) {
  simulation::RunOptions options = setup.options;
  options.faults = {};
  options.series_points = 1;
  options.judged_from = core::kStart;
  for (simulation::PoolSpec& pool : options.pools) pool.replicas = pool.min_replicas = pool.max_replicas = 1;
  auto still = planner::make_policy("static", {});
  if (!still) return tl::make_unexpected(still.error());
  const auto result = simulation::run(one_by_one(setup.workload), **still, options);
  if (!result) return tl::make_unexpected(result.error());
  return result->slo_attainment;
}

std::string describe(const planner::ReplicaCapacity& capacity) {
  using report::format_quantity;
  return fmt::format("{} requests/s, {} prompt and {} output tokens/s, {} in flight",
                     format_quantity(capacity.requests_per_s), format_quantity(capacity.input_tokens_per_s),
                     format_quantity(capacity.output_tokens_per_s), format_quantity(capacity.concurrency));
}

struct KnownFigure {
  std::string_view name;
  std::optional<double> value;
  bool planner::CapacityNeeds::*is_needed;
};

std::array<KnownFigure, 4> figures_of(const configuration::KnownCapacity& known) {
  using planner::CapacityNeeds;
  return {KnownFigure{"requests_per_s", known.requests_per_s, &CapacityNeeds::requests_per_s},
          {"input_tokens_per_s", known.input_tokens_per_s, &CapacityNeeds::input_tokens_per_s},
          {"output_tokens_per_s", known.output_tokens_per_s, &CapacityNeeds::output_tokens_per_s},
          {"concurrency", known.concurrency, &CapacityNeeds::concurrency}};
}

void take_known(const configuration::KnownCapacity& known, planner::ReplicaCapacity& capacity) {
  capacity.requests_per_s = known.requests_per_s.value_or(capacity.requests_per_s);
  capacity.input_tokens_per_s = known.input_tokens_per_s.value_or(capacity.input_tokens_per_s);
  capacity.output_tokens_per_s = known.output_tokens_per_s.value_or(capacity.output_tokens_per_s);
  capacity.concurrency = known.concurrency.value_or(capacity.concurrency);
}

using decision::Policy;

// Combines one instance of a policy per pool, each with the figures of its pool. Every instance observes all pools, and
// only its decision on its own pool counts.
class PolicyForEachPool final : public Policy {
 public:
  explicit PolicyForEachPool(std::vector<std::unique_ptr<Policy>> policies) : policies_(std::move(policies)) {}

  [[nodiscard]] std::string_view name() const override { return policies_.front()->name(); }
  [[nodiscard]] core::Duration interval() const override { return policies_.front()->interval(); }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
    decision::Decision joined;
    for (std::size_t i = 0; i < policies_.size(); ++i) {
      decision::Decision decision = policies_[i]->decide(observation);
      PENSTOCK_ASSERT(i < decision.pools.size(), "a policy decides on every pool that it sees");
      joined.pools.push_back(std::move(decision.pools[i]));
    }
    return joined;
  }
  void archive(core::StateArchive& state) override {
    for (const auto& policy : policies_) policy->archive(state);
  }

 private:
  std::vector<std::unique_ptr<Policy>> policies_;
};

}  // namespace

std::vector<std::pair<std::string, double>> figures_of(const planner::ReplicaCapacity& capacity) {
  configuration::KnownCapacity known;
  known.requests_per_s = capacity.requests_per_s;
  known.input_tokens_per_s = capacity.input_tokens_per_s;
  known.output_tokens_per_s = capacity.output_tokens_per_s;
  known.concurrency = capacity.concurrency;
  std::vector<std::pair<std::string, double>> figures;
  for (const KnownFigure& figure : figures_of(known)) figures.emplace_back(figure.name, *figure.value);
  return figures;
}

double idle_prompt_tokens_per_s(const simulation::PoolSpec& pool) {
  constexpr std::uint64_t kPrompt = 8192;
  core::Duration time{};
  for (std::uint64_t before = 0; before < kPrompt;) {
    const std::uint64_t fresh = std::min<std::uint64_t>(kPrompt - before, std::max(1U, pool.engine.max_batched_tokens));
    engine::StepShape shape;
    shape.prefill_requests = 1;
    shape.prefill_new_tokens = fresh;
    shape.prefill_context_tokens = before;
    const auto computed = static_cast<double>(fresh);
    shape.prefill_attention_pairs = computed * (static_cast<double>(before) + (computed + 1.0) / 2.0);
    shape.active_kv_tokens = before + fresh;
    shape.total_kv_tokens =
        std::max(shape.active_kv_tokens, std::uint64_t{pool.engine.kv_blocks} * pool.engine.block_tokens);
    time += pool.step_time->step(shape);
    before += fresh;
  }
  return static_cast<double>(kPrompt) / core::to_seconds(time);
}

core::Result<PoolCapacity> find_capacity(const ReplaySetup& setup, std::size_t pool) {
  const configuration::KnownCapacity& known = setup.configuration.capacity;
  const simulation::PoolSpec& spec = setup.options.pools[pool];
  const std::string whose = setup.options.pools.size() == 1 ? "one replica" : fmt::format("one {} replica", spec.name);
  const bool all_known =
      known.requests_per_s && known.input_tokens_per_s && known.output_tokens_per_s && known.concurrency;
  PoolCapacity found;
  std::string source = "as given";
  if (!all_known) {
    const auto idle = idle_attainment(setup);
    if (!idle) return tl::make_unexpected(idle.error());
    if (*idle < kLeastAttainment)
      return core::invalid_input(
          "--slo",
          fmt::format("TTFT {} and ITL {} are beyond {}: idle, it keeps them for {} of the requests, so that there "
                      "is no capacity to tell the policies",
                      options::format_duration(setup.options.slo.ttft), options::format_duration(setup.options.slo.itl),
                      whose, report::format_share(*idle)),
          "choose a looser SLO or a faster engine, give the capacity with --capacity, or choose policies that need "
          "none");
    auto probed = simulation::probe_capacity(setup.workload, spec, setup.options);
    if (!probed) return tl::make_unexpected(probed.error());
    found.capacity = *probed;
    source = "load-tested in simulation";
    for (const KnownFigure& figure : figures_of(known))
      if (figure.value) source += fmt::format(", {} as given", figure.name);
    if (*idle < kFullAttainment) source += fmt::format("; idle, it keeps the SLO for {}", report::format_share(*idle));
  }
  take_known(known, found.capacity);
  found.note = fmt::format("capacity of {} ({}): {}", whose, source, describe(found.capacity));
  return found;
}

core::Result<PoolCapacity> known_capacity(const configuration::KnownCapacity& known, std::string_view policy) {
  const planner::CapacityNeeds needs = planner::capacity_needs(policy);
  std::vector<std::string_view> missing;
  for (const KnownFigure& figure : figures_of(known))
    if (needs.*figure.is_needed && !figure.value) missing.push_back(figure.name);
  if (!missing.empty())
    return core::invalid_input("capacity",
                               fmt::format("the policy {} has to know what one replica carries, and lacks {}", policy,
                                           fmt::join(missing, ", ")),
                               "give them here or with --capacity (`penstock replay` on your traffic finds them), or "
                               "take the policy penstock");
  PoolCapacity made;
  take_known(known, made.capacity);
  return made;
}

core::Result<std::unique_ptr<Policy>> make_policy_with(std::span<const PoolCapacity> capacities, std::string_view name,
                                                       const simulation::RunOptions& options) {
  std::vector<std::unique_ptr<Policy>> policies;
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    const engine::EngineConfig& engine = options.pools[i].engine;
    planner::PolicyContext context;
    context.capacity = capacities[i].capacity;
    context.slo = options.slo;
    context.max_batched_tokens = engine.max_batched_tokens;
    context.max_sequences = engine.max_sequences;
    context.idle_prompt_tokens_per_s = idle_prompt_tokens_per_s(options.pools[i]);
    auto policy = planner::make_policy(name, context);
    if (!policy) return policy;
    policies.push_back(*std::move(policy));
  }
  if (policies.size() == 1) return std::move(policies.front());
  return std::make_unique<PolicyForEachPool>(std::move(policies));
}

}  // namespace penstock::replay
