#include "planner/global/mixes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace penstock::planner::global {
namespace {

class Mixer {
 public:
  explicit Mixer(const MixInput& input) : input_(input), deployment_(input.deployment) {}

  core::Result<std::vector<Mix>> run() {
    steps_.assign(deployment_.offers.size(), 0);
    tried_ = 0;
    if (!from(0, 0.0) || mixes_.size() > kMixesMax)
      return core::invalid_input(deployment_.name + ".offers",
                                 fmt::format("more than {} combinations of their steps", kMixesMax),
                                 "declare fewer kinds of hardware for it, or larger steps");
    std::sort(mixes_.begin() + 1, mixes_.end(),
              [](const Mix& a, const Mix& b) { return a.cost != b.cost ? a.cost < b.cost : a.steps < b.steps; });
    return std::move(mixes_);
  }

 private:
  [[nodiscard]] double carried(std::size_t offer, std::uint32_t step) const {
    return deployment_.offers[offer].steps[step].carried_rps;
  }

  // Enumerates the steps of the offers from this one on, with the earlier ones fixed. Once the demand is served,
  // further steps of an offer are skipped. Returns false if there are too many.
  bool from(std::size_t offer, double carried_before) {
    if (offer == deployment_.offers.size()) {
      if (mixes_.empty() || !wasteful()) mixes_.push_back(mix_at(input_, steps_));
      return mixes_.size() <= kMixesMax;
    }
    for (std::uint32_t step = 0; step < deployment_.offers[offer].steps.size(); ++step) {
      if (++tried_ > kMixesTriedMax) return false;
      steps_[offer] = step;
      const double so_far = carried_before + carried(offer, step);
      if (!from(offer + 1, so_far)) return false;
      if (so_far >= deployment_.demand_rps) break;
    }
    return true;
  }

  [[nodiscard]] double kept(double rps) const { return std::min(rps, deployment_.demand_rps); }

  // Returns true if one offer could be a step lower at the same traffic.
  [[nodiscard]] bool wasteful() const {
    double all = 0.0;
    for (std::size_t o = 0; o < steps_.size(); ++o) all += carried(o, steps_[o]);
    for (std::size_t o = 0; o < steps_.size(); ++o) {
      if (steps_[o] == 0) continue;
      double less = 0.0;  // Summed in the same order, so that equal sums are equal in floating point.
      for (std::size_t i = 0; i < steps_.size(); ++i) less += carried(i, i == o ? steps_[i] - 1 : steps_[i]);
      if (kept(less) >= kept(all)) return true;
    }
    return false;
  }

  const MixInput& input_;
  const Deployment& deployment_;
  std::vector<std::uint32_t> steps_;
  std::vector<Mix> mixes_;
  std::size_t tried_ = 0;
};

}  // namespace

Mix mix_at(const MixInput& input, std::vector<std::uint32_t> steps) {
  Mix mix{std::move(steps), 0.0, std::vector<double>(input.prices.size(), 0.0), 0.0};
  for (std::size_t o = 0; o < mix.steps.size(); ++o) {
    const Offer& offer = input.deployment.offers[o];
    const Step& step = offer.steps[mix.steps[o]];
    mix.carried_rps += step.carried_rps;
    for (std::size_t p = 0; p < offer.pools.size(); ++p) {
      const std::size_t kind = input.kind_of[o][p];
      const double gpus = static_cast<double>(offer.pools[p].gpus_per_replica) * step.replicas[p];
      mix.gpus[kind] += gpus;
      mix.cost += gpus * input.prices[kind];
    }
  }
  mix.carried_rps = std::min(mix.carried_rps, input.deployment.demand_rps);
  return mix;
}

core::Result<std::vector<Mix>> mixes_of(const MixInput& input) { return Mixer(input).run(); }

}  // namespace penstock::planner::global
