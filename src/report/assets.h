// The page's parts, taken into the program when it is built (cmake/PenstockEmbed.cmake) from web/.
#pragma once

#include <string_view>

namespace penstock::report::assets {

[[nodiscard]] std::string_view page();     // web/report/page.html, a template with {{names}}
[[nodiscard]] std::string_view style();    // web/report/*.css
[[nodiscard]] std::string_view scripts();  // Web/report/*.js, one after the other.
[[nodiscard]] std::string_view plotly();   // plotly.js, the basic bundle, minified; MIT licence in its first lines

}  // namespace penstock::report::assets
