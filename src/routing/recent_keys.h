// A set of keys in the order of their use, which knows the one that was not used for longest.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::routing {

// Nodes are numbers that stay while the key is in. 28 to 38 bytes a key. Not thread-safe.
class RecentKeys {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  [[nodiscard]] std::uint32_t find(std::uint64_t key) const;        // node, or kNone
  std::uint32_t insert(std::uint64_t key, std::uint32_t note = 0);  // as the latest; it must not be in
  void touch(std::uint32_t node);                                   // makes it the latest
  void erase(std::uint32_t node);
  void clear();  // gives its memory back
  // Two steps towards the memory of a key that will be looked for: where its node is noted, then the node.
  void prefetch(std::uint64_t key) const;
  void prefetch_node(std::uint64_t key) const;

  [[nodiscard]] std::uint32_t oldest() const { return oldest_; }  // kNone when empty
  [[nodiscard]] std::uint32_t newer(std::uint32_t node) const { return nodes_[node].newer; }
  [[nodiscard]] std::uint64_t key(std::uint32_t node) const { return nodes_[node].key; }
  [[nodiscard]] std::uint32_t note(std::uint32_t node) const { return nodes_[node].note; }
  void set_note(std::uint32_t node, std::uint32_t note) { nodes_[node].note = note; }
  [[nodiscard]] std::uint32_t size() const { return used_; }

 private:
  struct Node {
    std::uint64_t key;
    std::uint32_t chain;  // next of the same bucket, or next free
    std::uint32_t older;
    std::uint32_t newer;
    std::uint32_t note;  // the owner's
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
