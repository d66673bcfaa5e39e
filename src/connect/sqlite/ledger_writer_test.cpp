#include "connect/sqlite/ledger_writer.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "ledger/ledger_testing.h"

namespace penstock::connect {
namespace {

namespace fs = std::filesystem;
using ledger::Entry;
using ledger::Outcome;
using ledger::testing::closed;
using ledger::testing::opened;
using ledger::testing::refused;

constexpr std::int64_t kNowMs = 1'790'000'100'000;

// Nothing is written before a batch is full or flushed.
LedgerWriterOptions batches_of(std::size_t entries) {
  LedgerWriterOptions options;
  options.interval = std::chrono::hours{1};
  options.batch = entries;
  return options;
}

class LedgerWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ("penstock-writer-" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override {
    writer_.reset();
    sqlite3_close(blocker_);
    fs::remove_all(folder_);
  }
  [[nodiscard]] std::string path() const { return (folder_ / "ledger.sqlite").string(); }

  void start(const LedgerWriterOptions& options = {}, std::uint64_t bytes_max = 0) {
    auto store = LedgerStore::open(path(), {kNowMs, bytes_max, std::chrono::milliseconds{1}});
    ASSERT_TRUE(store) << store.error().message();
    writer_ = std::make_unique<LedgerWriter>(std::move(*store), options, [this](const std::string& sentence) {
      const std::lock_guard lock{mutex_};
      lines_.push_back(sentence);
    });
  }
  // Other connections cannot write while this one holds a transaction.
  void block() {
    if (blocker_ == nullptr) {
      ASSERT_EQ(sqlite3_open(path().c_str(), &blocker_), SQLITE_OK);
    }
    ASSERT_EQ(sqlite3_exec(blocker_, "begin immediate", nullptr, nullptr, nullptr), SQLITE_OK);
  }
  void unblock() { ASSERT_EQ(sqlite3_exec(blocker_, "rollback", nullptr, nullptr, nullptr), SQLITE_OK); }
  [[nodiscard]] std::vector<std::string> lines() {
    const std::lock_guard lock{mutex_};
    return lines_;
  }
  [[nodiscard]] std::vector<Entry> entries() const {
    const auto store = LedgerStore::open_read_only(path());
    const auto read = store->entries();
    return read ? *read : std::vector<Entry>{};
  }

  fs::path folder_;
  sqlite3* blocker_ = nullptr;
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::unique_ptr<LedgerWriter> writer_;
};

TEST_F(LedgerWriterTest, WritesWhatItIsHanded) {
  start();
  EXPECT_EQ(writer_->first_id(), std::uint64_t{kNowMs} * 1000);
  writer_->opened(opened(1));
  writer_->opened(opened(2));
  writer_->closed(closed(opened(1)));
  writer_->refused(refused(3));
  EXPECT_TRUE(writer_->flush());
  const auto state = writer_->state();
  EXPECT_EQ(state.written, 4U);
  EXPECT_EQ(state.waiting, 0U);
  EXPECT_EQ(state.dropped, 0U);
  EXPECT_FALSE(state.error);
  ASSERT_EQ(entries().size(), 3U);
  EXPECT_EQ(entries()[1].closed_unix_ms, 0);
  EXPECT_TRUE(lines().empty());
}

TEST_F(LedgerWriterTest, WhatOpensAndClosesInOneBatchIsWrittenOnceAndCountsTwice) {
  start(batches_of(8));
  // Batches are used again: nothing of an earlier entry may stay in a later one's place.
  for (std::uint64_t id = 1; id <= 60; ++id) {
    Entry entry = opened(id, id % 2 == 0 ? "acme" : "a tenant whose name fits in no short string");
    if (id % 3 == 0) entry.request_id.clear();
    writer_->opened(entry);
    if (id % 5 != 0) writer_->closed(closed(entry));
    EXPECT_TRUE(id % 7 != 0 || writer_->flush());
  }
  EXPECT_TRUE(writer_->flush());
  EXPECT_EQ(writer_->state().written, 60U + 48U);
  const std::vector<Entry> written = entries();
  ASSERT_EQ(written.size(), 60U);
  for (std::uint64_t id = 1; id <= 60; ++id) {
    const Entry& entry = written[id - 1];
    EXPECT_EQ(entry.id, id);
    EXPECT_EQ(entry.request_id, id % 3 == 0 ? "" : "req-" + std::to_string(id));
    EXPECT_EQ(entry.tenant, id % 2 == 0 ? "acme" : "a tenant whose name fits in no short string");
    EXPECT_EQ(entry.closed_unix_ms == 0, id % 5 == 0);
    EXPECT_EQ(entry.output_tokens, id % 5 == 0 ? opened(id).output_tokens : 200U);
  }
}

TEST_F(LedgerWriterTest, GrowthIsWrittenUnlessItsEntryClosesInTheBatch) {
  start(batches_of(8));
  for (std::uint64_t id = 1; id <= 60; ++id) {
    Entry entry = opened(id);
    writer_->opened(entry);
    for (std::uint64_t tokens = 10; tokens <= 30; tokens += 10) {
      entry.output_tokens = tokens;
      writer_->grown(entry);
    }
    if (id % 3 == 0) writer_->closed(closed(entry));
    EXPECT_TRUE(id % 7 != 0 || writer_->flush());
  }
  EXPECT_TRUE(writer_->flush());
  EXPECT_EQ(writer_->state().written, 4 * 60U + 20U);
  const std::vector<Entry> written = entries();
  ASSERT_EQ(written.size(), 60U);
  for (const Entry& entry : written) EXPECT_EQ(entry.output_tokens, entry.id % 3 == 0 ? 200U : 30U) << entry.id;
}

TEST_F(LedgerWriterTest, WritesBatchesAtTheInterval) {
  LedgerWriterOptions options;
  options.interval = std::chrono::milliseconds{1};
  start(options);
  writer_->opened(opened(1));
  while (writer_->state().written < 1) std::this_thread::yield();
  EXPECT_EQ(entries().size(), 1U);
}

TEST_F(LedgerWriterTest, AFullBatchDoesNotWaitForTheInterval) {
  start(batches_of(10));
  for (std::uint64_t id = 1; id <= 10; ++id) writer_->opened(opened(id));
  while (writer_->state().written < 10) std::this_thread::yield();
  EXPECT_EQ(entries().size(), 10U);
}

TEST_F(LedgerWriterTest, TheDestructorWritesWaitingEntries) {
  start(batches_of(7));
  for (std::uint64_t id = 1; id <= 3; ++id) writer_->opened(opened(id));
  for (std::uint64_t id = 10; id <= 100; ++id) writer_->closed(closed(opened(id)));
  writer_.reset();
  EXPECT_EQ(entries().size(), 94U);
  EXPECT_TRUE(lines().empty());
}

TEST_F(LedgerWriterTest, AFailedBatchIsRetriedAndWrittenOnce) {
  LedgerWriterOptions options;
  options.retry = std::chrono::milliseconds{1};
  start(options);
  block();
  for (std::uint64_t id = 1; id <= 50; ++id) writer_->opened(opened(id));
  EXPECT_FALSE(writer_->flush());
  EXPECT_FALSE(writer_->flush());
  EXPECT_EQ(writer_->state().waiting, 50U);
  EXPECT_EQ(writer_->state().error->what, "is locked by another process");
  for (std::uint64_t id = 1; id <= 50; ++id) writer_->closed(closed(opened(id)));
  unblock();
  while (!writer_->flush()) std::this_thread::yield();
  const auto state = writer_->state();
  EXPECT_EQ(state.written, 100U);
  EXPECT_EQ(state.dropped, 0U);
  EXPECT_GE(state.failures, 2U);
  EXPECT_FALSE(state.error);
  ASSERT_EQ(entries().size(), 50U);
  for (const Entry& entry : entries()) EXPECT_EQ(entry.outcome, Outcome::kCompleted);
  writer_.reset();
  ASSERT_EQ(lines().size(), 2U);
  EXPECT_NE(lines()[0].find("the ledger is not written: "), std::string::npos) << lines()[0];
  EXPECT_EQ(lines()[1], "the ledger is written again; 0 entries were dropped");
}

TEST_F(LedgerWriterTest, BeyondItsLimitEntriesAreDroppedCountedAndLogged) {
  LedgerWriterOptions options;
  options.entries_max = 20;
  options.retry = std::chrono::milliseconds{1};
  start(options);
  block();
  for (std::uint64_t id = 1; id <= 35; ++id) writer_->opened(opened(id));
  EXPECT_FALSE(writer_->flush());
  EXPECT_EQ(writer_->state().waiting, 20U);
  EXPECT_EQ(writer_->state().dropped, 15U);
  unblock();
  while (!writer_->flush()) std::this_thread::yield();
  writer_->closed(closed(opened(35)));  // whose opening was dropped
  EXPECT_TRUE(writer_->flush());
  EXPECT_EQ(writer_->state().written, 21U);
  writer_.reset();
  EXPECT_EQ(entries().size(), 21U);
  ASSERT_EQ(lines().size(), 3U);
  EXPECT_EQ(lines()[1], "entries of the ledger are dropped: 20 wait, and no more than 20 may");
  EXPECT_EQ(lines()[2], "the ledger is written again; 15 entries were dropped");
}

TEST_F(LedgerWriterTest, AFullDiskDoesNotBlockCallers) {
  LedgerWriterOptions options;
  options.entries_max = 5000;
  options.retry = std::chrono::hours{1};
  start(options, 64 * 1024);
  for (std::uint64_t id = 1; id <= 20'000; ++id) writer_->closed(closed(opened(id)));
  while (writer_->flush()) writer_->closed(closed(opened(30'000)));
  const auto state = writer_->state();
  EXPECT_EQ(state.error->what, "database or disk is full");
  EXPECT_GT(state.dropped, 0U);
  EXPECT_LE(state.waiting, 5000U);
  EXPECT_FALSE(state.writable);
  const auto stopped = writer_->stop();
  EXPECT_GT(stopped.lost_at_stop, 0U);
  EXPECT_LE(stopped.lost_at_stop, 5000U);
  EXPECT_EQ(stopped.dropped, state.dropped + stopped.lost_at_stop);
  writer_.reset();
  ASSERT_FALSE(lines().empty());
  EXPECT_NE(lines().back().find("entries of the ledger are not written: "), std::string::npos) << lines().back();
}

TEST_F(LedgerWriterTest, AFailureIsReportedOnceWhileTheDiskTakesSomeBatchesAndNotOthers) {
  LedgerWriterOptions options;
  options.retry = std::chrono::milliseconds{1};
  options.recovery = std::chrono::hours{1};
  start(options);
  for (std::uint64_t round = 1; round <= 5; ++round) {
    block();
    writer_->opened(opened(round));
    EXPECT_FALSE(writer_->flush());
    unblock();
    while (!writer_->flush()) std::this_thread::yield();
    EXPECT_FALSE(writer_->state().error);
    EXPECT_FALSE(writer_->state().writable);
  }
  EXPECT_EQ(lines().size(), 1U);
  const auto state = writer_->stop();
  EXPECT_EQ(state.lost_at_stop, 0U);
  EXPECT_TRUE(state.writable);
  ASSERT_EQ(lines().size(), 2U);
  EXPECT_EQ(lines()[1], "the ledger is written again; 0 entries were dropped");
}

TEST_F(LedgerWriterTest, AFailureEndsWithoutFurtherEntries) {
  LedgerWriterOptions options;
  options.retry = options.recovery = std::chrono::milliseconds{1};
  start(options);
  block();
  writer_->opened(opened(1));
  EXPECT_FALSE(writer_->flush());
  unblock();
  while (!writer_->state().writable) std::this_thread::yield();
  writer_.reset();
  EXPECT_EQ(lines().size(), 2U);
}

TEST_F(LedgerWriterTest, ARejectedEntryDoesNotBlockOthers) {
  start();
  Entry wrong = closed(opened(2));
  wrong.cost = std::numeric_limits<double>::quiet_NaN();
  writer_->closed(closed(opened(1)));
  writer_->closed(wrong);
  writer_->closed(closed(opened(3)));
  EXPECT_TRUE(writer_->flush());
  EXPECT_EQ(writer_->state().written, 2U);
  EXPECT_EQ(writer_->state().dropped, 1U);
  writer_->closed(closed(opened(4)));
  EXPECT_TRUE(writer_->flush());
  EXPECT_FALSE(writer_->state().error);
  EXPECT_EQ(entries().size(), 3U);
}

TEST_F(LedgerWriterTest, RemovesEntriesAboveTheAgeLimit) {
  LedgerWriterOptions options;
  options.keep = std::chrono::hours{24};
  start(options);
  for (std::uint64_t id = 1; id <= 5; ++id) writer_->closed(closed(opened(id)));
  EXPECT_TRUE(writer_->flush());
  EXPECT_EQ(entries().size(), 5U);
  Entry later = opened(6);
  later.opened_unix_ms += 25 * 3'600'000;
  writer_->opened(later);
  EXPECT_TRUE(writer_->flush());
  ASSERT_EQ(entries().size(), 1U);
  EXPECT_EQ(entries()[0].id, 6U);
}

TEST_F(LedgerWriterTest, ManyThreadsHandOverAtOnce) {
  LedgerWriterOptions options;
  options.interval = std::chrono::milliseconds{1};
  options.batch = 50;
  start(options);
  constexpr int kThreads = 4, kEach = 300;
  std::atomic<std::uint64_t> next_id{1};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([this, &next_id] {
      for (int n = 0; n < kEach; ++n) {
        const Entry entry = opened(next_id++);
        writer_->opened(entry);
        writer_->closed(closed(entry));
        if (n % 100 == 0) {
          EXPECT_TRUE(writer_->flush());
        }
        static_cast<void>(writer_->state());
      }
    });
  for (std::thread& thread : threads) thread.join();
  writer_.reset();
  const std::vector<Entry> written = entries();
  ASSERT_EQ(written.size(), std::size_t{kThreads * kEach});
  std::set<std::uint64_t> ids;
  for (const Entry& entry : written) {
    ids.insert(entry.id);
    EXPECT_EQ(entry.outcome, Outcome::kCompleted);
    EXPECT_NE(entry.closed_unix_ms, 0);
  }
  EXPECT_EQ(ids.size(), written.size());
}

}  // namespace
}  // namespace penstock::connect
