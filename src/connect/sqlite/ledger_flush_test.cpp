// When what was written to the ledger reaches the disk.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "connect/sqlite/ledger_writer.h"
#include "ledger/ledger_testing.h"

namespace penstock::connect {
namespace {

using namespace std::chrono_literals;

// SQLite's files, with a count of the flushes of logs, which fail if a test says so.
class CountedFlushes {
 public:
  CountedFlushes() {
    flushes = 0;
    fails = false;
    original_ = sqlite3_vfs_find(nullptr);
    counted_ = *original_;
    counted_.zName = "counted";
    counted_.xOpen = &CountedFlushes::open;
    sqlite3_vfs_register(&counted_, 1);
  }
  ~CountedFlushes() {
    sqlite3_vfs_unregister(&counted_);
    sqlite3_vfs_register(original_, 1);
  }
  CountedFlushes(const CountedFlushes&) = delete;
  CountedFlushes& operator=(const CountedFlushes&) = delete;

  static inline std::atomic<int> flushes = 0;
  static inline std::atomic<bool> fails = false;

 private:
  static int open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* granted) {
    const int code = original_->xOpen(original_, name, file, flags, granted);
    if (code != SQLITE_OK || (flags & SQLITE_OPEN_WAL) == 0) return code;
    methods_ = *file->pMethods;
    sync_ = file->pMethods->xSync;
    methods_.xSync = [](sqlite3_file* log, int how) {
      if (fails) return SQLITE_IOERR_FSYNC;
      ++flushes;
      return sync_(log, how);
    };
    file->pMethods = &methods_;
    return code;
  }

  static inline sqlite3_vfs* original_ = nullptr;
  static inline sqlite3_io_methods methods_;
  static inline int (*sync_)(sqlite3_file*, int) = nullptr;
  sqlite3_vfs counted_;
};

class LedgerFlushTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "penstock-ledger-flush-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    auto store = LedgerStore::open((folder_ / "ledger.sqlite").string(), {.now_unix_ms = 1'790'000'100'000});
    ASSERT_TRUE(store) << store.error().message();
    LedgerWriterOptions options;
    options.interval = 1ms;
    options.flush_interval = 50ms;
    writer_ = std::make_unique<LedgerWriter>(*std::move(store), options, nullptr);
  }
  void TearDown() override {
    writer_.reset();
    std::filesystem::remove_all(folder_);
  }
  void write(std::uint64_t id) {
    writer_->opened(ledger::testing::opened(id));
    EXPECT_TRUE(writer_->flush());
  }
  template <class Holds>
  [[nodiscard]] bool until(Holds holds) const {
    for (int i = 0; i < 5000 && !holds(); ++i) std::this_thread::sleep_for(1ms);
    return holds();
  }

  std::filesystem::path folder_;
  CountedFlushes files_;
  std::unique_ptr<LedgerWriter> writer_;
};

TEST_F(LedgerFlushTest, WhatIsWrittenIsFlushedAlsoIfNothingFollows) {
  std::this_thread::sleep_for(120ms);
  const int before = CountedFlushes::flushes;
  write(1);
  EXPECT_TRUE(until([&] { return CountedFlushes::flushes == before + 1; }));
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(CountedFlushes::flushes, before + 1) << "there is nothing more to flush";
}

TEST_F(LedgerFlushTest, ManyWritesShareAFlush) {
  const int before = CountedFlushes::flushes;
  const auto begun = std::chrono::steady_clock::now();
  for (std::uint64_t id = 1; id <= 100; ++id) write(id);
  const auto intervals = (std::chrono::steady_clock::now() - begun) / 50ms;
  EXPECT_LE(CountedFlushes::flushes - before, intervals + 1);
}

TEST_F(LedgerFlushTest, AFailedFlushIsReportedAndRepeated) {
  CountedFlushes::fails = true;
  write(1);
  EXPECT_TRUE(until([&] { return writer_->state().error.has_value(); }));
  CountedFlushes::fails = false;
  const int before = CountedFlushes::flushes;
  EXPECT_TRUE(until([&] { return CountedFlushes::flushes > before; }));
  write(2);
  EXPECT_FALSE(writer_->state().error);
}

}  // namespace
}  // namespace penstock::connect
