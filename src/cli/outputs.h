// The files that a replay leaves behind: looked at before the first run, written after the last.
#pragma once

#include <string>
#include <vector>

#include "configuration/configuration.h"
#include "core/result.h"
#include "core/time.h"
#include "report/run_info.h"

namespace penstock::cli {

// Whether every output file that the options name can be written, as far as can be told without writing. Errors: a
// folder that is not there or closed (of the environment), a file that is read, too (of the input; `inputs` names
// them).
[[nodiscard]] core::Result<void> check_outputs(const configuration::OutputOptions& options,
                                               const std::vector<std::string>& inputs);

// Whether a run of that length makes no more reports than one folder should hold. Errors are of the input.
[[nodiscard]] core::Result<void> check_report_interval(const configuration::OutputOptions& options, core::Duration run);

// Renders everything, then writes it; each file appears whole or not at all. Reports on intervals go last, one by one,
// as `POLICY-NUMBER-FROM-TO.html`; their folder is made.
[[nodiscard]] core::Result<void> write_outputs(const configuration::OutputOptions& options,
                                               const report::Report& report);

}  // namespace penstock::cli
