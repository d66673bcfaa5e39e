#include "gateway/request_handler.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "api/prompt_keys.h"
#include "gateway/fields.h"

namespace penstock::gateway {
namespace {

void let_go(std::string& text) {
  if (text.capacity() > sizeof(std::string)) std::string{}.swap(text);
}

// Emptied, and its memory kept where the next request will want it again.
void empty(std::string& text) {
  constexpr std::size_t kKeptBytesMax = 4096;
  text.clear();
  if (text.capacity() > kKeptBytesMax) let_go(text);
}

void append_number(std::string& out, std::uint64_t number) {
  std::array<char, 20> digits{};
  out.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
}

constexpr std::size_t kKeepingSessions = 64;  // idle ones that keep memory

}  // namespace

void refuse(net::Exchange& exchange, const Refusal& refusal, std::string_view request_id) {
  std::vector<net::Field> fields{{"Content-Type", "application/json"}};
  if (!request_id.empty()) fields.push_back({"x-request-id", request_id});
  const std::string seconds = std::to_string(refusal.retry_after_s);
  if (refusal.retry_after_s > 0) fields.push_back({"Retry-After", seconds});
  if (refusal.error.status == 401) fields.push_back({"WWW-Authenticate", "Bearer"});
  exchange.respond(refusal.error.status, fields, api::error_body(refusal.error));
}

void RequestHandler::begin(net::Exchange& exchange, api::Endpoint endpoint) {
  exchange_ = &exchange;
  endpoint_ = endpoint;
  leg_ = Leg::kWhole;
  answer_begun_ = attempt_open_ = close_after_ = paused_ = overdue_ = false;
  raw_ = true;
  status_ = 0;
  content_length_.reset();
  request_id_ = usable_request_id(exchange.head().field("x-request-id"));
  if (request_id_.empty()) fmt::format_to(std::back_inserter(request_id_), "req-{:016x}", context_.random.next());
  exchange.listen(this);
  if (const auto refusal = admit()) {
    const std::string id = request_id_;
    refuse(release(), *refusal, id);
  }
}

std::optional<std::uint32_t> RequestHandler::authenticate() const {
  return context_.key_ring.tenant_or(
      bearer_key(exchange_->head().field("authorization")),
      context_.options.anonymous ? std::optional{context_.anonymous_tenant} : std::nullopt);
}

// Reads the request and asks the dispatcher. None: it is on its way or waits.
std::optional<Refusal> RequestHandler::admit() {
  const auto tenant = authenticate();
  if (!tenant)
    return make_refusal(401, "authentication_error", "invalid_api_key",
                        "no valid API key: send one that this gateway knows as \"Authorization: Bearer KEY\"");
  dispatch::RequestInfo info;
  info.tenant = *tenant;
  info.traffic_class = context_.options.dispatch.tenants[*tenant].traffic_class;
  if (const std::string_view asked = exchange_->head().field("x-traffic-class"); !asked.empty()) {
    if (asked != "interactive" && asked != "batch")
      return make_refusal(400, "invalid_request_error", "invalid_traffic_class",
                          "X-Traffic-Class must be interactive or batch");
    info.traffic_class = asked == "batch" ? admission::Class::kBatch : admission::Class::kInteractive;
  }
  const dispatch::DispatchOptions& options = context_.options.dispatch;
  const dispatch::ClassOptions& of_class =
      info.traffic_class == admission::Class::kBatch ? options.batch : options.interactive;
  core::Duration time_budget = of_class.time_budget;
  if (const std::string_view asked = exchange_->head().field("x-time-budget"); !asked.empty()) {
    const auto shorter = time_budget_in(asked);
    if (!shorter)
      return make_refusal(400, "invalid_request_error", "invalid_time_budget",
                          "X-Time-Budget must be a time above 0, such as 2s or 1500ms");
    time_budget = time_budget > core::Duration{} ? std::min(time_budget, *shorter) : *shorter;
  }
  api::InferenceRequest& request = context_.scratch;
  if (const auto read = context_.reader.read(endpoint_, exchange_->body(), request); !read)
    return make_refusal(400, "invalid_request_error", "invalid_request", read.error().what, read.error().where);
  api::prompt_keys(request.text, options.key_tokens * api::kBytesPerToken, context_.keys);
  stream_ = request.stream;

  info.request_id = request_id_;
  info.model = request.model;
  info.route = api::path_of(endpoint_);
  info.text_bytes = request.text.size();
  info.prompt_tokens_given = request.prompt_tokens_given;
  const api::EndpointTraits& traits = api::traits_of(endpoint_);
  info.max_tokens = traits.generates ? request.max_tokens : 0;
  info.splits = traits.splits;
  if (time_budget > core::Duration{} && !stream_ && request.plain && traits.splits)
    collector_ = std::make_unique<api::AnswerCollector>(endpoint_ == api::Endpoint::kChatCompletions);
  info.stream = stream_ || collector_ != nullptr;
  info.keys = context_.keys;
  if (const std::string_view session = session_of(exchange_->head(), request); !session.empty())
    info.affinity = XXH3_64bits(session.data(), session.size()) | 1;
  info.received_at = exchange_->received_at();

  RoutedArrival answer = context_.dispatcher.arrive(info, context_.listener, net::Loop::read_clock());
  if (answer.refusal) return make_refusal(*std::move(answer.refusal));
  ticket_ = answer.ticket;
  if (HotPrefixCache* hot_prefix_cache = context_.dispatcher.hot_prefixes())
    hot_prefix_cache->offer(request, exchange_->body(), context_.keys, info.received_at);
  exchange_->take_body(body_);
  if (time_budget > core::Duration{}) {
    raw_ = false;
    budget_ = context_.loop.after(time_budget, [this] { out_of_time(); });
  }
  if (answer.grant)
    go(*std::move(answer.grant));
  else
    context_.waiting.emplace(ticket_, this);
  return std::nullopt;
}

void RequestHandler::granted(RoutedGrant grant) {
  context_.waiting.erase(ticket_);
  go(std::move(grant));
}

void RequestHandler::refused(const Refusal& refusal) {
  context_.waiting.erase(ticket_);
  ticket_ = 0;
  const std::string id = request_id_;
  refuse(release(), refusal, id);
}

// ---- to the replica --------------------------------------------------------------------------------------------------

void RequestHandler::go(RoutedGrant grant) {
  grant_ = std::move(grant);
  std::string_view body = body_;
  if (grant_.prefill_only) {
    leg_ = Leg::kPrefill;
    auto changed = api::prefill_body(body_);
    PENSTOCK_ASSERT(changed.has_value(), "the body was read before");
    leg_body_ = *std::move(changed);
    body = leg_body_;
  } else {
    if (leg_ == Leg::kDecode) body = leg_body_;
    if (grant_.max_tokens) {
      const auto read = context_.reader.read(endpoint_, body, context_.scratch);
      PENSTOCK_ASSERT(read.has_value(), "the body was read before");
      leg_body_ = api::with_max_tokens(body, context_.scratch, *grant_.max_tokens);
      body = leg_body_;
    }
  }
  if (collector_ && leg_ != Leg::kPrefill) {
    auto changed = api::streamed_body(body);
    PENSTOCK_ASSERT(changed.has_value(), "the body was read before");
    leg_body_ = *std::move(changed);
    body = leg_body_;
  }
  write_request_head(body);
  sent_ = body;
  addresses_tried_ = 0;
  attempt_open_ = true;
  call();
}

void RequestHandler::call() {
  answer_head_.clear();
  watch_.reset((stream_ || collector_) && leg_ != Leg::kPrefill);
  if (collector_) collector_->reset();
  const Target& target = *grant_.target;
  address_ = target.unreached.load(std::memory_order_relaxed);
  ++addresses_tried_;
  net::CallOptions options;
  options.address = target.addresses[address_ % target.addresses.size()];
  if (target.tls) options.tls = context_.options.client_tls;
  options.host = target.host;
  raw_call_ = raw_ && leg_ != Leg::kPrefill && !exchange_->head().http_1_0;
  options.raw = raw_call_;
  options.head_time = context_.options.first_byte_time;
  options.silence = context_.options.silence;
  call_ = &context_.client.call(options, upstream_, sent_, *this);
}

void RequestHandler::write_request_head(std::string_view body) {
  const Target& target = *grant_.target;
  upstream_.clear();
  upstream_.append("POST ").append(target.path_prefix).append(api::path_of(endpoint_));
  if (const std::string_view query = exchange_->head().query(); !query.empty()) upstream_.append("?").append(query);
  upstream_.append(" HTTP/1.1\r\nHost: ").append(target.host_field).append("\r\n");
  append_forwarded_request_fields(upstream_, exchange_->head());
  if (!context_.options.replica_key.empty())
    upstream_.append("Authorization: Bearer ").append(context_.options.replica_key).append("\r\n");
  upstream_.append("x-request-id: ").append(request_id_);
  upstream_.append("\r\nContent-Length: ");
  append_number(upstream_, body.size());
  upstream_.append("\r\n\r\n");
}

bool RequestHandler::go_again(dispatch::Attempt attempt) {
  const core::Instant now = context_.loop.now();
  if (std::exchange(attempt_open_, false)) context_.dispatcher.attempt_ended(ticket_, attempt, now);
  if (answer_begun_ || body_.empty()) return false;
  // KV that a decode replica could not fetch is not asked for twice: the whole request starts again.
  leg_ = Leg::kWhole;
  auto grant = context_.dispatcher.route_again(ticket_, now);
  if (!grant) return false;
  forget_call();
  go(*std::move(grant));
  return true;
}

bool RequestHandler::call_elsewhere() {
  const Target& target = *grant_.target;
  // Of several that failed at once, one moves on for all.
  std::uint32_t failed = address_;
  target.unreached.compare_exchange_strong(failed, address_ + 1, std::memory_order_relaxed);
  if (addresses_tried_ >= target.addresses.size()) return false;
  call();
  return true;
}

void RequestHandler::forget_call() {
  if (call_ == nullptr) return;
  call_->cancel();
  call_ = nullptr;
}

// ---- from the replica ------------------------------------------------------------------------------------------------

void RequestHandler::on_head(const net::ResponseHead& head) {
  status_ = head.status;
  const bool busy = head.status == 429 || head.status == 503;
  const bool broken = head.status >= 500 && !busy;
  if ((busy || broken) && go_again(busy ? dispatch::Attempt::kBusy : dispatch::Attempt::kFaulted)) return;
  if (leg_ == Leg::kPrefill && head.status == 200) return;
  take_response_head(head);
}

// Keeps the head until the first byte of the body: till then the request can still go elsewhere.
void RequestHandler::take_response_head(const net::ResponseHead& head) {
  leg_body_.clear();
  if (collector_ && !(head.status == 200 && head.field("content-type").starts_with("text/event-stream"))) {
    collector_.reset();
    watch_.reset(false);
  }
  content_length_ = head.content_length;
  // An answer without a length or chunks ends with its connection; the client gets it in chunks.
  raw_ = raw_call_ && (head.chunked || head.content_length);
  close_after_ = !exchange_->head().keep_alive;
  append_answer_head(answer_head_, head, request_id_, grant_.target->id, routing::to_string(grant_.why));
  if ((head.status == 429 || head.status == 503) && !head.has_field("retry-after"))
    answer_head_.append("Retry-After: 1\r\n");
  if (raw_) {
    if (head.chunked) {
      answer_head_.append("Transfer-Encoding: chunked\r\n");
    } else {
      answer_head_.append("Content-Length: ");
      append_number(answer_head_, *head.content_length);
      answer_head_.append("\r\n");
    }
    answer_head_.append("\r\n");
  }
}

void RequestHandler::begin_answer() {
  if (answer_begun_) return;
  answer_begun_ = true;
  if (std::exchange(attempt_open_, false))
    context_.dispatcher.attempt_ended(
        ticket_, status_ >= 500 ? dispatch::Attempt::kFaulted : dispatch::Attempt::kAnswered, context_.loop.now());
  if (raw_) {
    exchange_->start_raw(answer_head_, close_after_);
  } else {
    const std::vector<net::Field> fields = fields_of(answer_head_);
    exchange_->start(status_, fields, content_length_);
  }
  // A stream may last; what is not streamed is over in a moment.
  for (std::string* text : {&body_, &upstream_, &leg_body_, &answer_head_}) stream_ ? let_go(*text) : empty(*text);
}

void RequestHandler::on_body(std::string_view bytes) {
  if (leg_ == Leg::kPrefill && status_ == 200) {
    constexpr std::size_t kPrefillAnswerMax = 1 << 20;
    if (answer_head_.size() + bytes.size() <= kPrefillAnswerMax) answer_head_.append(bytes);
    return;
  }
  if (collector_) return collect(bytes);
  begin_answer();
  const std::uint32_t before = watch_.text_events();
  if (watch_.take(bytes) > 0 || (!stream_ && !bytes.empty())) {
    last_token_at_ = context_.loop.now();
    if (before == 0 && stream_) context_.dispatcher.answered(ticket_, last_token_at_);
  }
  const bool kept_up = raw_ ? exchange_->write_raw(bytes) : exchange_->write(bytes);
  if (!kept_up && !paused_) {
    paused_ = true;
    call_->pause();
  }
  if (overdue_ && !watch_.within_event()) out_of_time();
}

void RequestHandler::on_end() {
  call_ = nullptr;
  if (leg_ == Leg::kPrefill && status_ == 200) return end_prefill_leg();
  if (collector_) return end_collected();
  begin_answer();
  end(status_ < 400 ? ledger::Outcome::kCompleted : ledger::Outcome::kFailed);
  release().finish();
}

void RequestHandler::end_prefill_leg() {
  const std::string transfer = api::kv_transfer_params_of(answer_head_);
  answer_head_.clear();
  const core::Instant now = context_.loop.now();
  if (std::exchange(attempt_open_, false))
    context_.dispatcher.attempt_ended(
        ticket_, transfer.empty() ? dispatch::Attempt::kFaulted : dispatch::Attempt::kAnswered, now);
  if (transfer.empty() && go_again(dispatch::Attempt::kFaulted)) return;
  auto changed = transfer.empty() ? core::invalid_input({}, "the prefill replica did not say where its KV is")
                                  : api::decode_body(body_, transfer);
  std::optional<RoutedGrant> grant;
  if (changed) grant = context_.dispatcher.route_decode(ticket_, now);
  if (!grant)
    return give_up(502, "prefill_failed", "no decode replica could take the request over from its prefill replica");
  leg_body_ = *std::move(changed);
  leg_ = Leg::kDecode;
  go(*std::move(grant));
}

void RequestHandler::on_fault(net::ClientFault fault, bool) {
  call_ = nullptr;
  if (answer_begun_ && !collector_) {
    end(ledger::Outcome::kFailed);
    release().abort();
    return;
  }
  if (fault == net::ClientFault::kConnect && call_elsewhere()) return;
  if (go_again(dispatch::Attempt::kFaulted)) return;
  if (fault == net::ClientFault::kTimeout) return give_up(504, "replica_timeout", "the replica did not answer in time");
  give_up(502, "replica_failed", fmt::format("no replica answered: {}", net::to_string(fault)));
}

void RequestHandler::give_up(int status, std::string_view code, std::string message) {
  Refusal refusal = make_refusal(status, "api_error", code, std::move(message));
  refusal.retry_after_s = 1;
  end(ledger::Outcome::kFailed);
  const std::string id = request_id_;
  refuse(release(), refusal, id);
}

// ---- the client ------------------------------------------------------------------------------------------------------

void RequestHandler::on_writable() {
  if (!paused_ || call_ == nullptr) return;
  paused_ = false;
  call_->resume();
}

void RequestHandler::on_client_gone() {
  forget_call();
  context_.waiting.erase(ticket_);
  if (std::exchange(attempt_open_, false))
    context_.dispatcher.attempt_ended(ticket_, dispatch::Attempt::kAbandoned, context_.loop.now());
  end(ledger::Outcome::kCancelled);
  static_cast<void>(release());
}

// What there is goes out as a whole answer that says it was cut; an event that is on its way is waited for.
void RequestHandler::out_of_time() {
  context_.loop.cancel(std::exchange(budget_, 0));
  const bool within_event = answer_begun_ && !collector_ && watch_.within_event();
  if (within_event && !std::exchange(overdue_, true)) {
    constexpr core::Duration kRestOfEvent = std::chrono::seconds{1};
    budget_ = context_.loop.after(kRestOfEvent, [this] { out_of_time(); });
    return;
  }
  forget_call();
  context_.waiting.erase(ticket_);
  if (std::exchange(attempt_open_, false))
    context_.dispatcher.attempt_ended(ticket_, dispatch::Attempt::kAbandoned, context_.loop.now());
  // A stream of /v1/responses has no end that could be made up.
  const bool partial = answer_begun_ && stream_ && !within_event && endpoint_ != api::Endpoint::kResponses;
  if (collector_ && collector_->has_text()) return answer_collected(ledger::Outcome::kTimedOut);
  const bool begun = answer_begun_ && !collector_;
  const bool has_end = watch_.done();
  end(ledger::Outcome::kTimedOut);
  const std::string id = request_id_;
  const std::string model = grant_.target ? grant_.target->model : std::string{};
  net::Exchange& exchange = release();
  if (partial) {
    if (!has_end) {
      std::string rest;
      api::append_finish_event(rest, {id, model, 0, endpoint_ == api::Endpoint::kChatCompletions},
                               api::FinishReason::kLength);
      rest.append(api::kDoneEvent);
      exchange.write(rest);
    }
    exchange.finish();
  } else if (begun) {
    exchange.abort();
  } else {
    refuse(exchange,
           make_refusal(504, "api_error", "time_budget_exceeded", "its time budget ran out before there was an answer"),
           id);
  }
}

void RequestHandler::end(ledger::Outcome outcome) {
  if (ticket_ == 0) return;
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
  for (std::string* text : {&body_, &upstream_, &leg_body_, &answer_head_})
    context_.free.size() < kKeepingSessions ? empty(*text) : let_go(*text);
  grant_ = RoutedGrant{};
  watch_.reset(false);
  collector_.reset();
  context_.free.push_back(this);
  return *std::exchange(exchange_, nullptr);
}

}  // namespace penstock::gateway
