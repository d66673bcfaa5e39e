#include "gateway/envoy_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/result.h"
#include "gateway/fields.h"

namespace penstock::gateway {
namespace {

using connect::ExtProcPart;

constexpr std::string_view kDetails = "penstock_endpoint_picker";  // In Envoy's access log.
// The beginnings of what Envoy answers itself when no replica did.
constexpr std::string_view kNotReached[] = {"upstream connect error", "no healthy upstream"};
constexpr std::string_view kTimedOut = "upstream request timeout";

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || read.ec != std::errc{} || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

// Copies the fields into `bytes`, without pseudo fields, which `pseudo` receives.
template <class Pseudo>
void keep_fields(const std::vector<net::Field>& from, std::string& bytes, std::vector<net::Field>& into,
                 Pseudo&& pseudo) {
  std::size_t size = 0;
  for (const net::Field& field : from) size += field.name.size() + field.value.size();
  bytes.clear();
  bytes.reserve(size);
  const auto keep = [&](std::string_view text) {
    bytes.append(text);
    return std::string_view{bytes}.substr(bytes.size() - text.size());
  };
  into.clear();
  for (const net::Field& field : from) {
    const net::Field kept{keep(field.name), keep(field.value)};
    if (kept.name.starts_with(':'))
      pseudo(kept);
    else
      into.push_back(kept);
  }
}

bool has(std::span<const net::Field> fields, std::string_view name) {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const net::Field& field) { return net::equal_fold(field.name, name); });
}

bool names(const std::vector<std::string>& list, std::string_view name) {
  return std::any_of(list.begin(), list.end(), [&](const std::string& one) { return net::equal_fold(one, name); });
}

// Fields of an answer that belong to Envoy and its connection to the replica.
bool is_of_the_connection(std::string_view name) {
  return name == "transfer-encoding" || name == "connection" || name == "keep-alive" || name.starts_with("x-envoy-");
}

}  // namespace

EnvoyExchange::EnvoyExchange(EnvoyContext& context, net::GrpcCall& call, core::Instant received_at)
    : context_{context}, call_{call} {
  request_.received_at = received_at;
  ++context_.counters.busy;
}

EnvoyExchange::~EnvoyExchange() { --context_.counters.busy; }

void EnvoyExchange::over() {
  is_over_ = true;
  context_.ended.push_back(&call_);
  client_ = nullptr;
  replica_ = nullptr;
}

void EnvoyExchange::gone() {
  if (is_over_) return;
  net::ExchangeListener* const client = client_;
  ++context_.counters.clients_gone;
  over();
  if (client != nullptr) client->on_client_gone();
}

void EnvoyExchange::take(const connect::ProcessingRequest& message) {
  if (is_leaving_) return pass_on(message);
  in_message_ = true;
  switch (message.part) {
    case ExtProcPart::kRequestHeaders: take_request_headers(message); break;
    case ExtProcPart::kRequestBody: take_request_body(message); break;
    case ExtProcPart::kRequestTrailers:
      has_request_trailers_ = true;
      request_complete();
      break;
    case ExtProcPart::kResponseHeaders: take_response_headers(message); break;
    case ExtProcPart::kResponseBody: take_response_body(message); break;
    case ExtProcPart::kResponseTrailers:
      has_trailers_ = true;
      end_of_answer();
      break;
  }
  in_message_ = false;
  send_output();
}

// ---- the request ----------------------------------------------------------------------------------------------------

void EnvoyExchange::take_request_headers(const connect::ProcessingRequest& message) {
  if (!request_.head_bytes.empty()) return;  // There is one head, which the handler may refer to.
  request_mode_ = message.request_body_mode.value_or(request_mode_);
  response_mode_ = message.response_body_mode.value_or(response_mode_);
  net::RequestHead& head = request_.head;
  std::string_view host;
  keep_fields(message.headers, request_.head_bytes, head.fields, [&](const net::Field& field) {
    if (field.name == ":method") head.method = field.value;
    if (field.name == ":path") head.target = field.value;
    if (field.name == ":authority") host = field.value;
  });
  if (!host.empty()) head.fields.push_back({"host", host});
  head.content_length = number_in<std::uint64_t>(head.field("content-length"));
  head.chunked = !head.content_length;
  if (message.is_observing)
    return refuse(500, "the filter must not be in observability_mode: an endpoint picker decides");
  if (message.has_endpoints)
    return refuse(500,
                  "the proxy names a subset of endpoints for the request, which is not supported; remove the hint");
  if (message.end_of_stream) return request_complete();
  if (request_mode_ != Mode::kFullDuplexStreamed && request_mode_ != Mode::kBuffered)
    return refuse(500,
                  "request_body_mode must be FULL_DUPLEX_STREAMED or BUFFERED: the body decides about the replica");
  if (response_mode_ == Mode::kNone || response_mode_ == Mode::kBufferedPartial || response_mode_ == Mode::kGrpc)
    return refuse(500, "response_body_mode must be FULL_DUPLEX_STREAMED: answers are counted");
  if (head.content_length.value_or(0) > context_.limits.body_bytes) return refuse(413, "the request body is too large");
  if (!admit(head.content_length.value_or(0))) return;
  if (request_mode_ == Mode::kBuffered) call_.send(connect::headers_response(ExtProcPart::kRequestHeaders, {}));
}

