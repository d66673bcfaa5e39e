#include "cli/up_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

namespace penstock::cli {
namespace {

TEST(UpFolder, TheContentsOfTheFolderAreThoseThatExist) {
  const std::filesystem::path folder = std::filesystem::path{::testing::TempDir()} / "penstock-up-contents";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "chat");
  EXPECT_EQ(folder_contents(folder, 0), "logs");
  std::ofstream{folder / "ledger.sqlite"};
  EXPECT_EQ(folder_contents(folder, 0), "logs and ledger");
  std::ofstream{folder / "decisions.sqlite"};
  std::ofstream{folder / "chat" / "penstock-2026-11-28T120000Z.html"};
  EXPECT_EQ(count_reports(folder), 1U);
  EXPECT_EQ(folder_contents(folder, 1), "logs, ledger and decisions");
  EXPECT_EQ(folder_contents(folder, 0), "logs, ledger, decisions and an HTML report of this run");
  EXPECT_EQ(folder_contents(folder / "nowhere", 0), "logs");
  std::filesystem::remove_all(folder);
}

TEST(UpFolder, TheFolderOfAnotherRunOrPlannerIsRefused) {
  const std::filesystem::path folder = std::filesystem::path{::testing::TempDir()} / "penstock-up-lock";
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(make_run_folder(folder.string()));
  {
    const auto first = lock_run_folder(folder);
    ASSERT_TRUE(first);
    const auto second = lock_run_folder(folder);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().what, "is used by another `penstock up` or planner");
    // The planner of the first run takes its own lock.
    const auto planner = connect::FileLock::take((folder / "fleet.json.lock").string());
    ASSERT_TRUE(planner);
    EXPECT_TRUE(planner->has_value());
  }
  const auto planner = connect::FileLock::take((folder / "fleet.json.lock").string());
  ASSERT_TRUE(planner && planner->has_value());
  EXPECT_FALSE(lock_run_folder(folder));
  std::filesystem::remove_all(folder);
}

TEST(UpFolder, TheFolderOfARunThatGoesOnIsKeptWhateverNumberOfRunsFollows) {
  const std::filesystem::path state = std::filesystem::path{::testing::TempDir()} / "penstock-up-runs";
  std::filesystem::remove_all(state);
  const char* before = std::getenv("XDG_STATE_HOME");
  const std::string restored = before == nullptr ? "" : before;
  ::setenv("XDG_STATE_HOME", state.c_str(), 1);
  const auto first = make_run_folder("");
  ASSERT_TRUE(first);
  const auto lock = lock_run_folder(*first);
  ASSERT_TRUE(lock);
  std::filesystem::path second;
  for (int i = 0; i < 25; ++i) {
    const auto next = make_run_folder("");
    ASSERT_TRUE(next);
    if (i == 0) second = *next;
  }
  EXPECT_TRUE(std::filesystem::exists(*first));
  EXPECT_FALSE(std::filesystem::exists(second));
  restored.empty() ? ::unsetenv("XDG_STATE_HOME") : ::setenv("XDG_STATE_HOME", restored.c_str(), 1);
  std::filesystem::remove_all(state);
}

}  // namespace
}  // namespace penstock::cli
