// The server that requests are sent to: its flags, its address, and the model that it serves.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "load/generator.h"
#include "net/address.h"
#include "net/fetch.h"
#include "options/arguments.h"
#include "options/table.h"

namespace penstock::load {

struct EndpointOptions {
  std::string model, api_key, tls_ca;
};
void add_endpoint(options::Table& table, EndpointOptions& options);

// Clients are often configured with ".../v1", so that it may be the end of the URL.
[[nodiscard]] core::Result<net::Url> parse_endpoint(const std::string& url);
// Returns --api-key, else the variable OPENAI_API_KEY; empty without both.
[[nodiscard]] core::Result<std::string> api_key_of(const EndpointOptions& options, const options::Arguments& given);
// Sets the address and TLS. Blocks while a name is resolved.
[[nodiscard]] core::Result<void> find_server(const net::Url& url, const EndpointOptions& options,
                                             GeneratorOptions& generator);

// Requests a path of the server with GET. Runs the loop until the answer is there.
[[nodiscard]] core::Result<net::FetchAnswer> get_from_server(net::Loop& loop, net::Client& client,
                                                             const GeneratorOptions& generator, std::string_view path);

struct ServedModel {
  std::string id;
  std::uint32_t context_tokens_max = 0;  // 0 if the server does not name it.
};
// Requests /v1/models and returns the entry with the name, or the first one if it is empty. Runs the loop.
[[nodiscard]] core::Result<ServedModel> request_model(net::Loop& loop, const GeneratorOptions& generator,
                                                      const std::string& name);

}  // namespace penstock::load
