#include "connect/kubernetes/credentials.h"

#include <optional>
#include <utility>
#include <vector>

#include "connect/whole_file.h"

namespace penstock::connect {
namespace {

constexpr std::uint64_t kTokenFileBytesMax = 64 * 1024;

core::Result<std::string> read_token(const KubernetesAccess& access) {
  if (access.token_file.empty()) return access.token;
  const auto text = read_whole_file(access.token_file, kTokenFileBytesMax);
  if (!text) return tl::make_unexpected(text.error());
  if (!*text) return core::environment_error(access.token_file, "there is no such file");
  return parse_token(**text, access.token_file);
}

}  // namespace

core::Result<KubernetesCredentials> KubernetesCredentials::load(KubernetesAccess access) {
  KubernetesCredentials made{std::move(access)};
  std::vector<std::string> files;
  if (!made.access_.token_file.empty()) files.push_back(made.access_.token_file);
  for (const net::Pem* pem : {&made.access_.ca, &made.access_.certificate, &made.access_.key})
    if (!pem->empty() && !pem->text) files.push_back(pem->name);
  made.stamps_.follow(files);
  if (const auto read = made.reload(); !read) return tl::make_unexpected(read.error());
  return made;
}

core::Result<void> KubernetesCredentials::refresh() {
  if (!stamps_.changed()) return {};
  if (const auto read = reload(); !read) return tl::make_unexpected(read.error());
  return {};
}

core::Result<bool> KubernetesCredentials::reload() {
  const auto token = read_token(access_);
  if (!token) return tl::make_unexpected(token.error());
  if (access_.server.tls) {
    auto tls = net::TlsContext::client(access_.ca, access_.certificate, access_.key);
    if (!tls) return tl::make_unexpected(tls.error());
    tls_ = *std::move(tls);
  }
  const std::string fields = token->empty() ? std::string{} : "Authorization: Bearer " + *token + "\r\n";
  return std::exchange(fields_, fields) != fields;
}

}  // namespace penstock::connect
