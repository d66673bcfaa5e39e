#include "routing/prefix_index.h"

#include <algorithm>
#include <bit>

#include "core/random.h"

namespace penstock::routing {

PrefixIndex::PrefixIndex(std::uint32_t slots)
    : words_((std::max(slots, 1U) + 63) / 64), keys_(1024, kEmpty), sets_(keys_.size() * words_), alive_(words_) {}

std::size_t PrefixIndex::home(std::uint64_t key) const {
  return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15ULL) >> 20) & (keys_.size() - 1);
}

std::size_t PrefixIndex::find(std::uint64_t key) const {
  for (std::size_t row = home(key);; row = (row + 1) & (keys_.size() - 1)) {
    if (keys_[row] == key) return row;
    if (keys_[row] == kEmpty) return keys_.size();
  }
}

std::size_t PrefixIndex::find_or_insert(std::uint64_t key) {
  if ((used_ + 1) * 2 > keys_.size()) grow_rows();
  std::size_t row = home(key);
  while (keys_[row] != kEmpty && keys_[row] != key) row = (row + 1) & (keys_.size() - 1);
  if (keys_[row] == kEmpty) {
    keys_[row] = key;
    ++used_;
  }
  return row;
}

void PrefixIndex::erase(std::size_t hole) {
  const std::size_t mask = keys_.size() - 1;
  for (std::size_t row = (hole + 1) & mask; keys_[row] != kEmpty; row = (row + 1) & mask) {
    const std::size_t wanted = home(keys_[row]);
    if (((row - wanted) & mask) < ((row - hole) & mask)) continue;
    keys_[hole] = keys_[row];
    std::copy_n(set(row), words_, set(hole));
    hole = row;
  }
  keys_[hole] = kEmpty;
  std::fill_n(set(hole), words_, 0);
  --used_;
}

void PrefixIndex::grow_rows() {
  std::vector<std::uint64_t> old_keys(keys_.size() * 2, kEmpty);
  std::vector<std::uint64_t> old_sets(old_keys.size() * words_);
  old_keys.swap(keys_);
  old_sets.swap(sets_);
  for (std::size_t old = 0; old < old_keys.size(); ++old) {
    if (old_keys[old] == kEmpty) continue;
    std::size_t row = home(old_keys[old]);
    while (keys_[row] != kEmpty) row = (row + 1) & (keys_.size() - 1);
    keys_[row] = old_keys[old];
    std::copy_n(old_sets.data() + old * words_, words_, set(row));
  }
}

void PrefixIndex::grow_slots(std::uint32_t slots) {
  const std::size_t words = (slots + 63) / 64;
  std::vector<std::uint64_t> sets(keys_.size() * words);
  for (std::size_t row = 0; row < keys_.size(); ++row) std::copy_n(set(row), words_, sets.data() + row * words);
  sets_.swap(sets);
  words_ = words;
  alive_.resize(words);
}

void PrefixIndex::ensure_slot(std::uint32_t slot) {
  if (slot >= words_ * 64) grow_slots(std::max(slot + 1, static_cast<std::uint32_t>(words_ * 128)));
}

void PrefixIndex::stored(std::uint32_t slot, std::uint64_t key) {
  ensure_slot(slot);
  set(find_or_insert(key))[slot / 64] |= std::uint64_t{1} << (slot % 64);
}

void PrefixIndex::removed(std::uint32_t slot, std::uint64_t key) {
  const std::size_t row = find(key);
  if (row == keys_.size() || slot >= words_ * 64) return;
  set(row)[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
  if (std::all_of(set(row), set(row) + words_, [](std::uint64_t word) { return word == 0; })) erase(row);
}

void PrefixIndex::forget(std::uint32_t slot) {
  if (slot >= words_ * 64) return;
  std::vector<std::uint64_t> held;
  for (std::size_t row = 0; row < keys_.size(); ++row)
    if (keys_[row] != kEmpty && (set(row)[slot / 64] >> (slot % 64) & 1) != 0) held.push_back(keys_[row]);
  for (const std::uint64_t key : held) removed(slot, key);
}

void PrefixIndex::overlaps(std::span<const std::uint64_t> keys, std::span<std::uint32_t> overlap) {
  std::fill(overlap.begin(), overlap.end(), 0);
  std::fill(alive_.begin(), alive_.end(), ~std::uint64_t{0});
  const auto set_all = [&](std::size_t word, std::uint64_t bits, std::uint32_t depth) {
    for (; bits != 0; bits &= bits - 1) {
      const std::size_t slot = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
      if (slot < overlap.size()) overlap[slot] = depth;
    }
  };
  std::uint32_t depth = 0;
  for (const std::uint64_t key : keys) {
    const std::size_t row = find(key);
    if (row == keys_.size()) break;
    std::uint64_t any = 0;
    for (std::size_t word = 0; word < words_; ++word) {
      const std::uint64_t kept = alive_[word] & set(row)[word];
      if (depth > 0) set_all(word, alive_[word] & ~kept, depth);
      alive_[word] = kept;
      any |= kept;
    }
    if (any == 0) return;
    ++depth;
  }
  if (depth == 0) return;
  for (std::size_t word = 0; word < words_; ++word) set_all(word, alive_[word], depth);
}

}  // namespace penstock::routing
