#include "report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/result.h"
#include "report/assets.h"
#include "report/document.h"
#include "report/format.h"
#include "report/ranking.h"
#include "report/table.h"

namespace penstock::report {

namespace {

constexpr std::size_t kSeriesPointsMax = 400;    // more than a chart has pixels for, per policy
constexpr std::size_t kDecisionsMax = 2000;      // per policy; the page says how many there were
constexpr std::size_t kDiagnosisBytesMax = 240;  // the decision log has all of it
constexpr int kDigits = 5;

std::string escape(std::string_view text) {
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

// In JSON these characters stand in strings only, where an escape means the same. Without `<` nothing in the data can end
// the script element or open a comment.
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

std::string data_of(const Report& report) {
  const DocumentOptions options{kSeriesPointsMax, kDecisionsMax, false, kDiagnosisBytesMax};
  return escape_json(write_json(make_document(report, options), {false, kDigits}));
}

std::string plain_table(const Report& report) {
  Report without_speed = report;
  for (decision::RunResult& result : without_speed.results) result.simulated_requests_per_s = NAN;
  return escape(render_table(without_speed, {}));
}

// What replaces each {{name}} of the page. Replacements are not searched again, so no name from outside can be one.
std::string fill(std::string_view page, const std::vector<std::pair<std::string_view, std::string>>& parts) {
  std::string filled;
  for (;;) {
    const std::size_t open = page.find("{{"), close = page.find("}}", open);
    if (open == std::string_view::npos || close == std::string_view::npos) return filled.append(page);
    filled += page.substr(0, open);
    const std::string_view name = page.substr(open + 2, close - open - 2);
    const auto part = std::find_if(parts.begin(), parts.end(), [&](const auto& p) { return p.first == name; });
    PENSTOCK_ASSERT(part != parts.end(), "web/report/page.html names a part that html.cpp does not have");
    filled += part->second;
    page.remove_prefix(close + 2);
  }
}

}  // namespace

std::string to_html(const Report& report) {
  return fill(assets::page(), {{"title", escape(printable(report.info.workload))},
                               {"headline", escape(printable(headline(report)))},
                               {"table", plain_table(report)},
                               {"style", std::string(assets::style())},
                               {"plotly", std::string(assets::plotly())},
                               {"data", data_of(report)},
                               {"scripts", std::string(assets::scripts())}});
}

}  // namespace penstock::report