bool EnvoyExchange::admit(std::uint64_t bytes) {
  const net::BodyAdmission admission = request_.admit(context_.handler, *context_.limits.memory, bytes);
  if (admission.refusal_status == 0) return true;
  if (admission.refusal_body.empty()) {
    ++context_.counters.out_of_memory;
    refuse(admission.refusal_status, {});
    return false;
  }
  std::vector<net::Field> fields{{"content-type", "application/json"}};
  for (const auto& [name, value] : admission.refusal_fields) fields.push_back({name, value});
  respond(admission.refusal_status, fields, admission.refusal_body);
  return false;
}

void EnvoyExchange::refuse(int status, std::string_view fault) {
  const std::string id = context_.handler.request_id(request_.head);
  const net::Field fields[] = {{"content-type", "application/json"}, {"x-request-id", id}};
  respond(status, fields, context_.handler.error_body(status, fault));
}

void EnvoyExchange::take_request_body(const connect::ProcessingRequest& message) {
  if (has_request_) return;  // Envoy 1.35 to 1.37 may send the last piece twice.
  if (request_.body.size() + message.body.size() > context_.limits.body_bytes)
    return refuse(413, "the request body is too large");
  if (!message.body.empty()) {
    if (!admit(std::max<std::uint64_t>(request_.head.content_length.value_or(0),
                                       request_.body.size() + message.body.size())))
      return;
    if (!request_.body.append(message.body)) {
      ++context_.counters.out_of_memory;
      return refuse(503, {});
    }
  }
  if (message.end_of_stream) request_complete();
}

void EnvoyExchange::request_complete() {
  if (std::exchange(has_request_, true)) return;
  if (request_.head_bytes.empty()) return refuse(500, "request_header_mode must be SEND: the headers name the client");
  ++context_.counters.requests;
  context_.handler.on_request(*this);
}

void EnvoyExchange::take_body(net::Body& into) { into = std::move(request_.body); }

connect::HeaderMutation EnvoyExchange::request_mutation(const std::vector<net::Field>& wanted,
                                                        const std::string& length) const {
  connect::HeaderMutation mutation;
  for (const net::Field& field : wanted) {
    if (net::equal_fold(field.name, "host") || net::equal_fold(field.name, "content-length")) continue;
    if (request_.head.field(field.name) != field.value) mutation.set.push_back(field);
  }
  // Without a length, Envoy sends the body in chunks.
  if (request_.head.content_length) mutation.set.push_back({"content-length", length});
  for (const net::Field& field : request_.head.fields) {
    const bool is_key = field.name == "authorization" || field.name == "x-api-key";
    const bool is_control =
        header_control_named(field.name) < kHeaderControls.size() && !names(context_.forwarded, field.name);
    if ((is_control || (is_key && context_.keys_are_ours)) && !has(wanted, field.name))
      mutation.removed.push_back(field.name);
  }
  return mutation;
}

net::Call& EnvoyExchange::send(const Target& target, const net::CallOptions& options, std::string_view head,
                               std::string_view body, net::ResponseListener& listener) {
  replica_ = &listener;
  is_picked_ = true;
  const std::vector<net::Field> wanted = fields_of(head);
  const std::string endpoint = options.address.text(), length = std::to_string(body.size());
  connect::HeaderMutation mutation = request_mutation(wanted, length);
  const std::string path = target.path_prefix + std::string{request_.head.target};
  if (!target.path_prefix.empty()) mutation.set.push_back({":path", path});
  std::erase(mutation.removed, connect::kPickedEndpointField);
  if (request_mode_ == Mode::kBuffered) {
    call_.send(connect::buffered_body_response(ExtProcPart::kRequestBody, mutation, endpoint, body));
    return *this;
  }
  call_.send(connect::headers_response(ExtProcPart::kRequestHeaders, mutation, endpoint));
  send_pieces(ExtProcPart::kRequestBody, body, !has_request_trailers_);
  if (has_request_trailers_) call_.send(connect::trailers_response(ExtProcPart::kRequestTrailers));
  return *this;
}

