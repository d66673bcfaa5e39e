// API keys and the tenants they belong to, as digests.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace penstock::gateway {

// Keeps SHA-256 of each key and never the key. A presented key is hashed before anything is compared with it, so that the
// time a look-up takes tells nothing about the keys there are.
class KeyRing {
 public:
  // Errors: an empty key, or one that another tenant has, too. Messages never hold the key.
  [[nodiscard]] core::Result<void> add(std::string_view key, std::uint32_t tenant);
  [[nodiscard]] std::optional<std::uint32_t> tenant_of(std::string_view key) const;
  // Who sends a key that is nobody's is not anonymous but wrong; where there are no keys at all, any will do, since
  // OpenAI's clients always send one.
  [[nodiscard]] std::optional<std::uint32_t> tenant_or(std::string_view key,
                                                       std::optional<std::uint32_t> anonymous) const {
    if (key.empty() || entries_.empty()) return anonymous;
    return tenant_of(key);
  }

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Entry {
    Digest digest;
    std::uint32_t tenant;
  };
  static Digest digest_of(std::string_view key);
  std::vector<Entry> entries_;  // by digest
};

// The key in "Bearer KEY"; empty if the field is something else.
[[nodiscard]] std::string_view bearer_key(std::string_view authorization);

}  // namespace penstock::gateway
