// The HTTP request that a shape becomes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/request.h"
#include "load/request_shape.h"

namespace penstock::load {

struct Sender {
  std::string name;  // of the tenant, in the report
  std::string key;   // API key; empty: none is sent
};

struct Dialect {
  api::Endpoint endpoint = api::Endpoint::kChatCompletions;
  std::string host_field, path_prefix;  // "127.0.0.1:8000", "/prefix" or ""
  std::string model;
  bool ignore_eos = true;   // answers are as long as they were asked to be; not all servers know it
  bool send_class = false;  // as X-Traffic-Class
  std::vector<Sender> senders = {Sender{"default", {}}};
  std::uint64_t seed = 1;  // of the texts
};

struct Message {
  std::string head, body;
};
// Names and keys are visible ASCII. The prompt is the last field of the body.
[[nodiscard]] Message write_request(const Dialect& dialect, const RequestShape& shape, std::uint64_t number);

}  // namespace penstock::load
