#include "gateway/replica_call.h"

#include "core/result.h"

namespace penstock::gateway {

void ReplicaCall::start(WorkerContext& context, net::Exchange& exchange, const Target& target,
                        const UpstreamRequest& request, bool raw, net::ResponseListener& listener) {
  raw_ = raw && context.front.is_proxy() && !exchange.head().http_1_0;
  tried_ = 0;
  client_wait_ = {};
  is_paused_ = false;
  call(context, exchange, target, request, listener);
}

bool ReplicaCall::start_at_next_address(WorkerContext& context, net::Exchange& exchange, const Target& target,
                                        const UpstreamRequest& request, net::ResponseListener& listener) {
  // If several requests failed at once, only one of them advances the address.
  std::uint32_t failed = address_;
  target.unreached.compare_exchange_strong(failed, address_ + 1, std::memory_order_relaxed);
  if (tried_ >= target.addresses.size() || !context.front.is_proxy()) return false;
  call(context, exchange, target, request, listener);
  return true;
}

void ReplicaCall::call(WorkerContext& context, net::Exchange& exchange, const Target& target,
                       const UpstreamRequest& request, net::ResponseListener& listener) {
  address_ = target.unreached.load(std::memory_order_relaxed);
  ++tried_;
  net::CallOptions options;
  options.address = target.addresses[address_ % target.addresses.size()];
  if (target.tls) {
    PENSTOCK_ASSERT(target.credentials && target.credentials->tls, "discovery knows whom to trust");
    options.tls = target.credentials->tls;
  }
  options.host = target.host;
  options.raw = raw_;
  options.head_time = context.settings->options.dispatch.first_byte_timeout;
  options.waits_for_begun = true;
  options.silence = context.settings->options.dispatch.stream_idle_timeout;
  target_ = &target;
  received_at_ = context.loop.now();
  call_ = &context.front.call(exchange, target, options, request.head(), request.body(), listener);
}

void ReplicaCall::abandon(api::AnswerWatch* watch) {
  constexpr std::size_t kBytesMax = 16 << 20;  // More than the two sockets hold with the limits of Linux.
  if (call_ != nullptr && watch != nullptr)
    call_->take_rest([watch](std::string_view bytes) { watch->take(bytes); }, kBytesMax);
  cancel();
}

void ReplicaCall::cancel() {
  if (call_ == nullptr) return;
  call_->cancel();
  call_ = nullptr;
}

}  // namespace penstock::gateway
