#include "connect/sqlite/ledger_store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>

#include "core/random.h"
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
using Entries = std::vector<Entry>;

class LedgerStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ("penstock-ledger-" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string path(const char* name = "ledger.sqlite") const { return (folder_ / name).string(); }
  [[nodiscard]] core::Result<LedgerStore> open(std::uint64_t bytes_max = 0) const {
    return LedgerStore::open(path(), {kNowMs, bytes_max, std::chrono::milliseconds{10}});
  }

  fs::path folder_;
};

void expect_same(const Entry& a, const Entry& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.request_id, b.request_id);
  EXPECT_EQ(a.tenant, b.tenant);
  EXPECT_EQ(a.key_name, b.key_name);
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.traffic_class, b.traffic_class);
  EXPECT_EQ(a.replica, b.replica);
  EXPECT_EQ(a.opened_unix_ms, b.opened_unix_ms);
  EXPECT_EQ(a.closed_unix_ms, b.closed_unix_ms);
  EXPECT_EQ(a.reserved_tokens, b.reserved_tokens);
  EXPECT_EQ(a.prompt_tokens, b.prompt_tokens);
  EXPECT_EQ(a.cached_tokens, b.cached_tokens);
  EXPECT_EQ(a.output_tokens, b.output_tokens);
  EXPECT_EQ(a.measured, b.measured);
  EXPECT_EQ(a.outcome, b.outcome);
  EXPECT_EQ(a.ttft_ms, b.ttft_ms);
  EXPECT_EQ(a.itl_ms, b.itl_ms);
  EXPECT_EQ(a.cost, b.cost);
}

TEST_F(LedgerStoreTest, WhatIsOpenedClosedAndRefusedReadsBackTheSame) {
  auto store = open();
  ASSERT_TRUE(store) << store.error().message();
  Entry odd = closed(opened(3, "it's \"quoted\"; drop table entries"), Outcome::kCancelled);
  odd.ttft_ms = odd.itl_ms = -1.0;
  ASSERT_TRUE(store->write(Entries{opened(1), opened(2), opened(3, odd.tenant.c_str())}, {}));
  ASSERT_TRUE(store->write({}, Entries{closed(opened(2)), odd, refused(4)}));
  const auto read = store->entries();
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->size(), 4U);
  expect_same((*read)[0], opened(1));
  expect_same((*read)[1], closed(opened(2)));
  expect_same((*read)[2], odd);
  expect_same((*read)[3], refused(4));
  EXPECT_EQ(*store->open_entries(), 1U);
}

TEST_F(LedgerStoreTest, ClosesInTheSameBatchAndWithoutAnOpening) {
  auto store = open();
  ASSERT_TRUE(store->write(Entries{opened(1)}, Entries{closed(opened(1)), closed(opened(2))}));
  EXPECT_EQ(*store->open_entries(), 0U);
  EXPECT_EQ(store->sums()->at({"acme", "m"}).completed, 2U);
}

TEST_F(LedgerStoreTest, NothingIsWrittenTwice) {
  auto store = open();
  const Entries open_ones{opened(1), opened(2)}, closed_ones{closed(opened(1))};
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(store->write(open_ones, closed_ones));
  ASSERT_TRUE(store->write({}, Entries{closed(opened(1), Outcome::kFailed)}));
  const ledger::Sums sums = store->sums()->at({"acme", "m"});
  EXPECT_EQ(sums.opened, 2U);
  EXPECT_EQ(sums.closed, 1U);
  EXPECT_EQ(sums.completed, 1U);
  EXPECT_DOUBLE_EQ(sums.cost, 0.002);
}

