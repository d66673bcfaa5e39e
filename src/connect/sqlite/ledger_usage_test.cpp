#include "connect/sqlite/ledger_usage.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "connect/sqlite/ledger_store.h"
#include "ledger/entry.h"

namespace penstock::connect {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kHourMs = 3'600'000;
constexpr std::int64_t kDecemberMs = 1'796'083'200'000;  // 2026-12-01T00:00:00Z.

class LedgerUsageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::path{::testing::TempDir()} / "penstock-usage-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }

  static ledger::Entry entry(std::uint64_t id, std::int64_t opened_unix_ms, const char* tenant, double cost) {
    ledger::Entry made;
    made.id = id;
    made.request_id = "req-" + std::to_string(id);
    made.tenant = tenant;
    made.key_name = "keys[0]";
    made.model = "m";
    made.traffic_class = "interactive";
    made.opened_unix_ms = opened_unix_ms;
    made.closed_unix_ms = opened_unix_ms + 1000;
    made.prompt_tokens = 100;
    made.cached_tokens = 40;
    made.output_tokens = 10;
    made.cost = cost;
    return made;
  }
  // One request of "a" an hour before December, one of "a" and two of "b" after, one that is open and one refused.
  std::string ledger(const char* name) {
    auto store = LedgerStore::open(path(name), {.now_unix_ms = kDecemberMs}).value();
    std::vector<ledger::Entry> closed = {entry(1, kDecemberMs - kHourMs, "a", 1.0), entry(2, kDecemberMs, "a", 2.0),
                                         entry(3, kDecemberMs + kHourMs, "b", 4.0),
                                         entry(4, kDecemberMs + 2 * kHourMs, "b", 8.0)};
    closed[3].outcome = ledger::Outcome::kFailed;
    ledger::Entry open = entry(5, kDecemberMs + 3 * kHourMs, "b", 16.0), refused = entry(6, kDecemberMs, "b", 0.0);
    open.closed_unix_ms = 0;
    refused.outcome = ledger::Outcome::kRefused;
    refused.prompt_tokens = refused.cached_tokens = refused.output_tokens = 0;
    closed.push_back(refused);
    EXPECT_TRUE(store.write(std::vector{open}, closed));
    return path(name);
  }

  fs::path folder_;
};

TEST_F(LedgerUsageTest, SumsRequestsWhoseEndIsKnownByGroup) {
  const auto usage = read_usage(ledger("usage.sqlite"), {{UsageGroup::kTenant, UsageGroup::kModel}, {}, {}, {}, 0});
  ASSERT_TRUE(usage.has_value());
  ASSERT_EQ(usage->groups.size(), 2U);
  const UsageSums& b = usage->groups.at({"b", "m"});
  EXPECT_EQ(b.requests, 2U);
  EXPECT_EQ(b.prompt_tokens, 200U);
  EXPECT_EQ(b.cached_tokens, 80U);
  EXPECT_EQ(b.output_tokens, 20U);
  EXPECT_EQ(b.cost, 12.0);
  EXPECT_EQ(usage->open, 1U);
  EXPECT_EQ(usage->all().cost, 15.0);
}

TEST_F(LedgerUsageTest, MonthsAndDaysAreThoseOfTheOffset) {
  const std::string path = ledger("usage.sqlite");
  const auto months = [&](std::int32_t utc_offset_s, UsageGroup group) {
    std::vector<std::pair<std::string, double>> made;
    const auto usage = read_usage(path, {{group}, {}, {}, {}, utc_offset_s});
    for (const auto& [key, sums] : usage.value().groups) made.emplace_back(key.front(), sums.cost);
    return made;
  };
  using Costs = std::vector<std::pair<std::string, double>>;
  EXPECT_EQ(months(0, UsageGroup::kMonth), (Costs{{"2026-11", 1.0}, {"2026-12", 14.0}}));
  EXPECT_EQ(months(3600, UsageGroup::kMonth), (Costs{{"2026-12", 15.0}}));
  EXPECT_EQ(months(-3600, UsageGroup::kDay), (Costs{{"2026-11-30", 3.0}, {"2026-12-01", 12.0}}));
}

TEST_F(LedgerUsageTest, ATimeAndATenantLimitTheRequests) {
  const std::string path = ledger("usage.sqlite");
  EXPECT_EQ(read_usage(path, {{}, kDecemberMs, kDecemberMs + kHourMs, {}, 0}).value().all().cost, 2.0);
  const auto of_b = read_usage(path, {{UsageGroup::kKey, UsageGroup::kClass}, kDecemberMs, {}, "b", 0}).value();
  EXPECT_EQ(of_b.groups.at({"keys[0]", "interactive"}).cost, 12.0);
  EXPECT_EQ(of_b.open, 1U);
  const auto none = read_usage(path, {{}, {}, {}, "x' or 1 = 1 --", 0}).value();
  EXPECT_TRUE(none.groups.empty());
  EXPECT_EQ(none.open, 0U);
}

TEST_F(LedgerUsageTest, LedgersAreAddedAndCopiesAreFound) {
  const std::string first = ledger("first.sqlite");
  auto store = LedgerStore::open(path("second.sqlite"), {.now_unix_ms = kDecemberMs}).value();
  ledger::Entry same_id = entry(1, kDecemberMs, "a", 32.0);
  same_id.request_id = "another";
  ASSERT_TRUE(store.write({}, std::vector{same_id}));
  auto sum = read_usage(first, {{UsageGroup::kTenant}, {}, {}, {}, 0}).value();
  sum += read_usage(path("second.sqlite"), {{UsageGroup::kTenant}, {}, {}, {}, 0}).value();
  EXPECT_EQ(sum.groups.at({"a"}).cost, 35.0);
  EXPECT_EQ(sum.groups.at({"a"}).requests, 3U);

  EXPECT_FALSE(are_copies(first, path("second.sqlite")).value());
  fs::copy_file(first, path("copy.sqlite"));
  EXPECT_TRUE(are_copies(first, path("copy.sqlite")).value());
  // The copy is older: the first one has a later request since, and has removed its oldest one.
  auto later = LedgerStore::open(first, {.now_unix_ms = kDecemberMs}).value();
  ASSERT_TRUE(later.write({}, std::vector{entry(7, kDecemberMs + 5 * kHourMs, "a", 1.0)}));
  EXPECT_TRUE(are_copies(path("copy.sqlite"), first).value());
}

TEST_F(LedgerUsageTest, AnotherFileIsAnError) {
  EXPECT_FALSE(read_usage(path("absent.sqlite"), {}));
  EXPECT_FALSE(are_copies(ledger("usage.sqlite"), path("absent.sqlite")));
}

}  // namespace
}  // namespace penstock::connect
