#include "controller/decision_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/decision_log.h"

namespace penstock::controller {
namespace {

using connect::ObservationLine;
using connect::ObservedPool;
using connect::ObservedReplica;
using connect::ObservedRequest;
using signals::ReplicaState;

// A request that ends later than this is counted as one that never ended.
constexpr core::Duration kRequestMemoryLeast = std::chrono::minutes{30};
constexpr std::size_t kKnownRequestsMost = 200'000;
// Observations come as often as the policy decides, give or take the rounding of their times.
constexpr core::Duration kRounding = std::chrono::milliseconds{1};
const std::string kObservation = "observation: ";

core::Duration usual_interval(const decision::Policy& policy, core::Duration interval) {
  return std::max(interval, std::min<core::Duration>(policy.interval(), std::chrono::hours{24}));
}

bool has_decode_pool(const std::vector<signals::Pool>& pools) {
  return std::any_of(pools.begin(), pools.end(), [](const auto& pool) { return pool.role == signals::Role::kDecode; });
}

std::vector<double> prices_of(const std::vector<signals::Pool>& pools) {
  std::vector<double> prices;
  prices.reserve(pools.size());
  for (const signals::Pool& pool : pools) prices.push_back(pool.price_per_gpu_hour);
  return prices;
}

TrafficItem item_of(TrafficItem::Kind kind, std::uint64_t request, core::Instant at) {
  TrafficItem item;
  item.kind = kind;
  item.request = request;
  item.at_s = core::to_seconds(at);
  return item;
}

}  // namespace

DecisionStream::DecisionStream(decision::Policy& policy, DecisionStreamOptions options)
    : policy_(&policy),
      options_(std::move(options)),
      memory_(std::max(policy.memory(), kRequestMemoryLeast)),
      loop_(policy, prices_of(options_.pools)),
      sanitizer_({.interval = usual_interval(policy, options_.interval)}),
      traffic_({.memory = memory_,
                .slo = options_.slo,
                .disaggregated = has_decode_pool(options_.pools),
                .model = options_.model,
                .pools = signals::served_by(options_.pools)}),
      pools_(options_.pools.size()) {
  loop_.record_every_hold();
}

DecisionStream::Answer DecisionStream::refuse(const core::Error& error, std::uint64_t number) {
  const nlohmann::ordered_json object{{"error", error.message()}, {"line", number}};
  Answer answer;
  answer.text = object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  answer.is_error = true;
  return answer;
}

DecisionStream::Answer DecisionStream::answer(std::string_view text, std::uint64_t number) {
  const auto line = connect::read_observation(text);
  if (!line) return refuse(line.error(), number);
  if (const auto checked = check(*line); !checked) return refuse(checked.error(), number);
  last_ = {line->at, number};
  if (line->requests) take_requests(*line->requests, line->at);
  signals::Observation seen = observe(*line);
  Answer answer;
  answer.text = report::to_decision_jsonl(is_due(line->at) ? decide(seen, answer) : decision_in_force(seen));
  return answer;
}

// ---- what is wrong with a line --------------------------------------------------------------------------------------

core::Result<void> DecisionStream::check(const ObservationLine& line) const {
  if (last_ && line.at <= last_->first)
    return core::invalid_input(kObservation + "at_s",
                               fmt::format("must be later than in line {} ({} s), is {} s", last_->second,
                                           core::to_seconds(last_->first), core::to_seconds(line.at)),
                               "start `penstock decide` again for a clock that begins anew");
  if (line.pools.size() != options_.pools.size())
    return core::invalid_input(kObservation + "pools", fmt::format("must have the {} configured, has {}",
                                                                   options_.pools.size(), line.pools.size()));
  for (std::size_t i = 0; i < line.pools.size(); ++i) {
    const ObservedPool& pool = line.pools[i];
    const std::string where = fmt::format("{}pools[{}].", kObservation, i);
    if (pool.name.empty() && line.pools.size() > 1)
      return core::invalid_input(where + "pool", "is missing; there are several pools");
    const auto is_named = [&](const auto& each) { return each.name == pool.name; };
    const auto configured = pool.name.empty() ? options_.pools.begin()
                                              : std::find_if(options_.pools.begin(), options_.pools.end(), is_named);
    if (configured == options_.pools.end())
      return core::invalid_input(where + "pool", "is not the name of a configured pool");
    if (!pool.name.empty() && std::count_if(line.pools.begin(), line.pools.end(), is_named) > 1)
      return core::invalid_input(where + "pool", "is in the list twice");
    if (!configured->can_sleep() && (pool.asleep > 0 || pool.asleep_target.value_or(0) > 0))
      return core::invalid_input(where + "asleep", "is above 0 in a pool whose replicas do not sleep",
                                 "set wake_time of the pool (--wake-time)");
    if (!line.requests && !pool.last_minute)
      return core::invalid_input(kObservation + "requests", "is missing",
                                 "give an empty list if there were none, or last_minute for each pool");
  }
  return line.requests ? check_requests(*line.requests) : core::Result<void>{};
}

core::Result<void> DecisionStream::check_requests(const std::vector<ObservedRequest>& requests) const {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::uint64_t most =
        (requests[i].prompt_tokens + std::uint64_t{options_.block_tokens} - 1) / std::max(1U, options_.block_tokens);
    if (requests[i].blocks.size() > most)
      return core::invalid_input(
          fmt::format("{}requests[{}].blocks", kObservation, i),
          fmt::format("must be at most {} for this prompt, with {} tokens each", most, options_.block_tokens));
  }
  return {};
}

