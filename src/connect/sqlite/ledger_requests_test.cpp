#include "connect/sqlite/ledger_requests.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ledger/ledger_testing.h"

namespace penstock::connect {
namespace {

namespace fs = std::filesystem;

class LedgerRequestsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::path{::testing::TempDir()} / "penstock-requests-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

TEST_F(LedgerRequestsTest, AreReadInTheOrderOfTheirArrivalWhileTheLedgerIsWritten) {
  auto store = LedgerStore::open(path("usage.sqlite"), {.now_unix_ms = 1'790'000'000'000}).value();
  ledger::Entry second, first, open;
  second.id = 1;
  second.opened_unix_ms = 1'790'000'002'000;
  second.closed_unix_ms = 1'790'000'003'000;
  second.tenant = "b";
  second.model = "m";
  second.traffic_class = "batch";
  second.prompt_tokens = 30;
  second.output_tokens = 4;
  first = second;
  first.id = 2;
  first.opened_unix_ms = 1'790'000'001'000;
  first.outcome = ledger::Outcome::kFailed;
  open = second;
  open.id = 3;
  open.closed_unix_ms = 0;
  ASSERT_TRUE(store.write(std::vector{open}, std::vector{second, first}));

  auto requests = LedgerRequests::open(path("usage.sqlite")).value();
  LedgerRequest request;
  std::vector<std::int64_t> ids;
  std::vector<std::string> outcomes;
  while (requests.next(request).value()) {
    ids.push_back(request.id);
    outcomes.push_back(request.outcome);
    EXPECT_EQ(request.tenant, "b");
    EXPECT_EQ(request.model, "m");
    EXPECT_EQ(request.traffic_class, "batch");
    EXPECT_EQ(request.prompt_tokens, 30);
    EXPECT_EQ(request.output_tokens, 4);
  }
  EXPECT_EQ(ids, (std::vector<std::int64_t>{2, 1, 3}));
  EXPECT_EQ(outcomes, (std::vector<std::string>{"failed", "completed", ""}));
}

TEST_F(LedgerRequestsTest, OtherFilesAreRefused) {
  std::ofstream{path("text.sqlite")} << "no database, but more than sixteen bytes";
  EXPECT_FALSE(is_sqlite_file(path("text.sqlite")));
  EXPECT_FALSE(is_sqlite_file(path("missing.sqlite")));
  EXPECT_FALSE(is_sqlite_file(folder_.string()));
  const auto requests = LedgerRequests::open(path("text.sqlite"));
  ASSERT_FALSE(requests);
  EXPECT_EQ(requests.error().code, core::ErrorCode::kInvalidInput);
  { const auto store = LedgerStore::open(path("usage.sqlite"), {.now_unix_ms = 1'790'000'000'000}).value(); }
  EXPECT_TRUE(is_sqlite_file(path("usage.sqlite")));
}

TEST_F(LedgerRequestsTest, APipeIsNotRead) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(is_sqlite_file(path("pipe")));
}

}  // namespace
}  // namespace penstock::connect