TEST_F(LedgerStoreTest, AnOpenEntryGrowsAndAClosedOneDoesNot) {
  auto store = open();
  const std::vector<LedgerGrowth> grown{{1, 1005, 40, 0.5}, {2, 1005, 40, 0.5}, {3, 1, 1, 0.5}};
  // The entry 3 was never opened.
  ASSERT_TRUE(store->write(Entries{opened(1), opened(2)}, Entries{closed(opened(2))}, grown));
  const std::vector<LedgerGrowth> fewer{{1, 1, 39, 0.1}};
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(store->write({}, {}, i == 0 ? fewer : grown));
  const auto read = store->entries();
  ASSERT_EQ(read->size(), 2U);
  Entry expected = opened(1);
  expected.prompt_tokens = 1005;
  expected.output_tokens = 40;
  expected.cost = 0.5;
  expect_same((*read)[0], expected);
  expect_same((*read)[1], closed(opened(2)));
}

TEST_F(LedgerStoreTest, WhatAFormerProcessLeftOpenIsLostWithItsPrompt) {
  {
    auto store = open();
    EXPECT_EQ(store->lost(), 0U);
    EXPECT_EQ(store->first_id(), std::uint64_t{kNowMs} * 1000);
    Entry future = opened(9);
    future.opened_unix_ms = kNowMs + 50;  // the wall clock was set back since
    ASSERT_TRUE(store->write(Entries{opened(7), opened(8), future}, Entries{closed(opened(7))}));
  }
  auto store = open();
  ASSERT_TRUE(store) << store.error().message();
  EXPECT_EQ(store->lost(), 2U);
  EXPECT_EQ(store->first_id(), std::uint64_t{kNowMs} * 1000 + LedgerStore::kIdsPerWriter);
  EXPECT_EQ(*store->open_entries(), 0U);
  const auto read = store->entries();
  ASSERT_EQ(read->size(), 3U);
  EXPECT_EQ((*read)[1].outcome, Outcome::kLost);
  EXPECT_EQ((*read)[1].closed_unix_ms, kNowMs);
  EXPECT_EQ((*read)[1].prompt_tokens, 1000U);
  EXPECT_EQ((*read)[1].output_tokens, 0U);
  EXPECT_DOUBLE_EQ((*read)[1].cost, 0.001);
  EXPECT_EQ((*read)[2].closed_unix_ms, kNowMs + 50);
  for (const Entry& entry : *read) EXPECT_EQ(ledger::imbalance(entry), "");
  const ledger::Sums sums = store->sums()->at({"acme", "m"});
  EXPECT_EQ(ledger::imbalance(sums, 0), "");
  EXPECT_EQ(sums.lost, 2U);
  EXPECT_EQ(sums.reserved_tokens, 0U);
}

TEST_F(LedgerStoreTest, SumsAreThoseOfABalance) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    core::RandomStream random{seed};
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    auto store = open();
    ledger::Balance balance;
    std::map<std::uint64_t, Entry> open_ones;
    Entries to_open, to_close;
    const char* tenants[] = {"a", "b", "c"};
    for (std::uint64_t id = 1; id <= 400; ++id) {
      const char* tenant = tenants[random.below(3)];
      const char* model = random.below(2) == 0 ? "m" : "n";
      if (random.below(6) == 0) {
        to_close.push_back(refused(id, tenant, model));
        balance.refuse(to_close.back());
      } else {
        to_open.push_back(opened(id, tenant, model));
        balance.open(to_open.back());
        open_ones.emplace(id, to_open.back());
      }
      if (!open_ones.empty() && random.below(3) != 0) {
        auto at = open_ones.lower_bound(random.below(id + 1));
        if (at == open_ones.end()) at = open_ones.begin();
        constexpr Outcome kEnds[] = {Outcome::kCompleted, Outcome::kCancelled, Outcome::kTimedOut, Outcome::kFailed};
        to_close.push_back(closed(at->second, kEnds[random.below(4)]));
        balance.close(to_close.back());
        open_ones.erase(at);
      }
      if (random.below(20) == 0) {
        ASSERT_TRUE(store->write(to_open, to_close));
        to_open.clear(), to_close.clear();
      }
    }
    ASSERT_TRUE(store->write(to_open, to_close));
    ASSERT_EQ(balance.fault(), "");
    const auto sums = store->sums();
    ASSERT_TRUE(sums) << sums.error().message();
    ASSERT_EQ(sums->size(), balance.sums().size());
    for (const auto& [key, expected] : balance.sums()) {
      const ledger::Sums& read = sums->at(key);
      EXPECT_EQ(read.opened, expected.opened);
      EXPECT_EQ(read.closed, expected.closed);
      EXPECT_EQ(read.completed, expected.completed);
      EXPECT_EQ(read.cancelled, expected.cancelled);
      EXPECT_EQ(read.timed_out, expected.timed_out);
      EXPECT_EQ(read.failed, expected.failed);
      EXPECT_EQ(read.refused, expected.refused);
      EXPECT_EQ(read.reserved_tokens, expected.reserved_tokens);
      EXPECT_EQ(read.prompt_tokens, expected.prompt_tokens);
      EXPECT_EQ(read.cached_tokens, expected.cached_tokens);
      EXPECT_EQ(read.output_tokens, expected.output_tokens);
      EXPECT_NEAR(read.cost, expected.cost, 1e-9);
    }
  }
}

