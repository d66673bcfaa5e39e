#include "controller/scaling_recorder.h"

namespace penstock::controller {
namespace {

bool is_changing(const signals::PoolObservation& pool) {
  return pool.starting > 0 || pool.draining > 0 || pool.ready != pool.target_replicas;
}

}  // namespace

void ScalingRecorder::observe(core::Instant now, std::span<const signals::PoolObservation> pools,
                              const signals::RequestEnds& ends) {
  pools_.resize(pools.size());
  for (std::size_t index = 0; index < pools.size(); ++index) {
    const signals::PoolObservation& seen = pools[index];
    Pool& pool = pools_[index];
    if (pool.totals.pool.empty()) pool.ready = seen.ready + seen.draining;
    pool.totals.pool = seen.name;
    const bool changing = is_changing(seen);
    if (!pool.in_progress && !changing) pool.ready = seen.ready;
    if (!pool.in_progress && changing) {
      pool.in_progress = true;
      pool.event = {};
      pool.event.pool = seen.name;
      pool.event.from = pool.ready;
      pool.event.began = now;
      pool.before = ends;
      ++pool.totals.events;
    }
    if (!pool.in_progress) continue;
    pool.event.to = seen.target_replicas;
    pool.event.ends = ends - pool.before;
    if (changing)
      pool.quiet_since = core::kNever;
    else if (pool.quiet_since == core::kNever)
      pool.quiet_since = now;
    if (changing || now < pool.quiet_since + kAfter) continue;
    pool.in_progress = false;
    pool.ready = seen.ready;
    pool.event.settled = pool.quiet_since;
    pool.quiet_since = core::kNever;
    pool.totals.ends += pool.event.ends;
    settled_.push_front(pool.event);
    if (settled_.size() > events_max_) settled_.pop_back();
  }
}

std::vector<ScalingEvent> ScalingRecorder::events() const {
  std::vector<ScalingEvent> all;
  for (const Pool& pool : pools_)
    if (pool.in_progress) all.push_back(pool.event);
  all.insert(all.end(), settled_.begin(), settled_.end());
  return all;
}

std::vector<ScalingTotals> ScalingRecorder::totals() const {
  std::vector<ScalingTotals> all;
  for (const Pool& pool : pools_) {
    all.push_back(pool.totals);
    if (pool.in_progress) all.back().ends += pool.event.ends;
  }
  return all;
}

}  // namespace penstock::controller
