#include "routing/recent_keys.h"

#include <utility>

namespace penstock::routing {

std::size_t RecentKeys::bucket(std::uint64_t key) const {
  return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15ULL) >> shift_);
}

void RecentKeys::prefetch(std::uint64_t key) const {
  if (!buckets_.empty()) __builtin_prefetch(&buckets_[bucket(key)]);
}

void RecentKeys::prefetch_node(std::uint64_t key) const {
  if (buckets_.empty()) return;
  const std::uint32_t node = buckets_[bucket(key)];
  if (node != kNone) __builtin_prefetch(&nodes_[node]);
}

std::uint32_t RecentKeys::find(std::uint64_t key) const {
  if (used_ == unnamed_) return kNone;
  std::uint32_t node = buckets_[bucket(key)];
  while (node != kNone && nodes_[node].key != key) node = nodes_[node].chain;
  return node;
}

std::uint32_t RecentKeys::take_node() {
  if (free_ != kNone) return std::exchange(free_, nodes_[free_].chain);
  // Growth by a quarter, because doubling would leave half of the memory of hundreds of replicas unused.
  if (nodes_.size() == nodes_.capacity()) nodes_.reserve(nodes_.size() + nodes_.size() / 4 + 16);
  nodes_.emplace_back();
  return static_cast<std::uint32_t>(nodes_.size() - 1);
}

std::uint32_t RecentKeys::insert(std::uint64_t key, std::uint32_t note) {
  if (used_ - unnamed_ >= buckets_.size()) grow_buckets();
  const std::uint32_t node = take_node();
  std::uint32_t& head = buckets_[bucket(key)];
  nodes_[node].key = key;
  nodes_[node].note = note;
  nodes_[node].chain = head;
  head = node;
  link_latest(node);
  ++used_;
  return node;
}

void RecentKeys::insert_unnamed(std::uint32_t count, std::uint32_t note) {
  const std::uint32_t node = take_node();
  nodes_[node].key = kUnnamed;
  nodes_[node].note = note;
  nodes_[node].chain = count;
  link_latest(node);
  used_ += count;
  unnamed_ += count;
}

void RecentKeys::erase_unnamed(std::uint32_t node) {
  --used_;
  --unnamed_;
  if (--nodes_[node].chain > 0) return;
  unlink(node);
  nodes_[node].chain = free_;
  free_ = node;
}

void RecentKeys::touch(std::uint32_t node) {
  if (node == latest_) return;
  unlink(node);
  link_latest(node);
}

void RecentKeys::erase(std::uint32_t node) {
  std::uint32_t* at = &buckets_[bucket(nodes_[node].key)];
  while (*at != node) at = &nodes_[*at].chain;
  *at = nodes_[node].chain;
  unlink(node);
  nodes_[node].chain = free_;
  free_ = node;
  --used_;
}

void RecentKeys::clear() { *this = RecentKeys{}; }

void RecentKeys::grow_buckets() {
  const std::size_t size = buckets_.empty() ? 16 : buckets_.size() * 2;
  std::vector<std::uint32_t>(size, kNone).swap(buckets_);
  shift_ = 64;
  for (std::size_t rest = size; rest > 1; rest /= 2) --shift_;
  for (std::uint32_t node = oldest_; node != kNone; node = nodes_[node].newer) {
    if (is_unnamed(node)) continue;
    std::uint32_t& head = buckets_[bucket(nodes_[node].key)];
    nodes_[node].chain = head;
    head = node;
  }
}

void RecentKeys::unlink(std::uint32_t node) {
  const Node& gone = nodes_[node];
  (gone.older == kNone ? oldest_ : nodes_[gone.older].newer) = gone.newer;
  (gone.newer == kNone ? latest_ : nodes_[gone.newer].older) = gone.older;
}

void RecentKeys::link_latest(std::uint32_t node) {
  nodes_[node].older = latest_;
  nodes_[node].newer = kNone;
  (latest_ == kNone ? oldest_ : nodes_[latest_].newer) = node;
  latest_ = node;
}

}  // namespace penstock::routing
