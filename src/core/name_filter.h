// Excludes most names that a list does not have.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock::core {

// Knows the sizes of the names in a list by their first letter, so that a name of another size is not compared. Ignores
// the case of letters.
class NameFilter {
 public:
  template <std::size_t N>
  constexpr explicit NameFilter(const std::array<std::string_view, N>& names) {
    for (const std::string_view name : names) sizes_[letter(name)] |= size_bit(name);
  }
  // Returns false if the list does not have the name in any case.
  [[nodiscard]] constexpr bool may_have(std::string_view name) const {
    return !name.empty() && (sizes_[letter(name)] & size_bit(name)) != 0;
  }

 private:
  static constexpr std::size_t kLetters = 32;
  [[nodiscard]] static constexpr std::size_t letter(std::string_view name) {
    return static_cast<unsigned char>(name.front()) % kLetters;  // The same for both cases.
  }
  [[nodiscard]] static constexpr std::uint32_t size_bit(std::string_view name) {
    return 1U << std::min<std::size_t>(name.size(), 31);
  }

  std::array<std::uint32_t, kLetters> sizes_{};
};

}  // namespace penstock::core
