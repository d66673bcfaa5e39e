#include "engine_server/block_table.h"

#include "core/result.h"

namespace penstock::engine_server {

std::uint32_t BlockTable::acquire(std::uint64_t key, std::uint32_t parent, std::string_view chunk) {
  const auto next = free_.empty() ? static_cast<std::uint32_t>(blocks_.size()) : free_.back();
  const auto [found, is_new] = numbers_.try_emplace(key, next);
  const std::uint32_t number = found->second;
  if (is_new) {
    if (free_.empty()) {
      blocks_.emplace_back();
      chunks_.resize(blocks_.size() * chunk_bytes_);
    } else {
      free_.pop_back();
    }
    Block& block = blocks_[number];
    block = Block{};
    block.key = key;
    block.has_parent = parent != kNone;
    if (block.has_parent) block.parent_key = blocks_[parent].key;
    if (chunk_bytes_ > 0) {
      PENSTOCK_ASSERT(chunk.size() == chunk_bytes_, "a block's text is as long as a block");
      chunks_.replace(std::size_t{number} * chunk_bytes_, chunk_bytes_, chunk);
    }
  }
  ++blocks_[number].uses;
  return number;
}

void BlockTable::release(std::uint32_t number) {
  PENSTOCK_ASSERT(blocks_[number].uses > 0, "only a block in use is released");
  --blocks_[number].uses;
  free_if_unknown(number);
}

void BlockTable::set_kept(std::uint32_t number, bool kept) {
  blocks_[number].kept = kept;
  free_if_unknown(number);
}

std::string_view BlockTable::chunk(std::uint32_t number) const {
  return std::string_view{chunks_}.substr(std::size_t{number} * chunk_bytes_, chunk_bytes_);
}

void BlockTable::free_if_unknown(std::uint32_t number) {
  const Block& block = blocks_[number];
  if (block.uses > 0 || block.kept) return;
  numbers_.erase(block.key);
  free_.push_back(number);
}

}  // namespace penstock::engine_server
