#include "gateway/envoy_front.h"

#include <utility>

namespace penstock::gateway {
namespace {

// Envoy sends all its requests on a few connections.
net::GrpcLimits grpc_limits(const net::ServerLimits& limits) {
  net::GrpcLimits made;
  made.calls = limits.connections;
  made.message_bytes = limits.body_bytes + limits.head_bytes;  // A body in the mode BUFFERED is one message.
  made.window_bytes = 1 << 20;                                 // A long prompt takes few round trips.
  made.unsent_bytes = std::size_t{made.calls} * made.call_unsent_bytes;
  return made;
}

// The services that llm-d's endpoint picker reports, under which charts and proxies ask.
std::optional<bool> is_serving(std::string_view service, bool is_ready) {
  if (service == "liveness") return true;
  for (const std::string_view known :
       {"", "readiness", "inference-extension", "envoy.service.ext_proc.v3.ExternalProcessor"})
    if (service == known) return is_ready;
  return std::nullopt;
}

bool has_keys(const GatewayOptions& options) { return options.dispatch.tenants.size() > 1; }

}  // namespace

EnvoyFront::EnvoyFront(net::Loop& loop, int listening, net::ExchangeHandler& handler, const GatewayOptions& options,
                       const std::function<bool()>& is_ready, int health_listening)
    : loop_{loop},
      context_{handler, options.server, {}, has_keys(options), options.forward.headers, false, {}},
      health_{loop, [is_ready](std::string_view service) { return is_serving(service, is_ready()); }},
      server_{loop, listening, *this, grpc_limits(options.server), options.endpoint_picker_tls} {
  if (health_listening >= 0) health_server_.emplace(loop, health_listening, health_);
  loop_.every(std::chrono::seconds{1}, [this] { bury(); });
}

void EnvoyFront::bury() {
  for (const net::GrpcCall* const call : std::exchange(context_.ended, {})) exchanges_.erase(call);
}

net::Call& EnvoyFront::call(net::Exchange& exchange, const Target& target, const net::CallOptions& options,
                            std::string_view head, std::string_view body, net::ResponseListener& listener) {
  return static_cast<EnvoyExchange&>(exchange).send(target, options, head, body, listener);
}

void EnvoyFront::reconfigure(const GatewayOptions& options) {
  server_.set_tls(options.endpoint_picker_tls);
  context_.keys_are_ours = has_keys(options);
  context_.forwarded = options.forward.headers;
}

void EnvoyFront::announce_drain() { server_.disconnect(); }

void EnvoyFront::drain() {
  draining_ = true;
  health_.publish();
  health_.end_watches();
  server_.drain();
}

void EnvoyFront::leave() {
  // Longer than from one token to the next, and shorter than the time that the process takes to end.
  constexpr core::Duration kLeaveTime = std::chrono::milliseconds{500};
  context_.leaves = true;
  loop_.after(kLeaveTime, [this] {
    for (const auto& [call, exchange] : exchanges_) exchange->let_go();
    bury();
  });
}

net::ServerCounters EnvoyFront::counters() const {
  net::ServerCounters now = context_.counters;
  const net::GrpcCounters& calls = server_.counters();
  now.accepted = calls.accepted;
  now.refused = calls.refused;
  now.malformed += calls.malformed;
  now.timed_out = calls.timed_out;
  now.open = calls.open;
  return now;
}

void EnvoyFront::on_message(net::GrpcCall& call, std::string_view message, bool is_first) {
  bury();
  if (net::GrpcHealth::serves(call)) return health_.on_message(call, message, is_first);
  if (is_first) {
    if (call.path() != connect::kExtProcMethod)
      return call.finish(net::GrpcStatus::kUnimplemented,
                         "the services are envoy.service.ext_proc.v3.ExternalProcessor and grpc.health.v1.Health");
    exchanges_.emplace(&call, std::make_unique<EnvoyExchange>(context_, call, loop_.now()));
  }
  const auto found = exchanges_.find(&call);
  if (found == exchanges_.end() || found->second->is_over()) return;
  if (connect::read_processing_request(message, message_)) return found->second->take(message_);
  ++context_.counters.malformed;
  found->second->gone();
  call.finish(net::GrpcStatus::kInvalidArgument, "the message is no ProcessingRequest");
}

// Envoy ends its part when the answer is complete, or when the client has left.
void EnvoyFront::on_half_closed(net::GrpcCall& call) {
  if (net::GrpcHealth::serves(call)) return;  // Its calls have one message.
  on_gone(call);
  call.finish(net::GrpcStatus::kOk);
}

void EnvoyFront::on_gone(net::GrpcCall& call) {
  if (net::GrpcHealth::serves(call)) return health_.on_gone(call);
  if (const auto found = exchanges_.find(&call); found != exchanges_.end()) found->second->gone();
  bury();
}

}  // namespace penstock::gateway
