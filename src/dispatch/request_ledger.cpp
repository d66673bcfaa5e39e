#include "dispatch/request_ledger.h"

#include <algorithm>
#include <chrono>

#include "dispatch/usage_check.h"

namespace penstock::dispatch {

// Without a number from the sink, entries are numbered above what any earlier run used, as long as no run began more
// than a million requests a second.
RequestLedger::RequestLedger(const ReplicaSet& replicas, std::unique_ptr<LedgerSink> sink, core::Instant now,
                             core::Duration unix_now)
    : replicas_(replicas),
      sink_(std::move(sink)),
      unix_at_start_(unix_now - now.time_since_epoch()),
      next_entry_(static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(unix_now).count())) {
  if (sink_) next_entry_ = sink_->first_entry().value_or(next_entry_);
}

std::int64_t RequestLedger::unix_ms(core::Instant now) const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(unix_at_start_ + now.time_since_epoch()).count();
}

std::vector<admission::PastCharge> RequestLedger::past_charges(const DispatchOptions& options, core::Instant since,
                                                               core::Instant now) const {
  std::vector<admission::PastCharge> charges;
  if (!sink_) return charges;
  const auto number_of = [&](const std::string& name) {
    return std::find_if(options.tenants.begin(), options.tenants.end(),
                        [&](const Tenant& tenant) { return tenant.name == name; });
  };
  for (const ledger::PastUse& use : sink_->uses_since(unix_ms(since))) {
    const auto tenant = number_of(use.tenant);
    if (tenant == options.tenants.end()) continue;
    const core::Instant at{std::chrono::milliseconds{use.at_unix_ms} - unix_at_start_};
    // The wall clock may have been set back.
    charges.push_back({static_cast<std::uint32_t>(tenant - options.tenants.begin()),
                       use.traffic_class == to_string(admission::Class::kBatch) ? admission::Class::kBatch
                                                                                : admission::Class::kInteractive,
                       use.tokens, std::min(at, now)});
  }
  std::stable_sort(charges.begin(), charges.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
  return charges;
}

void RequestLedger::open(ActiveRequest& request, core::Instant now) {
  ledger::Entry& entry = request.entry;
  entry.id = ++next_entry_;
  entry.opened_unix_ms = unix_ms(now);
  entry.reserved_tokens = request.claim.tokens;
  // What is charged should the process end before the request does.
  entry.prompt_tokens = request.estimate.prompt_tokens;
  entry.cost = ledger::cost_of(entry, replicas_.model(request.model).price);
  balance_.open(entry);
  if (sink_) unwritten_.emplace_back(now, request.ticket);
}

void RequestLedger::write_open(ActiveRequests& requests, core::Instant now) {
  for (; next_write() <= now && !unwritten_.empty(); unwritten_.pop_front())
    if (ActiveRequest* request = requests.find(unwritten_.front().second)) {
      sink_->opened(request->entry);
      request->in_sink = true;
    }
}

OutputEstimator& RequestLedger::estimator(const ActiveRequest& request) {
  if (request.model >= estimators_.size()) estimators_.resize(request.model + 1);
  return estimators_[request.model];
}

void RequestLedger::grow(ActiveRequest& request, const Progress& progress) {
  ledger::Entry& entry = request.entry;
  const Count prompt = prompt_of(request, progress.usage), output = output_of(request, progress.usage, progress.output);
  if (prompt.reported) entry.prompt_tokens = prompt.tokens;
  entry.output_tokens = output.tokens;
  entry.cost = ledger::cost_of(entry, replicas_.model(request.model).price);
  if (request.in_sink) sink_->grown(entry);
}

RequestLedger::Count RequestLedger::prompt_of(const ActiveRequest& request, const std::optional<TokenUsage>& usage) {
  const TokenBounds bounds = prompt_bounds(request);
  if (usage && bounds.contain(usage->prompt_tokens)) return {usage->prompt_tokens, true};
  if (usage && usage->prompt_tokens > bounds.most) return {bounds.most, false};
  return {request.estimate.prompt_tokens, false};
}

// The most that the request may have; an engine ends each answer at its context.
std::uint64_t RequestLedger::output_limit(const ActiveRequest& request) const {
  return std::min(request.output_tokens_most().value_or(UINT32_MAX),
                  *limit_of(request.answers, replicas_.context_tokens(request.model)));
}

RequestLedger::Count RequestLedger::output_of(const ActiveRequest& request, const std::optional<TokenUsage>& usage,
                                              const SeenOutput& seen) {
  const std::uint64_t limit = output_limit(request);
  const OutputEstimator& output = estimator(request);
  if (usage) {
    if (output_bounds(request, seen, usage->reasoning_tokens, limit).contain(usage->output_tokens))
      return {usage->output_tokens, true};
    if (usage->output_tokens > limit && !shows_tokens(request, seen)) return {limit, false};
  }
  // Besides the first and the last event of an answer, one without text has a token, too.
  const std::uint64_t ends = 2 * request.answers;
  const std::uint64_t events = std::max<std::uint64_t>(seen.events, seen.steps > ends ? seen.steps - ends : 0);
  return {std::min(limit, output.of_events(events, seen.bytes)), false};
}

// A request that a replica has is computed, whether its client waits for it or not.
void RequestLedger::count_tokens(ActiveRequest& request, const RequestOutcome& outcome, core::Instant now) {
  using ledger::Outcome;
  ledger::Entry& entry = request.entry;
  entry.prompt_tokens = entry.output_tokens = 0;
  const bool left = outcome.outcome == Outcome::kCancelled || outcome.outcome == Outcome::kTimedOut;
  const bool delivered =
      request.answered || outcome.outcome == Outcome::kCompleted || outcome.outcome == Outcome::kTruncated;
  if (!outcome.usage && !delivered && !(left && request.computes)) return;
  const core::Duration time = now - request.dispatched_at;
  const SeenOutput& seen = outcome.output;
  const Count prompt = prompt_of(request, outcome.usage), output = output_of(request, outcome.usage, seen);
  entry.measured = prompt.reported && output.reported;
  entry.prompt_tokens = prompt.tokens;
  const bool cached_reported = prompt.reported && outcome.usage->cached_tokens <= prompt.tokens;
  entry.cached_tokens =
      cached_reported ? outcome.usage->cached_tokens : std::min<std::uint64_t>(request.cached_tokens, prompt.tokens);
  if (request.max_tokens == 0U) return;
  entry.output_tokens = output.tokens;
  const bool unseen = left && !request.stream && !seen.has_text() && !output.reported;
  if (unseen) {
    entry.output_tokens = std::min(output_limit(request), estimator(request).of_time(time, request.answers));
  } else if (left && request.computes && seen.events > 0 && !seen.whole) {
    // A replica notices that the gateway left after the step that it computes.
    const std::uint64_t step = estimator(request).of_events(1, seen.bytes / seen.events);
    entry.output_tokens = std::max(output.tokens, std::min(output_limit(request), output.tokens + step));
    request.step_tokens = entry.output_tokens - output.tokens;
  }
  if (left && request.stream && request.hides_reasoning && !output.reported) {
    const core::Duration hidden = (request.answered ? request.answered_at : now) - request.dispatched_at;
    entry.output_tokens =
        std::min(output_limit(request), entry.output_tokens + estimator(request).of_time(hidden, request.answers));
  }
  if (entry.measured && outcome.outcome == Outcome::kCompleted && output.tokens > 0 && !request.hides_output)
    estimator(request).learn(output.tokens, seen.events, request.stream, time, request.answers);
}

void RequestLedger::close(ActiveRequest& request, const RequestOutcome& outcome, core::Instant now) {
  ledger::Entry& entry = request.entry;
  entry.outcome = outcome.outcome;
  entry.closed_unix_ms = std::max(entry.opened_unix_ms, unix_ms(now));
  count_tokens(request, outcome, now);
  if (request.answered) {
    entry.ttft_ms = core::to_milliseconds(request.answered_at - request.received_at);
    const core::Duration generated = outcome.last_token_at - request.answered_at;
    // The gaps of an answer that waited for its client say nothing about the replica.
    if (entry.output_tokens > 1 && generated > core::Duration{} && 10 * outcome.client_wait <= generated)
      entry.itl_ms = core::to_milliseconds(generated) / static_cast<double>(entry.output_tokens - 1);
  }
  entry.cost = ledger::cost_of(entry, replicas_.model(request.model).price);
  balance_.close(entry);
  if (sink_) sink_->closed(entry);
}

void RequestLedger::lose_open(const ActiveRequests& requests) {
  requests.for_each([this](const ActiveRequest& request) {
    if (!request.granted) return;
    ledger::Entry entry = request.entry;
    entry.outcome = ledger::Outcome::kLost;
    entry.closed_unix_ms = entry.opened_unix_ms;
    balance_.close(entry);
  });
}

void RequestLedger::refuse(ledger::Entry& entry) {
  entry.outcome = ledger::Outcome::kRefused;
  balance_.refuse(entry);
}

}  // namespace penstock::dispatch
