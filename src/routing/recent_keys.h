// A set of keys in order of use that returns the least recently used one.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::routing {

// A node is a number that stays valid while its key is in the set. Several keys that will not be looked up may share
// one unnamed node. Memory: 28 to 38 bytes per key. Not thread-safe.
class RecentKeys {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  [[nodiscard]] std::uint32_t find(std::uint64_t key) const;  // Returns the node, or kNone.
  // Inserts the key as the most recent one. The key must not be in the set.
  std::uint32_t insert(std::uint64_t key, std::uint32_t note = 0);
  // Inserts `count` (> 0) unnamed keys as the most recent ones.
  void insert_unnamed(std::uint32_t count, std::uint32_t note);
  [[nodiscard]] bool is_unnamed(std::uint32_t node) const { return nodes_[node].key == kUnnamed; }
  // Erases one key of an unnamed node, and the node with its last one.
  void erase_unnamed(std::uint32_t node);
  void touch(std::uint32_t node);  // Makes the node the most recent one.
  void erase(std::uint32_t node);
  void clear();  // Also frees the memory.
  // Two prefetch steps for a key that will be looked up: first its bucket, then its node.
  void prefetch(std::uint64_t key) const;
  void prefetch_node(std::uint64_t key) const;

  [[nodiscard]] std::uint32_t oldest() const { return oldest_; }  // Returns kNone if the set is empty.
  [[nodiscard]] std::uint32_t newer(std::uint32_t node) const { return nodes_[node].newer; }
  [[nodiscard]] std::uint64_t key(std::uint32_t node) const { return nodes_[node].key; }
  [[nodiscard]] std::uint32_t note(std::uint32_t node) const { return nodes_[node].note; }
  void set_note(std::uint32_t node, std::uint32_t note) { nodes_[node].note = note; }
  [[nodiscard]] std::uint32_t size() const { return used_; }

 private:
  // No key has this value: keys are hashes of 64 bits, or block numbers of 32 bits.
  static constexpr std::uint64_t kUnnamed = ~std::uint64_t{0};

  struct Node {
    std::uint64_t key;
    std::uint32_t chain;  // Next node of the bucket or of the free list; the number of keys of an unnamed node.
    std::uint32_t older;
    std::uint32_t newer;
    std::uint32_t note;  // Value that belongs to the owner of the set.
  };

  [[nodiscard]] std::size_t bucket(std::uint64_t key) const;
  std::uint32_t take_node();
  void grow_buckets();
  void unlink(std::uint32_t node);
  void link_latest(std::uint32_t node);

  std::vector<Node> nodes_;
  std::vector<std::uint32_t> buckets_;
  unsigned shift_ = 64;
  std::uint32_t used_ = 0;
  std::uint32_t unnamed_ = 0;
  std::uint32_t free_ = kNone;
  std::uint32_t oldest_ = kNone;
  std::uint32_t latest_ = kNone;
};

}  // namespace penstock::routing
