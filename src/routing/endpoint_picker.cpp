#include "routing/endpoint_picker.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/result.h"
#include "routing/held_prefixes.h"
#include "routing/prefix_replication.h"
#include "routing/prefix_reuse.h"
#include "routing/replica.h"
#include "routing/sessions.h"

namespace penstock::routing {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// A slower iteration delays every output token. The price counts this many of them, which is about what a user reads
// before the speed stops mattering and the usual ratio of a TTFT objective to an ITL objective.
constexpr std::uint32_t kCountedTokens = 64;
// A second copy of a prefix takes the space of other prefixes for as long as both are used, so its cost on a full cache
// is multiplied by up to 1 + this value.
constexpr double kFullCache = 3.0;
// Prices within this relative and absolute distance count as equal. Estimates are no more precise than that, and
// several gateways must not all prefer the same replica.
constexpr double kTieShare = 0.01, kTieMs = 0.05;

double tie_limit(double price) { return price + kTieShare * price + kTieMs; }

// Four independent minima break the dependency of each comparison on the previous one.
template <class Value>
double lowest_of(std::size_t count, Value&& value) {
  double partial[4] = {kNever, kNever, kNever, kNever};
  std::size_t at = 0;
  for (; at + 4 <= count; at += 4)
    for (std::size_t i = 0; i < 4; ++i) partial[i] = std::min(partial[i], value(at + i));
  for (; at < count; ++at) partial[0] = std::min(partial[0], value(at));
  return std::min(std::min(partial[0], partial[1]), std::min(partial[2], partial[3]));
}

}  // namespace

struct EndpointPicker::State {
  State(const EndpointPickerOptions& given, core::RandomStream stream)
      : options(given),
        random(stream),
        sessions(given.sessions, given.session_time),
        fleet(std::clamp(given.prefill_tokens_per_s, PrefillRate::kLowest, PrefillRate::kHighest)) {}

  [[nodiscard]] bool knows(std::uint32_t slot) const { return slot < replicas.size() && replicas[slot]; }
  void refresh(std::uint32_t slot, core::Instant now);

  void price(const PickRequest& request, core::Instant now);
  [[nodiscard]] std::uint32_t uncached_tokens(std::uint32_t slot, const PickRequest& request) const;
  [[nodiscard]] double price_of(std::size_t slot, double uncached_tokens) const {
    return load_prices[slot] + terms[slot].prompt_price(uncached_tokens);
  }
  [[nodiscard]] std::uint32_t cheapest(std::uint32_t& candidates);
  [[nodiscard]] PickReason why(std::uint32_t slot) const;
  void consider_replication(const PickRequest& request, core::Instant now, Selection& selection);

  EndpointPickerOptions options;
  core::RandomStream random;
  std::vector<std::optional<Replica>> replicas;  // Indexed by slot.
  std::vector<PriceTerms> terms;
  HeldPrefixes held;
  Sessions sessions;
  PrefixReplication replication;
  PrefixReuse reuse;
  FleetSpeed fleet;
  std::uint32_t key_tokens = 256;  // Value of the latest request.
  // Scratch space of one choice, indexed by slot.
  std::vector<double> prices;
  std::vector<double> load_prices;      // The part that does not depend on the prompt.
  std::vector<double> uncached_prices;  // Prices without any cached prefix.
  std::vector<std::uint32_t> overlap;
};

void EndpointPicker::State::refresh(std::uint32_t slot, core::Instant now) {
  const std::uint32_t capacity = held.capacity(slot), keys = std::min(held.keys(slot), capacity);
  CacheTerms cache{1.0 * capacity * key_tokens, 1.0 * (capacity - keys) * key_tokens};
  if (const auto oldest = held.oldest_use(slot, now)) cache.used_again = reuse.probability(now - *oldest);
  terms[slot] = replicas[slot]->terms(options, fleet, cache, std::chrono::milliseconds{slot % 64 * 8}, now);
}

std::uint32_t EndpointPicker::State::uncached_tokens(std::uint32_t slot, const PickRequest& request) const {
  const std::uint64_t cached = std::uint64_t{overlap[slot]} * request.key_tokens;
  return request.input_tokens - static_cast<std::uint32_t>(std::min<std::uint64_t>(cached, request.input_tokens));
}

