#include "net/base64.h"

#include <openssl/evp.h>

#include <climits>

namespace penstock::net {

std::string decode_base64(std::string_view base64) {
  if (base64.empty() || base64.size() % 4 != 0 || base64.size() > INT_MAX) return {};
  std::string text(base64.size() / 4 * 3, '\0');
  const int size =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(base64.data()), static_cast<int>(base64.size()));
  if (size < 0) return {};
  const auto padding = static_cast<std::size_t>(base64.ends_with("==") ? 2 : base64.ends_with('=') ? 1 : 0);
  text.resize(static_cast<std::size_t>(size) - padding);
  return text;
}

}  // namespace penstock::net
