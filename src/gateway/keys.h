// API keys and their tenants, stored as digests.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "net/http.h"

namespace penstock::gateway {

struct KeyOwner {
  std::uint32_t tenant = 0;
  std::string name{};  // Of the key, for the ledger; empty for requests without a key.
};

// Stores SHA-256 of each key and never the key. A presented key is hashed before the comparison, so that the time of a
// look-up reveals nothing about the stored keys.
class KeyRing {
 public:
  // Returns an error for an empty key and for a key of another tenant. Messages never contain the key.
  [[nodiscard]] core::Result<void> add(std::string_view key, KeyOwner owner);
  [[nodiscard]] const KeyOwner* owner_of(std::string_view key) const;  // Null for an unknown key.
  // An unknown key is refused and not treated as anonymous. If no keys are configured, every key is accepted, because
  // OpenAI's clients always send one.
  [[nodiscard]] const KeyOwner* owner_or(std::string_view key, const KeyOwner* anonymous) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Entry {
    Digest digest;
    KeyOwner owner;
  };
  static Digest digest_of(std::string_view key);
  std::vector<Entry> entries_;  // Sorted by digest.
};

// Returns the key of a request: that of "Authorization: Bearer KEY", or else of x-api-key, which Anthropic's clients
// send. Empty if it has none.
[[nodiscard]] std::string_view client_key(const net::MessageHead& head);
// Returns the key of "Bearer KEY"; empty if the field has another form.
[[nodiscard]] std::string_view bearer_key(std::string_view authorization);

}  // namespace penstock::gateway