// Fills `prices` and `overlap`. A replica that is not eligible has an infinite price.
void EndpointPicker::State::price(const PickRequest& request, core::Instant now) {
  const double tokens = request.input_tokens;
  const std::uint32_t counted_tokens =
      request.output_tokens == 0 ? kCountedTokens : std::min(request.output_tokens, kCountedTokens);
  const double iterations = counted_tokens + tokens / kIterationTokens;
  std::fill(overlap.begin(), overlap.end(), 0);
  for (std::uint32_t slot = 0; slot < terms.size(); ++slot) {
    if (now >= terms[slot].due) refresh(slot, now);
    load_prices[slot] = terms[slot].load_price(now, iterations);
    prices[slot] = uncached_prices[slot] = price_of(slot, tokens);
  }
  for (const Holders::Overlap& holder : held.overlaps(request.keys, now)) {
    overlap[holder.slot] = holder.keys;
    prices[holder.slot] = price_of(holder.slot, uncached_tokens(holder.slot, request));
  }
  for (const std::uint32_t slot : request.without)
    if (slot < prices.size()) prices[slot] = load_prices[slot] = uncached_prices[slot] = kNever;
}

// Selects the replicas near the lowest price, prefers the longest overlap, which saves the fleet work, and breaks ties
// at random. `candidates` is the number of replicas to choose from; busy ones count only if all are busy.
std::uint32_t EndpointPicker::State::cheapest(std::uint32_t& candidates) {
  const double lowest = lowest_of(prices.size(), [&](std::size_t slot) { return prices[slot]; });
  const double limit = tie_limit(lowest);
  const double choosable = lowest < Replica::kBusyMs / 2 ? Replica::kBusyMs / 2 : std::numeric_limits<double>::max();
  std::uint32_t equal = 0, longest = 0, best = 0;
  candidates = 0;
  for (std::uint32_t slot = 0; slot < prices.size(); ++slot) {
    candidates += prices[slot] <= choosable ? 1 : 0;
    if (prices[slot] > limit || (equal > 0 && overlap[slot] < longest)) continue;
    equal = equal > 0 && overlap[slot] == longest ? equal + 1 : 1;
    longest = overlap[slot];
    best = slot;
  }
  if (equal <= 1 || lowest == kNever) return best;
  std::uint64_t turn = random.below(equal);
  for (std::uint32_t slot = 0; slot < prices.size(); ++slot)
    if (prices[slot] <= limit && overlap[slot] == longest && turn-- == 0) return slot;
  return best;
}

// The prefix was decisive if a replica with less overlap would have had an equal or lower price without any cached
// prefix.
PickReason EndpointPicker::State::why(std::uint32_t slot) const {
  if (overlap[slot] == 0) return PickReason::kLoad;
  const double limit = tie_limit(uncached_prices[slot]);
  for (std::uint32_t other = 0; other < prices.size(); ++other)
    if (uncached_prices[other] <= limit && overlap[other] < overlap[slot]) return PickReason::kPrefix;
  return PickReason::kLoad;
}

// Moves the request to another replica when the prefix is worth replicating; see prefix_replication.h.
void EndpointPicker::State::consider_replication(const PickRequest& request, core::Instant now, Selection& selection) {
  const std::uint32_t chosen = selection.slot, shared = overlap[chosen];
  if (shared == 0) return;
  const std::uint32_t uncached = uncached_tokens(chosen, request);
  const auto price_with_it = [&](std::size_t slot) { return price_of(slot, uncached); };
  const double lowest = lowest_of(prices.size(), price_with_it);
  if (lowest >= prices[chosen]) return;
  std::uint32_t other = 0;
  while (price_with_it(other) > lowest) ++other;
  if (overlap[other] >= shared) return;  // The other replica is equally suitable and lost the random tie break.
  const std::uint64_t key = request.keys[shared - 1];
  selection.shared_keys = shared;
  selection.forgone_ms = prices[chosen] - lowest;
  const double cost_ms = prices[other] - lowest;
  const double full = std::min(1.0, 1.0 * held.keys(other) / held.capacity(other));
  if (replication.rent_ms(key, now) + selection.forgone_ms < cost_ms * (1.0 + kFullCache * full)) return;
  selection.slot = other;
  selection.forgone_ms = -selection.forgone_ms;
}

EndpointPicker::EndpointPicker(const EndpointPickerOptions& options, core::RandomStream random)
    : state_(std::make_unique<State>(options, random)) {}
EndpointPicker::~EndpointPicker() = default;

