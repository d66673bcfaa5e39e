#include "connect/sqlite/decision_store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

namespace penstock::connect {
namespace {

namespace fs = std::filesystem;
using signals::DecisionEntry;

class DecisionStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("penstock-store-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

DecisionEntry entry(int second, const char* policy, const char* pool) {
  DecisionEntry made;
  made.policy = policy;
  made.note = {core::kStart + std::chrono::seconds{second}, pool, 2, 4, "slo_at_risk", "", "growth_rate"};
  made.note.evidence = {{"request_rate", 12.4, "1/s"}, {"kv_usage", std::numeric_limits<double>::quiet_NaN(), "share"}};
  made.note.candidates = {{{1, 3}, 0.8, 0.85, 0.9, false}, {{1, 4}, 0.99, 1.0, 0.995, true}};
  made.pools = {"prefill", "decode"};
  made.would_change = "grows further";
  return made;
}

void expect_same(const DecisionEntry& a, const DecisionEntry& b) {
  EXPECT_EQ(a.policy, b.policy);
  EXPECT_EQ(a.note.at, b.note.at);
  EXPECT_EQ(a.note.pool, b.note.pool);
  EXPECT_EQ(a.note.current, b.note.current);
  EXPECT_EQ(a.note.target, b.note.target);
  EXPECT_EQ(a.note.reason, b.note.reason);
  EXPECT_EQ(a.note.limited_by, b.note.limited_by);
  EXPECT_EQ(a.would_change, b.would_change);
  EXPECT_EQ(a.note.cause, b.note.cause);
  EXPECT_EQ(a.note.diagnosis, b.note.diagnosis);
  EXPECT_EQ(a.note.phase, b.note.phase);
  EXPECT_EQ(a.note.next_phase_target, b.note.next_phase_target);
  ASSERT_EQ(a.note.outlook.has_value(), b.note.outlook.has_value());
  if (a.note.outlook) {
    EXPECT_EQ(a.note.outlook->requests_per_s, b.note.outlook->requests_per_s);
    EXPECT_EQ(a.note.outlook->input_tokens, b.note.outlook->input_tokens);
    EXPECT_EQ(a.note.outlook->output_tokens, b.note.outlook->output_tokens);
    EXPECT_EQ(a.note.outlook->error, b.note.outlook->error);
    EXPECT_EQ(a.note.outlook->naive_error, b.note.outlook->naive_error);
  }
  EXPECT_EQ(a.pools, b.pools);
  ASSERT_EQ(a.note.evidence.size(), b.note.evidence.size());
  for (std::size_t i = 0; i < a.note.evidence.size(); ++i) {
    EXPECT_EQ(a.note.evidence[i].name, b.note.evidence[i].name);
    EXPECT_EQ(a.note.evidence[i].unit, b.note.evidence[i].unit);
    const double first = a.note.evidence[i].value, second = b.note.evidence[i].value;
    EXPECT_TRUE(first == second || (std::isnan(first) && std::isnan(second)));
  }
  ASSERT_EQ(a.note.candidates.size(), b.note.candidates.size());
  for (std::size_t i = 0; i < a.note.candidates.size(); ++i) {
    EXPECT_EQ(a.note.candidates[i].replicas, b.note.candidates[i].replicas);
    EXPECT_EQ(a.note.candidates[i].slo_attainment, b.note.candidates[i].slo_attainment);
    EXPECT_EQ(a.note.candidates[i].ttft_attainment, b.note.candidates[i].ttft_attainment);
    EXPECT_EQ(a.note.candidates[i].itl_attainment, b.note.candidates[i].itl_attainment);
    EXPECT_EQ(a.note.candidates[i].chosen, b.note.candidates[i].chosen);
  }
}

TEST_F(DecisionStoreTest, WhatIsAppendedReadsBackTheSame) {
  DecisionEntry plain = entry(7, "static", "it's \"quoted\"; drop table decisions");
  plain.note.evidence.clear();
  plain.note.candidates.clear();
  plain.pools.clear();
  DecisionEntry diagnosed = entry(8, "penstock", "decode");
  diagnosed.note.cause = "queue";
  diagnosed.note.diagnosis = "ttft is bad; \"all\" wait";
  diagnosed.note.phase = "guardrails";
  diagnosed.note.next_phase_target = 0;
  diagnosed.note.outlook = signals::OutlookNote{12.5, {}, 250.0, 0.75, {}};
  const std::vector<DecisionEntry> entries = {entry(5, "penstock", "prefill"), entry(5, "penstock", "decode"), plain,
                                              diagnosed};
  {
    auto store = DecisionStore::open(path("log.sqlite"));
    ASSERT_TRUE(store) << store.error().message();
    ASSERT_TRUE(store->append(entries));
  }
  const auto store = DecisionStore::open_read_only(path("log.sqlite"));
  ASSERT_TRUE(store) << store.error().message();
  const auto read = store->read();
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->size(), entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) expect_same((*read)[i], entries[i]);
}

TEST_F(DecisionStoreTest, FilterKeepsPolicyPoolAndTime) {
  auto store = DecisionStore::in_memory();
  ASSERT_TRUE(store);
  ASSERT_TRUE(
      store->append(std::vector{entry(1, "a", "x"), entry(2, "a", "y"), entry(3, "b", "x"), entry(4, "a", "x")}));
  DecisionFilter filter;
  filter.policy = "a";
  filter.pool = "x";
  EXPECT_EQ(store->read(filter)->size(), 2U);
  filter.from = core::kStart + std::chrono::seconds{2};
  ASSERT_EQ(store->read(filter)->size(), 1U);
  EXPECT_EQ(store->read(filter)->front().note.at, core::kStart + std::chrono::seconds{4});
  filter.to = core::kStart + std::chrono::seconds{3};
  EXPECT_TRUE(store->read(filter)->empty());
}

TEST_F(DecisionStoreTest, ASecondOpeningAppendsToTheFirst) {
  for (const int second : {1, 2}) {
    auto store = DecisionStore::open(path("log.sqlite"));
    ASSERT_TRUE(store) << store.error().message();
    ASSERT_TRUE(store->append(std::vector{entry(second, "a", "x")}));
  }
  EXPECT_EQ(DecisionStore::open_read_only(path("log.sqlite"))->read()->size(), 2U);
}

// What the program wrote before decisions had a diagnosis.
constexpr const char* kFirstVersion = R"(
create table decisions(
  id integer primary key, at_ns integer not null, policy text not null, pool text not null,
  current_replicas integer not null, target_replicas integer not null, reason text not null, limited_by text not null,
  would_change text not null) strict;
create index decisions_by_time on decisions(policy, pool, at_ns);
create table evidence(
  decision integer not null references decisions, position integer not null,
  name text not null, value real, unit text not null,
  primary key(decision, position)) strict, without rowid;
create table candidates(
  decision integer not null references decisions, position integer not null,
  slo_attainment real, ttft_attainment real, itl_attainment real, chosen integer not null,
  primary key(decision, position)) strict, without rowid;
create table candidate_replicas(
  decision integer not null references decisions, candidate integer not null, position integer not null,
  pool text not null, replicas integer not null,
  primary key(decision, candidate, position)) strict, without rowid;
pragma application_id = 1347310420;
pragma user_version = 1;
insert into decisions values(null, 5000000000, 'penstock', 'default', 2, 4, 'slo_at_risk', '', 'more load');
insert into evidence values(1, 0, 'request_rate', 12.4, '1/s');
)";

void run_sql(const std::string& file, const std::string& sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &database), SQLITE_OK);
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
  sqlite3_free(error);
  sqlite3_close(database);
}

