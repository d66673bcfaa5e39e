// Scalars of JSON as they stand in a body: RFC 8259, without a parser around them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::api {

// Appends what a JSON string stands for; `raw` is what lies between its quotes. False: an escape is none, or names half a
// surrogate pair, for which UTF-8 has no bytes; `out` then ends with what came before. About 10 GB/s.
[[nodiscard]] bool append_unescaped(std::string& out, std::string_view raw);
// Whether append_unescaped() would do.
[[nodiscard]] bool has_good_escapes(std::string_view raw);
// Appends the text as a JSON string, quotes included. Bytes above 127 stay as they are.
void append_json_string(std::string& out, std::string_view text);

enum class Kind : std::uint8_t { kNull, kBool, kNumber, kString, kArray, kObject, kNone };
[[nodiscard]] std::string_view name_of(Kind kind);  // "null", "a boolean", …
// Of the token that a value begins with: a scalar as a whole, or a bracket with what may follow it.
[[nodiscard]] Kind kind_of(std::string_view token);
[[nodiscard]] std::string_view without_space_behind(std::string_view json);

}  // namespace penstock::api
