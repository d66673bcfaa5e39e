// Numbers in the query of a request.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "net/http.h"

namespace penstock::net {

// Returns the fallback if the parameter is missing, or is no whole number.
[[nodiscard]] inline std::uint64_t number_parameter(const RequestHead& head, std::string_view name,
                                                    std::uint64_t fallback) {
  const std::string_view text = head.parameter(name);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? number : fallback;
}

}  // namespace penstock::net
