#include "cli/up_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "options/scalars.h"

namespace penstock::cli {
namespace {

constexpr std::size_t kRunsKept = 20;
constexpr const char* kRunLock = "up.lock";
constexpr const char* kFleetLock = "fleet.json.lock";  // Of the planner.
constexpr std::uint64_t kRunNumberMax = 1'000'000'000;

// The folder of all runs, which only this user may read.
std::filesystem::path folder_of_runs(std::error_code& error) {
  const char *state = std::getenv("XDG_STATE_HOME"), *home = std::getenv("HOME");
  if (state != nullptr && *state == '/') return std::filesystem::path{state} / "penstock" / "up";
  if (home != nullptr && *home == '/') return std::filesystem::path{home} / ".local" / "state" / "penstock" / "up";
  return std::filesystem::temp_directory_path(error) / fmt::format("penstock-up-{}", ::getuid());
}

// Returns true if a run goes on in the folder.
bool is_in_use(const std::filesystem::path& folder) {
  std::error_code error;
  for (const char* name : {kRunLock, kFleetLock}) {
    if (!std::filesystem::exists(folder / name, error)) continue;
    if (const auto lock = connect::FileLock::take(folder / name); !lock || !*lock) return true;
  }
  return false;
}

// Runs are numbered from 1. Makes the folder of a new one and removes the oldest beyond kRunsKept.
std::filesystem::path make_numbered_folder(std::error_code& error) {
  const std::filesystem::path runs = folder_of_runs(error);
  if (!error) std::filesystem::create_directories(runs, error);
  if (!error) std::filesystem::permissions(runs, std::filesystem::perms::owner_all, error);
  std::vector<std::uint64_t> numbers;
  if (!error)
    for (const auto& entry : std::filesystem::directory_iterator{runs, error})
      if (const auto number = options::parse_count(entry.path().filename().string(), 1, kRunNumberMax))
        numbers.push_back(*number);
  std::sort(numbers.begin(), numbers.end());
  for (std::size_t i = 0; i + kRunsKept <= numbers.size(); ++i) {
    const std::filesystem::path folder = runs / std::to_string(numbers[i]);
    if (is_in_use(folder)) continue;
    std::error_code ignored;  // A run that cannot be removed is kept.
    std::filesystem::remove_all(folder, ignored);
  }
  // Another `penstock up` may take the number at the same time.
  for (std::uint64_t number = numbers.empty() ? 1 : numbers.back() + 1; !error; ++number)
    if (std::filesystem::create_directory(runs / std::to_string(number), error)) return runs / std::to_string(number);
  return runs;
}

}  // namespace

core::Result<std::filesystem::path> make_run_folder(const std::string& chosen) {
  std::error_code error;
  std::filesystem::path folder = chosen;
  if (folder.empty())
    folder = make_numbered_folder(error);
  else
    std::filesystem::create_directories(folder, error);
  if (error) return core::environment_error(folder.string(), "cannot be made: " + error.message());
  return folder;
}

core::Result<connect::FileLock> lock_run_folder(const std::filesystem::path& folder) {
  const auto take = [&folder](const char* name) -> core::Result<connect::FileLock> {
    auto lock = connect::FileLock::take(folder / name);
    if (!lock) return tl::make_unexpected(lock.error());
    if (*lock) return std::move(**lock);
    return core::environment_error(folder.string(), "is used by another `penstock up` or planner",
                                   "stop it, or give this one another --state-dir");
  };
  auto mine = take(kRunLock);
  if (!mine) return mine;
  // The planner of this run takes its lock later.
  if (auto of_planner = take(kFleetLock); !of_planner) return of_planner;
  return mine;
}

std::size_t count_reports(const std::filesystem::path& folder) {
  std::size_t count = 0;
  std::error_code error;  // A folder that cannot be read has no reports.
  for (std::filesystem::recursive_directory_iterator at{folder, error}, end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("penstock-") && name.ends_with(".html")) ++count;
  }
  return count;
}

std::string folder_contents(const std::filesystem::path& folder, std::size_t reports_before) {
  std::vector<std::string> parts = {"logs"};
  const std::size_t reports = count_reports(folder);
  std::error_code error;
  if (std::filesystem::exists(folder / "ledger.sqlite", error)) parts.emplace_back("ledger");
  if (std::filesystem::exists(folder / "decisions.sqlite", error)) parts.emplace_back("decisions");
  if (reports > reports_before) parts.emplace_back("an HTML report of this run");
  std::string text = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) text += (i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

}  // namespace penstock::cli
