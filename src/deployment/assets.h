// Files of packaging/ and docs/ that the build puts into the program.
#pragma once

#include <string_view>

namespace penstock::deployment::assets {

std::string_view rules();
std::string_view token_rules();
std::string_view triton_repository();  // repository.py of the init container of a Triton.

}  // namespace penstock::deployment::assets