// ---- requests -------------------------------------------------------------------------------------------------------

void DecisionStream::add_items(const ObservedRequest& request, std::vector<TrafficItem>& items) {
  KnownRequest unnamed{.number = 0, .arrival = request.arrival};
  KnownRequest* known = &unnamed;
  bool is_new = true;
  if (!request.id.empty()) {
    const auto [at, added] = requests_.try_emplace(request.id, unnamed);
    known = &at->second;
    is_new = added;
  }
  if (is_new) {
    known->number = ++next_request_;
    TrafficItem item = item_of(TrafficItem::Kind::kArrival, known->number, request.arrival);
    item.model = request.model.empty() ? options_.model : request.model;
    item.traffic_class = request.traffic_class;
    item.tenant = request.tenant;
    item.input_tokens = request.prompt_tokens;
    item.keys = request.blocks;
    item.streamed = request.streamed;
    item.completion_window_s = request.completion_window_s;
    items.push_back(std::move(item));
  }
  if (request.ttft_ms && request.streamed && !std::exchange(known->answered, true)) {
    const core::Instant routed = known->arrival + core::from_seconds(request.deferred_s);
    TrafficItem item =
        item_of(TrafficItem::Kind::kFirstToken, known->number, routed + core::from_milliseconds(*request.ttft_ms));
    item.own_limit_ms = 1'000.0 * request.deferred_s;
    item.ttft_ms = *request.ttft_ms;
    items.push_back(std::move(item));
  }
  if (!request.ended || std::exchange(known->ended, true)) return;
  TrafficItem item = item_of(TrafficItem::Kind::kEnd, known->number, *request.ended);
  item.outcome = request.end == signals::RequestEnd::kNone     ? "completed"
                 : request.end == signals::RequestEnd::kFailed ? "failed"
                                                               : "cancelled";
  item.output_tokens = request.output_tokens;
  // A single token has no gaps.
  item.itl_ms = request.streamed ? request.itl_ms.value_or(request.output_tokens == 1 ? 0.0 : -1.0) : -1.0;
  items.push_back(std::move(item));
}

