#include "controller/output_tokens.h"

#include <chrono>

namespace penstock::controller {
namespace {

constexpr core::Duration kTotalsMemory = std::chrono::minutes{2};

}  // namespace

void OutputTokens::ended(std::uint64_t tokens, core::Instant at) {
  if (!by_counters_) add(tokens, at);
}

void OutputTokens::observe(const signals::PoolObservation& pool, core::Instant now) {
  std::map<std::uint32_t, std::uint64_t> counters;
  std::uint64_t generated = 0;
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    const auto known = counters_.find(replica.replica);
    if (!replica.sample || !replica.sample->generation_tokens_total) {
      // Without a report the last counter stays. That of an engine that starts is 0.
      if (known != counters_.end())
        counters.insert(*known);
      else if (replica.state == signals::ReplicaState::kStarting)
        counters.emplace(replica.replica, 0);
      continue;
    }
    by_counters_ = true;
    const std::uint64_t counter = *replica.sample->generation_tokens_total;
    // A lower counter is that of an engine that has started again.
    if (known != counters_.end()) generated += counter - (counter >= known->second ? known->second : 0);
    counters.emplace(replica.replica, counter);
  }
  counters_ = std::move(counters);
  if (by_counters_) add(generated, now);
}

std::uint64_t OutputTokens::within(core::Duration length, core::Instant now) const {
  std::uint64_t before = totals_.empty() ? total_ : 0;
  for (const auto& [at, total] : totals_)
    if (at + length <= now) before = total;
  return total_ - before;
}

void OutputTokens::add(std::uint64_t tokens, core::Instant at) {
  total_ += tokens;
  totals_.emplace_back(at, total_);
  while (totals_.size() > 1 && totals_[1].first + kTotalsMemory < at) totals_.pop_front();
}

}  // namespace penstock::controller
