#include "simulation/trials.h"

#include <algorithm>
#include <cmath>

#include "dispatch/options.h"
#include "workload/transform.h"

namespace penstock::simulation {
namespace {

// Deferred requests wait for spare capacity this long in a trial at most, which is less than its warm-up. Their
// arrivals are spread (see DeferredTraffic), so that a fleet that keeps up sends them within this time.
constexpr core::Duration kSpareWaitMost = std::chrono::seconds{20};

constexpr double kSameRate = 0.02;  // a factor nearer to 1 than this changes nothing

// The gateway waits for engines that are full, with any tenant, so that this belongs to what a fleet can carry. What
// waits for limits of a tenant or a class is no demand for replicas.
RunOptions trial_options(RunOptions options) {
  options.faults = {};
  for (PoolSpec& pool : options.pools) {
    pool.min_asleep = 0;
    pool.overflow = false;  // Each pool is sized for its own requests.
  }
  if (options.router != routing::Strategy::kLive && !options.dispatch) return options;
  const dispatch::DispatchOptions given = options.dispatch.value_or(dispatch::DispatchOptions{});
  dispatch::DispatchOptions made = dispatch::unlimited_options();
  made.pressure = given.pressure;
  made.picker = given.picker;
  made.picker.slow_start = {};  // No replica is new.
  made.interactive.queue_time = given.interactive.queue_time;
  made.interactive.overload = given.interactive.overload;
  made.interactive.degrade = given.interactive.degrade;
  made.batch.completion_window = given.batch.completion_window;
  made.batch.defer_load = given.batch.defer_load;
  made.batch.spare_wait_most = kSpareWaitMost;
  options.dispatch = std::move(made);
  return options;
}

class Trials final : public planner::FleetTrials {
 public:
  Trials(const RunOptions& options, const TrialOptions& trials) : options_(trial_options(options)) {
    options_.slo_segments = signals::segments_by_name(options.slo_segments);
    for (const PoolSpec& pool : options_.pools) {
      profiles_.push_back(pool.step_time);
      engines_.push_back(pool.engine);
    }
    if (trials.step_time_factor != 1.0)
      for (auto& profile : profiles_) profile = engine::slowed(profile, trials.step_time_factor);
    correct({});
    own_pools_ = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(pool_rules(options_.pools).size()));
    options_.pools_by_priority = own_pools_ > 1;
    options_.progress = nullptr;
    options_.details = false;
  }

  void load(const planner::TrialTraffic& traffic) override {
    clear_workload();
    workload_.tenants = {std::string{signals::kGeneralTarget}};
    for (const signals::SegmentSlo& segment : options_.slo_segments) workload_.tenants.push_back(segment.name);
    workload_.block_tokens = options_.pools.front().engine.block_tokens;
    core::Instant start = traffic.from.value_or(core::kNever);
    if (!traffic.from)
      for (const auto& request : traffic.requests) start = std::min(start, request.arrival);
    const core::Duration cached_for =
        traffic.earlier.empty() ? core::Duration{} : start - traffic.earlier.front().arrival;
    for (const auto& recent : traffic.earlier)
      add(recent.arrival + cached_for - start, recent.input_tokens, 1, recent.block_ids, recent.target, recent.pool);
    for (const auto& recent : traffic.requests) {
      add(std::max(start, recent.arrival) + cached_for - start, recent.input_tokens, recent.output_tokens,
          recent.block_ids, recent.target, recent.pool);
      workload_.requests.back().expected_output_tokens = recent.expected_output_tokens;
      // Without an objective for its end, it is judged as if it were streamed: its replica needs the same capacity.
      const signals::SloTarget& target =
          recent.target == 0 ? options_.slo : options_.slo_segments[recent.target - 1U].target;
      workload_.requests.back().streamed = recent.streamed || !target.e2e;
      if (recent.completion_window > core::Duration{})
        workload_.requests.back().traffic_class = workload::TrafficClass::kBatch;
    }
    options_.judged_from = core::kStart + std::max(core::Duration{}, traffic.judged_from - start);
    options_.judged_until =
        traffic.judged_until == core::kNever ? core::kNever : core::kStart + (traffic.judged_until - start);
    if (std::abs(traffic.rate_factor - 1.0) >= kSameRate && !workload_.requests.empty()) {
      auto scaled = workload::scale_rate(workload_, traffic.rate_factor, 1);
      if (scaled && !scaled->requests.empty()) workload_ = *std::move(scaled);
    }
    take_earlier(cached_for);
    add_running(traffic);
  }

  [[nodiscard]] planner::TrialOutcome attempt(std::span<const std::uint32_t> replicas) override {
    planner::TrialOutcome outcome;
    if (workload_.requests.empty()) return outcome;
    for (std::size_t i = 0; i < options_.pools.size(); ++i) {
      PoolSpec& pool = options_.pools[i];
      pool.replicas = pool.min_replicas = pool.max_replicas = replicas[i];
    }
    options_.cached = cached();
    auto still = planner::make_policy("static", {});
    const auto result = run(workload_, **still, options_);
    PENSTOCK_ASSERT(result.has_value(), "a trial is a deployment that was already run");
    const auto requests = static_cast<double>(result->requests);
    outcome.all = {requests, result->slo_attainment * requests};
    outcome.ttft = {requests, result->ttft_attainment * requests};
    outcome.itl = {requests, result->itl_attainment * requests};
    if (options_.slo_segments.empty()) return outcome;
    for (const decision::TargetResult& target : result->targets)
      outcome.targets.push_back({static_cast<double>(target.requests), static_cast<double>(target.met)});
    return outcome;
  }