void EndpointPicker::add(std::uint32_t slot, core::Instant now, double weight) {
  PENSTOCK_ASSERT(weight > 0.0 && slot < (1U << 16), "configuration allows weights above 0, and slots are used again");
  State& state = *state_;
  if (slot >= state.replicas.size()) {
    state.replicas.resize(slot + 1);
    state.terms.resize(slot + 1);
    state.prices.resize(slot + 1);
    state.load_prices.resize(slot + 1);
    state.uncached_prices.resize(slot + 1);
    state.overlap.resize(slot + 1);
  }
  PENSTOCK_ASSERT(!state.replicas[slot], "a slot is forgotten before it is used again");
  state.replicas[slot].emplace(now, weight);
  state.held.open(slot, state.options.keys_per_replica);
  state.refresh(slot, now);
}

void EndpointPicker::set_eligible(std::uint32_t slot, bool eligible, core::Instant now) {
  if (!state_->knows(slot)) return;
  state_->replicas[slot]->set_eligible(eligible, now);
  state_->refresh(slot, now);
}

void EndpointPicker::set_weight(std::uint32_t slot, double weight, core::Instant now) {
  if (!state_->knows(slot)) return;
  PENSTOCK_ASSERT(weight > 0.0, "configuration allows weights above 0");
  state_->replicas[slot]->set_weight(weight);
  state_->refresh(slot, now);
}

void EndpointPicker::forget(std::uint32_t slot) {
  if (!state_->knows(slot)) return;
  state_->replicas[slot].reset();
  state_->terms[slot] = PriceTerms{};
  state_->held.forget(slot);
  state_->sessions.forget(slot);
}

void EndpointPicker::set_capacity(std::uint32_t slot, std::uint32_t keys) {
  if (state_->knows(slot)) state_->held.set_capacity(slot, keys);
}

void EndpointPicker::set_kv_full(double kv_usage) {
  state_->options.kv_full = kv_usage;
  for (std::uint32_t slot = 0; slot < state_->terms.size(); ++slot)
    if (state_->knows(slot)) state_->terms[slot].due = core::Instant{};
}

void EndpointPicker::report_load(std::uint32_t slot, const ReportedLoad& report) {
  if (!state_->knows(slot)) return;
  state_->replicas[slot]->report_load(report);
  state_->refresh(slot, report.at);
}

void EndpointPicker::busy(std::uint32_t slot, core::Instant now, core::Duration pause) {
  if (!state_->knows(slot)) return;
  state_->replicas[slot]->busy_until(now + pause);
  state_->refresh(slot, now);
}

std::optional<Selection> EndpointPicker::choose(const PickRequest& request, core::Instant now) {
  State& state = *state_;
  if (state.terms.empty()) return std::nullopt;
  state.key_tokens = request.key_tokens;
  state.price(request, now);
  std::uint32_t candidates = 0;
  Selection selection;
  selection.slot = state.cheapest(candidates);
  const double lowest = state.prices[selection.slot];
  if (lowest == kNever) return std::nullopt;
  const std::uint32_t session_slot =
      request.affinity == 0 ? Sessions::kNone : state.sessions.find(request.affinity, now);
  if (candidates == 1) {
    selection.why = PickReason::kOnly;
  } else if (session_slot != Sessions::kNone &&
             state.prices[session_slot] <= lowest + core::to_milliseconds(request.affinity_tolerance)) {
    selection.slot = session_slot;
    selection.why = PickReason::kAffinity;
  } else {
    selection.why = state.why(selection.slot);
    state.consider_replication(request, now, selection);
    if (selection.forgone_ms < 0.0) selection.why = PickReason::kLoad;
  }
  const PriceTerms& terms = state.terms[selection.slot];
  selection.overlap_keys = state.overlap[selection.slot];
  if (selection.overlap_keys > 0)
    selection.overlap_used_at =
        state.held.used_at(selection.slot, request.keys[selection.overlap_keys - 1], now).value_or(core::kNever);
  // The last prompt token is always computed, because its output is the first token.
  const std::uint32_t uncached = state.uncached_tokens(selection.slot, request);
  selection.uncached_tokens = std::max(uncached, std::min(request.input_tokens, 1U));
  const double fixed_ms = terms.fixed_ms >= Replica::kBusyMs ? terms.fixed_ms - Replica::kBusyMs : terms.fixed_ms;
  selection.expected_ttft_ms =
      fixed_ms + terms.wait_ms(now) + selection.uncached_tokens * terms.ms_per_token + terms.decode_ms;
  return selection;
}

