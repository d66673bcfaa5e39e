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
constexpr int kDigits = 7;                       // More than the page shows, so that it rounds as the table does.

std::string fill(std::string_view title, std::string_view headline, std::string_view table,
                 const nlohmann::ordered_json& document) {
  return fill_page(assets::page(), {{"title", escape_markup(printable(title))},
                                    {"headline", escape_markup(printable(headline))},
                                    {"table", escape_markup(table)},
                                    {"style", std::string(assets::style())},
                                    {"plotly", std::string(assets::plotly())},
                                    {"data", escape_json(write_json(document, {false, kDigits}))},
                                    {"scripts", std::string(assets::scripts())}});
}

constexpr DocumentOptions kShortened{kSeriesPointsMax, kDecisionsMax, false, kDiagnosisBytesMax};

std::string plain_table(const Report& report) {
  Report without_speed = report;
  for (decision::RunResult& result : without_speed.results) result.simulated_requests_per_s = NAN;
  return render_table(without_speed, {});
}

}  // namespace

std::string to_html(const Report& report) {
  return fill(report.info.workload, headline(report), plain_table(report), make_document(report, kShortened));
}

std::string to_html(const DeploymentsReport& report) {
  std::string names;
  for (const DeploymentReport& deployment : report.deployments) names += (names.empty() ? "" : ", ") + deployment.name;
  return fill(names, headline(report), render_table(report, {}), make_document(report, kShortened));
}

}  // namespace penstock::report
