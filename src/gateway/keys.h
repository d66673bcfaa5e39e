// API keys and their tenants, stored as digests.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace penstock::gateway {

// Stores SHA-256 of each key and never the key. A presented key is hashed before the comparison, so that the time of a
// look-up reveals nothing about the stored keys.
class KeyRing {
 public:
  // Returns an error for an empty key and for a key of another tenant. Messages never contain the key.
  [[nodiscard]] core::Result<void> add(std::string_view key, std::uint32_t tenant);
  [[nodiscard]] std::optional<std::uint32_t> tenant_of(std::string_view key) const;
  // An unknown key is refused and not treated as anonymous. If no keys are configured, every key is accepted, because
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
  std::vector<Entry> entries_;  // Sorted by digest.
};

// Returns the key of "Bearer KEY"; empty if the field has another form.
[[nodiscard]] std::string_view bearer_key(std::string_view authorization);

}  // namespace penstock::gateway
