// Names in a configuration, and what they stand for.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "core/result.h"

namespace penstock::cli {

template <class Enum, std::size_t kCount>
using NamedChoices = std::array<std::pair<std::string_view, Enum>, kCount>;

// A choice's name as its enumerator. config made sure that it is one of them.
template <class Enum, std::size_t kCount>
Enum chosen(std::string_view name, const NamedChoices<Enum, kCount>& names) {
  for (const auto& [known, value] : names)
    if (known == name) return value;
  PENSTOCK_ASSERT(false, "config lets only known names through");
}

}  // namespace penstock::cli
