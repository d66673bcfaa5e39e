// Builds the request that is sent to a replica.
#pragma once

#include <string>
#include <string_view>

#include "api/request.h"
#include "core/result.h"
#include "gateway/worker_context.h"
#include "net/http.h"

namespace penstock::gateway {

// The parts of the client's request that determine the replica's request.
struct ClientRequest {
  const net::RequestHead& head;
  std::string_view body;
  const api::EditPoints& edit;         // Of the body.
  const api::BodyChanges& changes;     // Those of each attempt.
  std::string_view engine_request_id;  // See fields.h.
  api::Endpoint endpoint = api::Endpoint::kChatCompletions;
  bool collect = false;  // The answer is requested as a stream that the client does not read.
};

// Builds head and body. An unchanged body of the client is not copied.
class UpstreamRequest {
 public:
  // May be called on any thread, and does not read the client's head. With KV parameters (JSON) it builds the second
  // leg of a disaggregated request.
  void write_body(const ClientRequest& client, const RoutedGrant& grant, std::string_view kv_transfer_params);
  // `prefiller`: the replica that shall compute the prompt for this one, for llm-d's routing sidecar; null: none.
  void write_head(const WorkerContext& context, const ClientRequest& client, const Target& target,
                  const Target* prefiller = nullptr);

  // Valid until the next call, and as long as the client's body.
  [[nodiscard]] std::string_view head() const { return head_; }
  [[nodiscard]] std::string_view body() const { return body_; }

  // Called when the request was answered: the changed body is not sent again.
  void drop_changed_body() { changed_.clear(); }
  [[nodiscard]] std::size_t changed_bytes() const { return changed_.capacity(); }
  void clear();

 private:
  void edit(const ClientRequest& client, const RoutedGrant& grant);
  void replace(core::Result<std::string> body);

  std::string head_, changed_;
  std::string_view body_;  // The client's body or changed_.
};

}  // namespace penstock::gateway