TEST_F(DecisionStoreTest, ALogOfTheFirstVersionIsReadAsItIsAndAppendedTo) {
  run_sql(path("old.sqlite"), kFirstVersion);
  const auto bytes_of = [&] {
    std::ifstream file(path("old.sqlite"), std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const std::string before = bytes_of();
  {
    const auto store = DecisionStore::open_read_only(path("old.sqlite"));
    ASSERT_TRUE(store) << store.error().message();
    const auto read = store->read();
    ASSERT_TRUE(read) << read.error().message();
    ASSERT_EQ(read->size(), 1U);
    EXPECT_EQ(read->front().note.target, 4U);
    EXPECT_TRUE(read->front().note.cause.empty());
    EXPECT_FALSE(read->front().note.next_phase_target);
    EXPECT_FALSE(read->front().note.outlook);
  }
  EXPECT_EQ(bytes_of(), before);
  DecisionEntry later = entry(9, "penstock", "default");
  later.note.cause = "queue";
  {
    auto store = DecisionStore::open(path("old.sqlite"));
    ASSERT_TRUE(store) << store.error().message();
    ASSERT_TRUE(store->append(std::vector{later}));
    EXPECT_EQ(store->read()->size(), 2U);
  }
  const auto read = DecisionStore::open_read_only(path("old.sqlite"))->read();
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ((*read)[0].note.evidence.size(), 1U);
  expect_same((*read)[1], later);
}

TEST_F(DecisionStoreTest, ALogOfALaterVersionIsRefused) {
  run_sql(path("later.sqlite"), std::string{kFirstVersion} + "pragma user_version = 3;");
  const auto store = DecisionStore::open_read_only(path("later.sqlite"));
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().what, "has version 3 of the schema, this program knows 1 to 2");
  EXPECT_FALSE(DecisionStore::open(path("later.sqlite")));
}

TEST_F(DecisionStoreTest, AnAppendThatFailsLeavesNothingBehind) {
  auto store = DecisionStore::in_memory();
  DecisionEntry wrong = entry(2, "a", "x");
  wrong.note.candidates[1].replicas = {1};
  const auto appended = store->append(std::vector{entry(1, "a", "x"), wrong});
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().what, "candidate 1 has 1 pools, its entry names 2");
  EXPECT_TRUE(store->read()->empty());
}