TEST_F(LedgerStoreTest, SumsByDayAndByFilter) {
  auto store = open();
  constexpr std::int64_t kDay = 86'400'000, kFirst = 20'717 * kDay;
  Entries entries;
  for (const std::int64_t at : {kFirst, kFirst + kDay - 1, kFirst + kDay, kFirst + 3 * kDay}) {
    Entry entry = opened(entries.size() + 1, entries.size() == 1 ? "zeta" : "acme");
    entry.opened_unix_ms = at;
    entries.push_back(closed(entry));
  }
  ASSERT_TRUE(store->write({}, entries));
  const auto days = store->days();
  ASSERT_TRUE(days) << days.error().message();
  ASSERT_EQ(days->size(), 4U);
  EXPECT_EQ((*days)[0].begin_unix_ms, kFirst);
  EXPECT_EQ((*days)[0].tenant, "acme");
  EXPECT_EQ((*days)[0].sums.output_tokens, 200U);
  EXPECT_EQ((*days)[1].begin_unix_ms, kFirst);
  EXPECT_EQ((*days)[1].tenant, "zeta");
  EXPECT_EQ((*days)[2].begin_unix_ms, kFirst + kDay);
  EXPECT_EQ((*days)[3].begin_unix_ms, kFirst + 3 * kDay);
  LedgerFilter filter;
  filter.tenant = "acme";
  filter.from_unix_ms = kFirst;
  filter.to_unix_ms = kFirst + 3 * kDay;
  EXPECT_EQ(store->sums(filter)->at({"acme", "m"}).closed, 2U);
  EXPECT_EQ(store->entries(filter)->size(), 2U);
  filter.model = "other";
  EXPECT_TRUE(store->sums(filter)->empty());
  EXPECT_TRUE(store->days(filter)->empty());
}

TEST_F(LedgerStoreTest, RemovesTheOldestThatAreClosed) {
  auto store = open();
  Entries entries;
  for (std::uint64_t id = 1; id <= 10; ++id) entries.push_back(opened(id));
  ASSERT_TRUE(store->write(entries, Entries{closed(entries[1]), closed(entries[2]), closed(entries[8])}));
  const std::int64_t before = entries[5].opened_unix_ms;
  EXPECT_EQ(*store->remove_before(before, 1), 1U);
  EXPECT_EQ(*store->remove_before(before, 100), 1U);
  EXPECT_EQ(*store->remove_before(before, 100), 0U);
  EXPECT_EQ(store->entries()->size(), 8U);
  EXPECT_EQ(*store->open_entries(), 7U);
}

