// Positions of values in the JSON of a body, so that some bytes can be replaced while the others stay.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "api/request.h"
#include "core/result.h"

namespace penstock::api {

// A field of the outermost object: its key begins at `begin`, its value at `value`.
struct FieldLocation {
  std::size_t begin = 0, value = 0, end = 0;
  std::string name;
  [[nodiscard]] Location value_location() const { return {value, end - value}; }
};

// Errors: the body is not a JSON object, or is longer than kBodyBytesMax. Both copy the text. O(bytes).
[[nodiscard]] core::Result<std::vector<FieldLocation>> fields_of(std::string_view body);
// The elements of a JSON array, relative to its beginning.
[[nodiscard]] core::Result<std::vector<Location>> elements_of(std::string_view array);

}  // namespace penstock::api
