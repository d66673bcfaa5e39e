// A kubeconfig, damaged in whatever way: refused in one line, or credentials that never go over plain HTTP.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "connect/kubernetes/access.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::connect;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  for (const std::string_view context : {"", "other@lab"}) {
    const auto read = parse_kubeconfig(text, "config", context);
    if (!read) {
      if (read.error().message().find('\n') != std::string::npos) std::abort();
      continue;
    }
    const bool has_secret = !read->token.empty() || !read->token_file.empty() || !read->certificate.empty();
    if (has_secret && !read->server.tls) std::abort();
    if (read->server.host.empty() || read->certificate.empty() != read->key.empty()) std::abort();
  }
  if (const auto token = parse_token(text, "token");
      token && (token->empty() || token->find_first_of(" \r\n") != std::string::npos))
    std::abort();
  return 0;
}
