// One attempt at a replica: a call to one of its addresses, and to the next address if the connection fails.
#pragma once

#include <cstdint>

#include "api/answer_watch.h"
#include "core/time.h"
#include "gateway/target.h"
#include "gateway/upstream_request.h"
#include "gateway/worker_context.h"
#include "net/client.h"

namespace penstock::gateway {

class ReplicaCall {
 public:
  // `raw`: the answer's framing is relayed with its bytes, if client and front can have it.
  void start(WorkerContext& context, net::Exchange& exchange, const Target& target, const UpstreamRequest& request,
             bool raw, net::ResponseListener& listener);
  // Sends the same request to the replica's next address. Returns false if all addresses were tried.
  bool start_at_next_address(WorkerContext& context, net::Exchange& exchange, const Target& target,
                             const UpstreamRequest& request, net::ResponseListener& listener);

  [[nodiscard]] bool raw() const { return raw_; }
  // The answer carries something. The limit of its first byte ends, and the one between two pieces applies.
  void begun() {
    if (call_ != nullptr) call_->begun();
  }
  // A call is open, and its replica is unresponsive; see HealthChecker.
  [[nodiscard]] bool is_unresponsive() const {
    return call_ != nullptr && target_->unresponsive.load(std::memory_order_relaxed);
  }
  void received(core::Instant now) { received_at_ = now; }  // A part of the answer.
  // Nothing was received for so long. Time in which the client does not read does not count.
  [[nodiscard]] bool is_silent_for(core::Duration time, core::Instant now) const {
    return !is_paused_ && now - received_at_ >= time;
  }
  void finished() { call_ = nullptr; }  // The listener has received on_end() or on_fault().
  void cancel();
  // See net::Call. False without a call.
  bool release_request() { return call_ != nullptr && call_->release_request(); }
  // Cancels the call. `watch`, which may be null, takes the bytes of the answer that have arrived and were not relayed.
  void abandon(api::AnswerWatch* watch);
  // The client reads too slowly.
  void pause(core::Instant now) {
    paused_at_ = now;
    is_paused_ = true;
    call_->pause();
  }
  void resume(core::Instant now) {
    client_wait_ += now - paused_at_;
    received_at_ = now;
    is_paused_ = false;
    if (call_ != nullptr) call_->resume();
  }
  [[nodiscard]] core::Duration client_wait() const { return client_wait_; }  // How long the call was paused.

 private:
  void call(WorkerContext& context, net::Exchange& exchange, const Target& target, const UpstreamRequest& request,
            net::ResponseListener& listener);

  net::Call* call_ = nullptr;
  const Target* target_ = nullptr;  // Of the open call.
  std::uint32_t address_ = 0;       // Address in use, as counted by the target.
  std::uint32_t tried_ = 0;         // Number of addresses tried.
  bool raw_ = false, is_paused_ = false;
  core::Instant paused_at_, received_at_;
  core::Duration client_wait_{};
};

}  // namespace penstock::gateway
