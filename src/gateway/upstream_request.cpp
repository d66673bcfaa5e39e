#include "gateway/upstream_request.h"

#include <utility>

#include "core/append.h"
#include "gateway/buffers.h"
#include "gateway/fields.h"

namespace penstock::gateway {

void UpstreamRequest::write_body(const ClientRequest& client, const RoutedGrant& grant,
                                 std::string_view kv_transfer_params) {
  edit(client, grant);
  if (grant.prefill_only) return replace(api::prefill_body(body_));
  if (!kv_transfer_params.empty()) replace(api::decode_body(body_, kv_transfer_params));
  if (client.collect) replace(api::streamed_body(body_));
}

void UpstreamRequest::edit(const ClientRequest& client, const RoutedGrant& grant) {
  api::BodyChanges changes = client.changes;
  changes.max_tokens = grant.max_tokens;
  changed_.clear();
  const bool changed = api::append_changed_body(changed_, client.body, client.endpoint, client.edit, changes);
  body_ = changed ? std::string_view{changed_} : client.body;
}

void UpstreamRequest::replace(core::Result<std::string> body) {
  PENSTOCK_ASSERT(body.has_value(), "the body was parsed before");
  changed_ = *std::move(body);
  body_ = changed_;
}

void UpstreamRequest::write_head(const WorkerContext& context, const ClientRequest& client, const Target& target,
                                 const Target* prefiller) {
  head_.clear();
  const std::string_view query = client.head.query();
  core::append_all(head_, {"POST ", target.path_prefix, api::path_of(client.endpoint), query.empty() ? "" : "?", query,
                           " HTTP/1.1\r\nHost: ", target.host_field, "\r\n"});
  append_forwarded_request_fields(head_, client.head, context.settings->options.forward.headers);
  // The body was read as JSON, and vLLM refuses a request that does not say so.
  if (!client.head.has_field("content-type")) head_.append("Content-Type: application/json\r\n");
  if (target.credentials) head_.append(target.credentials->fields);
  if (prefiller != nullptr)
    core::append_all(head_, {"x-prefiller-host-port: ", prefiller->addresses.front().text(), "\r\n"});
  core::append_all(head_, {"x-request-id: ", client.engine_request_id, "\r\nContent-Length: "});
  append_number(head_, body_.size());
  head_.append("\r\n\r\n");
}

void UpstreamRequest::clear() {
  body_ = {};
  for (std::string* text : {&head_, &changed_}) clear_for_reuse(*text);
}

}  // namespace penstock::gateway
