#include "connect/file_lock.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace penstock::connect {
namespace {

std::string file_of(const std::string& name) {
  const std::string file = ::testing::TempDir() + "/file_lock_" + name;
  std::filesystem::remove(file);
  return file;
}

TEST(FileLock, IsHeldByOneAtATime) {
  const std::string file = file_of("one");
  auto first = FileLock::take(file);
  ASSERT_TRUE(first && *first);
  const auto second = FileLock::take(file);
  ASSERT_TRUE(second);
  EXPECT_FALSE(*second);
  first->reset();
  const auto third = FileLock::take(file);
  EXPECT_TRUE(third && *third);
}

TEST(FileLock, AMovedLockStaysHeld) {
  const std::string file = file_of("moved");
  auto taken = FileLock::take(file);
  ASSERT_TRUE(taken && *taken);
  std::optional<FileLock> holder{std::move(**taken)};
  taken->reset();
  EXPECT_FALSE(*FileLock::take(file));
  holder.reset();
  EXPECT_TRUE(*FileLock::take(file));
}

TEST(SharedFileLock, ItsNumbersAreHeldUntilTheirHolderEnds) {
  const std::string file = file_of("shared");
  auto first = SharedFileLock::open(file), second = SharedFileLock::open(file);
  ASSERT_TRUE(first && *first && second && *second);
  constexpr std::uint64_t kNumber = 1'790'000'100'000'000;
  EXPECT_TRUE((**first).hold(kNumber));
  EXPECT_FALSE((**second).hold(kNumber));
  EXPECT_TRUE((**second).hold(kNumber + 1));
  EXPECT_TRUE((**second).is_held_elsewhere(kNumber));
  EXPECT_FALSE((**second).is_held_elsewhere(kNumber + 1));
  EXPECT_FALSE((**first).is_held_elsewhere(kNumber));
  first->reset();
  EXPECT_FALSE((**second).is_held_elsewhere(kNumber));
}

TEST(SharedFileLock, ExcludesThoseWhoHoldTheWholeFile) {
  const std::string file = file_of("either");
  auto whole = FileLock::take(file);
  ASSERT_TRUE(whole && *whole);
  EXPECT_FALSE(*SharedFileLock::open(file));
  whole->reset();
  auto shared = SharedFileLock::open(file);
  ASSERT_TRUE(shared && *shared);
  EXPECT_FALSE(*FileLock::take(file));
}

TEST(FileLock, NamesAFileThatCannotBeCreated) {
  const auto taken = FileLock::take("/nowhere/at/all");
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().where, "/nowhere/at/all");
}

}  // namespace
}  // namespace penstock::connect
