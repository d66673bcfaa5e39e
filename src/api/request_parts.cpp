#include "api/request_parts.h"

#include <fmt/format.h>
#include <simdjson.h>

namespace penstock::api {

using core::invalid_input;

tl::unexpected<core::Error> unreadable_body(int simdjson_error) {
  switch (simdjson_error) {
    case simdjson::MEMALLOC: return core::environment_error("", "not enough memory for the request body");
    case simdjson::UTF8_ERROR: return invalid_input("", "the body is not valid UTF-8");
    case simdjson::EMPTY: return invalid_input("", "the body is empty");
    case simdjson::UNCLOSED_STRING: return invalid_input("", "the body is not valid JSON: a string is not terminated");
    case simdjson::UNESCAPED_CHARS:
      return invalid_input("", "the body is not valid JSON: a control character in a string");
    default: return invalid_input("", "the body is not valid JSON");
  }
}

tl::unexpected<core::Error> wrong_end(std::string_view body) {
  std::size_t open = 1, at = body.find('{') + 1;
  bool in_string = false;
  for (; at < body.size() && open > 0; ++at) {
    const char c = body[at];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') ++at;
    if (!in_string && c == '{') ++open;
    if (!in_string && c == '}') --open;
  }
  if (open > 0) return invalid_input("", "the body is not valid JSON: the JSON ends early");
  return invalid_input("", fmt::format("the body is not valid JSON: bytes follow the JSON object from byte {} on", at));
}

}  // namespace penstock::api
