// What the planner publishes of its observations: the points of the charts, and the figures of engines.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "controller/planner_daemon.h"
#include "decision/figures.h"

namespace penstock::controller {
namespace {

// KV usage of several engines, weighted by capacity where all report one.
class MeanKvUsage {
 public:
  void add(const signals::EngineSample& sample) {
    const auto usage = sample.kv_usage();
    if (!usage) return;
    sum_ += *usage;
    ++engines_;
    const auto capacity = static_cast<double>(sample.kv_capacity_tokens.value_or(0));
    all_have_capacity_ = all_have_capacity_ && capacity > 0.0;
    used_ += *usage * capacity;
    capacity_ += capacity;
  }
  [[nodiscard]] std::optional<double> mean() const {
    if (engines_ == 0) return std::nullopt;
    return all_have_capacity_ ? used_ / capacity_ : sum_ / engines_;
  }

 private:
  double sum_ = 0.0, used_ = 0.0, capacity_ = 0.0;
  std::uint32_t engines_ = 0;
  bool all_have_capacity_ = true;
};

// Of the ready replicas: the capacity is the sum of aggregated pools, and otherwise that of the pool with the least,
// because each request passes both.
void add_estimates(const decision::Decision& decided, const signals::Observation& seen, LivePoint& point) {
  const auto estimated = decision::forecast_point(seen.now, decided);
  if (!estimated) return;
  point.estimated_ttft_ms = estimated->ttft_ms;
  point.estimated_itl_ms = estimated->itl_ms;
  for (std::size_t pool = 0; pool < seen.pools.size() && pool < estimated->capacity_by_pool.size(); ++pool) {
    if (!estimated->capacity_by_pool[pool]) continue;
    const double capacity = *estimated->capacity_by_pool[pool] * seen.pools[pool].ready;
    if (seen.pools[pool].role == signals::Role::kAggregated)
      point.capacity_per_s = point.capacity_per_s.value_or(0.0) + capacity;
    else
      point.capacity_per_s = std::min(point.capacity_per_s.value_or(capacity), capacity);
  }
}

bool is_slower(const signals::PoolObservation& pool, const signals::PoolObservation& than) {
  return pool.last_minute.ttft.p95_ms > than.last_minute.ttft.p95_ms;
}

std::uint32_t unrouted_requests(const signals::Observation& seen) {
  std::uint32_t sum = 0;
  for (const signals::PoolObservation& pool : seen.pools)
    if (pool.role != signals::Role::kDecode) sum += pool.unrouted_requests;
  return sum;
}

void add_rates(const signals::TrafficWindow& minute, LivePoint& point) {
  const double seconds = std::max(1.0, core::to_seconds(minute.length));
  point.arrivals_per_s = static_cast<double>(minute.arrivals) / seconds;
  point.input_tokens_per_s = static_cast<double>(minute.input_tokens) / seconds;
  point.output_tokens_per_s = static_cast<double>(minute.output_tokens) / seconds;
}

}  // namespace

void PlannerDaemon::add_point() {
  const signals::Observation seen = observe(loop_.now());
  LivePoint point;
  point.at = seen.now;
  const signals::PoolObservation* entry = nullptr;
  MeanKvUsage kv;
  std::uint64_t prompts = 0, hits = 0;
  for (const signals::PoolObservation& pool : seen.pools) {
    // Of several aggregated pools the page shows the latencies of the slowest one.
    if (pool.role != signals::Role::kDecode && (entry == nullptr || is_slower(pool, *entry))) entry = &pool;
    const auto put = [&](std::vector<std::optional<std::uint32_t>>& counts, std::uint32_t replicas) {
      counts.push_back(counts_replicas() ? std::optional{replicas} : std::nullopt);
    };
    put(point.target, pool.target_replicas);
    put(point.starting, pool.starting);
    put(point.ready, pool.ready);
    put(point.draining, pool.draining);
    for (const signals::ReplicaObservation& replica : pool.replicas) {
      if (!replica.sample) continue;
      point.queued = point.queued.value_or(0) + replica.sample->queued_requests;
      point.running = point.running.value_or(0) + replica.sample->running_requests;
      kv.add(*replica.sample);
      if (!replica.sample->prompt_tokens_total || !replica.sample->prefix_hit_tokens_total) continue;
      prompts += *replica.sample->prompt_tokens_total;
      hits += *replica.sample->prefix_hit_tokens_total;
    }
  }
  if (data_ != signals::DataState::kNoGateway) {
    add_rates(signals::entry_traffic(seen).last_minute, point);
    point.ttft = entry->last_minute.ttft;
    point.itl = entry->last_minute.itl;
    point.e2e = entry->last_minute.e2e;
    point.tpot = entry->last_minute.tpot;
    point.waiting = unrouted_requests(seen);
    if (decided_) add_estimates(*decided_, seen, point);
  }
  point.kv_usage = kv.mean();
  // Counters of engines that ended are gone from the sums: such an interval has no share.
  if (prompts > prompt_tokens_before_ && hits >= hit_tokens_before_)
    point.hit_ratio =
        static_cast<double>(hits - hit_tokens_before_) / static_cast<double>(prompts - prompt_tokens_before_);
  else if (!points_.empty())
    point.hit_ratio = points_.back().hit_ratio;
  prompt_tokens_before_ = prompts;
  hit_tokens_before_ = hits;
  points_.push_back(std::move(point));
  if (points_.size() > options_.points_max) points_.pop_front();
}

std::vector<telemetry::TokenFigures> PlannerDaemon::token_figures() const {
  std::vector<telemetry::TokenFigures> engines;
  for (std::size_t pool = 0; pool < options_.pools.size(); ++pool)
    for (const ReplicaView& view : fleet_.replicas(pool)) {
      auto figures = fleet_.tokens_of(view.seen.replica, options_.kv_bytes_per_token);
      if (!figures) continue;
      // Clients and autoscalers know the model by its name in the gateway, which some engines do not expose.
      if (!view.model.empty()) figures->model = view.model;
      if (figures->model.empty()) figures->model = options_.model;
      figures->labels = telemetry::format_labels({{"pool", options_.pools[pool].name}, {"replica", view.name}});
      engines.push_back(*std::move(figures));
    }
  return engines;
}

std::vector<telemetry::ReplicaMessages> PlannerDaemon::message_counts(
    std::optional<telemetry::MessageCounts> ReplicaView::*of) const {
  std::vector<telemetry::ReplicaMessages> messages;
  for (std::size_t pool = 0; pool < options_.pools.size(); ++pool)
    for (const ReplicaView& view : fleet_.replicas(pool))
      if (view.*of)
        messages.push_back(
            {telemetry::format_labels({{"pool", options_.pools[pool].name}, {"replica", view.name}}), *(view.*of)});
  return messages;
}

}  // namespace penstock::controller
