// Files of packaging/ that the build puts into the program.
#pragma once

#include <string_view>

namespace penstock::deployment::assets {

std::string_view rules();

}  // namespace penstock::deployment::assets