TEST_F(DecisionStoreTest, EqualEntriesGiveEqualBytes) {
  std::string first;
  for (int i = 0; i < 2; ++i) {
    auto store = DecisionStore::in_memory();
    ASSERT_TRUE(store->append(std::vector{entry(1, "a", "x"), entry(2, "b", "y")}));
    const auto bytes = store->bytes();
    ASSERT_TRUE(bytes);
    EXPECT_TRUE(is_sqlite(*bytes));
    if (i == 0) first = *bytes;
    EXPECT_EQ(*bytes, first);
  }
  std::ofstream(path("copy.sqlite"), std::ios::binary) << first;
  EXPECT_EQ(DecisionStore::open_read_only(path("copy.sqlite"))->read()->size(), 2U);
}

TEST_F(DecisionStoreTest, OtherFilesAreRefusedByName) {
  std::ofstream(path("text")) << "at_s,policy\n" << std::string(4096, 'x');
  const auto text = DecisionStore::open_read_only(path("text"));
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, core::ErrorCode::kInvalidInput);
  EXPECT_EQ(text.error().where, path("text"));
  EXPECT_EQ(text.error().what, "is no SQLite database");
  EXPECT_FALSE(DecisionStore::open(path("text")));

  std::ofstream(path("empty"));
  EXPECT_FALSE(DecisionStore::open_read_only(path("empty")));
  const auto absent = DecisionStore::open_read_only(path("absent"));
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, core::ErrorCode::kEnvironment);
  EXPECT_FALSE(fs::exists(path("absent")));
}

TEST_F(DecisionStoreTest, ADamagedFileIsAnErrorAndNoCrash) {
  auto store = DecisionStore::in_memory();
  ASSERT_TRUE(store->append(std::vector(200, entry(1, "a", "x"))));
  const std::string whole = *store->bytes();
  for (const std::size_t at : {std::size_t{30}, std::size_t{1100}, whole.size() / 2, whole.size() - 200}) {
    std::string damaged = whole;
    for (std::size_t i = at; i < std::min(at + 150, damaged.size()); ++i) damaged[i] = static_cast<char>(0xA5);
    std::ofstream(path("damaged"), std::ios::binary) << damaged;
    const auto opened = DecisionStore::open_read_only(path("damaged"));
    if (!opened) {
      EXPECT_EQ(opened.error().where, path("damaged"));
      continue;
    }
    if (const auto read = opened->read(); !read) {
      EXPECT_EQ(read.error().where, path("damaged"));
    }
  }
}

}  // namespace
}  // namespace penstock::connect