TEST_F(LedgerStoreTest, AFullDiskIsAnErrorThatLeavesNothingBehindAndPasses) {
  auto store = open(64 * 1024);
  ASSERT_TRUE(store) << store.error().message();
  std::uint64_t id = 1, kept = 0;
  core::Result<void> wrote{};
  while (wrote && id < 10'000) {
    Entries batch;
    for (int i = 0; i < 20; ++i) batch.push_back(closed(opened(id++)));
    wrote = store->write({}, batch);
    if (wrote) kept += batch.size();
  }
  ASSERT_FALSE(wrote);
  EXPECT_EQ(wrote.error().code, core::ErrorCode::kEnvironment);
  EXPECT_EQ(wrote.error().where, path());
  EXPECT_EQ(wrote.error().what, "database or disk is full");
  EXPECT_EQ(store->entries()->size(), kept);
  EXPECT_GT(kept, 0U);
  ASSERT_TRUE(store->remove_before(std::numeric_limits<std::int64_t>::max(), 1'000'000));
  EXPECT_TRUE(store->write({}, Entries{closed(opened(id))}));
  EXPECT_EQ(store->entries()->size(), 1U);
}

TEST_F(LedgerStoreTest, SeveralWritersHaveTheirOwnIdsAndOpenEntries) {
  auto first = open();
  ASSERT_TRUE(first) << first.error().message();
  ASSERT_TRUE(first->write(Entries{opened(first->first_id() + 1)}, {}));
  auto second = open();
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_GE(second->first_id(), first->first_id() + LedgerStore::kIdsPerWriter);
  ASSERT_TRUE(second->write(Entries{opened(second->first_id() + 1), opened(second->first_id() + 2)}, {}));
  EXPECT_EQ(second->lost(), 0U) << "the first writer lives";
  EXPECT_EQ(*first->open_entries(), 3U);
  // The second one ends between two that live.
  auto third = open();
  const std::uint64_t ended = second->first_id();
  second = core::environment_error({}, "ended");
  ASSERT_TRUE(first->write({}, Entries{closed(opened(first->first_id() + 1))}));
  ASSERT_TRUE(first->write(Entries{opened(first->first_id() + 2)}, {}));
  ASSERT_TRUE(third->settle_lost(kNowMs));
  EXPECT_EQ(third->lost(), 2U);
  const auto entries = third->entries();
  ASSERT_EQ(entries->size(), 4U);
  for (const Entry& entry : *entries) EXPECT_EQ(entry.outcome == Outcome::kLost, entry.id > ended) << entry.id;
  EXPECT_EQ(*third->open_entries(), 1U);
  ASSERT_TRUE(third->settle_lost(kNowMs));
  EXPECT_EQ(*third->open_entries(), 1U);
  first = core::environment_error({}, "ended");
  const auto fourth = open();
  EXPECT_EQ(fourth->lost(), 1U);
  EXPECT_GT(fourth->first_id(), third->first_id());
}

TEST_F(LedgerStoreTest, AClockThatWasSetBackGivesNoIdTwice) {
  {
    auto store = open();
    ASSERT_TRUE(store->write({}, Entries{closed(opened(store->first_id() + 5))}));
  }
  const auto later = LedgerStore::open(path(), {kNowMs - 3'600'000, 0, std::chrono::milliseconds{10}});
  ASSERT_TRUE(later) << later.error().message();
  EXPECT_GT(later->first_id(), std::uint64_t{kNowMs} * 1000 + 5);
}

TEST_F(LedgerStoreTest, AWriterOfAnEarlierVersionExcludesOthers) {
  const auto earlier = FileLock::take(path() + ".lock");
  const auto store = open();
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().what, "is written by a process of an earlier version");
}

TEST_F(LedgerStoreTest, FilesAreReadableByTheirOwnerOnly) {
  auto store = open();
  ASSERT_TRUE(store->write(Entries{opened(1)}, {}));
  for (const char* suffix : {"", "-wal", "-shm", ".lock"})
    EXPECT_EQ(fs::status(path() + suffix).permissions(), fs::perms::owner_read | fs::perms::owner_write) << suffix;
}

