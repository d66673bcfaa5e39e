// UTF-8 from outside: where a character ends, and which characters must not reach a terminal or a log.
#pragma once

#include <cstddef>
#include <string_view>

namespace penstock::core {

// Bytes of the well-formed UTF-8 sequence at the start of `text` (Unicode 15, table 3-7); 0 when there is none.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

// The first `bytes` of the text at most, without a part of a character at the end.
[[nodiscard]] std::string_view utf8_prefix(std::string_view text, std::size_t bytes);

// Whether the sequence steers a terminal or reorders text: C0, DEL, C1, and the marks that turn the direction of what
// follows (U+202A..E, U+2066..9).
[[nodiscard]] bool is_control(std::string_view sequence);

}  // namespace penstock::core
