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
  Trials(const RunOptions& options, const TrialOptions& trials) : options_(options) {
    options_.faults = {};
    if (trials.step_time_factor != 1.0) {  // every replica is as slow, or as fast, as the profile says
      options_.faults.slow_replicas = UINT32_MAX;
      options_.faults.slow_factor = trials.step_time_factor;
    }
    options_.progress = nullptr;
    options_.series_points = 1;
  }

  void load(const planner::TrialTraffic& traffic) override {
    workload_ = workload::Workload{};
    workload_.name = "trial";
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
      request.input_tokens = recent.input_tokens;
      request.output_tokens = recent.output_tokens;
      if (request.output_tokens == 0)
        request.output_tokens = lengths.empty() ? kUnknownOutput : lengths[random.below(lengths.size())];
      request.first_block = static_cast<std::uint32_t>(workload_.block_ids.size());
      request.block_count = static_cast<std::uint32_t>(recent.block_ids.size());
      workload_.block_ids.insert(workload_.block_ids.end(), recent.block_ids.begin(), recent.block_ids.end());
      workload_.requests.push_back(request);
    }
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
    outcome.requests = result->requests;
    outcome.slo_attainment = result->slo_attainment;
    outcome.ttft_attainment = result->ttft_attainment;
    outcome.itl_attainment = result->itl_attainment;
    return outcome;
  }

 private:
  RunOptions options_;
  workload::Workload workload_;
};

}  // namespace

std::unique_ptr<planner::FleetTrials> make_trials(const RunOptions& options, const TrialOptions& trials) {
  return std::make_unique<Trials>(options, trials);
}

}  // namespace penstock::simulation
