#include "report/page_template.h"

#include <algorithm>

#include "core/result.h"

namespace penstock::report {

std::string fill_page(std::string_view page, const std::vector<std::pair<std::string_view, std::string>>& parts) {
  std::string filled;
  for (;;) {
    const std::size_t open = page.find("{{"), close = page.find("}}", open);
    if (open == std::string_view::npos || close == std::string_view::npos) return filled.append(page);
    filled += page.substr(0, open);
    const std::string_view name = page.substr(open + 2, close - open - 2);
    const auto part = std::find_if(parts.begin(), parts.end(), [&](const auto& p) { return p.first == name; });
    PENSTOCK_ASSERT(part != parts.end(), "a page of web/ names only parts that its caller has");
    filled += part->second;
    page.remove_prefix(close + 2);
  }
}

std::string escape_markup(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

std::string escape_json(std::string_view json) {
  std::string escaped;
  escaped.reserve(json.size());
  for (const char c : json) {
    switch (c) {
      case '<': escaped += "\\u003c"; break;
      case '>': escaped += "\\u003e"; break;
      case '&': escaped += "\\u0026"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

}  // namespace penstock::report
