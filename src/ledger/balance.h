// Sums of ledger entries by tenant and model. Every entry that is opened is closed once or still open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "ledger/entry.h"

namespace penstock::ledger {

struct Sums {
  std::uint64_t opened = 0, closed = 0;
  std::uint64_t completed = 0, cancelled = 0, timed_out = 0, failed = 0, refused = 0, lost = 0;
  std::uint64_t reserved_tokens = 0;  // Reserved tokens of open entries.
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  double cost = 0.0;
};
// Returns why the sums contradict each other, given `open` open entries; empty if they balance.
[[nodiscard]] std::string imbalance(const Sums& sums, std::uint64_t open);

// Tracks open entries to check those that close. Not thread-safe.
class Balance {
 public:
  Balance() = default;
  Balance(const Balance&) = delete;
  Balance& operator=(const Balance&) = delete;

  void open(const Entry& entry);
  void close(const Entry& entry);   // `entry` has the values of its opening and of its end.
  void refuse(const Entry& entry);  // Records a request that was never admitted.

  [[nodiscard]] std::size_t open_entries() const { return open_.size(); }

  // Keyed by (tenant, model).
  [[nodiscard]] const std::map<std::pair<std::string, std::string>, Sums>& sums() const { return sums_; }
  // Returns an empty string if every sum balances (closed + open = opened; outcomes add up to closed) and every entry
  // did; otherwise the first imbalance.
  [[nodiscard]] std::string fault() const;

 private:
  using Key = std::pair<std::string, std::string>;
  struct Open {
    const Key* key = nullptr;  // Of the sums that it counts in …
    Sums* sums = nullptr;      // … which are never removed.
    std::uint64_t reserved_tokens = 0;
  };
  void found(const Entry& entry, const std::string& what);

  std::map<Key, Sums> sums_;
  std::unordered_map<std::uint64_t, Open> open_;  // Keyed by entry id.
  std::string fault_;                             // First imbalance of an entry.
};

}  // namespace penstock::ledger
