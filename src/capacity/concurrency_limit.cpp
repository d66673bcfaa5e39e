#include "capacity/concurrency_limit.h"

#include <algorithm>

namespace penstock::capacity {
namespace {

constexpr std::size_t kSamples = 8;
constexpr std::ptrdiff_t kSamplesLeast = 3;
// With a fuller cache, requests may wait for KV blocks.
constexpr double kKvFull = 0.85;
// A request that has waited for less may wait for the end of an iteration that began before it arrived.
constexpr core::Duration kIteration = std::chrono::seconds{1};

// Whether requests wait for nothing but a free sequence, as far as the engine reports it.
bool waits_for_a_sequence(const signals::EngineSample& sample) {
  if (sample.queued_requests == 0 || sample.running_requests == 0) return false;
  // The tokens of an iteration may be used up by prompts.
  if (sample.inflight_prefill_tokens.value_or(0) > 0) return false;
  if (sample.oldest_queued_age.value_or(kIteration) < kIteration) return false;
  if (sample.kv_usage().value_or(0.0) >= kKvFull) return false;
  if (!sample.kv_used_tokens || !sample.kv_capacity_tokens || !sample.queued_prefill_tokens) return true;
  // A queue of long prompts may wait for more blocks than are free.
  return *sample.queued_prefill_tokens + *sample.kv_used_tokens < *sample.kv_capacity_tokens;
}

}  // namespace

void ConcurrencyLimit::learn(Replica& replica, const signals::EngineSample& sample) {
  if (!waits_for_a_sequence(sample)) return;
  if (replica.running.size() == kSamples) replica.running.erase(replica.running.begin());
  replica.running.push_back(sample.running_requests);
  const std::uint32_t most = *std::max_element(replica.running.begin(), replica.running.end());
  const auto times = std::count(replica.running.begin(), replica.running.end(), most);
  if (times >= kSamplesLeast && 2 * times >= static_cast<std::ptrdiff_t>(replica.running.size())) replica.limit = most;
}

void ConcurrencyLimit::observe(const signals::PoolObservation& pool) {
  if (pool.role == signals::Role::kPrefill) return;
  for (const signals::ReplicaObservation& seen : pool.replicas) {
    if (!seen.sample || seen.state != signals::ReplicaState::kReady) continue;
    Replica& replica = replicas_[seen.replica];
    if (seen.sample->sampled_at <= replica.newest) continue;
    replica.newest = seen.sample->sampled_at;
    most_run_ = std::max(most_run_, seen.sample->running_requests);
    learn(replica, *seen.sample);
  }
  std::erase_if(replicas_, [&](const auto& entry) {
    return std::none_of(pool.replicas.begin(), pool.replicas.end(),
                        [&](const auto& seen) { return seen.replica == entry.first; });
  });
  std::optional<std::uint32_t> lowest;
  for (const auto& [id, replica] : replicas_)
    if (replica.limit >= std::max(1U, most_run_)) lowest = std::min(lowest.value_or(replica.limit), replica.limit);
  // A limit outlives the replica that showed it, until another one runs more.
  if (lowest || sequences_.value_or(0) < most_run_) sequences_ = lowest;
}

}  // namespace penstock::capacity
