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
using decision::DecisionRecord;

class DecisionStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ("penstock-store-" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

DecisionRecord entry(int second, const char* policy, const char* pool) {
  DecisionRecord made;
  made.policy = policy;
  made.at = core::kStart + std::chrono::seconds{second};
  made.pool = pool;
  made.current = 2;
  made.target = 4;
  made.reason = decision::Reason::kSloAtRisk;
  made.limited_by = decision::Limit::kGrowthRate;
  made.evidence = {{"request_rate", 12.4, "1/s"}, {"kv_usage", std::numeric_limits<double>::quiet_NaN(), "share"}};
  made.candidates = {{{1, 3}, 0.8, 0.85, 0.9, false}, {{1, 4}, 0.99, 1.0, 0.995, true}};
  made.pools = {"prefill", "decode"};
  return made;
}

void expect_same(const DecisionRecord& a, const DecisionRecord& b) {
  EXPECT_EQ(a.policy, b.policy);
  EXPECT_EQ(a.at, b.at);
  EXPECT_EQ(a.pool, b.pool);
  EXPECT_EQ(a.current, b.current);
  EXPECT_EQ(a.target, b.target);
  EXPECT_EQ(a.reason, b.reason);
  EXPECT_EQ(a.limited_by, b.limited_by);
  EXPECT_EQ(a.cause, b.cause);
  EXPECT_EQ(a.diagnosis, b.diagnosis);
  EXPECT_EQ(a.phase, b.phase);
  EXPECT_EQ(a.next_phase_target, b.next_phase_target);
  ASSERT_EQ(a.forecast.has_value(), b.forecast.has_value());
  if (a.forecast) {
    EXPECT_EQ(a.forecast->requests_per_s, b.forecast->requests_per_s);
    EXPECT_EQ(a.forecast->input_tokens, b.forecast->input_tokens);
    EXPECT_EQ(a.forecast->output_tokens, b.forecast->output_tokens);
    EXPECT_EQ(a.forecast->error, b.forecast->error);
    EXPECT_EQ(a.forecast->naive_error, b.forecast->naive_error);
  }
  EXPECT_EQ(a.pools, b.pools);
  EXPECT_EQ(a.started, b.started);
  ASSERT_EQ(a.evidence.size(), b.evidence.size());
  for (std::size_t i = 0; i < a.evidence.size(); ++i) {
    EXPECT_EQ(a.evidence[i].name, b.evidence[i].name);
    EXPECT_EQ(a.evidence[i].unit, b.evidence[i].unit);
    const double first = a.evidence[i].value, second = b.evidence[i].value;
    EXPECT_TRUE(first == second || (std::isnan(first) && std::isnan(second)));
  }
  ASSERT_EQ(a.candidates.size(), b.candidates.size());
  for (std::size_t i = 0; i < a.candidates.size(); ++i) {
    EXPECT_EQ(a.candidates[i].replicas, b.candidates[i].replicas);
    EXPECT_EQ(a.candidates[i].slo_attainment, b.candidates[i].slo_attainment);
    EXPECT_EQ(a.candidates[i].ttft_attainment, b.candidates[i].ttft_attainment);
    EXPECT_EQ(a.candidates[i].itl_attainment, b.candidates[i].itl_attainment);
    EXPECT_EQ(a.candidates[i].chosen, b.candidates[i].chosen);
  }
}

TEST_F(DecisionStoreTest, WhatIsAppendedReadsBackTheSame) {
  DecisionRecord plain = entry(7, "static", "it's \"quoted\"; drop table decisions");
  plain.evidence.clear();
  plain.candidates.clear();
  plain.pools.clear();
  DecisionRecord diagnosed = entry(8, "penstock", "decode");
  diagnosed.cause = decision::Cause::kQueue;
  diagnosed.diagnosis = "ttft is bad; \"all\" wait";
  diagnosed.phase = decision::RolloutPhase::kGuardrails;
  diagnosed.next_phase_target = 0;
  diagnosed.forecast = decision::Forecast{12.5, {}, 250.0, 0.75, {}};
  const std::vector<DecisionRecord> entries = {entry(5, "penstock", "prefill"), entry(5, "penstock", "decode"), plain,
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

TEST_F(DecisionStoreTest, ALogOfAnEarlierVersionIsReadAndContinued) {
  {
    auto store = DecisionStore::open(path("log.sqlite"));
    ASSERT_TRUE(store) << store.error().message();
    ASSERT_TRUE(store->append(std::vector{entry(5, "penstock", "decode")}));
  }
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path("log.sqlite").c_str(), &database), SQLITE_OK);
  for (const char* column : {"started", "asleep"})
    ASSERT_EQ(sqlite3_exec(database, (std::string{"alter table decisions drop column "} + column).c_str(), nullptr,
                           nullptr, nullptr),
              SQLITE_OK);
  sqlite3_close(database);
  {
    const auto store = DecisionStore::open_read_only(path("log.sqlite"));
    ASSERT_TRUE(store) << store.error().message();
    const auto read = store->read();
    ASSERT_TRUE(read) << read.error().message();
    ASSERT_EQ(read->size(), 1U);
    expect_same(read->front(), entry(5, "penstock", "decode"));
  }
  auto store = DecisionStore::open(path("log.sqlite"));
  ASSERT_TRUE(store) << store.error().message();
  DecisionRecord later = entry(1, "penstock", "decode");
  later.started = "2026-11-29T03:42:09Z";
  later.asleep = 1;
  ASSERT_TRUE(store->append(std::vector{later}));
  const auto read = store->read();
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ(read->front().started, "");
  EXPECT_EQ(read->back().started, "2026-11-29T03:42:09Z");
  EXPECT_EQ(read->back().asleep, 1U);
}

TEST_F(DecisionStoreTest, AStoreInMemoryMakesNoFile) {
  std::filesystem::remove(":memory:");
  ASSERT_TRUE(DecisionStore::in_memory());
  EXPECT_FALSE(std::filesystem::exists(":memory:"));
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
  EXPECT_EQ(store->read(filter)->front().at, core::kStart + std::chrono::seconds{4});
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

void run_sql(const std::string& file, const std::string& sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &database), SQLITE_OK);
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
  sqlite3_free(error);
  sqlite3_close(database);
}

