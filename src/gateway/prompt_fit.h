// Finds out whether a prompt that may exceed the context of its model fits, and makes it fit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "gateway/request_body.h"
#include "gateway/request_guard.h"
#include "gateway/request_reading.h"
#include "gateway/shared_dispatcher.h"
#include "gateway/worker_context.h"

namespace penstock::gateway {

// Lets an engine count the tokens of a prompt, or drops what exceeds the context.
class PromptFit {
 public:
  using Done = std::function<void(const ReadRequest&)>;

  PromptFit(WorkerContext& context, RequestGuard& guard, RequestBody& body)
      : context_(context), guard_(guard), body_(body) {}

  // `context.scratch` and `context.keys` belong to the request. Calls `done`, now or later, when they do so again, with
  // the request as it shall arrive again: with the count, or without one if no engine counts in time, or with the
  // shorter prompt, or with one that may not be truncated. Keeps what was read of the request meanwhile, because the
  // worker reads others.
  void start(const RoutedArrival& arrival, const ReadRequest& read, const net::Exchange& exchange,
             api::Endpoint endpoint, Done done);
  // Messages that were dropped from the prompt of the request.
  [[nodiscard]] std::uint32_t truncated_messages() const { return truncated_messages_; }
  void cancel();  // The request has ended.

 private:
  struct Uncounted;
  // Shared with the calls that come later.
  using Handle = std::shared_ptr<Uncounted>;
  void count(const ReadRequest& read, Done done);
  void truncate(const RoutedArrival& arrival, const ReadRequest& read, const net::Exchange& exchange,
                api::Endpoint endpoint, Done done);
  void finish_count(const Handle& uncounted, std::optional<std::uint32_t> prompt_tokens);
  void end_count();

  WorkerContext& context_;
  RequestGuard& guard_;
  RequestBody& body_;
  Handle uncounted_;  // Null unless a prompt is counted.
  std::uint32_t truncations_ = 0, truncated_messages_ = 0;
};

}  // namespace penstock::gateway
