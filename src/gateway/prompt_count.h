// Lets an engine count the tokens of a prompt that may exceed the context of its model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "gateway/request_body.h"
#include "gateway/request_guard.h"
#include "gateway/request_reading.h"
#include "gateway/worker_context.h"

namespace penstock::gateway {

// Keeps what was read of the request meanwhile, because the worker reads others.
class PromptCount {
 public:
  using Done = std::function<void(const ReadRequest&)>;

  PromptCount(WorkerContext& context, RequestGuard& guard) : context_(context), guard_(guard) {}

  // `context.scratch` and `context.keys` belong to the request. Calls `done` later, when they do so again, with the
  // request as it shall arrive: with the count, or without one if no engine counts in time.
  void start(const ReadRequest& read, RequestBody& body, Done done);
  void cancel();  // The request has ended.

 private:
  struct Uncounted;
  // Shared with the calls that come later.
  using Handle = std::shared_ptr<Uncounted>;
  void finish(const Handle& uncounted, std::optional<std::uint32_t> prompt_tokens);

  WorkerContext& context_;
  RequestGuard& guard_;
  Handle uncounted_;  // Null unless a prompt is counted.
};

}  // namespace penstock::gateway
