#include "dispatch/request_router.h"

#include <algorithm>
#include <limits>

#include "core/traffic_class.h"

namespace penstock::dispatch {

using signals::Role;

namespace {

// A request leaves its pool for one that answers sooner by more than this share of its TTFT objective.
constexpr double kOverflowShare = 0.5;
constexpr double kTtftShare = 0.5;  // Of the TTFT objective that the prompt of a deferred request may take anywhere.

// At least half of the other replicas of the group, and one, compute no prompt.
bool others_are_free(const ReplicaSet& replicas, std::uint32_t slot, core::Instant now) {
  std::uint32_t others = 0, free = 0;
  for (std::uint32_t other = 0; other < replicas.slots(); ++other) {
    const ReplicaSet::Replica& replica = replicas.replica(other);
    if (other == slot || !replica.eligible || replica.group != replicas.replica(slot).group) continue;
    ++others;
    free += replicas.load(other, now).prefill_tokens == 0 ? 1 : 0;
  }
  return free > 0 && 2 * free >= others;
}

}  // namespace

routing::PickRequest RequestRouter::pick_request(const ActiveRequest& request) const {
  routing::PickRequest made;
  made.key_tokens = options_.key_tokens;
  made.output_tokens = request.estimate.output_tokens;
  made.without = request.failed_slots;
  made.decode_only = request.decode_only();
  // Where the prompt was computed before, the endpoint picker chooses by the load, the routers of peers by the prompt,
  // too.
  const bool by_load = made.decode_only && options_.strategy == routing::Strategy::kLive;
  if (request.decodes_only && by_load) return made;
  made.keys = request.keys;
  made.unshared_keys = request.unshared_keys;
  made.input_tokens = by_load ? 0 : request.estimate.prompt_tokens;
  made.affinity = request.affinity;
  if (request.traffic_class == admission::Class::kBatch) made.affinity_tolerance *= 10;
  return made;
}

std::optional<RequestRouter::Choice> RequestRouter::choose_of(std::uint32_t model, Role role,
                                                              const routing::PickRequest& request, core::Instant now) {
  const auto selection = replicas_.choose(model, role, request, now);
  if (!selection) return std::nullopt;
  return Choice{*selection, role == Role::kPrefill};
}

std::optional<RequestRouter::Choice> RequestRouter::choose(const ActiveRequest& request, core::Instant now) {
  const routing::PickRequest pick = pick_request(request);
  if (request.decodes_only) return choose_of(request.model, Role::kDecode, pick, now);
  if (auto whole = choose_whole(request, pick, now)) return whole;
  if (!request.splits) return std::nullopt;
  // Without a decode replica, no replica could continue after the prefill.
  if (!replicas_.any_eligible(request.model, Role::kDecode)) return std::nullopt;
  return choose_of(request.model, Role::kPrefill, pick, now);
}

bool RequestRouter::has_replica(const ActiveRequest& request) const {
  const auto any = [&](Role role, std::optional<std::uint32_t> pool = {}) {
    return replicas_.any_eligible(request.model, role, pool);
  };
  if (request.splits && any(Role::kPrefill) && any(Role::kDecode)) return true;
  if (!any(Role::kAggregated)) return false;
  const auto pools = static_cast<std::uint32_t>(options_.pools.size());
  if (pools == 0 || any(Role::kAggregated, request.pool)) return true;
  const signals::SloTraits traits = traits_of(request);
  for (std::uint32_t pool = 0; pool <= pools; ++pool)
    if (pool != request.pool && may_overflow(request, traits, pool) && any(Role::kAggregated, pool)) return true;
  return false;
}

// ---- pools ----------------------------------------------------------------------------------------------------------

signals::SloTraits RequestRouter::traits_of(const ActiveRequest& request) const {
  return {request.entry.model, request.entry.traffic_class, request.entry.tenant,
          static_cast<std::uint32_t>(std::min<std::uint64_t>(request.estimate.prompt_tokens, UINT32_MAX))};
}

std::uint32_t RequestRouter::own_pool(const ActiveRequest& request) const {
  if (options_.pools.empty()) return 0;
  const signals::SloTraits traits = traits_of(request);
  const std::uint32_t first = signals::first_match(options_.pools, traits);
  for (std::uint32_t pool = first; pool < options_.pools.size(); ++pool)
    if (options_.pools[pool].matches(traits) && replicas_.holds(request.model, pool, request.context_needed))
      return pool;
  return first;
}

std::vector<PoolStatus> RequestRouter::pools() const {
  std::vector<PoolStatus> all{attempts_};
  all.resize(options_.pools.size());
  for (std::size_t pool = 0; pool < all.size(); ++pool) all[pool].name = options_.pools[pool].name;
  return all;
}

bool RequestRouter::may_overflow(const ActiveRequest& request, const signals::SloTraits& traits,
                                 std::uint32_t pool) const {
  if (!replicas_.holds(request.model, pool, request.context_needed)) return false;
  if (pool == options_.pools.size()) return true;  // Replicas whose pool is not configured.
  const PoolRule& rule = options_.pools[pool];
  return may_take(rule, traits) && (!only_while_idle(rule, traits) || replicas_.is_idle(pool));
}

std::optional<RequestRouter::Choice> RequestRouter::choose_whole(const ActiveRequest& request,
                                                                 const routing::PickRequest& pick, core::Instant now) {
  const std::vector<PoolRule>& pools = options_.pools;
  if (pools.empty()) return choose_of(request.model, Role::kAggregated, pick, now);
  std::optional<routing::Selection> best;
  if (replicas_.holds(request.model, request.pool, request.context_needed))
    best = replicas_.choose(request.model, Role::kAggregated, pick, now, request.pool);
  double limit_ms = std::numeric_limits<double>::infinity();
  const signals::SloTraits traits = traits_of(request);
  if (best) {
    const signals::SloPolicy& slo = options_.slo;
    const core::Duration ttft = slo.target_at(signals::target_index(slo.segments, traits)).ttft;
    limit_ms = best->expected_ttft_ms - kOverflowShare * core::to_milliseconds(ttft);
    const bool stays = limit_ms <= 0.0 || (request.pool < pools.size() && !pools[request.pool].overflow);
    if (stays) return Choice{*best};
  }
  for (std::uint32_t pool = 0; pool <= pools.size(); ++pool) {
    if (pool == request.pool || !may_overflow(request, traits, pool)) continue;
    const auto other = replicas_.choose(request.model, Role::kAggregated, pick, now, pool);
    if (!other || other->expected_ttft_ms >= limit_ms) continue;
    limit_ms = other->expected_ttft_ms;
    best = other;
  }
  return best ? std::optional{Choice{*best}} : std::nullopt;
}

admission::Verdict RequestRouter::verdict(const ActiveRequest& request, const Choice& choice, core::Instant now) const {
  if (request.decodes_only) return admission::Verdict::kAdmit;
  const routing::PickingStrategy::Load load = replicas_.load(choice.selection.slot, now);
  const std::uint32_t workers = std::max(1U, replicas_.replica(choice.selection.slot).spec.workers);
  admission::ReplicaPressure pressure{load.kv_usage, load.prefill_tokens, load.open_requests, workers};
  // Which of several workers would take the request is not known.
  if (workers == 1 && load.kv_capacity_tokens.value_or(0) > 0) {
    pressure.kv_usage = load.kv_usage_expected;
    const std::uint64_t kv_tokens = routing::kv_tokens_of(choice.selection.uncached_tokens,
                                                          choice.prefill_only ? 0 : request.estimate.output_tokens);
    pressure.kv_share = static_cast<double>(kv_tokens) / static_cast<double>(*load.kv_capacity_tokens);
  }
  const bool headroom = admission::leaves_headroom(request.overload, request.traffic_class);
  return admission::check_saturation(pressure, choice.selection.uncached_tokens,
                                     headroom ? admission::with_headroom(options_.pressure) : options_.pressure);
}

bool RequestRouter::has_spare(const ActiveRequest& request, const Choice& choice, const AnswerTimes& times,
                              core::Instant now) {
  const signals::SloTarget limits = signals::strictest_target(options_.slo, core::kInteractiveClass);
  const double share = options_.batch.defer_load;
  const routing::PickingStrategy::Load load = replicas_.load(choice.selection.slot, now);
  if (load.prefill_tokens > 0) return false;
  const bool is_long = choice.selection.expected_ttft_ms > kTtftShare * core::to_milliseconds(limits.ttft);
  if (is_long && !others_are_free(replicas_, choice.selection.slot, now)) return false;
  std::uint32_t slot = choice.selection.slot;
  if (choice.prefill_only) {
    routing::PickRequest pick;
    pick.output_tokens = request.estimate.output_tokens;
    pick.decode_only = true;
    const auto decode = choose_of(request.model, Role::kDecode, pick, now);
    if (!decode) return false;
    slot = decode->selection.slot;
  }
  const routing::PickingStrategy::Load decoding = replicas_.load(slot, now);
  const std::uint32_t workers = std::max(1U, replicas_.replica(slot).spec.workers);
  const double concurrent = (decoding.open_requests + 1.0) / workers;
  if (times.itl_ms(concurrent) > share * core::to_milliseconds(limits.itl)) return false;
  double kv_usage = decoding.kv_usage_expected.value_or(decoding.kv_usage.value_or(0.0));
  if (decoding.kv_capacity_tokens.value_or(0) > 0)
    kv_usage +=
        static_cast<double>(routing::kv_tokens_of(choice.selection.uncached_tokens, request.estimate.output_tokens)) /
        (static_cast<double>(*decoding.kv_capacity_tokens) * workers);
  return kv_usage <= share * options_.pressure.kv_throttle;
}

Grant RequestRouter::dispatch(ActiveRequest& request, const Choice& choice, std::uint64_t waiting_tokens,
                              core::Instant now) {
  const routing::PickRequest pick = pick_request(request);
  const routing::Selection& selection = choice.selection;
  request.slot = selection.slot;
  request.slot_answered = false;
  request.uncached_tokens = selection.uncached_tokens;
  request.input_tokens = pick.input_tokens;
  if (!request.decodes_only)
    request.cached_tokens = pick.input_tokens - std::min(pick.input_tokens, selection.uncached_tokens);
  request.dispatched_at = now;
  request.overlap_used_at = selection.overlap_used_at;
  ++request.attempts;
  if (!options_.pools.empty() && !request.decodes_only) {
    attempts_.resize(options_.pools.size() + 1);
    PoolStatus& of_pool = attempts_[request.pool];
    ++(replicas_.pool_of(request.slot) == request.pool ? of_pool.own_total : of_pool.overflow_total);
  }
  request.breaker_period = replicas_.dispatched(pick, selection, now);
  request.concurrent_at_start = concurrent(request);
  if (!request.stream)
    unseen_first_tokens_.emplace(now + core::from_milliseconds(selection.expected_ttft_ms), request.ticket);
  const ReplicaSpec& replica = replicas_.replica(request.slot).spec;
  request.entry.replica = replica.id;
  Grant grant;
  grant.slot = request.slot;
  grant.replica = replica.number;
  grant.prefill_only = choice.prefill_only;
  grant.why = selection.why;
  grant.prompt_tokens = request.estimate.prompt_tokens;
  grant.truncated_prompt_tokens = request.truncated_prompt_tokens;
  if (request.overload == admission::OverloadAction::kDegrade)
    grant.max_tokens = admission::degraded_max_tokens(request.max_tokens, waiting_tokens,
                                                      options_.of_class(request.traffic_class).degrade);
  grant.degraded = grant.max_tokens.has_value();
  grant.lowers_max_tokens = grant.degraded || request.lowered;
  if (!grant.max_tokens && request.writes_max_tokens) grant.max_tokens = request.max_tokens;
  return grant;
}

double RequestRouter::concurrent(const ActiveRequest& request) const {
  if (request.slot == kNoSlot) return 0.0;
  const ReplicaSet::Replica& replica = replicas_.replica(request.slot);
  return static_cast<double>(replica.open_requests) / std::max(1U, replica.spec.workers);
}

void RequestRouter::first_token(ActiveRequest& request, core::Instant now) {
  if (request.slot == kNoSlot || request.slot_answered) return;
  if (!request.decodes_only) request.prefilled_at = now;
  if (request.decode_only())
    // How long it took depends on the transfer of the KV, and tells nothing of a prefill.
    replicas_.assume_first_token(request.slot, request.uncached_tokens, request.dispatched_at, now);
  else
    replicas_.first_token(request.slot, request.uncached_tokens, now - request.dispatched_at, now);
  request.slot_answered = true;
}

void RequestRouter::leave(ActiveRequest& request) {
  release_kv(request);
  if (request.slot == kNoSlot) return;
  replicas_.finished(request.slot, request.uncached_tokens, request.input_tokens, request.estimate.output_tokens,
                     request.slot_answered);
  request.slot = kNoSlot;
}

void RequestRouter::leave_prefill(ActiveRequest& request, ActiveRequests& requests, core::Instant now) {
  release_late_kv(requests, now);
  const std::uint32_t slot = request.slot;
  replicas_.hold_kv(slot);
  leave(request);
  request.kv_slot = slot;
  request.kv_until = now + kKvHold;
  held_kv_.emplace_back(request.kv_until, request.ticket);
}

void RequestRouter::release_kv(ActiveRequest& request) {
  if (request.kv_slot == kNoSlot) return;
  replicas_.release_kv(std::exchange(request.kv_slot, kNoSlot));
}

void RequestRouter::release_late_kv(ActiveRequests& requests, core::Instant now) {
  for (; !held_kv_.empty(); held_kv_.pop_front()) {
    const auto& [until, ticket] = held_kv_.front();
    ActiveRequest* request = requests.find(ticket);
    // A request that was retried is listed twice.
    const bool is_held = request != nullptr && request->kv_slot != kNoSlot && request->kv_until == until;
    if (is_held && until > now) return;
    if (is_held) release_kv(*request);
  }
}

void RequestRouter::assume_first_tokens(ActiveRequests& requests, core::Instant now) {
  while (!unseen_first_tokens_.empty() && unseen_first_tokens_.top().first <= now) {
    ActiveRequest* request = requests.find(unseen_first_tokens_.top().second);
    unseen_first_tokens_.pop();
    if (request == nullptr || request->slot == kNoSlot || request->slot_answered) continue;
    request->slot_answered = true;
    replicas_.assume_first_token(request->slot, request->uncached_tokens, request->dispatched_at, now);
  }
}

void RequestRouter::correct_cache(const ActiveRequest& request, const RequestOutcome& outcome) {
  // A prompt that was sent shortly before may not have been computed when this one was looked up.
  constexpr core::Duration kComputed = std::chrono::seconds{30};
  constexpr double kFarLess = 0.5;  // because estimates of tokens differ from the engine's figures
  if (request.slot == kNoSlot || request.decodes_only || !outcome.usage) return;
  // vLLM reports how much was cached where it was anything, and otherwise nothing.
  if (outcome.usage->cached_known) replicas_.reports_cached_tokens(request.slot);
  if (!replicas_.replica(request.slot).reports_cached_tokens) return;
  if (request.overlap_used_at == core::kNever || request.dispatched_at - request.overlap_used_at < kComputed) return;
  const double expected = 1.0 * request.cached_tokens / std::max(1U, request.input_tokens);
  const double measured = 1.0 * outcome.usage->cached_tokens / std::max(1U, outcome.usage->prompt_tokens);
  if (measured < kFarLess * expected) replicas_.prefix_missing(request.slot, request.overlap_used_at);
}

}  // namespace penstock::dispatch
