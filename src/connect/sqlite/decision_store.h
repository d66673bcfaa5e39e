// The decision log as an SQLite database, for those who want to query it:
//
//   select pool, reason, count(*) from decisions where policy = 'penstock' group by pool, reason;
//
// Tables: decisions (one row an entry, at_ns since the start), evidence, candidates, candidate_replicas; the latter
// three refer to decisions.id and keep the order of the entry. What a policy did not say is an empty text or null.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "signals/decision_entry.h"

struct sqlite3;

namespace penstock::connect {

// What to read; empty is everything.
struct DecisionFilter {
  std::optional<std::string> policy, pool;
  std::optional<core::Instant> from, to;  // both included
};

// One connection; for one thread at a time. Other processes may read while this one writes. Errors name the file: of
// the input where it is no decision log, of the environment where the disk or a lock is at fault.
class DecisionStore {
 public:
  static constexpr core::Duration kLockWaitMax = std::chrono::seconds{5};
  static constexpr std::size_t kEntriesMax = 5'000'000;  // read at once

  // Opens a log for appending, and makes it if it is not there. A log of an older version gets the columns of this one;
  // opened for reading only, it stays as it is.
  [[nodiscard]] static core::Result<DecisionStore> open(const std::string& path);
  [[nodiscard]] static core::Result<DecisionStore> open_read_only(const std::string& path);
  [[nodiscard]] static core::Result<DecisionStore> in_memory();

  // All of them or, after an error, none; an entry with two candidates' fleets of other sizes than its pools is an
  // error.
  [[nodiscard]] core::Result<void> append(std::span<const signals::DecisionEntry> entries);
  // In the order in which they were appended.
  [[nodiscard]] core::Result<std::vector<signals::DecisionEntry>> read(const DecisionFilter& filter = {}) const;
  // The bytes of the database file; equal entries appended in one call give equal bytes.
  [[nodiscard]] core::Result<std::string> bytes() const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  using Handle = std::unique_ptr<sqlite3, Close>;
  DecisionStore(Handle handle, std::string name) : database_(std::move(handle)), name_(std::move(name)) {}
  [[nodiscard]] static core::Result<DecisionStore> connect(const std::string& path, int flags);
  [[nodiscard]] core::Result<void> prepare_schema();
  [[nodiscard]] core::Result<int> schema_version() const;

  Handle database_;
  std::string name_;  // for messages
  int version_ = 0;   // of the schema of the file
};

// Whether a file that begins with these bytes is an SQLite database.
[[nodiscard]] bool is_sqlite(std::string_view first_bytes);

}  // namespace penstock::connect
