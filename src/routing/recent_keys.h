// A set of keys in order of use that returns the least recently used one.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::routing {

// A node is a number that stays valid while its key is in the set. Memory: 28 to 38 bytes per key. Not thread-safe.
class RecentKeys {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  [[nodiscard]] std::uint32_t find(std::uint64_t key) const;  // Returns the node, or kNone.
  // Inserts the key as the most recent one. The key must not be in the set.
  std::uint32_t insert(std::uint64_t key, std::uint32_t note = 0);
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
  struct Node {
    std::uint64_t key;
    std::uint32_t chain;  // Next node of the bucket or of the free list.
    std::uint32_t older;
    std::uint32_t newer;
    std::uint32_t note;  // Value that belongs to the owner of the set.
  };

  [[nodiscard]] std::size_t bucket(std::uint64_t key) const;
  void grow_buckets();
  void unlink(std::uint32_t node);
  void link_latest(std::uint32_t node);

  std::vector<Node> nodes_;
  std::vector<std::uint32_t> buckets_;
  unsigned shift_ = 64;
  std::uint32_t used_ = 0;
  std::uint32_t free_ = kNone;
  std::uint32_t oldest_ = kNone;
  std::uint32_t latest_ = kNone;
};

}  // namespace penstock::routing
