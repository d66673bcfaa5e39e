// The folder of a run of `penstock up`.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "connect/file_lock.h"
#include "core/result.h"

namespace penstock::cli {

// Makes the folder that the user chose. Without one, makes a new folder among those of all runs, which only this user
// may read, and removes the oldest of them beyond a limit.
[[nodiscard]] core::Result<std::filesystem::path> make_run_folder(const std::string& chosen);

// To be held as long as the run lasts, and before anything else is written to the folder. An error if another run or a
// planner uses it.
[[nodiscard]] core::Result<connect::FileLock> lock_run_folder(const std::filesystem::path& folder);

// HTML reports in the folder of a run and in the folders of its deployments.
[[nodiscard]] std::size_t count_reports(const std::filesystem::path& folder);

// What the folder of a run contains, as "logs, ledger, decisions and an HTML report of this run"; "logs" if there is
// nothing else. `reports_before` were there before the run.
[[nodiscard]] std::string folder_contents(const std::filesystem::path& folder, std::size_t reports_before);

}  // namespace penstock::cli
