#include "routing/holders.h"

#include <algorithm>
#include <bit>

namespace penstock::routing {
namespace {

constexpr std::uint64_t mixed(std::uint64_t key) { return key * 0x9e3779b97f4a7c15ULL; }
constexpr std::size_t part_of(std::uint64_t key) { return static_cast<std::size_t>(mixed(key) >> 58); }
constexpr std::size_t home_of(std::uint64_t key, std::size_t rows) {
  return static_cast<std::size_t>(mixed(key) >> 20) & (rows - 1);
}
constexpr std::uint64_t bit(std::uint32_t slot) { return std::uint64_t{1} << (slot % 64); }

}  // namespace

Holders::Holders() : alive_(words_), probe_(words_), found_(words_ * 64) {
  for (Part& part : parts_) part.rows.resize(16);
}

void Holders::prefetch(std::uint64_t key) const {
  const std::vector<Row>& rows = parts_[part_of(key)].rows;
  __builtin_prefetch(&rows[home_of(key, rows.size())]);
}

Holders::Row* Holders::find(std::uint64_t key) {
  std::vector<Row>& rows = parts_[part_of(key)].rows;
  for (std::size_t at = home_of(key, rows.size());; at = (at + 1) & (rows.size() - 1)) {
    if (rows[at].count == 0) return nullptr;
    if (rows[at].key == key) return &rows[at];
  }
}

Holders::Row& Holders::find_or_insert(std::uint64_t key) {
  Part& part = parts_[part_of(key)];
  if ((part.used + 1) * 10 > part.rows.size() * 7) grow(part);
  std::vector<Row>& rows = part.rows;
  std::size_t at = home_of(key, rows.size());
  while (rows[at].count != 0 && rows[at].key != key) at = (at + 1) & (rows.size() - 1);
  if (rows[at].count == 0) {
    rows[at].key = key;
    ++part.used;
    ++used_;
  }
  return rows[at];
}

// Shifts the following rows back, so that linear probing finds them without a gap.
void Holders::erase(Part& part, std::size_t hole) {
  std::vector<Row>& rows = part.rows;
  const std::size_t mask = rows.size() - 1;
  for (std::size_t at = (hole + 1) & mask; rows[at].count != 0; at = (at + 1) & mask) {
    const std::size_t wanted = home_of(rows[at].key, rows.size());
    if (((at - wanted) & mask) < ((at - hole) & mask)) continue;
    rows[hole] = rows[at];
    hole = at;
  }
  rows[hole] = Row{};
  --part.used;
  --used_;
}

void Holders::grow(Part& part) {
  std::vector<Row> old(part.rows.size() * 2);
  old.swap(part.rows);
  for (const Row& row : old) {
    if (row.count == 0) continue;
    std::size_t at = home_of(row.key, part.rows.size());
    while (part.rows[at].count != 0) at = (at + 1) & (part.rows.size() - 1);
    part.rows[at] = row;
  }
}

void Holders::widen(std::uint32_t slot) {
  if (slot < words_ * 64) return;
  const std::size_t words = std::bit_ceil(std::size_t{slot} / 64 + 1);
  for (std::unique_ptr<std::uint64_t[]>& chunk : sets_) {
    auto wider = std::make_unique<std::uint64_t[]>(kSetsAtOnce * words);
    for (std::size_t i = 0; i < kSetsAtOnce; ++i)
      std::copy_n(chunk.get() + i * words_, words_, wider.get() + i * words);
    chunk = std::move(wider);
  }
  words_ = words;
  alive_.assign(words, 0);
  probe_.assign(words, 0);
  found_.resize(words * 64);
}

std::uint32_t Holders::take_set() {
  if (free_sets_.empty()) {
    if (sets_made_ % kSetsAtOnce == 0) sets_.push_back(std::make_unique<std::uint64_t[]>(kSetsAtOnce * words_));
    return sets_made_++;
  }
  const std::uint32_t number = free_sets_.back();
  free_sets_.pop_back();
  return number;
}

void Holders::add(std::uint32_t slot, std::uint64_t key) {
  widen(slot);
  Row& row = find_or_insert(key);
  if (row.count == 0) {
    row.holder = slot;
    row.count = 1;
    return;
  }
  if (row.count == 1) {
    if (row.holder == slot) return;
    const std::uint32_t number = take_set();
    std::fill_n(set(number), words_, 0);
    set(number)[row.holder / 64] |= bit(row.holder);
    row.holder = number;
  }
  std::uint64_t& word = set(row.holder)[slot / 64];
  if ((word & bit(slot)) != 0) return;
  word |= bit(slot);
  ++row.count;
}

void Holders::drop(std::uint32_t slot, std::uint64_t key) {
  Row* row = slot < words_ * 64 ? find(key) : nullptr;
  if (row == nullptr) return;
  if (row->count == 1) {
    Part& part = parts_[part_of(key)];
    if (row->holder == slot) erase(part, static_cast<std::size_t>(row - part.rows.data()));
    return;
  }
  std::uint64_t* words = set(row->holder);
  if ((words[slot / 64] & bit(slot)) == 0) return;
  words[slot / 64] &= ~bit(slot);
  if (--row->count > 1) return;
  std::size_t word = 0;
  while (words[word] == 0) ++word;
  free_sets_.push_back(row->holder);
  row->holder = static_cast<std::uint32_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(words[word])));
}