  void correct(std::span<const planner::EngineCorrection> engines) override {
    for (std::size_t i = 0; i < profiles_.size(); ++i) {
      const planner::EngineCorrection learned = i < engines.size() ? engines[i] : planner::EngineCorrection{};
      PoolSpec& pool = options_.pools[i];
      pool.step_time = engine::slowed(profiles_[i], learned.step_time);
      pool.engine = engines_[i];
      if (learned.max_sequences) pool.engine.max_sequences = *learned.max_sequences;
      if (learned.kv_tokens)
        pool.engine.kv_blocks = static_cast<std::uint32_t>(
            std::clamp<std::uint64_t>(*learned.kv_tokens / pool.engine.block_tokens, 1, UINT32_MAX));
    }
  }

 private:
  // Keeps the memory of the blocks, of which there are many.
  void clear_workload() {
    std::vector<std::uint32_t> block_ids = std::move(workload_.block_ids);
    block_ids.clear();
    workload_ = workload::Workload{};
    workload_.name = "trial";
    workload_.block_ids = std::move(block_ids);
  }

  void add(core::Duration at, std::uint32_t input_tokens, std::uint32_t output_tokens,
           std::span<const std::uint32_t> block_ids, std::uint8_t target, std::uint8_t pool) {
    workload::Request request;
    request.arrival = core::kStart + at;
    request.tenant = target;
    // All requests of a pool have the same priority, so that it changes nothing in the engines.
    request.priority = static_cast<std::int8_t>(std::min<std::uint32_t>(pool, own_pools_ - 1));
    request.input_tokens = input_tokens;
    request.output_tokens = std::clamp(room_for(input_tokens), 1U, std::max(1U, output_tokens));
    request.first_block = static_cast<std::uint32_t>(workload_.block_ids.size());
    request.block_count = static_cast<std::uint32_t>(block_ids.size());
    workload_.block_ids.insert(workload_.block_ids.end(), block_ids.begin(), block_ids.end());
    workload_.requests.push_back(request);
  }

  // The requests that arrived within this time are earlier ones, of which only the prompts matter.
  void take_earlier(core::Duration cached_for) {
    const core::Instant start = core::kStart + cached_for;
    auto& requests = workload_.requests;
    const auto first = std::partition_point(requests.begin(), requests.end(),
                                            [&](const workload::Request& request) { return request.arrival < start; });
    earlier_.assign(requests.begin(), first);
    requests.erase(requests.begin(), first);
    for (workload::Request& request : requests) request.arrival -= cached_for;
  }

  [[nodiscard]] std::vector<CachedPrompt> cached() const {
    const auto entry =
        std::ranges::find_if(options_.pools, [](const PoolSpec& pool) { return pool.role != signals::Role::kDecode; });
    const auto entry_pool = static_cast<std::uint32_t>(entry - options_.pools.begin());
    std::vector<EarlierPrompt> prompts;
    for (const workload::Request& request : earlier_) {
      const auto blocks = workload_.blocks_of(request);
      const std::size_t full = std::min<std::size_t>(blocks.size(), request.input_tokens / workload_.block_tokens);
      prompts.push_back(
          {own_pools_ > 1 ? static_cast<std::uint32_t>(request.priority) : entry_pool, blocks.first(full)});
    }
    return place_prompts(prompts, options_.pools);
  }

  // Every request, or its share at the rate of the traffic, in front of those that arrive.
  void add_running(const planner::TrialTraffic& traffic) {
    options_.running = 0;
    if (workload_.requests.empty()) return;
    std::vector<workload::Request> arriving;
    arriving.swap(workload_.requests);
    double share = 0.0;
    for (const planner::RunningRequest& running : traffic.running) {
      if (room_for(running.context_tokens) < 2 || running.output_tokens == 0) continue;
      std::span<const std::uint32_t> block_ids = running.block_ids;
      for (share += traffic.running_factor; share >= 1.0; share -= 1.0) {
        add({}, running.context_tokens, running.output_tokens + 1, block_ids, running.target, running.pool);
        workload_.requests.back().expected_output_tokens = running.expected_output_tokens;
        block_ids = {};  // Another copy has a prompt of its own.
      }
    }
    options_.running = static_cast<std::uint32_t>(workload_.requests.size());
    workload_.requests.insert(workload_.requests.end(), arriving.begin(), arriving.end());
  }

  // Longest output after this prompt that every pool can hold, or one of several aggregated pools.
  [[nodiscard]] std::uint32_t room_for(std::uint32_t input_tokens) const {
    const bool one_is_enough = own_pools_ > 1;
    std::uint64_t room = one_is_enough ? 0 : UINT32_MAX;
    for (const PoolSpec& pool : options_.pools) {
      const std::uint64_t blocks =
          pool.engine.kv_blocks - std::min(pool.engine.kv_blocks, pool.engine.watermark_blocks());
      const std::uint64_t tokens = blocks * pool.engine.block_tokens;
      const std::uint64_t left = tokens > input_tokens ? tokens - input_tokens : 0;
      room = one_is_enough ? std::max(room, left) : std::min(room, left);
    }
    return static_cast<std::uint32_t>(room);
  }

  RunOptions options_;
  std::vector<std::shared_ptr<const engine::StepTimeModel>> profiles_;  // by pool, as the planner was given them
  std::vector<engine::EngineConfig> engines_;                           // likewise
  std::uint32_t own_pools_ = 1;                                         // Pools that have requests of their own.
  workload::Workload workload_;
  std::vector<workload::Request> earlier_;  // Their prompts are in the workload, too.
};

}  // namespace

std::unique_ptr<planner::FleetTrials> make_trials(const RunOptions& options, const TrialOptions& trials) {
  return std::make_unique<Trials>(options, trials);
}

}  // namespace penstock::simulation
