#include "cli/replay_command.h"

#include <utility>

#include "cli/console.h"
#include "cli/outputs.h"
#include "cli/progress_bar.h"
#include "cli/replay_runs.h"
#include "cli/replay_setup.h"
#include "report/table.h"

namespace penstock::cli {

tl::expected<config::ReplaySettings, int> load_settings(const config::ReplaySources& sources) {
  auto settings = config::load_replay(sources);
  if (!settings) return tl::make_unexpected(complain(settings.error()));
  return *std::move(settings);
}

int carry_out(ReplayRequest request) {
  std::vector<std::string> inputs = std::move(request.inputs);
  inputs.insert(inputs.end(), request.settings.traces.begin(), request.settings.traces.end());
  if (const auto checked = check_outputs(request.settings, inputs); !checked) return complain(checked.error());
  auto setup = prepare_replay(std::move(request.settings));
  if (!setup) return complain_of_input(setup.error());
  if (const auto checked = check_report_interval(setup->settings, setup->info.duration); !checked)
    return complain(checked.error());

  ProgressBar bar{request.progress || stderr_is_terminal()};
  auto runs = run_replay(*setup, [&](const TaskProgress& progress) { bar.show(progress); });
  bar.erase();
  if (!runs) return complain(runs.error());

  report::Report report;
  report.info = std::move(setup->info);
  report.info.command = std::move(request.command);
  report.info.notes.insert(report.info.notes.end(), runs->notes.begin(), runs->notes.end());
  report.results = std::move(runs->results);
  report.frontier = std::move(runs->frontier);
  report.metrics = std::move(runs->metrics);
  if (const auto written = write_outputs(setup->settings, report); !written) return complain(written.error());
  return print(report::render_table(report, {.colour = stdout_has_colour()}));
}

}  // namespace penstock::cli
