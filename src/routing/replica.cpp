#include "routing/replica.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/result.h"

namespace penstock::routing {
namespace {

constexpr double kNewFactor = 4.0;  // Price multiplier of a replica that has just become eligible.
// Penalty of a full KV cache: about the wait until a running sequence ends.
constexpr double kFullKvMs = 2000.0;
constexpr double kKvPressureMax = 2.0;  // Context tokens may exceed the cache, because prompts share blocks.
constexpr double kFadedMs = 0.05;       // As small as the differences of prices that do not matter.
constexpr core::Duration kFadeStep = kRecent / 32;  // Terms that fade are recomputed this often.

}  // namespace

void Replica::set_eligible(bool eligible, core::Instant now) {
  if (eligible && !eligible_) since_ = now;
  eligible_ = eligible;
}

void Replica::busy_until(core::Instant until) { busy_until_ = std::max(busy_until_, until); }

void Replica::report_load(const ReportedLoad& report) {
  if (report_ && report.at < report_->at) return;
  report_ = report;
  others_requests_ = std::max(0.0, 0.0 + report.waiting + report.running - open_requests_);
  const double waiting =
      report.waiting_prefill_tokens
          ? static_cast<double>(*report.waiting_prefill_tokens) - static_cast<double>(prefill_tokens_)
          : (0.0 + report.waiting - unanswered_requests_) * usual_uncached_tokens_;
  others_prefill_tokens_ = std::max(0.0, waiting);
  context_at_report_ = context_tokens_;
  kv_at_report_ = kv_tokens_;
}

void Replica::dispatched(const PickRequest& request, const Selection& selection, double tokens_ahead,
                         core::Instant now) {
  if (unanswered_requests_ == 0) working_since_ = now;
  ++open_requests_;
  ++unanswered_requests_;
  prefill_tokens_ += selection.uncached_tokens;
  context_tokens_ += std::uint64_t{request.input_tokens} + request.output_tokens;
  kv_tokens_ += kv_tokens_of(selection.uncached_tokens, request.output_tokens);
  if (selection.overlap_keys > 0) {
    bound_requests_.add(1.0, now);
    bound_tokens_.add(request.input_tokens - selection.uncached_tokens, now);
  }
  // A shorter prompt fits into an iteration of the running sequences, as chunked prefill has it by default.
  if (selection.uncached_tokens >= kIterationTokens) recent_tokens_.add(selection.uncached_tokens, now);
  usual_uncached_tokens_ += 0.05 * (selection.uncached_tokens - usual_uncached_tokens_);
  if (unanswered_.size() < kUnansweredMax) unanswered_.push_back({now, selection.uncached_tokens, tokens_ahead});
}

// Of the requests with this number of tokens, takes the one that was sent nearest to `at`.
std::optional<Replica::Unanswered> Replica::take_unanswered(std::uint32_t uncached_tokens, core::Instant at) {
  auto best = unanswered_.end();
  for (auto it = unanswered_.begin(); it != unanswered_.end(); ++it) {
    if (it->uncached_tokens != uncached_tokens) continue;
    if (best == unanswered_.end() || std::chrono::abs(it->at - at) < std::chrono::abs(best->at - at)) best = it;
  }
  if (best == unanswered_.end()) return std::nullopt;
  const Unanswered taken = *best;
  unanswered_.erase(best);
  return taken;
}

std::optional<Replica::Unanswered> Replica::answer(std::uint32_t uncached_tokens, core::Instant sent_at,
                                                   core::Instant now) {
  PENSTOCK_ASSERT(unanswered_requests_ > 0 && prefill_tokens_ >= uncached_tokens,
                  "a first token answers what was sent");
  --unanswered_requests_;
  prefill_tokens_ -= uncached_tokens;
  working_since_ = now;
  if (uncached_tokens > 0) young_sequences_.add(1.0, now);
  return take_unanswered(uncached_tokens, sent_at);
}

void Replica::first_token(std::uint32_t uncached_tokens, core::Duration ttft, core::Instant now, FleetSpeed& fleet) {
  const std::optional<Unanswered> sent = answer(uncached_tokens, now - ttft, now);
  if (!sent) return;
  // The caller may count from an earlier attempt or from the arrival of the request.
  const core::Duration waited = std::min(ttft, now - sent->at);
  rate_.observe(sent->tokens_ahead, uncached_tokens, waited, now, fleet);
}

void Replica::assume_first_token(std::uint32_t uncached_tokens, core::Instant sent_at, core::Instant now) {
  answer(uncached_tokens, sent_at, now);
}

void Replica::finished(std::uint32_t uncached_tokens, std::uint32_t input_tokens, std::uint32_t output_tokens,
                       bool answered) {
  const std::uint64_t context_tokens = std::uint64_t{input_tokens} + output_tokens;
  PENSTOCK_ASSERT(open_requests_ > 0 && context_tokens_ >= context_tokens, "a request that ends was sent");
  --open_requests_;
  context_tokens_ -= context_tokens;
  context_at_report_ = std::min(context_at_report_, context_tokens_);
  kv_tokens_ -= kv_tokens_of(uncached_tokens, output_tokens);
  kv_at_report_ = std::min(kv_at_report_, kv_tokens_);
  if (answered) {
    // Which one ended is not known.
    const double rest = open_requests_ - unanswered_requests_;
    return young_sequences_.scale(rest / (rest + 1.0));
  }
  PENSTOCK_ASSERT(unanswered_requests_ > 0 && prefill_tokens_ >= uncached_tokens,
                  "a request without an answer was sent");
  --unanswered_requests_;
  prefill_tokens_ -= uncached_tokens;
  take_unanswered(uncached_tokens, core::kStart);  // kStart selects the oldest request.
}

bool Replica::has_recent_report(const EndpointPickerOptions& options, core::Instant now) const {
  return report_ && now - report_->at <= options.load_report_age;
}

double Replica::kv_usage(const EndpointPickerOptions& options, double capacity_tokens, core::Instant now) const {
  if (!has_recent_report(options, now) || !report_->kv_usage)
    return static_cast<double>(context_tokens_) / capacity_tokens;
  return *report_->kv_usage + static_cast<double>(context_tokens_ - context_at_report_) / capacity_tokens;
}

std::optional<double> Replica::expected_kv_usage(const EndpointPickerOptions& options, core::Instant now) const {
  if (!has_recent_report(options, now) || !report_->kv_usage) return std::nullopt;
  if (report_->kv_capacity_tokens.value_or(0) == 0) return report_->kv_usage;
  const auto capacity = static_cast<double>(*report_->kv_capacity_tokens);
  const double with_new = *report_->kv_usage + static_cast<double>(kv_tokens_ - kv_at_report_) / capacity;
  return std::max(with_new, static_cast<double>(kv_tokens_) / capacity);
}

double Replica::slow_start(const EndpointPickerOptions& options, core::Instant now) const {
  const double whole_s = core::to_seconds(options.slow_start), age_s = core::to_seconds(now - since_);
  if (whole_s <= 0.0 || age_s >= whole_s) return 1.0;
  return 1.0 + (kNewFactor - 1.0) * (1.0 - std::max(age_s, 0.0) / whole_s);
}

PriceTerms Replica::terms(const EndpointPickerOptions& options, const FleetSpeed& fleet, const CacheTerms& cache,
                          core::Duration stagger, core::Instant now) const {
  PriceTerms terms;
  if (!eligible_) return terms;
  const bool has_report = has_recent_report(options, now);
  terms.ms_per_token = 1e3 / rate_.tokens_per_s(now, fleet);
  terms.queue_ms =
      (static_cast<double>(prefill_tokens_) + (has_report ? others_prefill_tokens_ : 0.0)) * terms.ms_per_token;
  terms.since = working_since_;
  if (!unanswered_.empty()) terms.progress_ms_max = unanswered_.front().uncached_tokens * terms.ms_per_token;
  terms.progress_ms_max = std::min(terms.progress_ms_max, terms.queue_ms);
  terms.recent_ms = recent_tokens_.value(now) * terms.ms_per_token;
  const double delayed = unanswered_requests_ + young_sequences_.value(now);
  terms.decode_ms = (open_requests_ + (has_report ? others_requests_ : 0.0)) * options.decode_ms_per_sequence;
  const double pressure = std::clamp(
      (kv_usage(options, cache.capacity_tokens, now) - options.kv_soft) / std::max(1.0 - options.kv_soft, 0.01), 0.0,
      kKvPressureMax);
  const bool busy = now < busy_until_ || expected_kv_usage(options, now).value_or(0.0) >= options.kv_full;
  terms.fixed_ms = rate_.constant_ms(fleet) + kFullKvMs * pressure * pressure + (busy ? kBusyMs : 0.0);
  terms.factor = slow_start(options, now) / weight_;
  const double factored_ms = terms.factor * terms.ms_per_token;
  terms.token_price = factored_ms * (1.0 + delayed);
  // The share of kBound that a token takes.
  const double token_share = terms.ms_per_token / core::to_milliseconds(kBound);
  terms.square_price = factored_ms * token_share * bound_requests_.value(now) / 2.0;
  terms.bound_price_max = factored_ms * token_share * bound_tokens_.value(now);
  terms.evicted_price = factored_ms * cache.used_again;
  terms.free_tokens = cache.free_tokens;

  terms.due = rate_.changes_after(now) + stagger;
  if (has_report) terms.due = std::min(terms.due, report_->at + options.load_report_age + core::Duration{1});
  if (terms.recent_ms + delayed > kFadedMs) terms.due = std::min(terms.due, now + kFadeStep);
  if (now < busy_until_) terms.due = std::min(terms.due, busy_until_);
  if (now < since_ + options.slow_start) terms.due = std::min(terms.due, now + options.slow_start / 64 + stagger);
  return terms;
}

void Replica::describe(const EndpointPickerOptions& options, const FleetSpeed& fleet, core::Instant now,
                       EndpointPicker::Load& load) const {
  load.eligible = eligible_;
  load.open_requests = open_requests_;
  load.prefill_tokens = prefill_tokens_;
  load.context_tokens = context_tokens_;
  load.prefill_tokens_per_s = rate_.tokens_per_s(now, fleet);
  if (!has_recent_report(options, now)) return;
  load.kv_usage = report_->kv_usage;
  load.kv_usage_expected = expected_kv_usage(options, now);
  load.kv_capacity_tokens = report_->kv_capacity_tokens;
}

}  // namespace penstock::routing
