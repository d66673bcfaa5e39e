// Sums of entries by tenant and model; what is opened is closed once, or still open.
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
  std::uint64_t reserved_tokens = 0;  // of those that are open
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  double cost = 0.0;
};
// Why sums cannot be those of entries that balance, `open` of them being open; empty: they can.
[[nodiscard]] std::string imbalance(const Sums& sums, std::uint64_t open);

// Remembers what is open, to know what closes. Not thread-safe.
class Balance {
 public:
  void open(const Entry& entry);
  void close(const Entry& entry);   // with the values of its opening
  void refuse(const Entry& entry);  // never opened

  [[nodiscard]] std::size_t open_entries() const { return open_.size(); }

  // By (tenant, model).
  [[nodiscard]] const std::map<std::pair<std::string, std::string>, Sums>& sums() const { return sums_; }
  // Empty if every sum balances (closed + open = opened; outcomes add up to closed) and every entry did, else the first
  // thing that does not.
  [[nodiscard]] std::string fault() const;

 private:
  using Key = std::pair<std::string, std::string>;
  struct Open {
    Key key;
    std::uint64_t reserved_tokens = 0;
  };
  void found(const Entry& entry, const std::string& what);

  std::map<Key, Sums> sums_;
  std::unordered_map<std::uint64_t, Open> open_;  // by id
  std::string fault_;                             // the first one of an entry
};

}  // namespace penstock::ledger
