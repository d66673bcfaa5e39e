// The paged KV cache of one engine: active blocks, unused blocks that keep a prefix, and free blocks.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::engine {

// Identifies the content of a block: the whole prefix up to and including it. Keys below 2^32 are block ids of the
// workload; keys with the top bit are private to one request (private_key).
using BlockKey = std::uint64_t;

inline constexpr BlockKey kPrivateKeyBit = BlockKey{1} << 63;
[[nodiscard]] constexpr BlockKey private_key(std::uint32_t request, std::uint32_t block) {
  return kPrivateKeyBit | (BlockKey{request} << 31) | block;
}

struct CacheEvent {
  BlockKey key;
  bool stored;  // False if the block was evicted.
};

// Blocks are counted, not addressed. A keyed block is shared by reference; a private block belongs to one sequence and
// has no identity until the sequence releases it. An unused block keeps its content until it is the least recently used
// one and its space is needed. All operations are O(1) per block.
class KvCache {
 public:
  using Node = std::uint32_t;

  // Without caching, nothing is kept once it is unused.
  KvCache(std::uint32_t blocks, bool caching);

  struct Prefix {
    std::uint32_t hits = 0;           // Leading blocks in the cache, used or unused.
    std::uint32_t inactive_hits = 0;  // The unused ones among them; using them takes space.
  };
  // `key_at(i)` returns the key of block i. At most `limit` blocks are checked.
  template <class KeyAt>
  [[nodiscard]] Prefix find_prefix(std::uint32_t limit, KeyAt&& key_at) const {
    Prefix prefix;
    while (prefix.hits < limit) {
      if (prefix.hits + kAhead < limit) prefetch(key_at(prefix.hits + kAhead));
      const Node node = find(key_at(prefix.hits));
      if (node == kNone) break;
      prefix.inactive_hits += nodes_[node].references == 0 ? 1 : 0;
      ++prefix.hits;
    }
    return prefix;
  }

  [[nodiscard]] std::uint32_t total() const { return total_; }
  [[nodiscard]] std::uint32_t active() const { return active_; }
  // Free blocks and unused blocks with content.
  [[nodiscard]] std::uint32_t available() const { return total_ - active_; }
  [[nodiscard]] std::uint64_t evictions() const { return evictions_; }

  // Adds a reference to the block with this key and allocates the block if it is not cached. The caller ensures that
  // there is space.
  [[nodiscard]] Node acquire(BlockKey key);
  // The same for `count` keys in order, of which `key_at(i)` returns the i-th. The nodes are appended to `nodes`.
  template <class KeyAt>
  void acquire_all(std::uint32_t count, KeyAt&& key_at, std::vector<Node>& nodes) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i + kAhead < count) prefetch(key_at(i + kAhead));
      nodes.push_back(acquire(key_at(i)));
    }
  }
  void release(Node node);

  // Private blocks. release_private() keeps `full` of them as content that will not be requested again, and frees the
  // rest.
  void allocate_private(std::uint32_t blocks);
  void release_private(std::uint32_t full, std::uint32_t partial);
  // Turns one full private block into a cached block under a key that can be looked up.
  void release_private_as(BlockKey key);

  // Evicts every unused block.
  void discard_unused() { make_room(available()); }

  // Events of stored and evicted blocks with shared keys, since the last clear. They are recorded only after listen().
  void listen() { listening_ = true; }
  [[nodiscard]] std::vector<CacheEvent>& events() { return events_; }

 private:
  static constexpr Node kNone = UINT32_MAX;
  static constexpr Node kSentinel = 0;
  static constexpr std::uint32_t kAhead = 8;  // Number of keys whose memory is prefetched before use.

  struct Entry {
    BlockKey key = 0;
    std::uint32_t references = 0;  // For an anonymous entry, the number of blocks that it represents.
    Node previous = kNone, next = kNone;
    bool anonymous = false;
  };
  struct Slot {
    BlockKey key;
    Node node;
  };

  [[nodiscard]] std::size_t home(BlockKey key) const {
    // Fibonacci hashing: ids come in runs, which it spreads well; the high bits are the good ones.
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15ULL) >> 20) & slot_mask_;
  }
  void prefetch(BlockKey key) const { __builtin_prefetch(&slots_[home(key)]); }
  [[nodiscard]] Node find(BlockKey key) const;
  [[nodiscard]] Node insert(BlockKey key);
  void erase(BlockKey key);
  void make_room(std::uint32_t blocks);
  void link_last(Node node);
  void unlink(Node node);
  Node new_node();
  void note(BlockKey key, bool stored);

  std::uint32_t total_;
  std::uint32_t active_ = 0;
  std::uint32_t kept_ = 0;  // Unused blocks with content.
  bool caching_;
  bool listening_ = false;
  std::uint64_t evictions_ = 0;
  std::vector<Entry> nodes_;  // nodes_[kSentinel] anchors the list of unused blocks, least recently used first.
  std::vector<Node> free_nodes_;
  std::vector<Slot> slots_;
  std::size_t slot_mask_ = 0;
  std::vector<CacheEvent> events_;
};

}  // namespace penstock::engine
