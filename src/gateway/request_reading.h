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
  core::Duration client_time_budget{};  // The client's part of it; 0: it gave none.
  bool stream = false;                  // The client reads a stream.
  std::string_view cache_salt;          // Of its tenant's cache; empty if that is shared.
  bool adds_usage = false;              // The engine must be told to report usage, and the client must not see it.
  bool collect = false;                 // The answer is requested as a stream and sent as one document.
};

// A request is read in three steps. After a refusal it ends, and `read` holds what was read before.
// Authenticates and classifies the request by its head.
[[nodiscard]] std::optional<Refusal> read_head(WorkerContext& context, const net::Exchange& exchange,
                                               api::Endpoint endpoint, std::string_view request_id, ReadRequest& read);
// Parses the body and hashes its prefix blocks. May be called on any thread.
[[nodiscard]] core::Result<void> parse_body(api::RequestReader& reader, api::Endpoint endpoint, const net::Body& body,
                                            std::uint32_t key_tokens, api::InferenceRequest& request,
                                            std::vector<std::uint64_t>& keys);
// Describes the request to the dispatcher. `context.scratch` and `context.keys` hold the parsed body and the keys of
// its prefix blocks; the text of the prompt may be dropped.
[[nodiscard]] std::optional<Refusal> describe_body(WorkerContext& context, const net::Exchange& exchange,
                                                   api::Endpoint endpoint, ReadRequest& read);
// The time for its complete answer, also if it became a batch request; 0: there is no limit.
[[nodiscard]] core::Duration time_budget_of(const dispatch::DispatchOptions& options, const ReadRequest& read,
                                            bool moved_to_batch);
// The part of it that depends on the prompt, for a body whose prompt was truncated.
void describe_prompt(WorkerContext& context, const net::Exchange& exchange, api::Endpoint endpoint, ReadRequest& read);

}  // namespace penstock::gateway
