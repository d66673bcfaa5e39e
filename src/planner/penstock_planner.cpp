#include "planner/penstock_planner.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

namespace penstock::planner {
namespace {

constexpr core::Duration kInterval = std::chrono::seconds{5};

using Fleet = std::vector<std::uint32_t>;  // replicas by pool

core::Duration start_up_of(const signals::Observation& observation) {
  core::Duration longest{};
  for (const signals::PoolObservation& pool : observation.pools) longest = std::max(longest, pool.start_up);
  return longest;
}

// What a search came to, and the numbers behind it.
struct Plan {
  Fleet fleet;
  double attainment = 1.0;  // of that fleet in its trial
  double one_less = 1.0;    // of the fleet with one replica less in its last pool
  double best = 1.0;        // of a fleet so large that more changes nothing
  std::uint64_t requests = 0;
  double stressed = 1.0;  // of the fleet that the traffic itself needs, at a higher rate
  double rate = 0.0;      // requests a second that it was tried on …
  double growth = 1.0;    // … at so many times their rate
  std::vector<Candidate> tried;
};

// Finds the cheapest fleet that keeps the goal on the traffic that is loaded, by trials that are remembered.
class Search {
 public:
  Search(FleetTrials& trials, const signals::Observation& observation, double goal)
      : trials_(trials), observation_(observation), goal_(goal) {}

  Plan run(const Fleet& from) {
    Plan plan;
    plan.fleet = large_enough(from);
    const TrialOutcome best = attempt(plan.fleet);
    plan.best = best.slo_attainment;
    plan.requests = best.requests;
    // Each pool in turn gets as small as it can while those after it are still large. What may be missed is shared out.
    const auto pools = static_cast<double>(from.size());
    for (std::size_t pool = 0; pool < from.size(); ++pool) {
      const double share = static_cast<double>(pool + 1) / pools;
      const double goal = plan.best * (1.0 - share * (1.0 - goal_));
      // Between the fleet there is and one replica less or more, half a standard deviation of the misses decides for
      // the fleet there is.
      const double doubt =
          0.5 * std::sqrt(goal * (1.0 - goal) / static_cast<double>(std::max<std::uint64_t>(1, best.requests)));
      smallest(plan.fleet, pool, from[pool], goal, doubt);
    }
    plan.attainment = attempt(plan.fleet).slo_attainment;
    Fleet less = plan.fleet;
    if (less.back() > std::max(1U, observation_.pools.back().min_replicas)) {
      --less.back();
      plan.one_less = attempt(less).slo_attainment;
    }
    for (Candidate& candidate : tried_) candidate.chosen = candidate.replicas == plan.fleet;
    plan.tried = std::move(tried_);
    return plan;
  }

 private:
  TrialOutcome attempt(const Fleet& fleet) {
    const auto known = outcomes_.find(fleet);
    if (known != outcomes_.end()) return known->second;
    const TrialOutcome outcome = trials_.attempt(fleet);
    tried_.push_back({fleet, outcome.slo_attainment, outcome.ttft_attainment, outcome.itl_attainment, false});
    return outcomes_.emplace(fleet, outcome).first->second;
  }

  // Doubles until doubling gains nothing.
  Fleet large_enough(const Fleet& from) {
    const auto grown = [&](const Fleet& fleet) {
      Fleet more = fleet;
      for (std::size_t i = 0; i < more.size(); ++i)
        more[i] = std::clamp(2 * more[i], 1U, std::max(1U, observation_.pools[i].max_replicas));
      return more;
    };
    Fleet large = grown(from);
    for (double kept = attempt(large).slo_attainment;;) {
      const Fleet more = grown(large);
      if (more == large || kept > kAllKept) return large;
      const double gained = attempt(more).slo_attainment - kept;
      if (gained < kGain) return large;
      large = more;
      kept += gained;
    }
  }

  // Lowers fleet[pool] to the least that keeps the goal.
  void smallest(Fleet& fleet, std::size_t pool, std::uint32_t guess, double goal, double doubt) {
    const auto keeps = [&, there_is = guess](std::uint32_t replicas) {
      Fleet tried = fleet;
      tried[pool] = replicas;
      return attempt(tried).slo_attainment >= (replicas < there_is ? goal + doubt : goal - doubt);
    };
    const std::uint32_t least = std::max(1U, observation_.pools[pool].min_replicas);
    std::uint32_t enough = fleet[pool], short_of = least - 1;  // what keeps the goal, what does not or is not allowed
    if (enough <= least) return;
    // Steps away from the guess double until the answer lies between two of them: most of the time it is near.
    guess = std::clamp(guess, least, enough - 1);
    if (keeps(guess)) {
      enough = guess;
      for (std::uint32_t step = 1; enough > least; step *= 2) {
        const std::uint32_t next = enough > least + step ? enough - step : least;
        if (!keeps(next)) {
          short_of = next;
          break;
        }
        enough = next;
      }
    } else {
      short_of = guess;
      for (std::uint32_t step = 1; short_of + step < enough; step *= 2) {
        if (keeps(short_of + step)) {
          enough = short_of + step;
          break;
        }
        short_of += step;
      }
    }
    while (enough - short_of > 1) {
      const std::uint32_t middle = short_of + (enough - short_of) / 2;
      (keeps(middle) ? enough : short_of) = middle;
    }
    fleet[pool] = enough;
  }

