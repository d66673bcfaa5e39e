// The request that goes to a replica.
#pragma once

#include <string>
#include <string_view>

#include "api/request.h"
#include "gateway/worker_context.h"
#include "net/http.h"

namespace penstock::gateway {

// What of the client's request a replica's depends on.
struct ClientRequest {
  const net::RequestHead& head;
  std::string_view body;
  std::string_view request_id;
  api::Endpoint endpoint = api::Endpoint::kChatCompletions;
  bool collect = false;  // the answer is requested as a stream where the client does not read one
};

// Head and body. The body is the client's, without a copy, where nothing in it changes.
class UpstreamRequest {
 public:
  void write(WorkerContext& context, const ClientRequest& client, const RoutedGrant& grant);
  // The second leg of a disaggregated request: `body` names where the KV is, and replaces the client's.
  void write_decode(WorkerContext& context, const ClientRequest& client, const RoutedGrant& grant, std::string body);

  // Valid until the next call, and as long as the client's body.
  [[nodiscard]] std::string_view head() const { return head_; }
  [[nodiscard]] std::string_view body() const { return body_; }

  // The request was answered: the changed body is not sent again.
  void drop_changed_body() { changed_.clear(); }
  void clear(bool keep_memory);

 private:
  void edit(WorkerContext& context, const ClientRequest& client, const RoutedGrant& grant);
  void write_head(const WorkerContext& context, const ClientRequest& client, const Target& target);

  std::string head_, changed_;
  std::string_view body_;  // the client's or changed_
};

}  // namespace penstock::gateway
