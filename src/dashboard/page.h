// The live page as one document, and its Content-Security-Policy.
#pragma once

#include <string>
#include <string_view>

namespace penstock::dashboard {

struct Page {
  std::string html;
  // A Content-Security-Policy that allows the page's own style and scripts by their hashes, and nothing else, so that
  // injected markup has no effect.
  std::string policy;
};

struct PageParts {
  std::string_view page, style, library, scripts;  // The page has a mark for each of the others.
};

[[nodiscard]] Page make_page(const PageParts& parts);
// The page of the embedded files.
[[nodiscard]] Page make_page();

// The page of the embedded files as a report: one file that shows `state` and the points of `history` and `points`
// (documents of JSON, see docs/dashboard.md) as they were `unix_s` seconds after 1970.
[[nodiscard]] std::string report_page(std::string_view state, std::string_view history, std::string_view points,
                                      double unix_s);

}  // namespace penstock::dashboard
