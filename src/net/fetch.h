// One small request and its whole answer: scrapes, health checks, calls between Penstock's own processes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "net/address.h"
#include "net/client.h"

namespace penstock::net {

struct FetchRequest {
  CallOptions call;  // `raw` is not looked at
  std::string method = "GET";
  std::string host_field;  // "127.0.0.1:8000"
  std::string target = "/";
  std::vector<Field> fields{};  // views that hold during the call to fetch()
  std::string body;
  std::size_t answer_bytes_max = 16 * 1024 * 1024;
};

// A GET of a path behind the URL, at an address of its host; `tls` for https. `patience` is for the head and for each
// silence within the body.
[[nodiscard]] FetchRequest request_to(const Url& url, const Address& address, std::string_view path,
                                      core::Duration patience, const std::shared_ptr<TlsContext>& tls = nullptr);
// The same where there is an address alone.
[[nodiscard]] FetchRequest request_to(const Address& address, std::string path, core::Duration patience);

struct FetchAnswer {
  int status = 0;
  std::string body;
};

// Calls `done` once, later, on the loop's thread: with whatever status came, or with an error of the environment. Is
// dropped without a call if the client goes first.
void fetch(Client& client, FetchRequest request, std::function<void(core::Result<FetchAnswer>)> done);

}  // namespace penstock::net