// At least one, which may be empty.
void EnvoyExchange::send_pieces(ExtProcPart part, std::string_view body, bool ends) {
  do {
    const std::string_view piece = body.substr(0, connect::kExtProcPieceBytes);
    body.remove_prefix(piece.size());
    call_.send(connect::body_response(part, Mode::kFullDuplexStreamed, piece, ends && body.empty()));
  } while (!body.empty());
}

// ---- the answer -----------------------------------------------------------------------------------------------------

void EnvoyExchange::take_response_headers(const connect::ProcessingRequest& message) {
  if (std::exchange(has_answer_, true)) return;
  if (!is_picked_) return answered_by_envoy(message);
  answer_.status = 0;
  keep_fields(message.headers, answer_bytes_, answer_.fields, [&](const net::Field& field) {
    if (field.name == ":status") answer_.status = number_in<int>(field.value).value_or(0);
  });
  answer_.content_length = number_in<std::uint64_t>(answer_.field("content-length"));
  has_body_ = !message.end_of_stream;
  is_head_held_ = has_body_ && response_mode_ == Mode::kFullDuplexStreamed &&
                  (answer_.status == 503 || answer_.status == 504) &&
                  answer_.field("content-type").starts_with("text/plain");
  if (!is_head_held_) pass_on_head();
  if (!has_body_) end_of_answer();
  if (is_over_ || response_mode_ == Mode::kFullDuplexStreamed || !has_body_) return;
  // The body comes only after an answer to the headers, which the handler has not given.
  if (!is_answered_) call_.send(connect::headers_response(ExtProcPart::kResponseHeaders, {}));
  is_answered_ = true;
}

// Envoy answers the client while its request waits here, for example because the time of its route is over.
void EnvoyExchange::answered_by_envoy(const connect::ProcessingRequest& message) {
  net::ExchangeListener* const client = client_;
  begin_leaving();
  pass_on(message);
  if (client != nullptr) client->on_client_gone();
}

void EnvoyExchange::pass_on_head() {
  if (replica_ != nullptr) replica_->on_head(answer_);
}

void EnvoyExchange::take_response_body(const connect::ProcessingRequest& message) {
  if (has_ended_) return;
  if (!has_answer_) return fault(net::ClientFault::kMalformed);  // response_header_mode is SKIP.
  if (std::exchange(is_head_held_, false)) {
    const auto begins = [&](std::string_view text) { return message.body.starts_with(text); };
    const bool timed_out = begins(kTimedOut);
    if (timed_out || std::any_of(std::begin(kNotReached), std::end(kNotReached), begins))
      return fault(timed_out ? net::ClientFault::kTimeout : net::ClientFault::kConnect);
    pass_on_head();
  }
  if (replica_ != nullptr && !message.body.empty()) replica_->on_body(message.body);
  if (message.end_of_stream) end_of_answer();
  if (is_over_ || response_mode_ == Mode::kFullDuplexStreamed) return;
  // Each piece has one answer.
  if (is_finished_ && !has_ended_) return abort();
  call_.send(out_ == message.body
                 ? connect::unchanged_body_response(ExtProcPart::kResponseBody)
                 : connect::body_response(ExtProcPart::kResponseBody, response_mode_, out_, message.end_of_stream));
  out_.clear();
}

void EnvoyExchange::fault(net::ClientFault fault) {
  has_ended_ = true;
  if (net::ResponseListener* const replica = std::exchange(replica_, nullptr)) replica->on_fault(fault, false);
}

void EnvoyExchange::end_of_answer() {
  if (has_ended_) return;
  if (!has_answer_) return fault(net::ClientFault::kMalformed);
  if (std::exchange(is_head_held_, false)) pass_on_head();
  has_ended_ = true;
  if (net::ResponseListener* const replica = std::exchange(replica_, nullptr)) replica->on_end();
}

