// JSON scalars as text (RFC 8259), without a parser.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::api {

// Appends the unescaped content of a JSON string; `raw` is the text between its quotes. Returns false for an invalid
// escape or half a surrogate pair, which UTF-8 cannot represent; `out` then ends with the text before it. About 10
// GB/s.
[[nodiscard]] bool append_unescaped(std::string& out, std::string_view raw);
// Returns true if append_unescaped() would succeed.
[[nodiscard]] bool has_good_escapes(std::string_view raw);
// Appends the text as a JSON string with quotes. Bytes above 127 are unchanged.
void append_json_string(std::string& out, std::string_view text);

enum class Kind : std::uint8_t { kNull, kBool, kNumber, kString, kArray, kObject, kNone };
[[nodiscard]] std::string_view name_of(Kind kind);  // Returns "null", "a boolean", ….
// Returns the kind of the value that starts with the token: a complete scalar, or a bracket and the following text.
[[nodiscard]] Kind kind_of(std::string_view token);
[[nodiscard]] std::string_view without_space_behind(std::string_view json);

}  // namespace penstock::api
