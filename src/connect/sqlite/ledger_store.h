// The usage ledger as an SQLite database, for those who want to query it:
//
//   select tenant, model, sum(output_tokens), sum(cost) from entries where outcome <> 'refused' group by tenant, model;
//
// One table, entries: one row a request, closed_unix_ms and outcome null while it is open; ttft_ms and itl_ms null where there
// is none. Days are UTC, and a request belongs to the day on which it came.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "connect/file_lock.h"
#include "connect/sqlite/database.h"
#include "core/result.h"
#include "core/time.h"
#include "ledger/balance.h"
#include "ledger/entry.h"

namespace penstock::connect {

struct LedgerOptions {
  std::int64_t now_unix_ms = 0;                        // when what a former process left open is closed
  std::uint64_t bytes_max = 0;                         // of the database; 0: what the disk holds
  core::Duration lock_wait = std::chrono::seconds{5};  // for a reader that holds the file
};

// What to read; empty is everything.
struct LedgerFilter {
  std::optional<std::string> tenant, model;
  std::optional<std::int64_t> from_unix_ms, to_unix_ms;  // of opening; `to` is excluded
};

struct LedgerDay {
  std::int64_t begin_unix_ms = 0;
  std::string tenant, model;
  ledger::Sums sums;
};

// One connection, for one thread at a time; other connections may read while this one writes (WAL). What write() returned
// from survives the end of the process at any point, also by SIGKILL; only a loss of power can take the latest batches.
// Errors name the file: of the input where it is no ledger, of the environment where the disk or a lock is at fault. After an
// error the store can be used further: what failed left nothing behind, and may be tried again.
class LedgerStore {
 public:
  static constexpr std::size_t kEntriesMax = 1'000'000;  // read at once

  // Opens a ledger for writing, and makes it if it is not there. One process at a time writes to a ledger (`<path>.lock` is
  // locked while it does), so that what is still open in it was left by a process that ended: those entries are closed as
  // lost, with the prompt and the cost that they were opened with.
  [[nodiscard]] static core::Result<LedgerStore> open(const std::string& path, const LedgerOptions& options);
  [[nodiscard]] static core::Result<LedgerStore> open_read_only(const std::string& path);

  [[nodiscard]] std::uint64_t lost() const { return lost_; }        // closed as lost when it was opened
  [[nodiscard]] std::uint64_t next_id() const { return next_id_; }  // the least that no entry in it had

  // One transaction: all of it or, after an error, nothing. First what was opened, then what was closed or refused. An entry
  // that is there already is not opened again, and one that is closed not closed again, so that a batch can be repeated.
  // What closes without having been opened is written as it is.
  [[nodiscard]] core::Result<void> write(std::span<const ledger::Entry> opened, std::span<const ledger::Entry> closed);

  using Sums = std::map<std::pair<std::string, std::string>, ledger::Sums>;
  [[nodiscard]] core::Result<Sums> sums(
      const LedgerFilter& filter = {}) const;  // by (tenant, model), as Balance has them
  [[nodiscard]] core::Result<std::vector<LedgerDay>> days(
      const LedgerFilter& filter = {}) const;  // by day, tenant, model
  [[nodiscard]] core::Result<std::uint64_t> open_entries(const LedgerFilter& filter = {}) const;
  // In the order of their ids.
  [[nodiscard]] core::Result<std::vector<ledger::Entry>> entries(const LedgerFilter& filter = {}) const;

  // Removes closed entries that were opened before that moment, the oldest first, at most so many; returns how many.
  [[nodiscard]] core::Result<std::uint64_t> remove_before(std::int64_t unix_ms, std::uint64_t entries_max);

 private:
  explicit LedgerStore(Database database) : database_(std::move(database)) {}
  [[nodiscard]] static core::Result<FileLock> lock(const std::string& path);
  [[nodiscard]] core::Result<void> prepare(const LedgerOptions& options);
  [[nodiscard]] core::Result<void> settle_former(std::int64_t now_unix_ms);

  std::optional<FileLock> lock_;  // of the one process that writes
  Database database_;             // closed before the lock is released
  std::uint64_t lost_ = 0, next_id_ = 1;
};

}  // namespace penstock::connect
