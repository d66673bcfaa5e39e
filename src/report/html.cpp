#include "report/html.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "report/assets.h"
#include "report/document.h"
#include "report/format.h"
#include "report/page_template.h"
#include "report/ranking.h"
#include "report/table.h"

namespace penstock::report {

namespace {

constexpr std::size_t kSeriesPointsMax = 400;    // more than a chart has pixels for, per policy
constexpr std::size_t kDecisionsMax = 2000;      // per policy; the page says how many there were
constexpr std::size_t kDiagnosisBytesMax = 240;  // the decision log has all of it
constexpr int kDigits = 5;

std::string data_of(const Report& report) {
  const DocumentOptions options{kSeriesPointsMax, kDecisionsMax, false, kDiagnosisBytesMax};
  return escape_json(write_json(make_document(report, options), {false, kDigits}));
}

std::string plain_table(const Report& report) {
  Report without_speed = report;
  for (decision::RunResult& result : without_speed.results) result.simulated_requests_per_s = NAN;
  return escape_markup(render_table(without_speed, {}));
}

}  // namespace

std::string to_html(const Report& report) {
  return fill_page(assets::page(), {{"title", escape_markup(printable(report.info.workload))},
                                    {"headline", escape_markup(printable(headline(report)))},
                                    {"table", plain_table(report)},
                                    {"style", std::string(assets::style())},
                                    {"plotly", std::string(assets::plotly())},
                                    {"data", data_of(report)},
                                    {"scripts", std::string(assets::scripts())}});
}

}  // namespace penstock::report
