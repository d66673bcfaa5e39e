// The first phase of a request: converts its head and body into the dispatcher's input.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "api/request.h"
#include "core/time.h"
#include "gateway/refusal.h"
#include "gateway/worker_context.h"
#include "net/server.h"

namespace penstock::gateway {

struct ReadRequest {
  dispatch::RequestInfo info;           // Its views point into the exchange, the context and `request_id`.
  std::optional<std::uint32_t> tenant;  // Empty if the client is not authenticated.
  core::Duration time_budget{};         // For the complete answer; 0 means no limit.
  bool stream = false;                  // The client reads a stream.
  std::string_view cache_salt;          // Of its tenant's cache; empty if that is shared.
  bool collect = false;                 // The answer is requested as a stream and sent as one document.
};

// Authenticates, classifies, parses and hashes the request. After a refusal the request ends, and `read` holds what was
// read before. `context.scratch` and `context.keys` hold the parsed body and the keys of its prefix blocks.
[[nodiscard]] std::optional<Refusal> read_request(WorkerContext& context, const net::Exchange& exchange,
                                                  api::Endpoint endpoint, std::string_view request_id,
                                                  ReadRequest& read);

}  // namespace penstock::gateway
