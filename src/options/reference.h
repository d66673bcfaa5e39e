// Generates documents from a table: reference pages, and a JSON schema for editors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "options/table.h"

namespace penstock::options {

// Returns the headings and rows of the given groups, or of all groups, in Markdown. `has_reload` adds a column that
// marks the keys which a reload applies.
[[nodiscard]] std::string to_markdown(const Table& table, const std::vector<std::string_view>& groups = {},
                                      bool has_reload = false);

// Returns the JSON Schema (draft 2020-12) of a YAML file with these keys.
[[nodiscard]] std::string to_json_schema(const Table& table, std::string_view title);

}  // namespace penstock::options