TEST_F(LedgerStoreTest, ALockedFileIsAnErrorThatPasses) {
  auto store = open();
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path().c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "begin immediate", nullptr, nullptr, nullptr), SQLITE_OK);
  const auto wrote = store->write(Entries{opened(1)}, {});
  ASSERT_FALSE(wrote);
  EXPECT_EQ(wrote.error().code, core::ErrorCode::kEnvironment);
  EXPECT_EQ(wrote.error().what, "is locked by another process");
  ASSERT_EQ(sqlite3_exec(other, "rollback", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_TRUE(store->write(Entries{opened(1)}, {}));
  sqlite3_close(other);
}

TEST_F(LedgerStoreTest, ReadersSeeWhatIsWrittenAndCannotWrite) {
  auto store = open();
  ASSERT_TRUE(store->write(Entries{opened(1)}, {}));
  auto reader = LedgerStore::open_read_only(path());
  ASSERT_TRUE(reader) << reader.error().message();
  EXPECT_EQ(*reader->open_entries(), 1U);
  ASSERT_TRUE(store->write(Entries{opened(2)}, {}));
  EXPECT_EQ(*reader->open_entries(), 2U);
  const auto wrote = reader->write(Entries{opened(3)}, {});
  ASSERT_FALSE(wrote);
  EXPECT_EQ(wrote.error().code, core::ErrorCode::kEnvironment);
}

TEST_F(LedgerStoreTest, OtherFilesAreRefusedByNameAndStayAsTheyAre) {
  const std::string text = "id,tenant\n" + std::string(8192, 'x');
  std::ofstream(path()) << text;
  const auto none = open();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, core::ErrorCode::kInvalidInput);
  EXPECT_EQ(none.error().where, path());
  EXPECT_EQ(none.error().what, "is no SQLite database");
  std::ifstream file(path(), std::ios::binary);
  EXPECT_EQ((std::string{std::istreambuf_iterator<char>(file), {}}), text);

  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path("other").c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "create table entries(a)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  for (const auto& refusal : {LedgerStore::open(path("other"), {}), LedgerStore::open_read_only(path("other"))}) {
    ASSERT_FALSE(refusal);
    EXPECT_EQ(refusal.error().what, "is an SQLite database, but not a ledger");
  }
  const auto folder = LedgerStore::open(path("absent/ledger.sqlite"), {});
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, core::ErrorCode::kEnvironment);
  EXPECT_FALSE(LedgerStore::open_read_only(path("absent")));
  EXPECT_FALSE(fs::exists(path("absent")));
}

