// Serialises a request shape as an HTTP request.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/request.h"
#include "load/request_shape.h"

namespace penstock::load {

struct Sender {
  std::string name;  // Name of the tenant in the report.
  std::string key;   // API key; empty means that none is sent.
};

struct Dialect {
  api::Endpoint endpoint = api::Endpoint::kChatCompletions;
  std::string host_field, path_prefix;  // "127.0.0.1:8000"; "/prefix" or "".
  std::string model;
  bool ignore_eos = true;   // Responses have the requested length, if the server supports ignore_eos.
  bool send_class = false;  // Sent as X-Traffic-Class.
  std::vector<Sender> senders = {Sender{"default", {}}};
  std::uint64_t seed = 1;  // Seed of the texts.
};

struct Message {
  std::string head, body;
};
// Names and keys must be visible ASCII. The prompt is the last field of the body.
[[nodiscard]] Message write_request(const Dialect& dialect, const RequestShape& shape, std::uint64_t number);

}  // namespace penstock::load
