#include "dashboard/history.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace penstock::dashboard {
namespace {

class HistoryTest : public testing::Test {
 protected:
  HistoryTest() {
    std::string folder = testing::TempDir() + "historyXXXXXX";
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    file = (folder_ / "history.jsonl").string();
  }
  ~HistoryTest() override { std::filesystem::remove_all(folder_); }
  std::string content() const {
    std::ifstream stream{file};
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
  }

  std::filesystem::path folder_;
  std::string file;
};

TEST_F(HistoryTest, SurvivesARestartWithTimesBeforeTheStart) {
  {
    History before{file, 100};
    ASSERT_TRUE(before.load(1000.0));
    ASSERT_TRUE(before.add(1000.0, R"({"at_s":0.0,"queued":1,"ready":[2,null]})"));
    ASSERT_TRUE(before.add(1060.0, R"({"at_s":60.0,"queued":null})"));
  }
  History after{file, 100};
  ASSERT_TRUE(after.load(1100.0));
  ASSERT_TRUE(after.add(1120.5, R"({"at_s":20.5})"));
  EXPECT_EQ(after.document(1100.0),
            R"([{"at_s":-100.000,"queued":1,"ready":[2,null]},{"at_s":-40.000,"queued":null},{"at_s":20.500}])");
}

TEST_F(HistoryTest, IsReadableByItsOwnerOnly) {
  History history{file, 100};
  ASSERT_TRUE(history.add(1.0, "{}"));
  struct stat seen {};
  ASSERT_EQ(::stat(file.c_str(), &seen), 0);
  EXPECT_EQ(seen.st_mode & 0777U, 0600U);
}

TEST_F(HistoryTest, SkipsWhatIsNoPoint) {
  std::ofstream{file} << "{\"unix_s\":5,\"a\":1}\n[1]\n{\"unix_s\":\"6\"}\n{}\n{\"unix_s\":4}\n{\"unix_s\":99}\n{"
                         "\"unix_s\":7,\"a\":2}\n{\"unix_s\":8,\"a";
  History history{file, 100};
  ASSERT_TRUE(history.load(10.0));
  EXPECT_EQ(history.document(0.0), R"([{"at_s":5.000,"a":1},{"at_s":7.000,"a":2}])");
  // The cut line is gone, so that the next point has a line of its own.
  EXPECT_EQ(content(), "{\"unix_s\":5.000,\"a\":1}\n{\"unix_s\":7.000,\"a\":2}\n");
}

TEST_F(HistoryTest, KeepsTheNewestPointsAndBoundsItsFile) {
  History history{file, 3};
  for (int at = 1; at <= 20; ++at) ASSERT_TRUE(history.add(at, "{}"));
  EXPECT_EQ(history.document(0.0), R"([{"at_s":18.000},{"at_s":19.000},{"at_s":20.000}])");
  History again{file, 3};
  ASSERT_TRUE(again.load(100.0));
  EXPECT_EQ(again.document(0.0), history.document(0.0));
  EXPECT_LE(std::filesystem::file_size(file), 6 * std::string{"{\"unix_s\":20.000}\n"}.size());
}

TEST_F(HistoryTest, ForgetsAllForAReport) {
  History history{file, 100};
  ASSERT_TRUE(history.add(1.0, "{}"));
  ASSERT_TRUE(history.clear());
  EXPECT_TRUE(history.empty());
  EXPECT_EQ(history.document(0.0), "[]");
  EXPECT_EQ(content(), "");
}

TEST_F(HistoryTest, TimesAscendAfterAStepOfTheClock) {
  History history{file, 100};
  for (const double at : {10.0, 70.0, 40.0}) ASSERT_TRUE(history.add(at, "{}"));
  EXPECT_EQ(history.document(0.0), R"([{"at_s":10.000},{"at_s":40.000}])");
  EXPECT_EQ(content(), "{\"unix_s\":10.000}\n{\"unix_s\":40.000}\n");
}

TEST_F(HistoryTest, AFileThatCannotBeWrittenIsNamedAndThePointIsKept) {
  History history{(folder_ / "none" / "history.jsonl").string(), 100};
  const auto done = history.add(1.0, "{}");
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message().find("none/history.jsonl"), std::string::npos);
  EXPECT_FALSE(history.empty());
}

}  // namespace
}  // namespace penstock::dashboard
