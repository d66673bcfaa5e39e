// Maps the keys of prompt blocks to the small numbers that engine::Engine uses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace penstock::engine_server {

// A block has a number while an open request uses it or the cache holds it, which bounds their count. Numbers are
// reused.
class BlockTable {
 public:
  // `chunk_bytes` bytes of text are stored per block, for KV events with content; 0 stores none.
  explicit BlockTable(std::uint32_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}

  static constexpr std::uint32_t kNone = UINT32_MAX;

  // Adds a use of the block with the key. `chunk` is the block's text (chunk_bytes long), `parent` the number of the
  // previous block, which must be in use, or kNone.
  [[nodiscard]] std::uint32_t acquire(std::uint64_t key, std::uint32_t parent, std::string_view chunk);
  void release(std::uint32_t number);
  // The cache stored or evicted the block.
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
  std::string chunks_;  // Indexed by number.
  std::vector<std::uint32_t> free_;
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;  // Indexed by key.
};

}  // namespace penstock::engine_server
