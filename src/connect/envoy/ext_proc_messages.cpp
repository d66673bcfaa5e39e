#include "connect/envoy/ext_proc_messages.h"

#include <array>
#include <utility>

#include "core/protobuf.h"

namespace penstock::connect {
namespace {

namespace protobuf = core::protobuf;

constexpr std::string_view kSubsetNamespace = "envoy.lb.subset_hint", kLoadBalancingNamespace = "envoy.lb";
constexpr std::string_view kSubsetKey = "x-gateway-destination-endpoint-subset";
constexpr std::string_view kServedKey = "x-gateway-destination-endpoint-served";
constexpr std::uint64_t kOverwriteIfExistsOrAdd = 2;  // HeaderValueOption.HeaderAppendAction.

// The parts by their numbers in ProcessingRequest, from 2, and in ProcessingResponse, from 1.
constexpr std::array kParts{ExtProcPart::kRequestHeaders,  ExtProcPart::kResponseHeaders,
                            ExtProcPart::kRequestBody,     ExtProcPart::kResponseBody,
                            ExtProcPart::kRequestTrailers, ExtProcPart::kResponseTrailers};

std::uint32_t response_number(ExtProcPart part) {
  std::uint32_t at = 0;
  while (kParts[at] != part) ++at;
  return at + 1;
}

bool is_body_part(ExtProcPart part) { return part == ExtProcPart::kRequestBody || part == ExtProcPart::kResponseBody; }

// An entry of a map.
struct MapEntry {
  std::string_view key, value;
};

bool read_map_entry(std::string_view message, MapEntry& entry) {
  protobuf::Reader reader{message};
  while (const auto field = reader.next()) {
    if (field->number == 1) entry.key = field->bytes;
    if (field->number == 2) entry.value = field->bytes;
  }
  return reader.is_valid();
}

// Calls `use` with each entry of the map that is field 1 of the message, as in Struct and in Metadata.
template <typename Use>
bool read_map(std::string_view message, Use use) {
  protobuf::Reader reader{message};
  while (const auto field = reader.next()) {
    if (field->number != 1) continue;
    MapEntry entry;
    if (!read_map_entry(field->bytes, entry) || !use(entry)) return false;
  }
  return reader.is_valid();
}

// The name is in lower case. Envoy fills raw_value (3); older ones and other proxies fill value (2).
bool read_header(std::string_view message, net::Field& header) {
  protobuf::Reader reader{message};
  while (const auto field = reader.next()) {
    if (field->number == 1) header.name = field->bytes;
    if ((field->number == 2 || field->number == 3) && !field->bytes.empty()) header.value = field->bytes;
  }
  return reader.is_valid() && !header.name.empty();
}

bool read_header_map(std::string_view message, std::vector<net::Field>& headers) {
  protobuf::Reader reader{message};
  while (const auto field = reader.next()) {
    if (field->number != 1) continue;
    net::Field header;
    if (!read_header(field->bytes, header)) return false;
    headers.push_back(header);
  }
  return reader.is_valid();
}

// HttpHeaders, HttpBody or HttpTrailers.
bool read_part(std::string_view message, ProcessingRequest& request) {
  request.headers.clear();
  request.body = {};
  request.end_of_stream = false;
  const bool has_body = is_body_part(request.part);
  const std::uint32_t end_number = has_body ? 2 : 3;
  protobuf::Reader reader{message};
  while (const auto field = reader.next()) {
    if (field->number == 1 && has_body) request.body = field->bytes;
    if (field->number == 1 && !has_body && !read_header_map(field->bytes, request.headers)) return false;
    if (field->number == end_number) request.end_of_stream = field->value != 0;
  }
  return reader.is_valid();
}

bool read_modes(std::string_view message, ProcessingRequest& request) {
  std::array<std::uint64_t, 2> modes{};
  protobuf::Reader reader{message};
  while (const auto field = reader.next())
    if (field->number == 1 || field->number == 2) modes[field->number - 1] = field->value;
  for (const std::uint64_t mode : modes)
    if (mode > static_cast<std::uint64_t>(BodySendMode::kGrpc)) return false;
  request.request_body_mode = static_cast<BodySendMode>(modes[0]);
  request.response_body_mode = static_cast<BodySendMode>(modes[1]);
  return reader.is_valid();
}

void split_endpoints(std::string_view text, std::vector<std::string_view>& endpoints) {
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    std::string_view endpoint = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    while (endpoint.starts_with(' ')) endpoint.remove_prefix(1);
    while (endpoint.ends_with(' ')) endpoint.remove_suffix(1);
    if (!endpoint.empty()) endpoints.push_back(endpoint);
  }
}

// google.protobuf.Value: a string (3), or a list (6) whose values (1) are strings. Other kinds have no endpoints.
bool read_endpoint_list(std::string_view message, std::vector<std::string_view>& endpoints, bool in_list = false) {
  protobuf::Reader reader{message};
  while (const auto field = reader.next()) {
    if (field->number == 3) split_endpoints(field->bytes, endpoints);
    if (field->number != 6 || in_list) continue;
    protobuf::Reader list{field->bytes};
    while (const auto value = list.next())
      if (value->number == 1 && !read_endpoint_list(value->bytes, endpoints, true)) return false;
    if (!list.is_valid()) return false;
  }
  return reader.is_valid();
}

bool read_string_value(std::string_view message, std::string_view& text) {
  protobuf::Reader reader{message};
  while (const auto field = reader.next())
    if (field->number == 3) text = field->bytes;
  return reader.is_valid();
}

bool read_metadata_context(std::string_view message, ProcessingRequest& request) {
  return read_map(message, [&](const MapEntry& space) {
    if (space.key == kSubsetNamespace)
      return read_map(space.value, [&](const MapEntry& entry) {
        if (entry.key != kSubsetKey) return true;
        request.has_endpoints = true;
        return read_endpoint_list(entry.value, request.endpoints);
      });
    if (space.key == kLoadBalancingNamespace)
      return read_map(space.value, [&](const MapEntry& entry) {
        return entry.key != kServedKey || read_string_value(entry.value, request.served_endpoint);
      });
    return true;
  });
}

void append_set_header(protobuf::Writer& mutation, const net::Field& header) {
  protobuf::Writer value, option;
  value.bytes(1, header.name);
  value.bytes(3, header.value);
  option.bytes(1, value.message());
  option.varint(3, kOverwriteIfExistsOrAdd);
  mutation.bytes(1, option.message());
}

// HeaderMutation.
std::string header_mutation(std::span<const net::Field> set, std::span<const std::string_view> removed,
                            std::string_view picked_endpoint) {
  protobuf::Writer mutation;
  for (const net::Field& header : set) append_set_header(mutation, header);
  if (!picked_endpoint.empty()) append_set_header(mutation, {kPickedEndpointField, picked_endpoint});
  for (const std::string_view name : removed) mutation.bytes(2, name);
  return std::move(mutation).message();
}

// An entry of a Struct, whose value is of kind `number`: a string (3) or a Struct (5).
std::string struct_with(std::string_view key, std::uint32_t number, std::string_view content) {
  protobuf::Writer value, entry, made;
  value.bytes(number, content);
  entry.bytes(1, key);
  entry.bytes(2, value.message());
  made.bytes(1, entry.message());
  return std::move(made).message();
}

// What a response changes apart from the body: fields of CommonResponse before and after body_mutation, and of
// ProcessingResponse after it.
struct Changes {
  std::string headers, route, metadata;
};

Changes changes_by(const HeaderMutation& mutation, std::string_view picked_endpoint) {
  protobuf::Writer headers, route, metadata;
  if (!mutation.set.empty() || !mutation.removed.empty() || !picked_endpoint.empty())
    headers.bytes(2, header_mutation(mutation.set, mutation.removed, picked_endpoint));
  if (!picked_endpoint.empty()) {
    route.varint(5, 1);  // clear_route_cache.
    metadata.bytes(8, struct_with(kLoadBalancingNamespace, 5, struct_with(kPickedEndpointField, 3, picked_endpoint)));
  }
  return {std::move(headers).message(), std::move(route).message(), std::move(metadata).message()};
}

// ProcessingResponse{part{response{`changes`, body_mutation}}}. BodyMutation is body (1), or streamed_response (3) with
// body (1) and end_of_stream (2). The body is copied once.
std::string with_body(ExtProcPart part, const Changes& changes, std::string_view body, bool is_streamed, bool ends) {
  constexpr std::string_view kEnds{"\x10\x01"};
  const std::size_t streamed = protobuf::bytes_field_size(1, body.size()) + (ends ? kEnds.size() : 0);
  const std::size_t mutation =
      is_streamed ? protobuf::bytes_field_size(3, streamed) : protobuf::bytes_field_size(1, body.size());
  const std::size_t common = changes.headers.size() + protobuf::bytes_field_size(3, mutation) + changes.route.size();
  const std::size_t response = protobuf::bytes_field_size(1, common);
  const std::uint32_t number = response_number(part);
  std::string message;
  message.reserve(protobuf::bytes_field_size(number, response) + changes.metadata.size());
  protobuf::append_bytes_head(message, number, response);
  protobuf::append_bytes_head(message, 1, common);
  message += changes.headers;
  protobuf::append_bytes_head(message, 3, mutation);
  if (is_streamed) protobuf::append_bytes_head(message, 3, streamed);
  protobuf::append_bytes_head(message, 1, body.size());
  message += body;
  if (is_streamed && ends) message += kEnds;
  message += changes.route;
  return message += changes.metadata;
}

// The same without a body: HeadersResponse and BodyResponse are alike.
std::string without_body(ExtProcPart part, const Changes& changes) {
  protobuf::Writer common, response;
  common.bytes(1, changes.headers + changes.route);
  response.bytes(response_number(part), common.message());
  return std::move(response).message() += changes.metadata;
}

}  // namespace

