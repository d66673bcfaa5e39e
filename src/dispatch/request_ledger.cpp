#include "dispatch/request_ledger.h"

#include <algorithm>
#include <chrono>

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
  entry.output_tokens = progress.usage ? progress.usage->output_tokens
                                       : estimator(request).of_events(progress.output_events, progress.output_bytes);
  if (progress.usage) entry.prompt_tokens = progress.usage->prompt_tokens;
  entry.cost = ledger::cost_of(entry, replicas_.model(request.model).price);
  if (request.in_sink) sink_->grown(entry);
}

// A request that a replica has is computed, whether its client waits for it or not.
void RequestLedger::count_tokens(ActiveRequest& request, const RequestOutcome& outcome, core::Instant now) {
  using ledger::Outcome;
  ledger::Entry& entry = request.entry;
  entry.prompt_tokens = entry.output_tokens = 0;
  const bool left = outcome.outcome == Outcome::kCancelled || outcome.outcome == Outcome::kTimedOut;
  const bool delivered =
      request.answered || outcome.outcome == Outcome::kCompleted || outcome.outcome == Outcome::kTruncated;
  const bool generates = request.max_tokens != 0U;
  const std::uint64_t limit = request.output_tokens_most().value_or(UINT32_MAX);
  const bool has_output = outcome.output_events > 0 || outcome.output_bytes > 0;
  OutputEstimator& output = estimator(request);
  // An engine that reports no tokens for a text has not counted them.
  if (outcome.usage && (outcome.usage->output_tokens > 0 || !has_output || !generates)) {
    entry.measured = true;
    entry.prompt_tokens = outcome.usage->prompt_tokens;
    entry.cached_tokens = std::min(outcome.usage->cached_tokens, outcome.usage->prompt_tokens);
    entry.output_tokens = std::min<std::uint64_t>(outcome.usage->output_tokens, limit);
    if (outcome.outcome != Outcome::kCompleted || entry.output_tokens == 0) return;
    output.learn(entry.output_tokens, outcome.output_events, request.stream, now - request.dispatched_at);
  } else if (delivered || (left && request.computes)) {
    entry.prompt_tokens = request.estimate.prompt_tokens;
    entry.cached_tokens = std::min<std::uint64_t>(request.cached_tokens, entry.prompt_tokens);
    if (!generates) return;
    if (request.stream || has_output || !left)
      entry.output_tokens = output.of_events(outcome.output_events, outcome.output_bytes);
    else
      entry.output_tokens = output.of_time(now - request.dispatched_at);
    if (!has_output) entry.output_tokens = std::min<std::uint64_t>(entry.output_tokens, limit);
  }
}

void RequestLedger::close(ActiveRequest& request, const RequestOutcome& outcome, core::Instant now) {
  ledger::Entry& entry = request.entry;
  entry.outcome = outcome.outcome;
  entry.closed_unix_ms = std::max(entry.opened_unix_ms, unix_ms(now));
  count_tokens(request, outcome, now);
  if (request.answered) {
    entry.ttft_ms = core::to_milliseconds(request.answered_at - request.received_at);
    if (entry.output_tokens > 1 && outcome.last_token_at > request.answered_at)
      entry.itl_ms = core::to_milliseconds(outcome.last_token_at - request.answered_at) /
                     static_cast<double>(entry.output_tokens - 1);
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
