// The folder of the sources, for tests that read files of the tree. __FILE__ is relative to this folder, so that object
// files do not depend on the place of a checkout and checkouts share the compiler cache.
#pragma once

#include <filesystem>

namespace penstock::core::testing {

std::filesystem::path source_root();

}  // namespace penstock::core::testing
