#include "configuration/ledger_trace.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "configuration/traces.h"
#include "connect/sqlite/ledger_store.h"

namespace penstock::configuration {
namespace {

namespace fs = std::filesystem;
using workload::ReadOptions;

constexpr std::int64_t kStartMs = 1'790'000'000'000;

ledger::Entry entry(std::uint64_t id, std::int64_t opened_ms, const std::string& model, std::uint64_t prompt_tokens,
                    std::uint64_t output_tokens) {
  ledger::Entry made;
  made.id = id;
  made.opened_unix_ms = kStartMs + opened_ms;
  made.closed_unix_ms = made.opened_unix_ms + 1000;
  made.tenant = id % 2 == 0 ? "even" : "odd";
  made.model = model;
  made.traffic_class = id % 2 == 0 ? "batch" : "interactive";
  made.prompt_tokens = prompt_tokens;
  made.output_tokens = output_tokens;
  made.reserved_tokens = 4096 + output_tokens;
  return made;
}

class LedgerTrace : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::path{::testing::TempDir()} / "penstock-ledger-trace-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string path() const { return (folder_ / "usage.sqlite").string(); }
  void write(const std::vector<ledger::Entry>& closed, const std::vector<ledger::Entry>& opened = {}) const {
    auto store = connect::LedgerStore::open(path(), {.now_unix_ms = kStartMs}).value();
    ASSERT_TRUE(store.write(opened, closed));
  }
  [[nodiscard]] core::Result<std::vector<Trace>> load(const ReadOptions& read = {}) const {
    TraceOptions options;
    options.names = {path()};
    options.read = read;
    return load_traces(options, 1);
  }
  [[nodiscard]] std::string message(const ReadOptions& read = {}) const {
    const auto loaded = load(read);
    if (loaded) return {};
    const std::string text = loaded.error().message();
    return text.substr(text.find("usage.sqlite"));
  }

  fs::path folder_;
};

TEST_F(LedgerTrace, RequestsOfALedgerAreAWorkload) {
  write({entry(1, 2500, "m", 10, 20), entry(2, 0, "m", 30, 40)});
  const auto traces = load().value();
  EXPECT_EQ(traces[0].format, "ledger");
  const workload::Workload& made = traces[0].workload;
  EXPECT_EQ(made.name, "usage");
  ASSERT_EQ(made.requests.size(), 2U);
  EXPECT_EQ(made.requests[0].input_tokens, 30U);
  EXPECT_EQ(made.requests[0].output_tokens, 40U);
  EXPECT_EQ(made.requests[0].reserved_tokens, 4136U);
  EXPECT_EQ(made.requests[0].traffic_class, workload::TrafficClass::kBatch);
  EXPECT_EQ(made.requests[1].arrival, core::kStart + std::chrono::milliseconds{2500});
  EXPECT_EQ(made.tenants, (std::vector<std::string>{"even", "odd"}));
  ReadOptions window;
  window.from = std::chrono::seconds{1};
  EXPECT_EQ(load(window).value()[0].workload.requests.size(), 1U);
}

TEST_F(LedgerTrace, EntriesThatAreNoRequestsAreLeftOutAndCounted) {
  ledger::Entry failed = entry(2, 100, "m", 30, 0), open = entry(3, 200, "m", 30, 5);
  failed.outcome = ledger::Outcome::kFailed;
  open.closed_unix_ms = 0;
  // The store closes what a process left open, so that the entry is open only while its store is.
  auto store = connect::LedgerStore::open(path(), {.now_unix_ms = kStartMs}).value();
  ASSERT_TRUE(store.write(std::vector{open}, std::vector{entry(1, 0, "m", 10, 20), failed}));
  const auto traces = load().value();
  EXPECT_EQ(traces[0].workload.requests.size(), 1U);
  EXPECT_EQ(traces[0].report.skipped_rows, 2U);
  EXPECT_EQ(traces[0].report.skipped[0], path() + ": entry 2: failed with 30 prompt tokens and 0 output tokens");
  EXPECT_EQ(traces[0].report.skipped[1], path() + ": entry 3: the request is still open");
}

TEST_F(LedgerTrace, OneOfSeveralModelsMustBeChosen) {
  write({entry(1, 0, "a", 10, 20), entry(2, 500, "b", 30, 40), entry(3, 900, "b", 50, 60)});
  EXPECT_EQ(
      message(),
      "usage.sqlite: has requests of 2 models: \"a\" (1 rows), \"b\" (2 rows); choose one with --trace-model 'a', "
      "or --trace-model all");
  ReadOptions read;
  read.model = "c";
  EXPECT_EQ(message(read),
            "usage.sqlite: has no request of the model \"c\"; its models are \"a\" (1 rows), \"b\" (2 rows)");
  read.model = "b";
  const auto traces = load(read).value();
  ASSERT_EQ(traces[0].workload.requests.size(), 2U);
  EXPECT_EQ(traces[0].workload.requests[0].arrival, core::kStart + std::chrono::milliseconds{500})
      << "times count from the first request of the ledger";
  EXPECT_EQ(traces[0].workload.span(), std::chrono::milliseconds{900});
  read.model = "all";
  EXPECT_EQ(load(read).value()[0].workload.requests.size(), 3U);
}

TEST_F(LedgerTrace, OptionsOfTablesAreRefused) {
  write({entry(1, 0, "m", 10, 20)});
  ReadOptions read;
  read.time_format = workload::TimeFormat::kSeconds;
  EXPECT_EQ(message(read),
            "usage.sqlite: is a ledger, whose columns and times are known; leave --columns and --time-format out");
  read = {};
  read.format = workload::Format::kLedger;
  EXPECT_EQ(message(read), "");
}

}  // namespace
}  // namespace penstock::configuration
