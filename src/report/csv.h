// The report for spreadsheets.
#pragma once

#include <string>
#include <string_view>

#include "report/deployments.h"
#include "report/run_info.h"

namespace penstock::report {

// A header, then one row per result and per static fleet of the frontier (column `set` tells which), best first;
// quoting and line ends of RFC 4180. Columns are named as in the JSON, `ttft_ms.p95` flattened to `ttft_p95_ms`. A
// figure without a measurement is an empty cell.
[[nodiscard]] std::string to_csv(const Report& report);

// The same of each deployment in turn, with its name in a first column `deployment`.
[[nodiscard]] std::string to_csv(const DeploymentsReport& report);

// One value of a row, quoted where RFC 4180 demands it.
[[nodiscard]] std::string csv_cell(std::string_view value);

}  // namespace penstock::report
