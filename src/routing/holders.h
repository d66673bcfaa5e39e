// Which replicas hold which prefix, for live fleets: key → set of slots, searched by halves instead of key by key.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace penstock::routing {

// A key names a whole prefix, so who holds key i + 1 of a prompt holds key i, too, and the sets of holders shrink along
// the keys in a few steps. overlaps() looks for the steps: O(log keys · distinct sets), at worst one look a key. A
// replica that lost a key amid a prefix that it holds may be credited with what is behind the hole.
//
// A key with one holder costs 16 bytes of a table that is at least 35 % full; one with more has a bitset beside it. The
// table is in 64 parts that grow one by one, so that no call waits for a million rows. Not thread-safe.
class Holders {
 public:
  struct Overlap {
    std::uint32_t slot = 0;
    std::uint32_t keys = 0;  // leading keys of the prompt that the slot holds; at least 1
  };

  Holders();

  void add(std::uint32_t slot, std::uint64_t key);
  void drop(std::uint32_t slot, std::uint64_t key);  // a key that the slot does not hold is ignored
  // One entry for each slot that holds the first key, in an order that only the calls so far decide. Valid until the
  // next call.
  [[nodiscard]] std::span<const Overlap> overlaps(std::span<const std::uint64_t> keys);
  [[nodiscard]] bool knows(std::uint64_t key) { return find(key) != nullptr; }  // some slot holds it
  void prefetch(std::uint64_t key) const;

  [[nodiscard]] std::size_t keys() const { return used_; }

 private:
  struct Row {
    std::uint64_t key = 0;
    std::uint32_t holder = 0;  // the slot, or the number of a set when there are more
    std::uint32_t count = 0;   // of holders; 0: no row
  };
  struct Part {
    std::vector<Row> rows;
    std::size_t used = 0;
  };
  static constexpr std::size_t kParts = 64;
  static constexpr std::size_t kSetsAtOnce = 1024;

  [[nodiscard]] Row* find(std::uint64_t key);  // or null
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
  std::size_t words_ = 1;  // of 64 bits, in a set
  std::vector<std::unique_ptr<std::uint64_t[]>> sets_;
  std::uint32_t sets_made_ = 0;
  std::vector<std::uint32_t> free_sets_;
  std::vector<std::uint64_t> alive_;  // while looking: who held all keys so far
  std::vector<std::uint64_t> probe_;
  std::vector<Overlap> found_;
  std::size_t found_count_ = 0;
};

}  // namespace penstock::routing
