// What the planner publishes of its observations: the points of the charts, and the figures of engines.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "controller/planner_daemon.h"
#include "decision/engine_settings.h"
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

std::optional<double> output_tokens_per_s(const signals::TrafficWindow& minute) {
  const double seconds = core::to_seconds(minute.length);
  return seconds > 0.0 ? std::optional{static_cast<double>(minute.output_tokens) / seconds} : std::nullopt;
}

// Mean of the GPUs of the ready replicas, or else the share of what the replicas can serve within the SLO.
std::optional<double> utilisation_of(const signals::PoolObservation& pool, std::optional<double> replica_capacity) {
  double sum = 0.0;
  std::uint32_t measured = 0;
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (replica.state != signals::ReplicaState::kReady || !replica.sample || !replica.sample->gpu_utilisation) continue;
    sum += *replica.sample->gpu_utilisation;
    ++measured;
  }
  if (measured > 0) return sum / measured;
  const double capacity = replica_capacity.value_or(0.0) * pool.ready;
  const double seconds = core::to_seconds(pool.last_minute.length);
  if (capacity <= 0.0 || seconds <= 0.0) return std::nullopt;
  return static_cast<double>(pool.last_minute.arrivals) / seconds / capacity;
}

// A prefill pool generates the first token of each request only: the output is that of the pools that requests leave.
void add_rates(const signals::Observation& seen, LivePoint& point) {
  const signals::TrafficWindow minute = signals::entry_traffic(seen).last_minute;
  const double seconds = std::max(1.0, core::to_seconds(minute.length));
  point.arrivals_per_s = static_cast<double>(minute.arrivals) / seconds;
  point.input_tokens_per_s = static_cast<double>(minute.input_tokens) / seconds;
  point.output_tokens_per_s = static_cast<double>(signals::exit_traffic(seen).last_minute.output_tokens) / seconds;
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
    add_rates(seen, point);
    point.ttft = entry->last_minute.ttft;
    point.itl = entry->last_minute.itl;
    point.e2e = entry->last_minute.e2e;
    point.tpot = entry->last_minute.tpot;
    point.waiting = unrouted_requests(seen);
    if (decided_) add_estimates(*decided_, seen, point);
    add_batches(seen);
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

void PlannerDaemon::add_batches(const signals::Observation& seen) {
  batches_.resize(seen.pools.size());
  for (std::size_t pool = 0; pool < seen.pools.size(); ++pool) {
    double sum = 0.0;
    std::uint32_t known = 0;
    for (const signals::ReplicaObservation& replica : seen.pools[pool].replicas) {
      if (!signals::is_reporting(replica, seen.now, report::kSampleAgeMax)) continue;
      const auto efficiency = batch_efficiency(pool, *replica.sample);
      if (!efficiency || replica.state != signals::ReplicaState::kReady) continue;
      sum += *efficiency;
      ++known;
    }
    batches_[pool].observe(seen.now, known > 0 ? std::optional{sum / known} : std::nullopt,
                           output_tokens_per_s(seen.pools[pool].last_minute));
  }
}

std::vector<EngineAdvice> PlannerDaemon::engine_advice() const {
  std::vector<EngineAdvice> advice;
  if (!seen_ || !decided_ || data_ != signals::DataState::kKnown) return advice;
  for (std::size_t index = 0; index < seen_->pools.size(); ++index) {
    const signals::PoolObservation& pool = seen_->pools[index];
    const auto p95_s = [](const signals::LatencyWindow& latency) {
      return latency.count == 0 ? std::nullopt : std::optional{latency.p95_ms / 1000.0};
    };
    decision::EngineMeasurement measured;
    measured.ttft_p95_s = p95_s(pool.last_minute.ttft);
    measured.itl_p95_s = p95_s(pool.last_minute.itl);
    measured.utilisation = utilisation_of(pool, decision::capacity_per_replica(*decided_, index));
    if (index < batches_.size())
      if (const auto compared = batches_[index].at_no_less_load()) {
        measured.batch_efficiency = compared->now;
        measured.batch_efficiency_before = compared->before;
      }
    if (auto evidence = decision::queue_delay_evidence(options_.slo.target, measured))
      advice.push_back({pool.name, "queue_delay", *std::move(evidence)});
    if (auto evidence = decision::batch_efficiency_evidence(measured))
      advice.push_back({pool.name, "batch_efficiency", *std::move(evidence)});
  }
  return advice;
}

// What engines were seen to run at once comes before what was configured of them.
std::optional<std::uint32_t> PlannerDaemon::max_sequences(std::size_t pool) const {
  if (decided_ && pool < decided_->pools.size())
    if (const auto learned = decision::evidence_value(decided_->pools[pool], "learned_max_sequences", "requests"))
      return static_cast<std::uint32_t>(*learned);
  return pool < options_.max_sequences.size() ? options_.max_sequences[pool] : std::nullopt;
}

std::optional<double> PlannerDaemon::batch_efficiency(std::size_t pool, const signals::EngineSample& sample) const {
  if (sample.batch_merge_efficiency) return sample.batch_merge_efficiency;
  return telemetry::filled_share(sample.running_requests, max_sequences(pool).value_or(0));
}

std::vector<telemetry::TokenFigures> PlannerDaemon::token_figures() const {
  std::vector<telemetry::TokenFigures> engines;
  for (std::size_t pool = 0; pool < options_.pools.size(); ++pool)
    for (const ReplicaView& view : fleet_.replicas(pool)) {
      const auto& bytes = options_.kv_bytes_per_token;
      auto figures = fleet_.tokens_of(view.seen.replica, pool < bytes.size() ? bytes[pool] : std::nullopt);
      if (!figures) continue;
      if (!figures->batch_merge_efficiency && figures->active_sequences)
        figures->batch_merge_efficiency = telemetry::filled_share(
            *figures->active_sequences, static_cast<std::uint64_t>(max_sequences(pool).value_or(0)) * figures->workers);
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