  static constexpr double kAllKept = 0.999;
  static constexpr double kGain = 0.005;

  FleetTrials& trials_;
  const signals::Observation& observation_;
  double goal_;
  std::map<Fleet, TrialOutcome> outcomes_;
  std::vector<Candidate> tried_;
};

class PenstockPlanner final : public Policy {
 public:
  PenstockPlanner(std::shared_ptr<FleetTrials> trials, const signals::SloTarget& slo, const PlannerOptions& options)
      : trials_(std::move(trials)), slo_(slo), options_(options) {}

  [[nodiscard]] std::string_view name() const override { return "penstock"; }
  [[nodiscard]] core::Duration interval() const override { return kInterval; }
  [[nodiscard]] core::Duration memory() const override { return options_.memory; }

  [[nodiscard]] Decision decide(const signals::Observation& observation) override {
    guardrails_.resize(observation.pools.size(), Guardrails{options_.guardrails});
    const core::Instant now = observation.now;
    if (!outlook_) outlook_.emplace(options_.rate, options_.memory, start_up_of(observation) + options_.plan_every);
    outlook_->observe(now, observation.pools.front().arrivals_total);
    note_changes(observation);
    if (now >= next_plan_) {
      if (auto made = plan(observation, options_.memory)) {
        plan_ = std::move(made);
        check_trials(observation);
        next_plan_ = now + options_.plan_every;
      }
    }
    const bool trouble = in_trouble(observation);
    if (trouble && now >= next_reaction_) {
      reaction_ = plan(observation, options_.react_memory);
      next_reaction_ = now + options_.react_every;
    }
    if (!trouble) reaction_.reset();

    Decision decision;
    for (std::size_t i = 0; i < observation.pools.size(); ++i)
      decision.pools.push_back(guardrails_[i].apply(now, observation.pools[i], propose(observation.pools[i], i)));
    if (const Plan* plan = reaction_ ? &*reaction_ : plan_ ? &*plan_ : nullptr) decision.candidates = plan->tried;
    return decision;
  }

 private:
  [[nodiscard]] bool in_trouble(const signals::Observation& observation) const {
    for (const signals::PoolObservation& pool : observation.pools) {
      if (pool.unrouted_requests > 0) return true;
      for (const signals::ReplicaObservation& replica : pool.replicas)
        if (replica.sample && replica.sample->oldest_queued_age > slo_.ttft / 2) return true;
      const signals::TrafficWindow& traffic = pool.last_minute;
      if (traffic.ttft.count > 0 && traffic.ttft.p95_ms > core::to_milliseconds(slo_.ttft)) return true;
      if (traffic.itl.count > 0 && traffic.itl.p95_ms > core::to_milliseconds(slo_.itl)) return true;
    }
    return false;
  }

  void note_changes(const signals::Observation& observation) {
    Fleet ready;
    for (const signals::PoolObservation& pool : observation.pools) ready.push_back(pool.ready);
    if (ready == ready_) return;
    ready_ = std::move(ready);
    ready_since_ = observation.now;
  }

  // Whether a request kept the SLO as far as one can tell by now.
  [[nodiscard]] bool met_slo(const signals::RecentRequest& request, core::Instant now) const {
    const double ttft_ms =
        request.ttft_ms >= 0.0F ? static_cast<double>(request.ttft_ms) : core::to_milliseconds(now - request.arrival);
    return ttft_ms <= core::to_milliseconds(slo_.ttft) &&
           static_cast<double>(request.itl_ms) <= core::to_milliseconds(slo_.itl);
  }

  // Compares what the fleet did with what its trial says it would have done.
  void check_trials(const signals::Observation& observation) {
    const core::Instant now = observation.now;
    if (ready_since_ > now - options_.check_memory) return;
    const auto requests = latest(observation, options_.check_memory);
    if (requests.size() < options_.requests_min || std::find(ready_.begin(), ready_.end(), 0U) != ready_.end()) return;
    std::size_t met = 0;
    for (const signals::RecentRequest& request : requests) met += met_slo(request, now) ? 1 : 0;
    const double observed = static_cast<double>(met) / static_cast<double>(requests.size());
    trials_->load({requests, 1.0});
    const double promised = trials_->attempt(ready_).slo_attainment;
    const double doubt = std::sqrt(promised * (1.0 - promised) / static_cast<double>(requests.size()));
    if (observed < promised - 2.0 * doubt - 0.5 * (1.0 - options_.goal))
      bias_ = std::min(options_.bias_max, bias_ + options_.bias_step);
    else
      bias_ = std::max(0.0, bias_ - 0.1 * options_.bias_step);
  }

