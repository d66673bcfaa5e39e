// Files of web/ that cmake/PenstockEmbed.cmake embeds into the program.
#pragma once

#include <string_view>

namespace penstock::load::assets {

[[nodiscard]] std::string_view page();     // web/load/page.html, a template with {{names}}
[[nodiscard]] std::string_view style();    // web/load/style.css
[[nodiscard]] std::string_view scripts();  // web/format.js and web/load/main.js

}  // namespace penstock::load::assets
