// Names of the values of an enum.
#pragma once

#include <cstddef>

namespace penstock::core {

// Returns the name of `value`. The names are in the order of the values, of which `last` is the last, so that a value
// without a name does not compile.
template <auto last, std::size_t N>
[[nodiscard]] constexpr const char* name_of(decltype(last) value, const char* const (&names)[N]) {
  static_assert(N == static_cast<std::size_t>(last) + 1, "each value has a name");
  return names[static_cast<std::size_t>(value)];
}

}  // namespace penstock::core
