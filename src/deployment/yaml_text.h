// Objects as YAML that a person can read and edit.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/result.h"

namespace penstock::deployment {

// Returns one document for each object, with its keys in their order. A text that YAML could take for something else is
// quoted, and a text of several lines is a block where its lines are plain. All texts must be valid UTF-8.
[[nodiscard]] std::string to_yaml(const std::vector<nlohmann::ordered_json>& objects);

// Reports bytes that are not UTF-8, which no YAML can contain.
[[nodiscard]] core::Result<void> check_utf8(std::string_view text);

}  // namespace penstock::deployment