void DecisionStream::take_requests(const std::vector<ObservedRequest>& requests, core::Instant now) {
  knows_requests_ = true;
  forget_requests(now);
  TrafficPage page;
  page.boot = "observations";
  page.now_s = core::to_seconds(now);
  for (const ObservedRequest& request : requests) add_items(request, page.items);
  // The recorder takes what happened in the order of time.
  std::stable_sort(page.items.begin(), page.items.end(),
                   [](const TrafficItem& a, const TrafficItem& b) { return a.at_s < b.at_s; });
  traffic_.take(page, now);
}

void DecisionStream::forget_requests(core::Instant now) {
  std::erase_if(requests_, [&](const auto& each) { return each.second.arrival + memory_ < now; });
  if (requests_.size() > kKnownRequestsMost)
    std::erase_if(requests_, [](const auto& each) { return each.second.ended; });
  if (requests_.size() > kKnownRequestsMost) requests_.clear();  // What ends later is taken for a new request.
}

// ---- an observation -------------------------------------------------------------------------------------------------

const ObservedPool& DecisionStream::pool_of(const ObservationLine& line, std::size_t index) const {
  const auto found = std::find_if(line.pools.begin(), line.pools.end(),
                                  [&](const ObservedPool& pool) { return pool.name == options_.pools[index].name; });
  return found == line.pools.end() ? line.pools.front() : *found;
}

// Replicas of which only the number is known: the oldest that is asleep wakes up, the oldest that starts becomes ready,
// the newest that is ready drains, and the oldest that drains falls asleep.
void DecisionStream::count_replicas(PoolState& state, const signals::PoolObservation& pool, core::Instant now) {
  std::vector<KnownReplica> ready, draining, starting, asleep;
  for (const KnownReplica& each : state.counted)
    (each.state == ReplicaState::kReady      ? ready
     : each.state == ReplicaState::kDraining ? draining
     : each.state == ReplicaState::kAsleep   ? asleep
                                             : starting)
        .push_back(each);
  const auto fresh = [&] { return KnownReplica{next_replica_++, ReplicaState::kStarting, now}; };
  const auto resize = [&](std::vector<KnownReplica>& list, std::size_t size, ReplicaState become) {
    while (list.size() < size) {
      list.push_back(fresh());
      list.back().state = become;
    }
    list.resize(size);
  };
  const auto move_first = [&](std::vector<KnownReplica>& from, std::vector<KnownReplica>& to, ReplicaState become) {
    to.push_back({from.front().number, become, now});
    from.erase(from.begin());
  };
  while (asleep.size() > pool.asleep) move_first(asleep, starting, ReplicaState::kStarting);
  while (ready.size() < pool.ready && !starting.empty()) move_first(starting, ready, ReplicaState::kReady);
  while (ready.size() > pool.ready) {
    draining.push_back({ready.back().number, ReplicaState::kDraining, now});
    ready.pop_back();
  }
  while (asleep.size() < pool.asleep && draining.size() > pool.draining)
    move_first(draining, asleep, ReplicaState::kAsleep);
  if (draining.size() > pool.draining)
    draining.erase(draining.begin(), draining.end() - static_cast<std::ptrdiff_t>(pool.draining));
  resize(ready, pool.ready, ReplicaState::kReady);
  resize(draining, pool.draining, ReplicaState::kDraining);
  resize(starting, pool.starting, ReplicaState::kStarting);
  resize(asleep, pool.asleep, ReplicaState::kAsleep);
  state.counted = std::move(ready);
  for (const auto* more : {&draining, &starting, &asleep})
    state.counted.insert(state.counted.end(), more->begin(), more->end());
}

