// Fills the templates of web/ that are embedded into the program.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::report {

// Replaces each {{name}} of the page. Replacements are not searched again, so no text from outside can be a name. Every
// name of the page must be among the parts.
[[nodiscard]] std::string fill_page(std::string_view page,
                                    const std::vector<std::pair<std::string_view, std::string>>& parts);

// Text for HTML and SVG, also within quotes. Control characters stay; printable() replaces them.
[[nodiscard]] std::string escape_markup(std::string_view text);

// JSON for a script element. The characters <, > and & occur in strings only, where an escape means the same; without
// `<` no data can end the element or open a comment.
[[nodiscard]] std::string escape_json(std::string_view json);

}  // namespace penstock::report