void Holders::read(std::uint64_t key, std::vector<std::uint64_t>& into) {
  const Row* row = find(key);
  if (row != nullptr && row->count > 1) {
    std::copy_n(set(row->holder), words_, into.data());
    return;
  }
  std::fill(into.begin(), into.end(), 0);
  if (row != nullptr) into[row->holder / 64] = bit(row->holder);
}

bool Holders::all_hold(std::uint64_t key) {
  read(key, probe_);
  std::uint64_t missing = 0;
  for (std::size_t word = 0; word < words_; ++word) missing |= alive_[word] & ~probe_[word];
  return missing == 0;
}

void Holders::find_all(std::size_t word, std::uint64_t bits, std::size_t keys) {
  for (; bits != 0; bits &= bits - 1)
    found_[found_count_++] = {static_cast<std::uint32_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(bits))),
                              static_cast<std::uint32_t>(keys)};
}

std::span<const Holders::Overlap> Holders::overlaps(std::span<const std::uint64_t> keys) {
  found_count_ = 0;
  if (keys.empty()) return {};
  read(keys[0], alive_);
  if (std::all_of(alive_.begin(), alive_.end(), [](std::uint64_t word) { return word == 0; })) return {};
  // All live slots hold `low`. The stride doubles until some slot does not hold `high` or the prompt ends; binary
  // search then finds the first key that some slot does not hold.
  for (std::size_t low = 0, any = 1; any != 0;) {
    // Prefetching all strides at once costs one memory latency instead of eight.
    for (std::size_t stride = 1; low + stride < keys.size(); stride = stride * 2 + 1) prefetch(keys[low + stride]);
    std::size_t high = keys.size();
    for (std::size_t stride = 1; low + 1 < keys.size(); stride *= 2) {
      const std::size_t at = std::min(low + stride, keys.size() - 1);
      if (!all_hold(keys[at])) {
        high = at;
        break;
      }
      low = at;
    }
    if (high == keys.size()) {
      for (std::size_t word = 0; word < words_; ++word) find_all(word, alive_[word], keys.size());
      break;
    }
    while (high - low > 1) {
      const std::size_t middle = low + (high - low) / 2;
      for (const std::size_t eighth : {1, 2, 3, 5, 6, 7}) prefetch(keys[low + (high - low) * eighth / 8]);
      (all_hold(keys[middle]) ? low : high) = middle;
    }
    read(keys[high], probe_);
    any = 0;
    for (std::size_t word = 0; word < words_; ++word) {
      find_all(word, alive_[word] & ~probe_[word], high);
      alive_[word] &= probe_[word];
      any |= alive_[word];
    }
    low = high;
  }
  return {found_.data(), found_count_};
}

}  // namespace penstock::routing