void DecisionStream::fill_replicas(const ObservedPool& from, PoolState& state, signals::PoolObservation& pool,
                                   core::Instant now) {
  if (from.replicas.empty()) {
    state.listed.clear();
    count_replicas(state, pool, now);
    for (const KnownReplica& each : state.counted) pool.replicas.push_back({each.number, each.state, each.since, {}});
    return;
  }
  state.counted.clear();
  std::map<std::string, KnownReplica> listed;
  for (const ObservedReplica& each : from.replicas) {
    const auto before = state.listed.find(each.id);
    KnownReplica known = before == state.listed.end() ? KnownReplica{next_replica_++, each.state, now} : before->second;
    if (known.state != each.state) known = {known.number, each.state, now};
    if (each.since) known.since = *each.since;
    pool.replicas.push_back({known.number, known.state, known.since, each.sample});
    listed.emplace(each.id, known);
  }
  state.listed = std::move(listed);
}

signals::Observation DecisionStream::observe(const ObservationLine& line) {
  signals::Observation seen;
  seen.now = line.at;
  for (std::size_t i = 0; i < options_.pools.size(); ++i) {
    const ObservedPool& from = pool_of(line, i);
    signals::PoolObservation& pool = seen.pools.emplace_back();
    static_cast<signals::Pool&>(pool) = options_.pools[i];
    pool.starting = from.starting;
    pool.ready = from.ready;
    pool.draining = from.draining;
    pool.asleep = from.asleep;
    if (!pools_[i].target) {
      pools_[i].target = from.starting + from.ready;
      pools_[i].asleep_target = from.asleep;
    }
    pool.target_replicas = from.target.value_or(*pools_[i].target);
    pool.asleep_target = from.asleep_target.value_or(pools_[i].asleep_target);
    pool.unrouted_requests = from.waiting;
    fill_replicas(from, pools_[i], pool, line.at);
  }
  if (knows_requests_) traffic_.fill(seen.pools, line.at);
  for (std::size_t i = 0; i < seen.pools.size(); ++i) {
    const ObservedPool& from = pool_of(line, i);
    if (from.last_minute) seen.pools[i].last_minute = *from.last_minute;
    seen.pools[i].failed_total = std::max(seen.pools[i].failed_total, from.failed_total);
    seen.pools[i].actions_failed_total = from.actions_failed_total;
  }
  return seen;
}

// ---- a decision -----------------------------------------------------------------------------------------------------

bool DecisionStream::is_due(core::Instant now) const {
  return !decided_at_ || now - *decided_at_ >= policy_->interval() - kRounding;
}

std::vector<decision::DecisionRecord> DecisionStream::decide(signals::Observation& seen, Answer& answer) {
  const auto passed = decided_at_ ? seen.now - *decided_at_ : core::Duration{};
  decided_at_ = seen.now;
  const signals::Findings& found = sanitizer_.clean(seen);
  for (const signals::Issue& issue : found.issues)
    answer.warnings.push_back(fmt::format("pool {}: {}", seen.pools[issue.pool].name, to_string(issue.what)));
  // A policy must not take the time of a jump for time without traffic.
  if (found.clock != signals::ClockState::kSteady) {
    decided_ = loop_.hold(seen, fmt::format("the clock jumped by {:.0f} s", core::to_seconds(passed))).records;
    return decided_;
  }
  if (knows_requests_) {
    const bool is_young = seen.now.time_since_epoch() <= policy_->memory();
    seen.recent = traffic_.recent(is_young ? core::kStart : seen.now - policy_->memory());
    seen.tenants = traffic_.tenants();
  }
  decided_ = loop_.tick(seen, [](std::size_t, std::uint32_t) { return true; }).records;
  for (std::size_t i = 0; i < decided_.size(); ++i) {
    pools_[i].target = decided_[i].target;
    pools_[i].asleep_target = decided_[i].asleep;
  }
  return decided_;
}

std::vector<decision::DecisionRecord> DecisionStream::decision_in_force(const signals::Observation& seen) const {
  std::vector<decision::DecisionRecord> records = decided_;
  for (std::size_t i = 0; i < records.size(); ++i) {
    records[i].at = seen.now;
    records[i].current = seen.pools[i].target_replicas;
  }
  return records;
}

}  // namespace penstock::controller
