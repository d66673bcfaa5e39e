#include "cli/replay_deployments.h"

#include <algorithm>
#include <utility>

#include "cli/commands.h"
#include "cli/console.h"
#include "cli/outputs.h"
#include "cli/progress_bar.h"
#include "configuration/traces.h"
#include "replay/deployments.h"
#include "report/deployments.h"

namespace penstock::cli {

int run_deployments(DeploymentsRequest request) {
  std::vector<std::string> inputs = std::move(request.inputs);
  for (const configuration::DeploymentSetup& deployment : request.configuration.deployments)
    inputs.insert(inputs.end(), deployment.traces.names.begin(), deployment.traces.names.end());
  const configuration::OutputOptions output = request.configuration.output;
  if (const auto checked = check_outputs(output, inputs); !checked) return report_error(checked.error());
  auto setup = replay::prepare_deployments(std::move(request.configuration));
  if (!setup) return report_input_error(setup.error());

  for (const replay::ReplaySetup& deployment : setup->deployments)
    if (!request.quiet) print_warnings(configuration::gap_warnings(deployment.workload, "--to"));
  ProgressBar bar{!request.quiet && (request.progress || stderr_is_terminal())};
  auto report = replay::run_deployments(*setup, [&](const replay::TaskProgress& progress) { bar.show(progress); });
  bar.erase();
  if (!report) return report_error(report.error());
  report->command = std::move(request.command);
  for (report::DeploymentReport& deployment : report->deployments) deployment.report.info.command = report->command;
  const options::Problems missing = write_outputs(output, *report);
  if (request.quiet) return report_error(missing);
  const std::string table = report::render_table(
      *report, {.colour = stdout_has_colour(), .width = terminal_width().value_or(report::kTableWidth)});
  const int printed = print_page(table, {output.json, output.csv, output.html, output.decision_log});
  return std::max(printed, report_error(missing));
}

}  // namespace penstock::cli
