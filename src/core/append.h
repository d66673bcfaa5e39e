// Appends several pieces of text at once.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace penstock::core {

// Cheaper than one append() for each piece.
inline void append_all(std::string& out, std::initializer_list<std::string_view> pieces) {
  std::size_t at = out.size(), size = at;
  for (const std::string_view piece : pieces) size += piece.size();
  out.resize(size);
  for (const std::string_view piece : pieces) at += piece.copy(out.data() + at, piece.size());
}

}  // namespace penstock::core
