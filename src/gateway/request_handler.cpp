#include "gateway/request_handler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/result.h"
#include "gateway/buffers.h"
#include "gateway/fields.h"

namespace penstock::gateway {
namespace {

constexpr std::size_t kHandlersWithMemory = 64;  // Idle handlers that keep their buffers.
constexpr std::size_t kPrefillAnswerMax = 1 << 20;
constexpr std::string_view kUnresponsive = "the replica is unresponsive";
constexpr core::Duration kRestOfEvent = std::chrono::seconds{1};
constexpr int kClientClosedRequest = 499;  // nginx's status, used only in the access log.

}  // namespace

// ---- reading and admission ------------------------------------------------------------------------------------------

void RequestHandler::begin(net::Exchange& exchange, api::Endpoint endpoint) {
  exchange_ = &exchange;
  endpoint_ = endpoint;
  status_ = 0;
  ids_.assign(exchange.head().field("x-request-id"), context_.random.next());
  report_.begin(ids_.own, exchange.received_at());
  exchange.listen(&guard_);
  body_.take(exchange);
  enter(Phase::kReading);
  ReadRequest read;
  auto refusal = read_head(context_, exchange, endpoint, ids_.own, read);
  if (!refusal) refusal = body_.charge_to(read.info.tenant, exchange);
  if (refusal) return finish_reading(std::move(refusal), read);
  body_.parse(endpoint, [this, read](std::optional<Refusal> fault) mutable { finish_reading(std::move(fault), read); });
}

void RequestHandler::finish_reading(std::optional<Refusal> refusal, ReadRequest& read) {
  if (!refusal) refusal = describe_body(context_, *exchange_, endpoint_, read);
  report_.read(read);
  if (!refusal) refusal = admit(read);
  if (refusal) refuse_request(*refusal);
}

// Returns nothing if the request was granted a replica or waits.
std::optional<Refusal> RequestHandler::admit(const ReadRequest& read) {
  shows_routing_ = body_.take_settings(read);
  strips_usage_ = read.adds_usage;
  stream_ = read.stream;
  time_limited_ = read.time_budget > core::Duration{};
  choices_ = read.info.answers;
  if (read.collect) collector_ = std::make_unique<api::AnswerCollector>(endpoint_ == api::Endpoint::kChatCompletions);
  return arrive(read);
}

std::optional<Refusal> RequestHandler::arrive(const ReadRequest& read) {
  enter(Phase::kAdmitting);
  RoutedArrival arrival = context_.dispatcher.arrive(read.info, context_.listener, net::Loop::read_clock());
  if (arrival.count_prompt || arrival.prompt_excess) {
    enter(arrival.count_prompt ? Phase::kCounting : Phase::kTruncating);
    prompt_fit_.start(arrival, read, *exchange_, endpoint_, [this](const ReadRequest& again) {
      if (const auto refusal = arrive(again)) refuse_request(*refusal);
    });
    return std::nullopt;
  }
  if (arrival.refusal) return make_refusal(*std::move(arrival.refusal));
  ticket_ = arrival.ticket;
  const auto time_budget = time_budget_of(context_.settings->options.dispatch, read, arrival.moved_to_batch);
  time_limited_ = time_budget > core::Duration{};
  report_.admitted(read.info, arrival.moved_to_batch);
  body_.offer_prefixes(read);
  if (time_limited_) budget_ = context_.loop.after(time_budget, [this] { out_of_time(); });
  if (arrival.grant) {
    go(*std::move(arrival.grant));
  } else {
    enter(Phase::kQueued);
    context_.waiting.emplace(ticket_, this);
  }
  return std::nullopt;
}

void RequestHandler::refused(const Refusal& refusal) {
  ticket_ = 0;
  refuse_request(refusal);
}

void RequestHandler::refuse_request(const Refusal& refusal) {
  report_.refused(refusal);
  const std::string id = ids_.own;
  refuse(release(), refusal, id);
}

// ---- attempts at replicas -------------------------------------------------------------------------------------------

ClientRequest RequestHandler::client_request() const {
  return body_.as_request(exchange_->head(), ids_.for_engine(), endpoint_, collector_ != nullptr);
}

void RequestHandler::go(RoutedGrant grant) {
  grant_ = std::move(grant);
  if (grant_.prefill_only && !context_.front.is_proxy()) {
    // Envoy sends one request, to the decode replica, whose sidecar calls the other one.
    auto decode = context_.dispatcher.route_decode(ticket_, context_.loop.now());
    if (!decode) return give_up(503, "no_replica", "no decode replica may be chosen now");
    decode->prefiller = std::move(grant_.target);
    grant_ = *std::move(decode);
  }
  prepare({});
}

void RequestHandler::prepare(std::string kv_transfer_params) {
  attempt_open_ = true;
  enter(grant_.prefill_only ? Phase::kPrefilling : Phase::kConnecting);
  body_.prepare(client_request(), grant_, std::move(kv_transfer_params), [this] { attempt(); });
}

void RequestHandler::attempt() {
  report_.granted(grant_);
  body_.upstream().write_head(context_, client_request(), *grant_.target, grant_.prefiller.get());
  reset_answer();
  call_.start(context_, *exchange_, *grant_.target, body_.upstream(), !time_limited_ && !grant_.prefill_only, guard_);
}

void RequestHandler::reset_answer() {
  relay_.reset();
  watch_.reset((stream_ || collector_) && !grant_.prefill_only, choices_);
  kind_ = AnswerKind::kOther;
  if (collector_) collector_->reset();
}

void RequestHandler::end_attempt(dispatch::Attempt attempt, Phase next) {
  if (std::exchange(attempt_open_, false)) context_.dispatcher.attempt_ended(ticket_, attempt, context_.loop.now());
  enter(next);
}

bool RequestHandler::retry(dispatch::Attempt attempt, std::string_view cause) {
  if (has_begun(phase_)) return false;
  end_attempt(attempt, Phase::kRouting);
  // The decode replica may have failed to fetch the KV, so the whole request starts again.
  auto grant = can_repeat() ? context_.dispatcher.route_again(ticket_, context_.loop.now()) : std::nullopt;
  if (!grant) return false;
  report_.retried(*grant_.target, cause, *grant->target);
  call_.cancel();
  go(*std::move(grant));
  return true;
}

void RequestHandler::leave_unresponsive_replica() {
  if (!call_.is_unresponsive()) return;
  const core::Instant now = context_.loop.now();
  if (has_begun(phase_)) {
    if (!call_.is_silent_for(context_.settings->options.dispatch.unresponsive_idle_timeout, now)) return;
    break_off(kUnresponsive);
  } else if (can_repeat() && context_.dispatcher.may_retry(ticket_, now)) {
    // Without another healthy replica or a retry left, the request stays: the replica may answer after all.
    time_out(dispatch::Attempt::kFaulted, kUnresponsive);
  }
}

void RequestHandler::end_prefill() {
  const std::string transfer = api::kv_transfer_params_of(relay_.text());
  relay_.reset();
  if (transfer.empty() && retry(dispatch::Attempt::kFaulted, "no KV transfer parameters")) return;
  end_attempt(dispatch::Attempt::kAnswered, Phase::kRouting);
  auto grant = transfer.empty() ? std::nullopt : context_.dispatcher.route_decode(ticket_, context_.loop.now());
  if (!grant)
    return give_up(502, "prefill_failed", "no decode replica could take the request over from its prefill replica");
  grant_ = *std::move(grant);
  prepare(transfer);
}

// ---- the answer -----------------------------------------------------------------------------------------------------

void RequestHandler::on_head(const net::ResponseHead& head) {
  status_ = head.status;
  const bool busy = head.status == 429 || head.status == 503;
  // The key is the gateway's, so the client must not be told that its own is wrong.
  if (head.status == 401 || head.status == 403) {
    context_.dispatcher.credentials_refused(grant_.target->id);
    if (retry(dispatch::Attempt::kFaulted, "it refused the gateway's credentials")) return;
    return give_up(502, "replica_failed", "no replica accepted the gateway's credentials");
  }
  if (busy && retry(dispatch::Attempt::kBusy, "busy")) return;
  if (!busy && is_replica_failure(head.status) && retry(dispatch::Attempt::kFaulted, "server error")) return;
  if (phase_ == Phase::kPrefilling && head.status == 200) return;
  take_head(head);
}

void RequestHandler::take_head(const net::ResponseHead& head) {
  body_.upstream().drop_changed_body();
  kind_ = kind_of(head, stream_, collector_ != nullptr);
  if (!is_events()) {
    collector_.reset();
    watch_.reset(false);
  }
  const std::string_view replica = shows_routing_ ? std::string_view{grant_.target->id} : std::string_view{};
  relay_.take_head(head, {ids_.own, replica, routing::to_string(grant_.why), grant_.lowered_max_tokens(),
                          grant_.truncated_prompt_tokens, prompt_fit_.truncated_messages(), grant_.moved_to_batch,
                          grant_.rate_limits, call_.raw(), exchange_->head().keep_alive, is_events()});
  if (is_attempt(phase_)) enter(Phase::kAwaitingFirstByte);
}

void RequestHandler::begin_answer() {
  if (has_begun(phase_)) return;
  enter(Phase::kRelaying);
  call_.begun();
  report_.answered(status_);
  relay_.start(*exchange_, status_);
  // A stream may last long; another answer ends soon, and the memory serves the next request.
  body_.sent_for_the_last_time(!stream_);
  relay_.clear(!stream_);
}

// The client gets nothing before an event that carries something, because another replica can take the request over
// until then.
bool RequestHandler::hold(std::string_view bytes) {
  if (watch_.has_content()) return false;
  const bool faulty = is_replica_failure(watch_.error_status()) || watch_.malformed();
  if (faulty && retry(dispatch::Attempt::kFaulted, end_of_answer(status_, kind_, watch_).cause)) return true;
  return !faulty && !has_end(watch_) && relay_.hold(bytes);
}

void RequestHandler::on_body(std::string_view bytes) {
  call_.received(context_.loop.now());
  if (phase_ == Phase::kPrefilling) {
    call_.begun();
    std::string& text = relay_.text();
    if (text.size() + bytes.size() <= kPrefillAnswerMax) text.append(bytes);
    return;
  }
  if (collector_) return collect(bytes);
  const std::uint32_t before = watch_.text_events();
  std::uint32_t events = watch_.take(bytes);
  std::string beginning;
  if (!has_begun(phase_)) {
    if (is_events() && hold(bytes)) return;
    if (relay_.has_held()) {
      beginning = relay_.take_held_with(bytes);
      bytes = beginning;
      // relay() needs the positions in all bytes that it gets.
      watch_.reset(true, choices_);
      events = watch_.take(bytes);
    }
    begin_answer();
  }
  if (events > 0 || (!is_events() && !bytes.empty())) {
    last_token_at_ = context_.loop.now();
    if (is_events()) report_.stream_tokens(events);
    if (before == 0 && is_events()) context_.dispatcher.answered(ticket_, last_token_at_);
  }
  if (!relay_.relay(*exchange_, bytes, watch_, strips_usage_)) call_.pause(context_.loop.now());
  if (phase_ == Phase::kFinishingEvent && !watch_.within_event()) out_of_time();
}

void RequestHandler::on_end() {
  call_.finished();
  if (phase_ == Phase::kPrefilling) return end_prefill();
  if (collector_) return end_collected();
  const AnswerEnd how = end_of_answer(status_, kind_, watch_);
  if (!has_begun(phase_) && how.outcome == ledger::Outcome::kTruncated) return fail(how.cause);
  begin_answer();
  if (how.attempt == dispatch::Attempt::kFaulted) report_.broke_off(*grant_.target, how.cause);
  end(how.outcome, how.attempt);
  relay_.flush(*exchange_);
  is_events() && !has_end(watch_) ? truncate() : release().finish();
}

void RequestHandler::on_fault(net::ClientFault fault, bool) {
  call_.finished();
  if (has_begun(phase_)) return break_off(net::to_string(fault));
  if (fault == net::ClientFault::kConnect) {
    reset_answer();
    if (call_.start_at_next_address(context_, *exchange_, *grant_.target, body_.upstream(), guard_)) return;
  }
  const auto attempt =
      fault == net::ClientFault::kConnect ? dispatch::Attempt::kUnreached : dispatch::Attempt::kFaulted;
  if (fault != net::ClientFault::kTimeout) return fail(net::to_string(fault), attempt);
  time_out(attempt, net::to_string(fault));
}

void RequestHandler::time_out(dispatch::Attempt attempt, std::string_view cause) {
  if (!retry(attempt, cause)) give_up(504, "replica_timeout", "the replica did not answer in time");
}

void RequestHandler::fail(std::string_view cause, dispatch::Attempt attempt) {
  if (!retry(attempt, cause)) give_up(502, "replica_failed", fmt::format("no replica answered: {}", cause));
}

void RequestHandler::break_off(std::string_view cause) {
  call_.cancel();
  if (relay_.end_chunks(*exchange_, watch_)) return on_end();
  report_.broke_off(*grant_.target, cause);
  end(ledger::Outcome::kTruncated, dispatch::Attempt::kFaulted);
  truncate();
}

void RequestHandler::truncate() {
  const std::string event = truncated_event(endpoint_);
  if (relay_.at_event_end() && !event.empty()) relay_.write_event(*exchange_, event);
  release().abort();
}

void RequestHandler::give_up(int status, std::string_view code, std::string message) {
  call_.cancel();
  end(ledger::Outcome::kFailed);
  refuse_request(retry_soon(make_refusal(status, "api_error", code, std::move(message))));
}

// ---- the client -----------------------------------------------------------------------------------------------------

void RequestHandler::on_writable() {
  if (relay_.resumed()) call_.resume(context_.loop.now());
}

void RequestHandler::on_client_gone() {
  const bool has_all = has_begun(phase_) && is_events() && watch_.done();
  // What the replica sent until now was computed.
  call_.abandon(is_events() && !collector_ ? &watch_ : nullptr);
  context_.waiting.erase(ticket_);
  enter(Phase::kFinishing);
  if (!has_all) report_.answered(kClientClosedRequest);
  has_all ? end(ledger::Outcome::kCompleted, dispatch::Attempt::kAnswered) : end(ledger::Outcome::kCancelled);
  static_cast<void>(release());
}

// Waits briefly for the rest of an incomplete event.
void RequestHandler::out_of_time() {
  context_.loop.cancel(std::exchange(budget_, 0));
  const bool within_event = has_begun(phase_) && watch_.within_event();
  if (within_event && phase_ != Phase::kFinishingEvent) {
    enter(Phase::kFinishingEvent);
    budget_ = context_.loop.after(kRestOfEvent, [this] { out_of_time(); });
    return;
  }
  call_.cancel();
  context_.waiting.erase(ticket_);
  const Phase last = phase_;
  enter(Phase::kFinishing);
  if (collector_ && collector_->has_text()) return answer_collected(ledger::Outcome::kTimedOut);
  answer_out_of_time(last, within_event);
}

void RequestHandler::cut() { stop(ledger::Outcome::kTimedOut, stopping_refusal()); }

void RequestHandler::out_of_memory() {
  ++context_.memory_refusals;
  stop(ledger::Outcome::kFailed, memory_refusal());
}

void RequestHandler::stop(ledger::Outcome outcome, const Refusal& refusal) {
  if (exchange_ == nullptr) return;
  call_.cancel();
  context_.waiting.erase(ticket_);
  end(outcome);
  if (!has_begun(phase_)) return refuse_request(refusal);
  // Envoy may go on without the gateway, and must then have all that came.
  if (!context_.front.is_proxy()) relay_.flush(*exchange_);
  release().abort();
}

// If possible, turns the partial answer into a complete one that is marked as cut.
void RequestHandler::answer_out_of_time(Phase last, bool within_event) {
  end(ledger::Outcome::kTimedOut);
  if (!has_begun(last))
    return refuse_request(make_refusal(504, "api_error", "time_budget_exceeded",
                                       "the time budget of the request ended before its answer"));
  std::optional<std::string> rest;
  if (is_events() && !within_event)
    rest = cut_end(watch_, endpoint_, {ids_.own, grant_.target->model, 0, false}, choices_);
  net::Exchange& exchange = release();
  if (!rest) return exchange.abort();
  if (!rest->empty()) exchange.write(*rest);
  exchange.finish();
}

// ---- the end --------------------------------------------------------------------------------------------------------

void RequestHandler::end(ledger::Outcome outcome, dispatch::Attempt attempt) {
  if (ticket_ == 0) return;
  report_.ended(ledger::to_string(outcome));
  dispatch::RequestOutcome ending = outcome_of(outcome, watch_);
  if (std::exchange(attempt_open_, false)) ending.attempt = attempt;
  ending.last_token_at = last_token_at_;
  ending.client_wait = call_.client_wait();
  context_.dispatcher.ended(std::exchange(ticket_, 0), ending, context_.loop.now());
}

std::optional<dispatch::Progress> RequestHandler::progress() {
  if (ticket_ == 0 || !has_begun(phase_) || watch_.text_events() == reported_events_) return std::nullopt;
  reported_events_ = watch_.text_events();
  return dispatch::Progress{ticket_, seen_output(watch_), usage_of(watch_)};
}

net::Exchange& RequestHandler::release() {
  context_.loop.cancel(std::exchange(budget_, 0));
  report_.close(watch_.usage(), watch_.text_events());
  prompt_fit_.cancel();
  reported_events_ = 0;
  relay_.clear(context_.free.size() < kHandlersWithMemory);
  grant_ = RoutedGrant{};
  watch_.reset(false);
  collector_.reset();
  enter(Phase::kIdle);
  net::Exchange& exchange = *std::exchange(exchange_, nullptr);
  body_.release(context_.free.size() < kHandlersWithMemory, [this] { context_.free.push_back(this); });
  return exchange;
}

}  // namespace penstock::gateway
