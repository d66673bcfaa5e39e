// Reads what an endpoint picker answers, and writes what Envoy asks, for tests.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/protobuf.h"

namespace penstock::gateway::envoy_testing {

// What of a ProcessingResponse these tests look at.
struct Reply {
  std::uint32_t part = 0;  // 1: request headers, 2: response headers, 3 and 4: bodies, 7: immediate response.
  std::map<std::string, std::string> set;
  std::set<std::string> removed;
  std::string body, immediate_body;
  bool replaces = false, ends = false;
  std::uint64_t status = 0;
};

inline void read_mutation(std::string_view message, Reply& reply) {
  core::protobuf::Reader reader{message};
  while (const auto field = reader.next()) {
    if (field->number == 2) reply.removed.emplace(field->bytes);
    if (field->number != 1) continue;
    core::protobuf::Reader option{field->bytes};
    while (const auto part = option.next()) {
      if (part->number != 1) continue;
      std::string name, value;
      core::protobuf::Reader header{part->bytes};
      while (const auto text = header.next()) (text->number == 1 ? name : value) = text->bytes;
      reply.set[name] = value;
    }
  }
}

inline void read_common(std::string_view message, Reply& reply) {
  core::protobuf::Reader reader{message};
  while (const auto field = reader.next()) {
    if (field->number == 2) read_mutation(field->bytes, reply);
    if (field->number != 3) continue;
    reply.replaces = true;
    core::protobuf::Reader body{field->bytes};
    while (const auto part = body.next()) {
      if (part->number == 1) reply.body = part->bytes;
      if (part->number != 3) continue;
      core::protobuf::Reader streamed{part->bytes};
      while (const auto piece = streamed.next()) {
        if (piece->number == 1) reply.body = piece->bytes;
        if (piece->number == 2) reply.ends = piece->value != 0;
      }
    }
  }
}

inline Reply read(std::string_view message) {
  Reply reply;
  core::protobuf::Reader reader{message};
  while (const auto field = reader.next()) {
    if (field->number > 7) continue;
    reply.part = field->number;
    core::protobuf::Reader inner{field->bytes};
    while (const auto part = inner.next()) {
      if (field->number < 7 && part->number == 1) read_common(part->bytes, reply);
      if (field->number != 7) continue;
      if (part->number == 1)
        for (core::protobuf::Reader status{part->bytes}; const auto code = status.next();) reply.status = code->value;
      if (part->number == 2) read_mutation(part->bytes, reply);
      if (part->number == 3) reply.immediate_body = part->bytes;
    }
  }
  return reply;
}

inline std::string headers_message(std::uint32_t part, const std::vector<std::pair<std::string, std::string>>& fields,
                                   bool end = false) {
  core::protobuf::Writer map, headers, message;
  for (const auto& [name, value] : fields) {
    core::protobuf::Writer field;
    field.bytes(1, name);
    field.bytes(3, value);
    map.bytes(1, field.message());
  }
  headers.bytes(1, map.message());
  if (end) headers.varint(3, 1);
  message.bytes(part, headers.message());
  return message.message();
}
// FULL_DUPLEX_STREAMED in both directions.
inline std::string request_headers(const std::vector<std::pair<std::string, std::string>>& fields, bool end = false) {
  core::protobuf::Writer modes, message;
  modes.varint(1, 4);
  modes.varint(2, 4);
  message.bytes(11, modes.message());
  return headers_message(2, fields, end) + message.message();
}
inline std::string response_headers(const std::vector<std::pair<std::string, std::string>>& fields, bool end = false) {
  return headers_message(3, fields, end);
}
inline std::string body_message(std::uint32_t part, std::string_view bytes, bool end) {
  core::protobuf::Writer body, message;
  body.bytes(1, bytes);
  if (end) body.varint(2, 1);
  message.bytes(part, body.message());
  return message.message();
}
inline std::string request_body(std::string_view bytes, bool end) { return body_message(4, bytes, end); }
inline std::string response_body(std::string_view bytes, bool end) { return body_message(5, bytes, end); }

}  // namespace penstock::gateway::envoy_testing
