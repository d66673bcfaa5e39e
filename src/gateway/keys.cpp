#include "gateway/keys.h"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace penstock::gateway {

KeyRing::Digest KeyRing::digest_of(std::string_view key) {
  // SHA256() looks up the algorithm under a lock in each call, which costs more than the hashing.
  static EVP_MD* const algorithm = ::EVP_MD_fetch(nullptr, "SHA256", nullptr);
  struct Free {
    void operator()(EVP_MD_CTX* context) const { ::EVP_MD_CTX_free(context); }
  };
  // A context costs more than the hashing, too.
  thread_local const std::unique_ptr<EVP_MD_CTX, Free> context{::EVP_MD_CTX_new()};
  Digest digest{};
  const bool done = context != nullptr && ::EVP_DigestInit_ex2(context.get(), algorithm, nullptr) == 1 &&
                    ::EVP_DigestUpdate(context.get(), key.data(), key.size()) == 1 &&
                    ::EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) == 1;
  PENSTOCK_ASSERT(done, "OpenSSL has SHA-256, and memory");
  return digest;
}

core::Result<void> KeyRing::add(std::string_view key, KeyOwner owner) {
  if (key.empty()) return core::invalid_input({}, "an API key is empty");
  const Digest digest = digest_of(key);
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), digest,
                                   [](const Entry& entry, const Digest& wanted) { return entry.digest < wanted; });
  if (at != entries_.end() && at->digest == digest)
    return core::invalid_input({}, "an API key is given twice", "give each tenant keys of its own");
  entries_.insert(at, Entry{digest, std::move(owner)});
  return {};
}

const KeyOwner* KeyRing::owner_of(std::string_view key) const {
  const Digest digest = digest_of(key);
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), digest,
                                   [](const Entry& entry, const Digest& wanted) { return entry.digest < wanted; });
  if (at == entries_.end() || at->digest != digest) return nullptr;
  return &at->owner;
}

const KeyOwner* KeyRing::owner_or(std::string_view key, const KeyOwner* anonymous) const {
  return key.empty() || entries_.empty() ? anonymous : owner_of(key);
}

std::string_view client_key(const net::MessageHead& head) {
  const std::string_view bearer = bearer_key(head.field("authorization"));
  return bearer.empty() ? head.field("x-api-key") : bearer;
}

std::string_view bearer_key(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size() || !net::equal_fold(authorization.substr(0, kScheme.size()), kScheme))
    return {};
  authorization.remove_prefix(kScheme.size());
  while (!authorization.empty() && authorization.front() == ' ') authorization.remove_prefix(1);
  return authorization;
}

}  // namespace penstock::gateway
