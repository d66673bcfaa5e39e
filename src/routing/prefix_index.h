// Maps each block key to the set of replicas that hold it, kept current by stored and removed events.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock::routing {

// A key names a whole prefix up to and including its block, so a look-up walks the prompt's keys and stops at the first
// key without a holder. Slots number the replicas from 0 and are reused. Memory: one row per distinct key. Not
// thread-safe.
class PrefixIndex {
 public:
  explicit PrefixIndex(std::uint32_t slots = 64);

  void stored(std::uint32_t slot, std::uint64_t key);
  void removed(std::uint32_t slot, std::uint64_t key);  // A key that was never stored is ignored.
  void forget(std::uint32_t slot);                      // Cost: O(keys held).

  // Sets overlap[slot] to the number of leading keys that the slot holds, for each slot below overlap.size(). Cost:
  // O(keys matched).
  void overlaps(std::span<const std::uint64_t> keys, std::span<std::uint32_t> overlap);

  [[nodiscard]] std::size_t keys() const { return used_; }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

  [[nodiscard]] std::size_t home(std::uint64_t key) const;
  // Returns the row, or keys_.size() if the key is unknown.
  [[nodiscard]] std::size_t find(std::uint64_t key) const;
  std::size_t find_or_insert(std::uint64_t key);
  void erase(std::size_t row);
  void grow_rows();
  void grow_slots(std::uint32_t slots);
  void ensure_slot(std::uint32_t slot);
  [[nodiscard]] std::uint64_t* set(std::size_t row) { return sets_.data() + row * words_; }

  std::size_t words_;  // Number of 64-bit words in a set of replicas.
  std::size_t used_ = 0;
  std::vector<std::uint64_t> keys_;
  std::vector<std::uint64_t> sets_;
  std::vector<std::uint64_t> alive_;
};

}  // namespace penstock::routing
