#include "api/request_parts.h"

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

}  // namespace penstock::api
