// Sums of ledger entries by tenant and model. Every entry that is opened is closed once or still open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <tsl/robin_map.h>

#include "ledger/entry.h"

namespace penstock::ledger {

struct Sums {
  std::uint64_t opened = 0, closed = 0;
  std::uint64_t completed = 0, cancelled = 0, timed_out = 0, truncated = 0, failed = 0, rejected = 0, refused = 0,
                lost = 0;
  std::uint64_t reserved_tokens = 0;  // Reserved tokens of open entries.
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  double cost = 0.0;

  Sums& operator+=(const Sums& other);
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

  using Key = std::pair<std::string, std::string>;  // tenant and model
  struct Less {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      const int order = std::string_view{a.first}.compare(b.first);
      return order < 0 || (order == 0 && a.second < b.second);
    }
  };
  [[nodiscard]] const std::map<Key, Sums, Less>& sums() const { return sums_; }
  // Returns an empty string if every sum balances (closed + open = opened; outcomes add up to closed) and every entry
  // did; otherwise the first imbalance.
  [[nodiscard]] std::string fault() const;

 private:
  struct Open {
    const Key* key = nullptr;  // Of the sums that it counts in …
    Sums* sums = nullptr;      // … which are never removed.
    std::uint64_t reserved_tokens = 0;
  };
  void found(const Entry& entry, const std::string& what);
  std::pair<const Key, Sums>& sums_of(const Entry& entry);

  std::map<Key, Sums, Less> sums_;
  tsl::robin_map<std::uint64_t, Open> open_;  // Keyed by entry id.
  std::string fault_;                         // First imbalance of an entry.
};

}  // namespace penstock::ledger
