#include "connect/file_stamps.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace penstock::connect {
namespace {

namespace fs = std::filesystem;

class FileStampsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "penstock-file-stamps-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const { std::ofstream{folder_ / name} << text; }

  fs::path folder_;
};

TEST_F(FileStampsTest, AChangeIsReportedOnceTheFileHasSettled) {
  write("a", "one");
  FileStamps stamps;
  stamps.follow({path("a"), path("b")});
  EXPECT_FALSE(stamps.changed());
  write("a", "one two");
  EXPECT_FALSE(stamps.changed()) << "the file may still be written";
  EXPECT_TRUE(stamps.changed());
  EXPECT_FALSE(stamps.changed());
}

TEST_F(FileStampsTest, FilesThatAreStillFollowedKeepTheirState) {
  FileStamps stamps;
  stamps.follow({path("a")});
  write("a", "new");
  stamps.follow({path("b"), path("a")});
  EXPECT_FALSE(stamps.changed());
  EXPECT_TRUE(stamps.changed());
  write("b", "new");
  stamps.accept();
  EXPECT_FALSE(stamps.changed());
  EXPECT_FALSE(stamps.changed());
}

TEST_F(FileStampsTest, MissingFilesAreAStateToo) {
  FileStamps stamps;
  stamps.follow({path("a")});
  write("a", "new");
  EXPECT_FALSE(stamps.changed());
  EXPECT_TRUE(stamps.changed());
  fs::remove(path("a"));
  EXPECT_FALSE(stamps.changed());
  EXPECT_TRUE(stamps.changed());
}

// Kubernetes mounts a ConfigMap as links through `..data`, and exchanges that link.
TEST_F(FileStampsTest, TheExchangeOfALinkIsAChange) {
  fs::create_directories(folder_ / "v1");
  fs::create_directories(folder_ / "v2");
  write("v1/p.yaml", "same");
  write("v2/p.yaml", "same");
  fs::create_directory_symlink("v1", folder_ / "..data");
  fs::create_symlink("..data/p.yaml", folder_ / "p.yaml");
  FileStamps stamps;
  stamps.follow({path("p.yaml")});
  EXPECT_FALSE(stamps.changed());
  fs::create_directory_symlink("v2", folder_ / "..data_tmp");
  fs::rename(folder_ / "..data_tmp", folder_ / "..data");
  EXPECT_FALSE(stamps.changed());
  EXPECT_TRUE(stamps.changed());
}

}  // namespace
}  // namespace penstock::connect
