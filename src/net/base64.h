// Base64 (RFC 4648, section 4).
#pragma once

#include <string>
#include <string_view>

namespace penstock::net {

[[nodiscard]] std::string decode_base64(std::string_view base64);  // Empty if it is not base64.

}  // namespace penstock::net
