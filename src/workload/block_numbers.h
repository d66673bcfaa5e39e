// Numbers the block ids of a trace from 0 in order of first appearance.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"

namespace penstock::workload {

// A million requests name about fifteen million blocks, so memory per id matters. Published traces number their blocks
// from 0; such ids index an array (4 bytes each). Other ids, such as hashes, go to an open-addressing table with linear
// probing (12 bytes at a load of at most 3/4, compared with about 50 bytes per node of std::unordered_map).
class BlockNumbers {
 public:
  [[nodiscard]] std::uint32_t of(std::uint64_t id) {
    if (id >= dense_.size() && id < kDenseIdsFirst + kSparseness * next_) {
      std::size_t size = dense_.empty() ? kDenseIdsFirst : dense_.size();
      while (size <= id) size *= 2;
      dense_.resize(size, kNone);
    }
    if (id < dense_.size() && dense_[id] != kNone) return dense_[id];
    const std::size_t slot = slots_ids_.empty() ? 0 : slot_of(id);
    // The id may have been inserted when the array was shorter.
    if (!slots_ids_.empty() && slots_numbers_[slot] != kNone) return slots_numbers_[slot];
    if (id < dense_.size()) return dense_[id] = fresh();
    return insert_sparse(id);
  }

  // Returns a number that represents no id of the trace.
  [[nodiscard]] std::uint32_t fresh() { return next_++; }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::uint64_t kDenseIdsFirst = 1024, kSparseness = 2;

  // Slot of the id, or the slot where it would be inserted.
  [[nodiscard]] std::size_t slot_of(std::uint64_t id) const {
    std::size_t slot = core::mix64(id) & (slots_ids_.size() - 1);
    while (slots_numbers_[slot] != kNone && slots_ids_[slot] != id) slot = (slot + 1) & (slots_ids_.size() - 1);
    return slot;
  }
  std::uint32_t insert_sparse(std::uint64_t id) {
    if (4 * (sparse_ + 1) > 3 * slots_ids_.size()) grow();
    const std::size_t slot = slot_of(id);
    slots_ids_[slot] = id;
    ++sparse_;
    return slots_numbers_[slot] = fresh();
  }
  void grow() {
    std::vector<std::uint64_t> ids(slots_ids_.empty() ? 64 : 2 * slots_ids_.size());
    std::vector<std::uint32_t> numbers(ids.size(), kNone);
    ids.swap(slots_ids_);
    numbers.swap(slots_numbers_);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (numbers[i] == kNone) continue;
      const std::size_t slot = slot_of(ids[i]);
      slots_ids_[slot] = ids[i];
      slots_numbers_[slot] = numbers[i];
    }
  }

  std::vector<std::uint32_t> dense_;      // Number of the id that equals the index.
  std::vector<std::uint64_t> slots_ids_;  // The size is a power of two.
  std::vector<std::uint32_t> slots_numbers_;
  std::size_t sparse_ = 0;
  std::uint32_t next_ = 0;
};

}  // namespace penstock::workload