  [[nodiscard]] std::span<const signals::RecentRequest> latest(const signals::Observation& observation,
                                                               core::Duration memory) const {
    const auto all = observation.recent;
    const auto first = std::partition_point(all.begin(), all.end(), [&](const signals::RecentRequest& request) {
      return request.arrival <= observation.now - memory;
    });
    const auto requests = all.subspan(static_cast<std::size_t>(first - all.begin()));
    return requests.size() > options_.requests_max ? requests.last(options_.requests_max) : requests;
  }

  [[nodiscard]] std::optional<Plan> plan(const signals::Observation& observation, core::Duration memory) {
    const auto requests = latest(observation, memory);
    if (requests.size() < options_.requests_min || !trials_) return std::nullopt;
    const double seconds = core::to_seconds(observation.now - requests.front().arrival);
    const double rate = seconds > 0.0 ? static_cast<double>(requests.size()) / seconds : 0.0;
    const double growth = memory == options_.memory ? outlook_->growth(rate) : 1.0;
    trials_->load({requests, growth});
    Fleet from;
    for (const signals::PoolObservation& pool : observation.pools) from.push_back(std::max(1U, pool.target_replicas));
    Plan made = Search{*trials_, observation, options_.goal}.run(from);
    made.rate = rate;
    made.growth = growth;
    if (memory == options_.memory) stress(observation, {requests, growth * options_.stress}, made);
    return made;
  }

  // Raises the fleet until it would not collapse if the rate rose while the next replicas start.
  void stress(const signals::Observation& observation, const TrialTraffic& traffic, Plan& plan) const {
    trials_->load(traffic);
    plan.stressed = trials_->attempt(plan.fleet).slo_attainment;
    if (plan.stressed >= options_.stress_goal * plan.best) return;
    const Plan stressed = Search{*trials_, observation, options_.stress_goal}.run(plan.fleet);
    for (std::size_t i = 0; i < plan.fleet.size(); ++i) plan.fleet[i] = std::max(plan.fleet[i], stressed.fleet[i]);
  }

  [[nodiscard]] PoolDecision propose(const signals::PoolObservation& pool, std::size_t index) const {
    PoolDecision proposal;
    proposal.current = proposal.target = pool.target_replicas;
    proposal.reason = Reason::kInsufficientData;
    const Plan* chosen = nullptr;
    if (plan_) {
      chosen = &*plan_;
      proposal.reason = Reason::kCheapestThatKeepsSlo;
    }
    if (reaction_ && (chosen == nullptr || reaction_->fleet[index] > chosen->fleet[index])) {
      chosen = &*reaction_;
      proposal.reason = Reason::kSloAtRisk;
    }
    if (chosen == nullptr) return proposal;
    proposal.target = static_cast<std::uint32_t>(std::ceil(chosen->fleet[index] * (1.0 + bias_) - 1e-9));
    proposal.evidence = {{"request_rate", chosen->rate, "1/s"},
                         {"expected_growth", chosen->growth, "times"},
                         {"attainment", chosen->attainment, "share"},
                         {"attainment_one_less", chosen->one_less, "share"},
                         {"attainment_at_best", chosen->best, "share"},
                         {"attainment_stressed", chosen->stressed, "share"},
                         {"tried_on", static_cast<double>(chosen->requests), "requests"},
                         {"raised_by", bias_, "share"}};
    return proposal;
  }

  std::shared_ptr<FleetTrials> trials_;
  signals::SloTarget slo_;
  PlannerOptions options_;
  std::vector<Guardrails> guardrails_;
  std::optional<Plan> plan_, reaction_;
  core::Instant next_plan_{}, next_reaction_{};
  Fleet ready_;
  core::Instant ready_since_{};
  std::optional<RateOutlook> outlook_;  // from the first observation on, which tells the start-up time
  double bias_ = 0.0;                   // share of replicas beyond what trials ask for
};

}  // namespace

std::unique_ptr<Policy> make_penstock_planner(std::shared_ptr<FleetTrials> trials, const signals::SloTarget& slo,
                                              const PlannerOptions& options) {
  return std::make_unique<PenstockPlanner>(std::move(trials), slo, options);
}

}  // namespace penstock::planner
