// The first phase of a request: from its head and body to what the dispatcher decides on.
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
  dispatch::RequestInfo info;           // its views are into the exchange, the context and `request_id`
  std::optional<std::uint32_t> tenant;  // none: the client is not authenticated
  core::Duration time_budget{};         // for the whole answer; 0: no limit
  bool stream = false;                  // the client reads a stream
  bool collect = false;                 // the answer is requested as a stream and sent as one document
};

// Authenticates, classifies, parses and hashes the request. A refusal: the request ends here; `read` then holds what was
// read before. `context.scratch` and `context.keys` hold the parsed body and the keys of its prefix blocks.
[[nodiscard]] std::optional<Refusal> read_request(WorkerContext& context, const net::Exchange& exchange,
                                                  api::Endpoint endpoint, std::string_view request_id,
                                                  ReadRequest& read);

}  // namespace penstock::gateway