void EnvoyExchange::start(int status, std::span<const net::Field> fields, std::optional<std::uint64_t> content_length) {
  is_started_ = true;
  connect::HeaderMutation mutation;
  const std::string code = std::to_string(status), length = std::to_string(content_length.value_or(0));
  if (status != answer_.status) mutation.set.push_back({":status", code});
  for (const net::Field& field : fields)
    if (answer_.field(field.name) != field.value) mutation.set.push_back(field);
  if (content_length && content_length != answer_.content_length) mutation.set.push_back({"content-length", length});
  for (const net::Field& field : answer_.fields) {
    const bool stays = content_length && net::equal_fold(field.name, "content-length");
    if (!stays && !is_of_the_connection(field.name) && !has(fields, field.name)) mutation.removed.push_back(field.name);
  }
  answer_message_ = connect::headers_response(ExtProcPart::kResponseHeaders, mutation);
}

void EnvoyExchange::answer_response_headers() {
  if (!std::exchange(is_answered_, true)) call_.send(answer_message_);
  std::string{}.swap(answer_message_);
}

bool EnvoyExchange::write(std::string_view payload) {
  out_.append(payload);
  if (!in_message_) send_output();
  return true;
}

void EnvoyExchange::finish() {
  is_finished_ = true;
  client_ = nullptr;
  replica_ = nullptr;
  if (!in_message_) send_output();
}

void EnvoyExchange::send_output() {
  if (is_over_ || !is_started_ || (out_.empty() && !is_finished_)) return;
  const bool is_duplex = response_mode_ == Mode::kFullDuplexStreamed;
  if (is_duplex || !has_body_) answer_response_headers();
  // In the other modes the answers to the pieces have it.
  if (is_duplex && has_body_) {
    const bool ends = is_finished_ && !has_trailers_;
    if (ends || !out_.empty()) send_pieces(ExtProcPart::kResponseBody, out_, ends);
    out_.clear();
  }
  if (!is_finished_) return;
  if (!is_duplex && !has_ended_) return abort();
  if (has_trailers_) call_.send(connect::trailers_response(ExtProcPart::kResponseTrailers));
  call_.finish(net::GrpcStatus::kOk);
  over();
}

void EnvoyExchange::respond(int status, std::span<const net::Field> fields, std::string_view body) {
  if (is_answered_) return abort();
  // A request that a replica has goes on without the gateway.
  if (context_.leaves && is_picked_ && !has_answer_ && response_mode_ == Mode::kFullDuplexStreamed)
    return begin_leaving();
  call_.send(connect::immediate_response(status, fields, body, kDetails));
  call_.finish(net::GrpcStatus::kOk);
  over();
}

void EnvoyExchange::start_raw(std::string_view, bool) { PENSTOCK_ASSERT(false, "Envoy has no raw framing"); }

bool EnvoyExchange::write_raw(std::string_view) {
  PENSTOCK_ASSERT(false, "Envoy has no raw framing");
  return true;
}

// Envoy resets the client's stream after an error of its external processor. After OK it passes on what else comes.
void EnvoyExchange::abort() {
  if (is_over_) return;
  if (context_.leaves && response_mode_ == Mode::kFullDuplexStreamed && is_started_) {
    answer_response_headers();
    if (!out_.empty()) send_pieces(ExtProcPart::kResponseBody, out_, false);
    return begin_leaving();
  }
  call_.finish(net::GrpcStatus::kUnavailable, "the answer cannot be completed");
  over();
}

// ---- the end of the gateway -----------------------------------------------------------------------------------------

void EnvoyExchange::begin_leaving() {
  is_leaving_ = true;
  client_ = nullptr;
  replica_ = nullptr;
}

// Envoy drops a piece that it has sent and gets no answer to. Right after one, no other is on its way.
void EnvoyExchange::pass_on(const connect::ProcessingRequest& message) {
  switch (message.part) {
    case ExtProcPart::kResponseHeaders:
      call_.send(connect::headers_response(message.part, {}));
      if (message.end_of_stream) let_go();
      break;
    case ExtProcPart::kResponseBody:
      call_.send(connect::body_response(message.part, response_mode_, message.body, message.end_of_stream));
      let_go();
      break;
    case ExtProcPart::kResponseTrailers:
      call_.send(connect::trailers_response(message.part));
      let_go();
      break;
    default: break;
  }
}

void EnvoyExchange::let_go() {
  if (!is_leaving_ || is_over_) return;
  call_.finish(net::GrpcStatus::kOk);
  over();
}

}  // namespace penstock::gateway
