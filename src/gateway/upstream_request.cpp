#include "gateway/upstream_request.h"

#include <utility>

#include "core/result.h"
#include "gateway/buffers.h"
#include "gateway/fields.h"

namespace penstock::gateway {

void UpstreamRequest::write(WorkerContext& context, const ClientRequest& client, const RoutedGrant& grant) {
  body_ = client.body;
  edit(context, client, grant);
  write_head(context, client, *grant.target);
}

void UpstreamRequest::write_decode(WorkerContext& context, const ClientRequest& client, const RoutedGrant& grant,
                                   std::string body) {
  changed_ = std::move(body);
  body_ = changed_;
  edit(context, client, grant);
  write_head(context, client, *grant.target);
}

void UpstreamRequest::edit(WorkerContext& context, const ClientRequest& client, const RoutedGrant& grant) {
  const auto replace = [&](auto&& changed) {
    PENSTOCK_ASSERT(changed.has_value(), "the body was parsed before");
    changed_ = *std::move(changed);
    body_ = changed_;
  };
  if (grant.prefill_only) return replace(api::prefill_body(body_));
  if (grant.max_tokens) {
    const auto read = context.reader.read(client.endpoint, body_, context.scratch);
    PENSTOCK_ASSERT(read.has_value(), "the body was parsed before");
    changed_ = api::with_max_tokens(body_, context.scratch, *grant.max_tokens);
    body_ = changed_;
  }
  if (client.collect) replace(api::streamed_body(body_));
}

void UpstreamRequest::write_head(const WorkerContext& context, const ClientRequest& client, const Target& target) {
  head_.clear();
  head_.append("POST ").append(target.path_prefix).append(api::path_of(client.endpoint));
  if (const std::string_view query = client.head.query(); !query.empty()) head_.append("?").append(query);
  head_.append(" HTTP/1.1\r\nHost: ").append(target.host_field).append("\r\n");
  append_forwarded_request_fields(head_, client.head);
  if (!context.settings->options.replica_key.empty())
    head_.append("Authorization: Bearer ").append(context.settings->options.replica_key).append("\r\n");
  head_.append("x-request-id: ").append(client.request_id);
  head_.append("\r\nContent-Length: ");
  append_number(head_, body_.size());
  head_.append("\r\n\r\n");
}

void UpstreamRequest::clear(bool keep_memory) {
  body_ = {};
  for (std::string* text : {&head_, &changed_}) keep_memory ? clear_for_reuse(*text) : free_memory(*text);
}

}  // namespace penstock::gateway
