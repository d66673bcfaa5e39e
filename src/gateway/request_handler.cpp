#include "gateway/request_handler.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "core/result.h"
#include "gateway/buffers.h"
#include "gateway/fields.h"

namespace penstock::gateway {
namespace {

constexpr std::size_t kHandlersWithMemory = 64;  // Idle handlers that keep their buffers.
constexpr std::size_t kPrefillAnswerMax = 1 << 20;
constexpr core::Duration kRestOfEvent = std::chrono::seconds{1};
constexpr int kClientClosedRequest = 499;  // nginx's status, used only in the access log.

}  // namespace

void refuse(net::Exchange& exchange, const Refusal& refusal, std::string_view request_id) {
  std::vector<net::Field> fields{{"Content-Type", "application/json"}};
  if (!request_id.empty()) fields.push_back({"x-request-id", request_id});
  const std::string seconds = std::to_string(refusal.retry_after_s);
  if (refusal.retry_after_s > 0) fields.push_back({"Retry-After", seconds});
  if (refusal.error.status == 401) fields.push_back({"WWW-Authenticate", "Bearer"});
  exchange.respond(refusal.error.status, fields, api::error_body(refusal.error));
}

// ---- reading and admission ------------------------------------------------------------------------------------------

void RequestHandler::begin(net::Exchange& exchange, api::Endpoint endpoint) {
  exchange_ = &exchange;
  endpoint_ = endpoint;
  status_ = 0;
  request_id_ = usable_request_id(exchange.head().field("x-request-id"));
  engine_request_id_.clear();
  if (request_id_.empty())
    fmt::format_to(std::back_inserter(request_id_), "req-{:016x}", context_.random.next());
  else
    engine_request_id_ = engine_request_id(request_id_, context_.random.next());
  report_.begin(request_id_, exchange.received_at());
  exchange.listen(this);
  enter(Phase::kReading);
  ReadRequest read;
  auto refusal = read_request(context_, exchange, endpoint, request_id_, read);
  report_.read(read);
  if (!refusal) refusal = admit(read);
  if (refusal) refuse_request(*refusal);
}

// Returns nothing if the request was granted a replica or waits.
std::optional<Refusal> RequestHandler::admit(const ReadRequest& read) {
  enter(Phase::kAdmitting);
  take_settings(read);
  stream_ = read.stream;
  time_limited_ = read.time_budget > core::Duration{};
  if (read.collect) collector_ = std::make_unique<api::AnswerCollector>(endpoint_ == api::Endpoint::kChatCompletions);
  RoutedArrival arrival = context_.dispatcher.arrive(read.info, context_.listener, net::Loop::read_clock());
  if (arrival.refusal) return make_refusal(*std::move(arrival.refusal));
  ticket_ = arrival.ticket;
  // The texts of an isolated tenant warm no cache that others use.
  HotPrefixCache* hot_prefixes = context_.dispatcher.hot_prefixes();
  if (hot_prefixes != nullptr && read.cache_salt.empty())
    hot_prefixes->offer(context_.scratch, exchange_->body(), context_.keys, read.info.received_at);
  exchange_->take_body(body_);
  if (time_limited_) budget_ = context_.loop.after(read.time_budget, [this] { out_of_time(); });
  if (arrival.grant) {
    go(*std::move(arrival.grant));
  } else {
    enter(Phase::kQueued);
    context_.waiting.emplace(ticket_, this);
  }
  return std::nullopt;
}

// The settings may change while the request waits.
void RequestHandler::take_settings(const ReadRequest& read) {
  const GatewayOptions& options = context_.settings->options;
  const dispatch::Tenant& tenant = options.dispatch.tenants[read.info.tenant];
  shows_routing_ = options.expose_routing == ExposeRouting::kAlways ||
                   (options.expose_routing == ExposeRouting::kOperators && tenant.is_operator);
  edit_ = std::move(context_.scratch.edit);
  cache_salt_ = read.cache_salt;
  changes_ = {};
  changes_.kept_controls = context_.settings->kept_controls;
  changes_.cache_salt = cache_salt_;
  if (options.engine_priority && tenant.priority != 0) changes_.priority = tenant.priority;
}

void RequestHandler::granted(RoutedGrant grant) {
  context_.waiting.erase(ticket_);
  go(std::move(grant));
}

void RequestHandler::refused(const Refusal& refusal) {
  context_.waiting.erase(ticket_);
  ticket_ = 0;
  refuse_request(refusal);
}

void RequestHandler::refuse_request(const Refusal& refusal) {
  report_.refused(refusal);
  const std::string id = request_id_;
  refuse(release(), refusal, id);
}

// ---- attempts at replicas -------------------------------------------------------------------------------------------

ClientRequest RequestHandler::client_request() const {
  return {exchange_->head(),
          body_,
          edit_,
          changes_,
          engine_request_id_.empty() ? request_id_ : engine_request_id_,
          endpoint_,
          collector_ != nullptr};
}

void RequestHandler::go(RoutedGrant grant) {
  grant_ = std::move(grant);
  upstream_.write(context_, client_request(), grant_);
  attempt();
}

void RequestHandler::attempt() {
  report_.granted(grant_);
  enter(grant_.prefill_only ? Phase::kPrefilling : Phase::kConnecting);
  reset_answer();
  const bool raw = !time_limited_ && !grant_.prefill_only && !exchange_->head().http_1_0;
  call_.start(context_, *grant_.target, upstream_, raw, *this);
}

void RequestHandler::reset_answer() {
  relay_.reset();
  watch_.reset((stream_ || collector_) && !grant_.prefill_only);
  if (collector_) collector_->reset();
}

void RequestHandler::end_attempt(dispatch::Attempt attempt, Phase next) {
  if (is_attempt(phase_)) context_.dispatcher.attempt_ended(ticket_, attempt, context_.loop.now());
  enter(next);
}

bool RequestHandler::retry(dispatch::Attempt attempt, std::string_view cause) {
  if (!is_attempt(phase_) && phase_ != Phase::kRouting) return false;
  end_attempt(attempt, Phase::kRouting);
  // The decode replica may have failed to fetch the KV, so the whole request starts again.
  auto grant = context_.dispatcher.route_again(ticket_, context_.loop.now());
  if (!grant) return false;
  report_.retried(*grant_.target, cause, *grant->target);
  call_.cancel();
  go(*std::move(grant));
  return true;
}

void RequestHandler::end_prefill() {
  const std::string transfer = api::kv_transfer_params_of(relay_.text());
  relay_.reset();
  if (transfer.empty() && retry(dispatch::Attempt::kFaulted, "no KV transfer parameters")) return;
  end_attempt(dispatch::Attempt::kAnswered, Phase::kRouting);
  std::optional<RoutedGrant> grant;
  if (!transfer.empty()) grant = context_.dispatcher.route_decode(ticket_, context_.loop.now());
  if (!grant)
    return give_up(502, "prefill_failed", "no decode replica could take the request over from its prefill replica");
  grant_ = *std::move(grant);
  upstream_.write_decode(context_, client_request(), grant_, transfer);
  attempt();
}

// ---- the answer -----------------------------------------------------------------------------------------------------

void RequestHandler::on_head(const net::ResponseHead& head) {
  status_ = head.status;
  const bool busy = head.status == 429 || head.status == 503;
  if (busy && retry(dispatch::Attempt::kBusy, "busy")) return;
  if (!busy && head.status >= 500 && retry(dispatch::Attempt::kFaulted, "server error")) return;
  if (phase_ == Phase::kPrefilling && head.status == 200) return;
  take_head(head);
}

void RequestHandler::take_head(const net::ResponseHead& head) {
  upstream_.drop_changed_body();
  if (collector_ && !(head.status == 200 && head.field("content-type").starts_with("text/event-stream"))) {
    collector_.reset();
    watch_.reset(false);
  }
  const std::string_view replica = shows_routing_ ? std::string_view{grant_.target->id} : std::string_view{};
  relay_.take_head(head,
                   {request_id_, replica, routing::to_string(grant_.why), call_.raw(), exchange_->head().keep_alive});
  if (is_attempt(phase_)) enter(Phase::kAwaitingFirstByte);
}

void RequestHandler::begin_answer() {
  if (has_begun(phase_)) return;
  end_attempt(status_ >= 500 ? dispatch::Attempt::kFaulted : dispatch::Attempt::kAnswered, Phase::kRelaying);
  report_.answered(status_);
  relay_.start(*exchange_, status_);
  // A stream may last long; another answer ends soon, and the memory serves the next request.
  stream_ ? free_memory(body_) : clear_for_reuse(body_);
  upstream_.clear(!stream_);
  relay_.clear(!stream_);
}

void RequestHandler::on_body(std::string_view bytes) {
  if (phase_ == Phase::kPrefilling) {
    std::string& text = relay_.text();
    if (text.size() + bytes.size() <= kPrefillAnswerMax) text.append(bytes);
    return;
  }
  if (collector_) return collect(bytes);
  begin_answer();
  const std::uint32_t before = watch_.text_events();
  if (watch_.take(bytes) > 0 || (!stream_ && !bytes.empty())) {
    last_token_at_ = context_.loop.now();
    if (before == 0 && stream_) {
      report_.first_token();
      context_.dispatcher.answered(ticket_, last_token_at_);
    }
  }
  if (!relay_.write(*exchange_, bytes)) call_.pause();
  if (phase_ == Phase::kFinishingEvent && !watch_.within_event()) out_of_time();
}

void RequestHandler::on_end() {
  call_.finished();
  if (phase_ == Phase::kPrefilling) return end_prefill();
  if (collector_) return end_collected();
  begin_answer();
  end(status_ < 400 ? ledger::Outcome::kCompleted : ledger::Outcome::kFailed);
  release().finish();
}

void RequestHandler::on_fault(net::ClientFault fault, bool) {
  call_.finished();
  if (has_begun(phase_)) {
    report_.broke_off(*grant_.target, net::to_string(fault));
    end(ledger::Outcome::kFailed);
    return release().abort();
  }
  if (fault == net::ClientFault::kConnect) {
    reset_answer();
    if (call_.start_at_next_address(context_, *grant_.target, upstream_, *this)) return;
  }
  if (retry(dispatch::Attempt::kFaulted, net::to_string(fault))) return;
  if (fault == net::ClientFault::kTimeout) return give_up(504, "replica_timeout", "the replica did not answer in time");
  give_up(502, "replica_failed", fmt::format("no replica answered: {}", net::to_string(fault)));
}

void RequestHandler::give_up(int status, std::string_view code, std::string message) {
  Refusal refusal = make_refusal(status, "api_error", code, std::move(message));
  refusal.retry_after_s = 1;
  end(ledger::Outcome::kFailed);
  refuse_request(refusal);
}

// ---- the client -----------------------------------------------------------------------------------------------------

void RequestHandler::on_writable() {
  if (relay_.resumed()) call_.resume();
}

void RequestHandler::on_client_gone() {
  call_.cancel();
  context_.waiting.erase(ticket_);
  end_attempt(dispatch::Attempt::kAbandoned, Phase::kFinishing);
  report_.answered(kClientClosedRequest);
  end(ledger::Outcome::kCancelled);
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
  end_attempt(dispatch::Attempt::kAbandoned, Phase::kFinishing);
  if (collector_ && collector_->has_text()) return answer_collected(ledger::Outcome::kTimedOut);
  answer_out_of_time(last, within_event);
}

void RequestHandler::cut() {
  if (exchange_ == nullptr) return;
  call_.cancel();
  context_.waiting.erase(ticket_);
  const bool begun = has_begun(phase_);
  end_attempt(dispatch::Attempt::kAbandoned, Phase::kFinishing);
  end(ledger::Outcome::kTimedOut);
  if (begun) return release().abort();
  refuse_request(make_refusal(503, "api_error", "gateway_stops", "the gateway stops; send the request again"));
}

// If possible, turns the partial answer into a complete one that is marked as cut.
void RequestHandler::answer_out_of_time(Phase last, bool within_event) {
  const bool has_end = watch_.done();
  end(ledger::Outcome::kTimedOut);
  if (!has_begun(last))
    return refuse_request(
        make_refusal(504, "api_error", "time_budget_exceeded", "its time budget ran out before there was an answer"));
  // A valid end of a /v1/responses stream cannot be made up.
  const bool can_finish = stream_ && !within_event && endpoint_ != api::Endpoint::kResponses;
  const std::string id = request_id_;
  const std::string model = grant_.target->model;
  net::Exchange& exchange = release();
  if (!can_finish) return exchange.abort();
  if (!has_end) {
    std::string rest;
    api::append_finish_event(rest, {id, model, 0, endpoint_ == api::Endpoint::kChatCompletions},
                             api::FinishReason::kLength);
    rest.append(api::kDoneEvent);
    exchange.write(rest);
  }
  exchange.finish();
}

// ---- the end --------------------------------------------------------------------------------------------------------

void RequestHandler::end(ledger::Outcome outcome) {
  if (ticket_ == 0) return;
  report_.ended(ledger::to_string(outcome));
  dispatch::RequestOutcome ending;
  ending.outcome = outcome;
  if (const auto& usage = watch_.usage())
    ending.usage = {usage->prompt_tokens, usage->completion_tokens, usage->cached_tokens, usage->cached_known};
  ending.output_events = watch_.text_events();
  ending.last_token_at = last_token_at_;
  context_.dispatcher.ended(std::exchange(ticket_, 0), ending, context_.loop.now());
}

net::Exchange& RequestHandler::release() {
  context_.loop.cancel(std::exchange(budget_, 0));
  report_.close(watch_.usage(), watch_.text_events());
  const bool keep_memory = context_.free.size() < kHandlersWithMemory;
  keep_memory ? clear_for_reuse(body_) : free_memory(body_);
  upstream_.clear(keep_memory);
  relay_.clear(keep_memory);
  grant_ = RoutedGrant{};
  watch_.reset(false);
  collector_.reset();
  enter(Phase::kIdle);
  context_.free.push_back(this);
  return *std::exchange(exchange_, nullptr);
}

}  // namespace penstock::gateway
