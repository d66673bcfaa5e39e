// The usage ledger as an SQLite database, for queries such as
//
//   select tenant, model, sum(output_tokens), sum(cost) from entries where outcome <> 'refused' group by tenant, model;
//
// The table `entries` has one row per request. closed_unix_ms and outcome are null while the request is open;
// ttft_ms and itl_ms are null if they were not measured. Days are UTC, and a request belongs to the day on which it
// arrived. The table `writers` has the processes that write.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "connect/file_lock.h"
#include "connect/sqlite/database.h"
#include "connect/sqlite/statement.h"
#include "core/result.h"
#include "core/time.h"
#include "ledger/balance.h"
#include "ledger/entry.h"

namespace penstock::connect {

// A clock that cannot be set. It begins with each boot of the machine.
struct BootTime {
  std::string boot;     // Differs between boots.
  std::int64_t ms = 0;  // Since the boot.
};

struct LedgerOptions {
  std::int64_t now_unix_ms = 0;                        // Closing time of entries that a former process left open.
  std::uint64_t bytes_max = 0;                         // Size limit of the database; 0 means no limit.
  core::Duration lock_wait = std::chrono::seconds{5};  // Maximum wait for a reader that holds the file.
  std::optional<BootTime> boot_time{};                 // At now_unix_ms; empty if it is unknown.
};

// Selects what to read; empty members select everything.
struct LedgerFilter {
  std::optional<std::string> tenant, model;
  std::optional<std::int64_t> from_unix_ms, to_unix_ms;  // Opening time; `to` is excluded.
};

struct LedgerDay {
  std::int64_t begin_unix_ms = 0;
  std::string tenant, model;
  ledger::Sums sums;
};

// What an open entry has grown to.
struct LedgerGrowth {
  std::uint64_t id = 0, prompt_tokens = 0, output_tokens = 0;
  double cost = 0.0;
};

// One connection, for one thread at a time; other connections may read while this one writes (WAL). What write() has
// returned from survives the end of the process, also by SIGKILL; only a power loss can lose the latest batches. Errors
// name the file; a file that is not a ledger is an input error, a disk or lock failure is an error of the environment.
// After an error the store can still be used: the failed write was rolled back and may be repeated.
class LedgerStore {
 public:
  static constexpr std::size_t kEntriesMax = 1'000'000;  // Maximum per read.

  // Opens a ledger for writing and creates it if it is missing. Several processes may write, such as a gateway that
  // drains and the next one. Each has a range of ids of its own, and a lock in `<path>.lock` tells that it lives.
  // Entries that a process left open when it ended are closed as lost, with the prompt and cost that they were opened
  // with.
  [[nodiscard]] static core::Result<LedgerStore> open(const std::string& path, const LedgerOptions& options);
  [[nodiscard]] static core::Result<LedgerStore> open_read_only(const std::string& path);

  [[nodiscard]] std::uint64_t lost() const { return lost_; }  // Entries closed as lost.
  // Ids of this process begin here, at the Unix time in microseconds or later. No other process uses the kIdsPerWriter
  // that follow.
  [[nodiscard]] std::uint64_t first_id() const { return first_id_; }
  static constexpr std::uint64_t kIdsPerWriter = std::uint64_t{1} << 40;

  // Closes entries of processes that have ended. open() does the same.
  [[nodiscard]] core::Result<void> settle_lost(std::int64_t now_unix_ms);

  // Writes one transaction: everything or, after an error, nothing. Opened entries are written first, closed and
  // refused ones last. An entry that exists is not opened again, a closed one neither grows nor is closed again, and
  // output tokens never become fewer, so that a batch can be repeated. An entry that was never opened does not grow and
  // is written when it closes.
  [[nodiscard]] core::Result<void> write(std::span<const ledger::Entry> opened, std::span<const ledger::Entry> closed,
                                         std::span<const LedgerGrowth> grown = {});

  // Flushes what was written to the disk. SQLite itself does so only when it moves its log into the database.
  [[nodiscard]] core::Result<void> flush_to_disk();

  using Sums = std::map<std::pair<std::string, std::string>, ledger::Sums>;
  [[nodiscard]] core::Result<Sums> sums(const LedgerFilter& filter = {}) const;  // By tenant and model, as in Balance.
  [[nodiscard]] core::Result<std::vector<LedgerDay>> days(
      const LedgerFilter& filter = {}) const;  // By day, tenant and model.
  [[nodiscard]] core::Result<std::uint64_t> open_entries(const LedgerFilter& filter = {}) const;
  // Returns entries in the order of their ids.
  [[nodiscard]] core::Result<std::vector<ledger::Entry>> entries(const LedgerFilter& filter = {}) const;

  // A statement for columns that the functions above do not return. It must not outlive the store.
  [[nodiscard]] Statement query(const std::string& sql) const { return {database_.handle(), database_.name(), sql}; }

  // Returns what the entries that were opened since then took from budgets, by tenant and class, summed over slices of
  // time: each slice counts with its end. Times of entries that were written since the boot are corrected by what the
  // wall clock was set in between.
  [[nodiscard]] core::Result<std::vector<ledger::PastUse>> uses_since(std::int64_t unix_ms,
                                                                      std::int64_t slice_ms) const;

  // Removes closed entries that were opened before that time, oldest first, at most `most`. Returns the number removed.
  [[nodiscard]] core::Result<std::uint64_t> remove_before(std::int64_t unix_ms, std::uint64_t entries_max);

 private:
  explicit LedgerStore(Database database) : database_(std::move(database)) {}
  [[nodiscard]] Statement& prepared(std::string_view sql);
  [[nodiscard]] core::Result<void> put_all(std::span<const ledger::Entry> entries, bool closed);
  [[nodiscard]] core::Result<void> grow_all(std::span<const LedgerGrowth> grown);
  [[nodiscard]] static core::Result<SharedFileLock> lock(const std::string& path);
  [[nodiscard]] core::Result<void> prepare(const LedgerOptions& options);
  [[nodiscard]] core::Result<std::vector<std::uint64_t>> writers() const;  // Their first ids, ascending.
  [[nodiscard]] core::Result<void> join(const LedgerOptions& options);
  [[nodiscard]] core::Result<void> note_clock(const LedgerOptions& options);
  [[nodiscard]] core::Result<void> close_lost(std::int64_t now_unix_ms);

  std::optional<SharedFileLock> lock_;  // Held while the process writes.
  Database database_;                   // Closed before the lock is released.
  // Of write(), by their SQL; prepared once, because small batches would cost little else. Finalized before the
  // database is closed.
  std::map<std::string, Statement, std::less<>> prepared_;
  std::uint64_t lost_ = 0, first_id_ = 0;
};

}  // namespace penstock::connect
