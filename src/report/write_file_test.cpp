#include "report/write_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace penstock::report {
namespace {

namespace fs = std::filesystem;

class WriteFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "penstock-report-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

TEST_F(WriteFile, ADashIsStandardOutput) {
  ::testing::internal::CaptureStdout();
  EXPECT_TRUE(write_file("-", "{}\n"));
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "{}\n");
  EXPECT_FALSE(fs::exists("-"));
}

TEST_F(WriteFile, WritesTheTextAndLeavesNothingElse) {
  const std::string text = std::string("a\0b\r\n", 5) + std::string(1 << 20, 'x');
  ASSERT_TRUE(write_file(path("report.html"), text).has_value());
  EXPECT_TRUE(read(path("report.html")) == text);
  EXPECT_EQ(files(), 1U);
}

TEST_F(WriteFile, ReplacesAFileAndKeepsItsPermissions) {
  put("report.html", "something longer than what comes");
  ASSERT_EQ(::chmod(path("report.html").c_str(), 0640), 0);
  ASSERT_TRUE(write_file(path("report.html"), "new").has_value());
  EXPECT_EQ(read(path("report.html")), "new");
  struct stat status {};
  ASSERT_EQ(::stat(path("report.html").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0640U);
}

TEST_F(WriteFile, GivesANewFileThePermissionsThatTheUserWants) {
  const mode_t before = ::umask(027);
  ASSERT_TRUE(write_file(path("report.html"), "new").has_value());
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat(path("report.html").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0640U);
}

TEST_F(WriteFile, WritesThroughASymbolicLink) {
  fs::create_directory(path("other"));
  put("other/report.html", "old");
  fs::create_symlink("other/report.html", path("latest.html"));
  ASSERT_TRUE(write_file(path("latest.html"), "new").has_value());
  EXPECT_TRUE(fs::is_symlink(path("latest.html")));
  EXPECT_EQ(read(path("other/report.html")), "new");
}

TEST_F(WriteFile, WritesThroughASymbolicLinkToAFileThatIsNotThereYet) {
  fs::create_directory(path("other"));
  fs::create_symlink("other/report.html", path("latest.html"));
  ASSERT_TRUE(write_file(path("latest.html"), "new").has_value());
  EXPECT_TRUE(fs::is_symlink(path("latest.html")));
  EXPECT_EQ(read(path("other/report.html")), "new");
}

TEST_F(WriteFile, RefusesALinkThatLeadsToItself) {
  fs::create_symlink("b", path("a"));
  fs::create_symlink("a", path("b"));
  EXPECT_FALSE(write_file(path("a"), "new").has_value());
  EXPECT_EQ(files(), 2U);
}

TEST_F(WriteFile, SaysWhichFolderIsMissing) {
  const auto written = write_file(path("missing/report.html"), "new");
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, core::ErrorCode::kEnvironment);
  EXPECT_EQ(written.error().message(),
            path("missing/report.html") + ": cannot write: No such file or directory; create the folder first");
  EXPECT_EQ(files(), 0U);
}

TEST_F(WriteFile, RefusesAFolder) {
  const auto written = write_file(folder_.string(), "new");
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().what, "cannot write: Is a directory");
  EXPECT_FALSE(write_file("", "new").has_value());
}

TEST_F(WriteFile, RefusesAPathThroughAFile) {
  put("file", "old");
  EXPECT_FALSE(write_file(path("file/report.html"), "new").has_value());
  EXPECT_EQ(read(path("file")), "old");
}

TEST_F(WriteFile, ReportsAFullDevice) {
  const auto written = write_file("/dev/full", "new");
  ASSERT_FALSE(written.has_value());
  EXPECT_NE(written.error().message().find("No space left on device; free some space"), std::string::npos);
}

TEST_F(WriteFile, WritesInPlaceToWhatIsNoRegularFile) {
  EXPECT_TRUE(write_file("/dev/null", "new").has_value());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(WriteFile, WritesToStandardOutput) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int kept = ::dup(STDOUT_FILENO);
  ::dup2(ends[1], STDOUT_FILENO);
  const auto written = write_file("/dev/stdout", "to the pipe");
  ::dup2(kept, STDOUT_FILENO);
  ::close(kept);
  ::close(ends[1]);
  char buffer[32] = {};
  const ssize_t length = ::read(ends[0], buffer, sizeof buffer);
  ::close(ends[0]);
  ASSERT_TRUE(written.has_value()) << written.error().message();
  EXPECT_EQ(std::string_view(buffer, static_cast<std::size_t>(std::max<ssize_t>(0, length))), "to the pipe");
}

TEST_F(WriteFile, KeepsTheOldFileWhenTheDiskRefusesTheNewOne) {
  put("report.html", "old");
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = before;
  small.rlim_cur = 4096;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto written = write_file(path("report.html"), std::string(8192, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(read(path("report.html")), "old");
  EXPECT_EQ(files(), 1U);
}

}  // namespace
}  // namespace penstock::report