TEST_F(DecisionStoreTest, AnotherVersionOfTheSchemaIsRefused) {
  ASSERT_TRUE(DecisionStore::open(path("later.sqlite")));
  run_sql(path("later.sqlite"), "pragma user_version = 3;");
  const auto store = DecisionStore::open_read_only(path("later.sqlite"));
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().what, "has version 3 of the schema, this program knows version 1");
  EXPECT_FALSE(DecisionStore::open(path("later.sqlite")));
}

TEST_F(DecisionStoreTest, AFieldWithAnotherValueThanTheProgramWritesIsRefused) {
  for (const char* change : {"reason = 'later'", "target = -1", "at_ns = -5", "next_phase_target = 5000000000"}) {
    fs::remove(path("odd.sqlite"));
    ASSERT_TRUE(DecisionStore::open(path("odd.sqlite"))->append(std::vector{entry(1, "a", "x")}));
    run_sql(path("odd.sqlite"), std::string{"update decisions set "} + change);
    const auto read = DecisionStore::open_read_only(path("odd.sqlite"))->read();
    ASSERT_FALSE(read) << change;
    EXPECT_TRUE(read.error().what.starts_with("is not a decision log: ")) << read.error().what;
  }
}

TEST_F(DecisionStoreTest, AnAppendThatFailsLeavesNothingBehind) {
  auto store = DecisionStore::in_memory();
  DecisionRecord wrong = entry(2, "a", "x");
  wrong.candidates[1].replicas = {1};
  const auto appended = store->append(std::vector{entry(1, "a", "x"), wrong});
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().what, "candidate 1 has 1 pools, its record names 2");
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