TEST_F(LedgerStoreTest, ALedgerOfALaterVersionIsRefused) {
  static_cast<void>(open());
  sqlite3* later = nullptr;
  ASSERT_EQ(sqlite3_open(path().c_str(), &later), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(later, "pragma user_version = 2", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(later);
  const auto refused_store = open();
  ASSERT_FALSE(refused_store);
  EXPECT_EQ(refused_store.error().what, "has version 2 of the schema, this program knows version 1");
}

TEST_F(LedgerStoreTest, ADamagedFileIsAnErrorAndNoCrash) {
  {
    auto store = open();
    Entries entries;
    for (std::uint64_t id = 1; id <= 500; ++id) entries.push_back(closed(opened(id)));
    ASSERT_TRUE(store->write({}, entries));
  }
  std::ifstream file(path(), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  for (const std::size_t at : {std::size_t{30}, std::size_t{4100}, whole.size() / 2, whole.size() - 200}) {
    std::string damaged = whole;
    for (std::size_t i = at; i < std::min(at + 150, damaged.size()); ++i) damaged[i] = static_cast<char>(0xA5);
    std::ofstream(path("damaged"), std::ios::binary) << damaged;
    const auto store = LedgerStore::open(path("damaged"), {});
    if (!store) {
      EXPECT_EQ(store.error().where, path("damaged"));
      continue;
    }
    if (const auto read = store->entries(); !read) {
      EXPECT_EQ(read.error().where, path("damaged"));
    }
  }
}

// Writes batches until it is killed and reports, after each, the highest id whose entries are opened and closed.
[[noreturn]] void write_until_killed(const std::string& path, int report) {
  auto store = LedgerStore::open(path, {kNowMs, 0, std::chrono::seconds{5}});
  for (std::uint64_t first = 1; store; first += 10) {
    Entries open_ones, closed_ones;
    for (std::uint64_t id = first; id < first + 10; ++id) {
      open_ones.push_back(opened(id));
      if (id > 5)
        closed_ones.push_back(closed(opened(id - 5)));  // the last five of a batch stay open until the next one
    }
    if (!store->write(open_ones, closed_ones)) break;
    const std::uint64_t done = first + 9;
    if (::write(report, &done, sizeof done) != sizeof done) break;
  }
  ::_exit(1);
}

TEST_F(LedgerStoreTest, ALedgerWhoseWriterWasKilledBalancesWithAllThatItHadWritten) {
  for (int round = 0; round < 5; ++round) {
    const std::string file = path(("killed-" + std::to_string(round)).c_str());
    int ends[2] = {-1, -1};
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_until_killed(file, ends[1]);
    ::close(ends[1]);
    std::uint64_t reported = 0;
    for (int batches = 0; batches < 3 + 7 * round; ++batches)
      ASSERT_EQ(::read(ends[0], &reported, sizeof reported), ssize_t{8});
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    while (::read(ends[0], &reported, sizeof reported) == ssize_t{8}) {  // reports from before it was killed
    }
    ::close(ends[0]);

    auto store = LedgerStore::open(file, {kNowMs, 0, std::chrono::seconds{5}});
    ASSERT_TRUE(store) << store.error().message();
    const auto entries = store->entries();
    ASSERT_TRUE(entries) << entries.error().message();
    ASSERT_GE(entries->size(), reported);
    ASSERT_EQ(entries->size() % 10, 0U);  // whole batches only
    EXPECT_EQ(store->lost(), 5U);
    for (std::size_t i = 0; i < entries->size(); ++i) {
      EXPECT_EQ((*entries)[i].id, i + 1);
      EXPECT_EQ((*entries)[i].outcome, i + 5 < entries->size() ? Outcome::kCompleted : Outcome::kLost);
    }
    const ledger::Sums sums = store->sums()->at({"acme", "m"});
    EXPECT_EQ(ledger::imbalance(sums, *store->open_entries()), "");
    EXPECT_EQ(sums.opened, entries->size());
  }
}

TEST_F(LedgerStoreTest, SumsWhatEntriesTookFromBudgets) {
  auto store = open();
  ASSERT_TRUE(store);
  const std::int64_t begin = opened(0).opened_unix_ms;
  const auto at = [&](std::uint64_t id, std::int64_t ms, const char* tenant = "acme") {
    Entry entry = opened(id, tenant);
    entry.opened_unix_ms = begin + ms;
    return entry;
  };
  Entry lost = closed(at(4, 2'500), Outcome::kLost), late = closed(at(5, 2'600, "other"));
  late.traffic_class = "batch";
  ASSERT_TRUE(store->write(Entries{at(1, 2'100)}, Entries{closed(at(2, 2'200)), closed(at(3, 100)), lost, late}));
  const auto uses = store->uses_since(begin + 2'000, 1'000);
  ASSERT_TRUE(uses);
  ASSERT_EQ(uses->size(), 2U);
  EXPECT_EQ((*uses)[0].tenant, "acme");
  EXPECT_EQ((*uses)[0].traffic_class, "interactive");
  EXPECT_EQ((*uses)[0].at_unix_ms, begin + 3'000);
  EXPECT_EQ((*uses)[0].tokens, 1256U + 1210U + 1256U);
  EXPECT_EQ((*uses)[1].tenant, "other");
  EXPECT_EQ((*uses)[1].traffic_class, "batch");
  EXPECT_EQ((*uses)[1].tokens, 1210U);
}

}  // namespace
}  // namespace penstock::connect
