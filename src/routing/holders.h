// Maps each prefix key to the set of slots that hold it, with binary search along a prompt's keys for large fleets.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace penstock::routing {

// A key names a whole prefix, so a slot that holds key i + 1 of a prompt also holds key i, and the set of holders
// shrinks along the keys in a few steps. overlaps() searches for these steps: O(log keys · distinct sets), at worst one
// look-up per key. A replica that lost a key in the middle of a prefix may be credited with the keys behind the gap.
//
// A key with one holder costs 16 bytes in a hash table that is at least 35 % full; a key with more holders also has a
// bitset. The table is split into 64 parts that grow independently, so that no call rehashes a million rows. Not
// thread-safe.
class Holders {
 public:
  struct Overlap {
    std::uint32_t slot = 0;
    std::uint32_t keys = 0;  // Number of leading keys of the prompt that the slot holds; at least 1.
  };

  Holders();

  void add(std::uint32_t slot, std::uint64_t key);
  void drop(std::uint32_t slot, std::uint64_t key);  // A key that the slot does not hold is ignored.
  // Returns one entry for each slot that holds the first key. The order depends only on earlier calls. The result is
  // valid until the next call.
  [[nodiscard]] std::span<const Overlap> overlaps(std::span<const std::uint64_t> keys);
  // Returns true if some slot holds the key.
  [[nodiscard]] bool knows(std::uint64_t key) { return find(key) != nullptr; }
  void prefetch(std::uint64_t key) const;

  [[nodiscard]] std::size_t keys() const { return used_; }

 private:
  struct Row {
    std::uint64_t key = 0;
    std::uint32_t holder = 0;  // The slot, or the number of a set if there are several holders.
    std::uint32_t count = 0;   // Number of holders; 0 marks an empty row.
  };
  struct Part {
    std::vector<Row> rows;
    std::size_t used = 0;
  };
  static constexpr std::size_t kParts = 64;
  static constexpr std::size_t kSetsAtOnce = 1024;

  [[nodiscard]] Row* find(std::uint64_t key);  // Returns null if the key is unknown.
  Row& find_or_insert(std::uint64_t key);
  void erase(Part& part, std::size_t hole);
  static void grow(Part& part);
  void widen(std::uint32_t slot);
  [[nodiscard]] std::uint64_t* set(std::uint32_t number) {
    return sets_[number / kSetsAtOnce].get() + number % kSetsAtOnce * words_;
  }
  std::uint32_t take_set();
  void read(std::uint64_t key, std::vector<std::uint64_t>& into);
  [[nodiscard]] bool all_hold(std::uint64_t key);
  void find_all(std::size_t word, std::uint64_t bits, std::size_t keys);

  std::array<Part, kParts> parts_;
  std::size_t used_ = 0;
  std::size_t words_ = 1;  // Number of 64-bit words in a set.
  std::vector<std::unique_ptr<std::uint64_t[]>> sets_;
  std::uint32_t sets_made_ = 0;
  std::vector<std::uint32_t> free_sets_;
  std::vector<std::uint64_t> alive_;  // During a search: the slots that held all keys so far.
  std::vector<std::uint64_t> probe_;
  std::vector<Overlap> found_;
  std::size_t found_count_ = 0;
};

}  // namespace penstock::routing
