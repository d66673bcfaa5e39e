// The decision log as an SQLite database, for queries such as
//
//   select pool, reason, count(*) from decisions where policy = 'penstock' group by pool, reason;
//
// Tables: decisions (one row a record; its columns are the fields of decision/fields.h, with at_ns for the time since
// the start), evidence, candidates, candidate_replicas; the latter three refer to decisions.id and keep the order of
// the record. A field that the decision does not have is an empty text or null.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "connect/sqlite/database.h"
#include "core/result.h"
#include "core/time.h"
#include "decision/decision.h"

namespace penstock::connect {

// Selects what to read; empty members select everything.
struct DecisionFilter {
  std::optional<std::string> policy, pool;
  std::optional<core::Instant> from, to;  // Both ends are included.
};

// One connection, for one thread at a time. Other processes may read while this one writes. Errors name the file; a
// file that is not a decision log is an input error, a disk or lock failure is an error of the environment.
class DecisionStore {
 public:
  static constexpr core::Duration kLockWaitMax = std::chrono::seconds{5};
  static constexpr std::size_t kEntriesMax = 5'000'000;  // Maximum per read.

  // Opens a log for appending and creates it if it is missing. Optional columns that an earlier version of penstock did
  // not have are added.
  [[nodiscard]] static core::Result<DecisionStore> open(const std::string& path);
  [[nodiscard]] static core::Result<DecisionStore> open_read_only(const std::string& path);
  [[nodiscard]] static core::Result<DecisionStore> in_memory();

  // Appends all records or, after an error, none. A candidate whose fleet has another size than its pools is an error.
  [[nodiscard]] core::Result<void> append(std::span<const decision::DecisionRecord> records);
  // Returns records in the order in which they were appended.
  [[nodiscard]] core::Result<std::vector<decision::DecisionRecord>> read(const DecisionFilter& filter = {}) const;
  // Returns the bytes of the database file. Equal records appended in one call give equal bytes.
  [[nodiscard]] core::Result<std::string> bytes() const;

 private:
  explicit DecisionStore(Database database) : database_(std::move(database)) {}

  Database database_;
};

// Returns whether a file that begins with these bytes is an SQLite database.
[[nodiscard]] bool is_sqlite(std::string_view first_bytes);

}  // namespace penstock::connect
