#include "planner/hpa_algorithm.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::planner {

namespace {

[[nodiscard]] bool within_tolerance(double ratio) {
  return ratio >= 1.0 - kHpaTolerance && ratio <= 1.0 + kHpaTolerance;
}

[[nodiscard]] HpaProposal propose(double replicas, std::uint32_t current) {
  if (replicas > current) return {replicas, Reason::kLoadAboveTarget};
  if (replicas < current) return {replicas, Reason::kLoadBelowTarget};
  return {replicas, Reason::kWithinTolerance};
}

[[nodiscard]] core::Duration longest_period(const HpaBehavior& behavior) {
  core::Duration longest{};
  for (const HpaRules* rules : {&behavior.up, &behavior.down})
    for (const HpaPolicy& policy : rules->policies) longest = std::max(longest, policy.period);
  return longest;
}

}  // namespace

HpaProposal propose_from_pods(const PodMetric& metric, double target, std::uint32_t current) {
  if (metric.known == 0) return {static_cast<double>(current), Reason::kNoData};
  const HpaProposal stay{static_cast<double>(current), Reason::kWithinTolerance};
  const double ratio = metric.sum / (target * metric.known);
  if (metric.missing == 0) return within_tolerance(ratio) ? stay : propose(std::ceil(ratio * metric.known), current);

  const double assumed = ratio < 1.0 ? target * metric.missing : 0.0;
  const double pods = static_cast<double>(metric.known) + metric.missing;
  const double cautious = (metric.sum + assumed) / (target * pods);
  const bool turned = (ratio < 1.0 && cautious > 1.0) || (ratio > 1.0 && cautious < 1.0);
  if (within_tolerance(cautious) || turned) return stay;
  const double replicas = std::ceil(cautious * pods);
  if ((cautious < 1.0 && replicas > current) || (cautious > 1.0 && replicas < current)) return stay;
  return propose(replicas, current);
}

HpaProposal propose_from_total(double total, double target, std::uint32_t replicas) {
  // There is no average over zero replicas, so the tolerance does not apply, and any load requests some.
  if (replicas > 0 && within_tolerance(total / (target * replicas)))
    return {static_cast<double>(replicas), Reason::kWithinTolerance};
  return propose(std::ceil(total / target), replicas);
}

HpaProposal greatest(std::span<const HpaProposal> proposals, std::uint32_t current) {
  HpaProposal best{static_cast<double>(current), Reason::kNoData};
  bool found = false;
  bool gaps = false;
  for (const HpaProposal& proposal : proposals) {
    if (proposal.reason == Reason::kNoData) {
      gaps = true;
    } else if (!found || proposal.replicas > best.replicas) {
      best = proposal;
      found = true;
    }
  }
  if (gaps && best.replicas <= current) return {static_cast<double>(current), Reason::kNoData};
  return best;
}

HpaBehavior hpa_default_behavior() {
  using std::chrono::seconds;
  return {.up = {seconds{0}, {{HpaPolicy::Kind::kPercent, 100, seconds{15}}, {HpaPolicy::Kind::kPods, 4, seconds{15}}}},
          .down = {seconds{300}, {{HpaPolicy::Kind::kPercent, 100, seconds{15}}}}};
}

HpaController::HpaController(HpaBehavior behavior) : behavior_(std::move(behavior)) {}

PoolDecision HpaController::decide(core::Instant now, std::uint32_t current, const Bounds& bounds,
                                   const HpaProposal& proposal) {
  if (!started_) {
    // As after a restart of the controller: the initial size counts as its first recommendation.
    recommendations_.push_back({now, static_cast<double>(current)});
    started_ = true;
  }
  if (ordered_ && ordered_->target == current) changes_.push_back(ordered_->change);
  ordered_.reset();
  PoolDecision decision{current, current, proposal.reason, Limit::kNone, {}};
  const Bounded inside = bound(current, bounds);
  if (inside.limit != Limit::kNone) {  // The metrics are then not evaluated.
    decision.target = inside.replicas;
    decision.limited_by = inside.limit;
  } else if (proposal.reason != Reason::kNoData) {
    double replicas = stabilize(now, current, proposal.replicas);
    if (replicas != proposal.replicas) decision.limited_by = Limit::kStabilization;
    if (replicas == current && proposal.replicas != current) decision.reason = Reason::kStabilized;
    const bool up = replicas > current;
    const double limit = limit_of(up ? behavior_.up : behavior_.down, now, current, up);
    if (up ? replicas > limit : replicas < limit) {
      replicas = limit;
      decision.limited_by = up ? Limit::kGrowthRate : Limit::kShrinkRate;
    }
    const Bounded bounded = bound(replicas, bounds);
    if (bounded.limit != Limit::kNone) decision.limited_by = bounded.limit;
    decision.target = bounded.replicas;
  }
  if (decision.target != current)
    ordered_ = {decision.target, {now, static_cast<double>(decision.target) - static_cast<double>(current)}};
  return decision;
}

double HpaController::stabilize(core::Instant now, double current, double proposed) {
  double least = proposed;
  double most = proposed;
  for (const Recommendation& earlier : recommendations_) {
    if (earlier.at > now - behavior_.up.stabilization) least = std::min(least, earlier.replicas);
    if (earlier.at > now - behavior_.down.stabilization) most = std::max(most, earlier.replicas);
  }
  const core::Duration longest = std::max(behavior_.up.stabilization, behavior_.down.stabilization);
  std::erase_if(recommendations_, [&](const Recommendation& earlier) { return earlier.at <= now - longest; });
  recommendations_.push_back({now, proposed});
  std::erase_if(changes_, [&](const Change& change) { return change.at <= now - longest_period(behavior_); });
  return std::min(std::max(current, least), most);
}

// Returns the limit that the policies allow, given the changes within the period of each.
double HpaController::limit_of(const HpaRules& rules, core::Instant now, double current, bool up) const {
  double limit = current;
  for (const HpaPolicy& policy : rules.policies) {
    double at_period_start = current;
    for (const Change& change : changes_)
      if (change.at > now - policy.period) at_period_start -= change.replicas;
    const double step = policy.kind == HpaPolicy::Kind::kPods ? policy.value : at_period_start * policy.value / 100.0;
    limit =
        up ? std::max(limit, std::ceil(at_period_start + step)) : std::min(limit, std::trunc(at_period_start - step));
  }
  return limit;
}

}  // namespace penstock::planner
