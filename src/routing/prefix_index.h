// Which replica holds which prefix: block key → set of replicas, kept current by stored and removed events.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock::routing {

// A key names a whole prefix up to and including its block, so a look-up walks the prompt's keys and stops where nobody
// holds the next one. Slots number the replicas, from 0, and are used again; memory is one row per distinct key held.
// Not thread-safe.
class PrefixIndex {
 public:
  explicit PrefixIndex(std::uint32_t slots = 64);

  void stored(std::uint32_t slot, std::uint64_t key);
  void removed(std::uint32_t slot, std::uint64_t key);  // a key that was never stored is ignored
  void forget(std::uint32_t slot);                      // O(keys held)

  // overlap[slot] = number of leading keys that the slot holds, for each slot below overlap.size(). O(keys matched).
  template <class Key>
  void overlaps(std::span<const Key> keys, std::span<std::uint32_t> overlap);

  [[nodiscard]] std::size_t keys() const { return used_; }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

  [[nodiscard]] std::size_t home(std::uint64_t key) const;
  [[nodiscard]] std::size_t find(std::uint64_t key) const;  // row, or keys_.size()
  std::size_t find_or_insert(std::uint64_t key);
  void erase(std::size_t row);
  void grow_rows();
  void grow_slots(std::uint32_t slots);
  void ensure_slot(std::uint32_t slot);
  [[nodiscard]] std::uint64_t* set(std::size_t row) { return sets_.data() + row * words_; }

  std::size_t words_;  // 64-bit words of a set of replicas
  std::size_t used_ = 0;
  std::vector<std::uint64_t> keys_;
  std::vector<std::uint64_t> sets_;
  std::vector<std::uint64_t> alive_;
};

}  // namespace penstock::routing
