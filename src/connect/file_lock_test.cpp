#include "connect/file_lock.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace penstock::connect {
namespace {

std::string file_of(const std::string& name) {
  const std::string file = testing::TempDir() + "/file_lock_" + name;
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

TEST(FileLock, NamesAFileThatCannotBeCreated) {
  const auto taken = FileLock::take("/nowhere/at/all");
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().where, "/nowhere/at/all");
}

}  // namespace
}  // namespace penstock::connect
