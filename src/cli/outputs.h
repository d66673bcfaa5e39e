// Output files: checks before a run, and those of a replay, which are written after the last run.
#pragma once

#include <string>
#include <vector>

#include "configuration/configuration.h"
#include "core/result.h"
#include "core/time.h"
#include "options/yaml.h"
#include "report/deployments.h"
#include "report/run_info.h"

namespace penstock::cli {

// Checks whether every output file can be written, without writing. Errors: a missing folder or one without write
// permission (system error), and an output that is also an input (invalid input).
[[nodiscard]] core::Result<void> check_outputs(const configuration::OutputOptions& options,
                                               const std::vector<std::string>& inputs);

// Checks that the folder of a file exists before the work whose result is written to it. Errors name the flag.
[[nodiscard]] core::Result<void> check_output_folder(const char* flag, const std::string& path);

// Checks that a run of that length produces no more reports than the limit of one folder. Errors are invalid input.
[[nodiscard]] core::Result<void> check_report_interval(const configuration::OutputOptions& options, core::Duration run);

// Renders all outputs, then writes them; each file is written completely or not at all. One that cannot be written does
// not keep the others from it. Reports on intervals are written last, as `POLICY-NUMBER-FROM-TO.html`; their folder is
// created. Returns an error for each output that is missing.
[[nodiscard]] options::Problems write_outputs(const configuration::OutputOptions& options,
                                              const report::Report& report);
// The same of several deployments, with JSON and a decision log.
[[nodiscard]] options::Problems write_outputs(const configuration::OutputOptions& options,
                                              const report::DeploymentsReport& report);

}  // namespace penstock::cli
