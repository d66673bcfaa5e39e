// Comparison of ASCII text without regard to case, as of header fields.
#pragma once

#include <cstddef>
#include <string_view>

namespace penstock::core {

// Compares bytes of the same number as ASCII text, ignoring case.
[[nodiscard]] bool equal_fold(const char* left, const char* right, std::size_t size);
[[nodiscard]] inline bool equal_fold(std::string_view left, std::string_view right) {
  return left.size() == right.size() && equal_fold(left.data(), right.data(), left.size());
}

}  // namespace penstock::core
