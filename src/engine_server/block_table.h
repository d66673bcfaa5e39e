// Which blocks an engine knows: the keys of prompts' blocks as the small numbers that engine::Engine counts them by.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace penstock::engine_server {

// A block has a number for as long as an open request uses it or the cache keeps it, so that there are never more of them
// than both together. Numbers are used again.
class BlockTable {
 public:
  // `chunk_bytes` of text are kept of each block, for who wants to tell what is in it; 0: none.
  explicit BlockTable(std::uint32_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}

  static constexpr std::uint32_t kNone = UINT32_MAX;

  // One use more of the block with that key; `chunk` is its own text (chunk_bytes of it), `parent` the number of the block
  // before it, which is in use, too, or kNone.
  [[nodiscard]] std::uint32_t acquire(std::uint64_t key, std::uint32_t parent, std::string_view chunk);
  void release(std::uint32_t number);
  // The cache has it, or has given it up.
  void set_kept(std::uint32_t number, bool kept);

  [[nodiscard]] std::uint64_t key(std::uint32_t number) const { return blocks_[number].key; }
  [[nodiscard]] bool has_parent(std::uint32_t number) const { return blocks_[number].has_parent; }
  [[nodiscard]] std::uint64_t parent_key(std::uint32_t number) const { return blocks_[number].parent_key; }
  [[nodiscard]] std::string_view chunk(std::uint32_t number) const;

  [[nodiscard]] std::size_t size() const { return numbers_.size(); }

 private:
  struct Block {
    std::uint64_t key = 0, parent_key = 0;
    std::uint32_t uses = 0;
    bool kept = false, has_parent = false;
  };
  void free_if_unknown(std::uint32_t number);

  std::uint32_t chunk_bytes_;
  std::vector<Block> blocks_;
  std::string chunks_;  // by number
  std::vector<std::uint32_t> free_;
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;  // by key
};

}  // namespace penstock::engine_server
