// One small request and its complete response: scrapes, health checks, calls between Penstock's processes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "net/address.h"
#include "net/client.h"

namespace penstock::net {

struct FetchRequest {
  CallOptions call;  // `raw` is ignored.
  std::string method = "GET";
  std::string host_field;  // For example "127.0.0.1:8000".
  std::string target = "/";
  std::vector<Field> fields{};  // Views that must be valid during the call of fetch().
  std::string field_lines{};    // Further fields, each with its line end.
  std::string body;
  std::size_t answer_bytes_max = 16 * 1024 * 1024;
};

// Builds a GET request for a path below the URL, at an address of its host; `tls` is for https. `timeout` limits the
// wait for the head and between two pieces of the body.
[[nodiscard]] FetchRequest request_to(const Url& url, const Address& address, std::string_view path,
                                      core::Duration timeout, const std::shared_ptr<TlsContext>& tls = nullptr);
// The same for a bare address.
[[nodiscard]] FetchRequest request_to(const Address& address, std::string path, core::Duration timeout);

// The line of the request and its header fields, up to the empty line.
[[nodiscard]] std::string head_of(const FetchRequest& request);

struct FetchAnswer {
  int status = 0;
  std::string body;
  std::vector<std::pair<std::string, std::string>> fields{};  // Of the header, in order.

  // Returns the first field with the name, ignoring case; empty if there is none.
  [[nodiscard]] std::string_view field(std::string_view name) const;
};

// Calls `done` once, later, on the loop's thread, with a response of any status, with an environment error, or because
// the server refused the connection or did not answer in time. The call is dropped without `done` if the client is
// destroyed first.
void fetch(Client& client, FetchRequest request, std::function<void(core::Result<FetchAnswer>)> done);

}  // namespace penstock::net
