#include "simulation/trials.h"

#include <algorithm>

#include "core/random.h"
#include "workload/transform.h"

namespace penstock::simulation {
namespace {

constexpr std::uint32_t kUnknownOutput = 256;  // tokens, as long as no request has ended
constexpr double kSameRate = 0.02;             // a factor nearer to 1 than this changes nothing

class Trials final : public planner::FleetTrials {
 public:
  Trials(const RunOptions& options, const TrialOptions& trials) : options_(without_limits(options)) {
    options_.slo_segments = signals::segments_by_name(options.slo_segments);
    for (const PoolSpec& pool : options_.pools) {
      profiles_.push_back(pool.step_time);
      engines_.push_back(pool.engine);
    }
    if (trials.step_time_factor != 1.0)
      for (auto& profile : profiles_) profile = engine::slowed(profile, trials.step_time_factor);
    correct({});
    options_.progress = nullptr;
    options_.details = false;
  }

  void load(const planner::TrialTraffic& traffic) override {
    workload_ = workload::Workload{};
    workload_.name = "trial";
    workload_.tenants = {std::string{signals::kGeneralTarget}};
    for (const signals::SegmentSlo& segment : options_.slo_segments) workload_.tenants.push_back(segment.name);
    workload_.block_tokens = options_.pools.front().engine.block_tokens;
    std::vector<std::uint32_t> lengths;
    for (const auto& request : traffic.requests)
      if (request.output_tokens > 0) lengths.push_back(request.output_tokens);
    core::RandomStream random{traffic.requests.size()};
    core::Instant start = core::kNever;
    for (const auto& request : traffic.requests) start = std::min(start, request.arrival);
    for (const auto& recent : traffic.requests) {
      workload::Request request;
      request.arrival = core::kStart + (recent.arrival - start);
      request.tenant = recent.target;
      request.input_tokens = recent.input_tokens;
      request.output_tokens = recent.output_tokens;
      // Without an objective for its end, it is judged as if it were streamed: its replica needs the same capacity.
      const signals::SloTarget& target =
          recent.target == 0 ? options_.slo : options_.slo_segments[recent.target - 1U].target;
      request.streamed = recent.streamed || !target.e2e;
      if (request.output_tokens == 0)
        request.output_tokens = lengths.empty() ? kUnknownOutput : lengths[random.below(lengths.size())];
      request.first_block = static_cast<std::uint32_t>(workload_.block_ids.size());
      request.block_count = static_cast<std::uint32_t>(recent.block_ids.size());
      workload_.block_ids.insert(workload_.block_ids.end(), recent.block_ids.begin(), recent.block_ids.end());
      workload_.requests.push_back(request);
    }
    options_.judged_from = core::kStart + std::max(core::Duration{}, traffic.judged_from - start);
    if (std::abs(traffic.rate_factor - 1.0) < kSameRate || workload_.requests.empty()) return;
    auto scaled = workload::scale_rate(workload_, traffic.rate_factor, 1);
    if (scaled && !scaled->requests.empty()) workload_ = *std::move(scaled);
  }

  [[nodiscard]] planner::TrialOutcome attempt(std::span<const std::uint32_t> replicas) override {
    planner::TrialOutcome outcome;
    if (workload_.requests.empty()) return outcome;
    for (std::size_t i = 0; i < options_.pools.size(); ++i) {
      PoolSpec& pool = options_.pools[i];
      pool.replicas = pool.min_replicas = pool.max_replicas = replicas[i];
    }
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
  RunOptions options_;
  std::vector<std::shared_ptr<const engine::StepTimeModel>> profiles_;  // by pool, as the planner was given them
  std::vector<engine::EngineConfig> engines_;                           // likewise
  workload::Workload workload_;
};

}  // namespace

std::unique_ptr<planner::FleetTrials> make_trials(const RunOptions& options, const TrialOptions& trials) {
  return std::make_unique<Trials>(options, trials);
}

}  // namespace penstock::simulation
