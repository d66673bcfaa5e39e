// The live page in one piece, and the policy that its answer carries.
#pragma once

#include <string>
#include <string_view>

namespace penstock::controller {

struct Page {
  std::string html;
  // A Content-Security-Policy that lets the page's own style and scripts run, told by their hashes, and nothing else:
  // text from outside that became markup after all would still do nothing.
  std::string policy;
};

struct PageParts {
  std::string_view page, style, library, scripts;  // the page has a mark for each of the others
};

[[nodiscard]] Page make_page(const PageParts& parts);
// Of the embedded files.
[[nodiscard]] Page make_page();

}  // namespace penstock::controller