bool read_processing_request(std::string_view message, ProcessingRequest& request) {
  auto headers = std::move(request.headers);
  auto endpoints = std::move(request.endpoints);
  headers.clear();
  endpoints.clear();
  request = {};
  request.headers = std::move(headers);
  request.endpoints = std::move(endpoints);
  bool has_part = false;
  protobuf::Reader reader{message};
  while (const auto field = reader.next()) {
    bool is_valid = true;
    if (field->number >= 2 && field->number < 2 + kParts.size()) {
      has_part = true;
      request.part = kParts[field->number - 2];
      is_valid = read_part(field->bytes, request);
    } else if (field->number == 8) {
      is_valid = read_metadata_context(field->bytes, request);
    } else if (field->number == 10) {
      request.is_observing = field->value != 0;
    } else if (field->number == 11) {
      is_valid = read_modes(field->bytes, request);
    }
    if (!is_valid) return false;
  }
  return has_part && reader.is_valid();
}

std::string headers_response(ExtProcPart part, const HeaderMutation& mutation, std::string_view picked_endpoint) {
  return without_body(part, changes_by(mutation, picked_endpoint));
}

std::string body_response(ExtProcPart part, BodySendMode mode, std::string_view body, bool end_of_stream) {
  const bool is_streamed = mode == BodySendMode::kFullDuplexStreamed || mode == BodySendMode::kGrpc;
  return with_body(part, {}, body, is_streamed, end_of_stream);
}

std::string unchanged_body_response(ExtProcPart part) { return without_body(part, {}); }

std::string buffered_body_response(ExtProcPart part, const HeaderMutation& mutation, std::string_view picked_endpoint,
                                   std::optional<std::string_view> body) {
  const Changes made = changes_by(mutation, picked_endpoint);
  return body ? with_body(part, made, *body, false, false) : without_body(part, made);
}

std::string trailers_response(ExtProcPart part) {
  protobuf::Writer response;
  response.bytes(response_number(part), {});
  return std::move(response).message();
}

std::string immediate_response(int status, std::span<const net::Field> fields, std::string_view body,
                               std::string_view details) {
  protobuf::Writer http_status, immediate, response;
  http_status.varint(1, static_cast<std::uint64_t>(status));
  immediate.bytes(1, http_status.message());
  if (!fields.empty()) immediate.bytes(2, header_mutation(fields, {}, {}));
  immediate.bytes(3, body);
  if (!details.empty()) immediate.bytes(5, details);
  response.bytes(7, immediate.message());
  return std::move(response).message();
}

}  // namespace penstock::connect