void EndpointPicker::dispatched(const PickRequest& request, const Selection& selection, core::Instant now) {
  State& state = *state_;
  const std::uint32_t slot = selection.slot;
  if (!state.knows(slot)) return;
  const PriceTerms& terms = state.terms[slot];
  const double ahead = terms.ms_per_token > 0.0 ? std::max(0.0, terms.wait_ms(now)) / terms.ms_per_token : 0.0;
  state.replicas[slot]->dispatched(request, selection, ahead, now);
  state.held.sent(slot, request.keys, now, request.unshared_keys);
  if (selection.overlap_keys == 0) {
    state.reuse.sent(request.input_tokens, 0, {}, now);
  } else if (selection.overlap_used_at != core::kNever) {
    const std::uint32_t cached = request.input_tokens - selection.uncached_tokens;
    state.reuse.sent(request.input_tokens, cached, now - selection.overlap_used_at, now);
  }
  if (request.affinity != 0) state.sessions.remember(request.affinity, slot, now);
  if (selection.shared_keys > 0 && selection.shared_keys <= request.keys.size()) {
    const std::uint64_t key = request.keys[selection.shared_keys - 1];
    if (selection.forgone_ms < 0.0) {
      state.replication.reset(key);
    } else {
      state.replication.pay(key, selection.forgone_ms, now);
    }
  }
  state.refresh(slot, now);
}

void EndpointPicker::first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Duration ttft,
                                 core::Instant now) {
  if (!state_->knows(slot)) return;
  state_->replicas[slot]->first_token(uncached_tokens, ttft, now, state_->fleet);
  state_->refresh(slot, now);
}

void EndpointPicker::assume_first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Instant sent_at,
                                        core::Instant now) {
  if (!state_->knows(slot)) return;
  state_->replicas[slot]->assume_first_token(uncached_tokens, sent_at, now);
  state_->refresh(slot, now);
}

void EndpointPicker::finished(std::uint32_t slot, std::uint32_t uncached_tokens, std::uint32_t input_tokens,
                              std::uint32_t output_tokens, bool answered) {
  if (!state_->knows(slot)) return;
  state_->replicas[slot]->finished(uncached_tokens, input_tokens, output_tokens, answered);
  // The terms are recomputed at the next choice, because this call has no time argument.
  state_->terms[slot].due = core::Instant::min();
}

void EndpointPicker::stored(std::uint32_t slot, std::uint64_t key) {
  if (state_->knows(slot)) state_->held.stored(slot, key);
}

void EndpointPicker::removed(std::uint32_t slot, std::uint64_t key) {
  if (state_->knows(slot)) state_->held.removed(slot, key);
}

void EndpointPicker::cleared(std::uint32_t slot) {
  if (state_->knows(slot)) state_->held.cleared(slot);
}

void EndpointPicker::events_lost(std::uint32_t slot) {
  if (state_->knows(slot)) state_->held.events_lost(slot);
}

void EndpointPicker::prefix_missing(std::uint32_t slot, core::Instant used_at) {
  if (state_->knows(slot)) state_->held.prefix_missing(slot, used_at);
}

std::vector<EndpointPicker::Holder> EndpointPicker::holders(std::span<const std::uint64_t> keys, core::Instant now) {
  std::vector<Holder> found;
  if (keys.empty()) return found;
  for (const Holders::Overlap& holder : state_->held.overlaps(keys, now)) {
    if (holder.keys < keys.size()) continue;
    if (const auto sent_at = state_->held.used_at(holder.slot, keys.back(), now))
      found.push_back({holder.slot, *sent_at});
  }
  return found;
}

void EndpointPicker::pinged(std::uint32_t slot, std::span<const std::uint64_t> keys, core::Instant now) {
  if (state_->knows(slot)) state_->held.sent(slot, keys, now);
}

EndpointPicker::Load EndpointPicker::load(std::uint32_t slot, core::Instant now) const {
  Load load;
  if (!state_->knows(slot)) return load;
  state_->replicas[slot]->describe(state_->options, state_->fleet, now, load);
  load.keys = state_->held.keys(slot);
  load.by_events = state_->held.by_events(slot);
  return load;
}

}  // namespace penstock::routing
