// Times of entries when the wall clock is set.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "connect/sqlite/ledger_store.h"
#include "ledger/ledger_testing.h"

namespace penstock::connect {
namespace {

namespace fs = std::filesystem;
using ledger::Entry;
using ledger::testing::opened;
using Entries = std::vector<Entry>;

// Budgets refill by the time that passed, whatever the wall clock was set to between two processes.
TEST(LedgerClock, UsesHaveTheTimeThatPassedSinceIfTheWallClockIsSet) {
  constexpr std::int64_t kHour = 3'600'000;
  for (const std::int64_t jump : {5 * kHour, -5 * kHour}) {
    const fs::path folder = fs::path(::testing::TempDir()) / "penstock-ledger-clock";
    fs::remove_all(folder);
    fs::create_directories(folder);
    std::int64_t wall = 1'790'000'100'000, boot = 100 * kHour;
    const auto open_in = [&](const char* boot_id) {
      LedgerOptions options;
      options.now_unix_ms = wall;
      options.boot_time = BootTime{boot_id, boot};
      return LedgerStore::open((folder / "ledger.sqlite").string(), options);
    };
    const auto pass_a_minute = [&] {
      wall += 60'000;
      boot += 60'000;
    };
    const auto ages = [&](const core::Result<LedgerStore>& store) {
      std::vector<std::int64_t> found;
      EXPECT_TRUE(store);
      const auto uses = store->uses_since(wall - 2 * kHour, 100);
      EXPECT_TRUE(uses);
      for (const ledger::PastUse& use : *uses) found.push_back((wall - use.at_unix_ms + 100) / 1000);
      return found;
    };
    const auto write = [&](core::Result<LedgerStore> store) {
      ASSERT_TRUE(store);
      Entry entry = opened(store->first_id());
      entry.opened_unix_ms = wall;
      ASSERT_TRUE(store->write(Entries{entry}, {}));
    };
    write(open_in("first"));
    pass_a_minute();
    wall += jump;
    EXPECT_EQ(ages(open_in("first")), std::vector<std::int64_t>{60});
    write(open_in("first"));
    pass_a_minute();
    EXPECT_EQ(ages(open_in("first")), (std::vector<std::int64_t>{120, 60}));
    wall -= jump;
    EXPECT_EQ(ages(open_in("first")), (std::vector<std::int64_t>{120, 60}));
    boot = 1'000;
    EXPECT_EQ(ages(open_in("second")).size(), jump > 0 ? 2U : 1U) << "only the wall clock is known";
  }
}

}  // namespace
}  // namespace penstock::connect
