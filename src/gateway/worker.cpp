#include "gateway/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/json_text.h"
#include "api/message_answer.h"
#include "core/digits.h"
#include "gateway/fields.h"

namespace penstock::gateway {
namespace {

// With the time until the ledger writes, a process that is killed loses less than a second of tokens.
constexpr core::Duration kProgressInterval = std::chrono::milliseconds{700};

Refusal not_found(std::string_view path) {
  return make_refusal(
      404, "invalid_request_error", "unknown_url",
      "the path " + std::string{path.substr(0, 200)} +
          " does not exist; use /v1/chat/completions, /v1/messages, /v1/models or another path that takes a model");
}

void add(net::ServerCounters& sum, const net::ServerCounters& counters) {
  sum.accepted += counters.accepted;
  sum.refused += counters.refused;
  sum.requests += counters.requests;
  sum.malformed += counters.malformed;
  sum.timed_out += counters.timed_out;
  sum.clients_gone += counters.clients_gone;
  sum.out_of_memory += counters.out_of_memory;
  sum.open += counters.open;
  sum.busy += counters.busy;
}

// In a path, + is a plus sign.
std::string percent_decoded(std::string_view text) {
  std::string decoded;
  while (!text.empty()) {
    const int high = text.size() > 2 ? core::hex_digit(text[1]) : -1,
              low = text.size() > 2 ? core::hex_digit(text[2]) : -1;
    const bool escaped = text.front() == '%' && high >= 0 && low >= 0;
    decoded += escaped ? static_cast<char>(high * 16 + low) : text.front();
    text.remove_prefix(escaped ? 3 : 1);
  }
  return decoded;
}

}  // namespace

Worker::Worker(const std::shared_ptr<const Settings>& settings, SharedDispatcher& dispatcher, GatewayLogs logs,
               const MakeFront& make_front, LargeBodies& large_bodies, std::uint64_t index)
    : front_{make_front(loop_, *this)},
      context_{
          settings,     dispatcher,
          *this,        loop_,
          *front_,      logs,
          large_bodies, core::RandomStream{settings->options.dispatch.seed}.fork("gateway request ids").fork(index)} {
  open_accounts();
  loop_.every(kProgressInterval, [this] { visit_requests(); });
  loop_.every(std::chrono::milliseconds{200}, [this] {
    net::ServerCounters now = front_->counters();
    now.out_of_memory += context_.memory_refusals;
    const std::scoped_lock lock{counters_mutex_};
    counters_ = now;
    if (drained_ && now.open == 0 && !front_->listening()) std::exchange(drained_, nullptr)();
  });
}

Worker::~Worker() { stop(); }

void Worker::start() {
  thread_ = std::thread{[this] { loop_.run(); }};
}

void Worker::stop() {
  loop_.stop();
  if (thread_.joinable()) thread_.join();
}

void Worker::drain(std::function<void()> done) {
  loop_.post([this, done = std::move(done)] {
    front_->drain();
    const std::scoped_lock lock{counters_mutex_};
    drained_ = done;
  });
}

void Worker::announce_drain() {
  loop_.post([this] { front_->announce_drain(); });
}

void Worker::cut() {
  loop_.post([this] {
    front_->leave();
    for (const auto& handler : handlers_) handler->cut();
  });
}

void Worker::reconfigure(std::shared_ptr<const Settings> settings) {
  loop_.post([this, settings = std::move(settings)]() mutable {
    front_->reconfigure(settings->options);
    context_.settings = std::move(settings);
    open_accounts();
  });
}

void Worker::open_accounts() {
  const GatewayOptions& options = context_.settings->options;
  context_.accounts.clear();
  for (const dispatch::Tenant& tenant : options.dispatch.tenants)
    context_.accounts.push_back(&options.server.memory->account(tenant.name));
}

void Worker::add_to(WorkerTotals& totals) const {
  context_.refusal_counts.add_to(totals.refusals);
  context_.latencies.add_to(totals.latencies);
  const std::scoped_lock lock{counters_mutex_};
  add(totals.connections, counters_);
}

void Worker::visit_requests() {
  progress_.clear();
  for (const auto& handler : handlers_) {
    handler->guard().run([&] { handler->leave_unresponsive_replica(); });
    handler->release_body();
    if (const auto grown = handler->progress()) progress_.push_back(*grown);
  }
  if (!progress_.empty()) context_.dispatcher.report_progress(progress_, context_.loop.now());
}

RequestHandler& Worker::take_handler() {
  if (context_.free.empty()) {
    handlers_.push_back(std::make_unique<RequestHandler>(context_));
    return *handlers_.back();
  }
  RequestHandler* handler = context_.free.back();
  context_.free.pop_back();
  return *handler;
}

// A large body without a valid key, or of a tenant with a limit that is used up, is refused before it is read.
net::BodyAdmission Worker::admit_body(const net::RequestHead& head, std::uint64_t bytes) {
  net::BodyAdmission admission;
  const KeyOwner* owner = context_.settings->owner_of(client_key(head));
  std::optional<Refusal> refusal;
  if (owner != nullptr) admission.account = context_.accounts[owner->tenant];
  if (bytes <= kLargeBytes) return admission;
  if (owner == nullptr)
    refusal = unauthenticated();
  else if (auto early = context_.dispatcher.early_refusal(owner->tenant, net::Loop::read_clock()))
    refusal = make_refusal(*std::move(early));
  if (!refusal) return admission;
  context_.refusal_counts.count(*refusal);
  admission.refusal_status = refusal->error.status;
  admission.refusal_body = api::error_body_at(head.path(), refusal->error);
  admission.refusal_fields = refusal_fields(*refusal);
  return admission;
}

void Worker::refuse_at_once(net::Exchange& exchange, const Refusal& refusal) {
  context_.refusal_counts.count(refusal);
  refuse(exchange, refusal, request_id(exchange.head()));
}

void Worker::respond(net::Exchange& exchange, int status, std::vector<net::Field> fields, std::string_view body) {
  const std::string id = request_id(exchange.head());
  fields.push_back({"x-request-id", id});
  exchange.respond(status, fields, body);
}

void Worker::refuse_method(net::Exchange& exchange, std::string_view allowed) {
  const Refusal refusal = make_refusal(
      405, "invalid_request_error", "method_not_allowed",
      fmt::format("the method {} is not allowed at this path; use {}", exchange.head().method.substr(0, 20), allowed));
  context_.refusal_counts.count(refusal);
  respond(exchange, refusal.error.status, {{"Content-Type", "application/json"}, {"Allow", allowed}},
          api::error_body_at(exchange.head().path(), refusal.error));
}

void Worker::on_request(net::Exchange& exchange) {
  const std::string_view path = exchange.head().path();
  for (const api::Endpoint endpoint : api::kEndpoints) {
    if (path != api::path_of(endpoint)) continue;
    if (exchange.head().method != "POST") return refuse_method(exchange, "POST");
    RequestHandler& handler = take_handler();
    return handler.guard().run([&] { handler.begin(exchange, endpoint); });
  }
  const bool reads = exchange.head().method == "GET" || exchange.head().method == "HEAD";
  if (path == "/v1/models") return reads ? answer_models(exchange, {}) : refuse_method(exchange, "GET, HEAD");
  if (constexpr std::string_view kOneModel = "/v1/models/"; path.starts_with(kOneModel)) {
    const std::string name = percent_decoded(path.substr(kOneModel.size()));
    return reads ? answer_models(exchange, name) : refuse_method(exchange, "GET, HEAD");
  }
  if (path == "/health") return respond(exchange, 200, {{"Content-Type", "text/plain"}}, "ok\n");
  refuse_at_once(exchange, not_found(path));
}

void Worker::answer_models(net::Exchange& exchange, std::optional<std::string_view> name) {
  const KeyOwner* owner = context_.settings->owner_of(client_key(exchange.head()));
  if (owner == nullptr) return refuse_at_once(exchange, unauthenticated());
  const dispatch::Tenant& tenant = context_.settings->options.dispatch.tenants[owner->tenant];
  std::string entries;
  for (const dispatch::ModelListing& model : context_.dispatcher.models()) {
    if (!dispatch::may_use(tenant, model.name) || (name && model.name != *name)) continue;
    if (!entries.empty()) entries += ',';
    entries += R"({"id":)";
    api::append_json_string(entries, model.name);
    const std::uint32_t limit =
        tenant.context_tokens > 0 ? std::min(model.context_tokens, tenant.context_tokens) : model.context_tokens;
    fmt::format_to(std::back_inserter(entries),
                   R"(,"object":"model","created":0,"owned_by":"penstock","max_model_len":{})", limit);
    const dispatch::TokenCaps caps = dispatch::tighter(tenant.caps, model.caps);
    if (caps.prompt_tokens > 0)
      fmt::format_to(std::back_inserter(entries), R"(,"max_prompt_tokens":{})", caps.prompt_tokens);
    if (caps.completion_tokens > 0)
      fmt::format_to(std::back_inserter(entries), R"(,"max_completion_tokens":{})", caps.completion_tokens);
    entries += '}';
  }
  if (name && entries.empty() && dispatch::may_use(tenant, *name) && !context_.dispatcher.models_complete())
    return refuse_at_once(exchange, make_refusal(dispatch::not_known_yet(*name)));
  if (name && entries.empty())
    return refuse_at_once(
        exchange, make_refusal(404, "invalid_request_error", "model_not_found",
                               fmt::format("the model {:?} does not exist here or may not be used with this key; "
                                           "/v1/models lists the models of the key",
                                           name->substr(0, 200)),
                               "model"));
  respond(exchange, 200, {{"Content-Type", "application/json"}},
          name ? entries : R"({"object":"list","data":[)" + entries + "]}");
}

std::string Worker::request_id(const net::RequestHead& head) {
  RequestIds ids;
  ids.assign(head.field("x-request-id"), context_.random.next());
  return ids.own;
}

std::string Worker::error_body(int status, std::string_view fault) {
  if (status == 503) {
    const Refusal refusal = memory_refusal();
    context_.refusal_counts.count(refusal);
    return api::error_body(refusal.error);
  }
  api::ApiError error;
  error.status = status;
  error.type = status >= 500 ? "api_error" : "invalid_request_error";
  error.message = fault;
  if (status == 413) {
    error.code = "request_too_large";
    error.message +=
        fmt::format("; at most {} bytes are read (gateway.body_max)", context_.settings->options.server.body_bytes);
  }
  return api::error_body(error);
}

void Worker::deliver(dispatch::Ticket ticket, const dispatch::Grant& grant) {
  loop_.post([this, ticket, routed = context_.dispatcher.routed(grant)]() mutable {
    if (const auto found = context_.waiting.extract(ticket))
      found.mapped()->guard().run([&] { found.mapped()->granted(std::move(routed)); });
  });
}

void Worker::deliver(dispatch::Ticket ticket, const dispatch::Refusal& refusal) {
  loop_.post([this, ticket, refusal] {
    if (const auto found = context_.waiting.extract(ticket))
      found.mapped()->guard().run([&] { found.mapped()->refused(make_refusal(refusal)); });
  });
}

}  // namespace penstock::gateway
