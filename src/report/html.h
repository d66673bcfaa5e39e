// The report for people with a browser.
#pragma once

#include <string>

#include "report/deployments.h"
#include "report/run_info.h"

namespace penstock::report {

// One page that needs nothing but itself: no network, no neighbour file. About 1.3 MB, most of it the chart library;
// series are thinned to 400 points and decision lists to their first 2,000. All names from outside travel as data and
// reach the page as text, and its content security policy lets no other script run. Without scripts the page shows the
// terminal's table. Equal runs give equal bytes: the wall-clock speed is left out.
[[nodiscard]] std::string to_html(const Report& report);

// The same for several deployments: their sums, and the report of one of them, which `?deployment=NAME` in the address
// of the page chooses.
[[nodiscard]] std::string to_html(const DeploymentsReport& report);

}  // namespace penstock::report
