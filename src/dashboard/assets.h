// The live page's files, embedded at build time.
#pragma once

#include <string_view>

namespace penstock::dashboard::assets {

std::string_view page();
std::string_view style();
std::string_view scripts();
std::string_view library();  // uPlot.

}  // namespace penstock::dashboard::assets
