#include "simulation/cached_prompts.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory_resource>
#include <unordered_map>

#include "simulation/run.h"

namespace penstock::simulation {
namespace {

constexpr std::size_t kBlocksMost = 200'000;  // More would take longer than the run itself.

// The caches of one pool while they are filled, the latest prompt first.
class PoolCaches {
 public:
  explicit PoolCaches(const PoolSpec& pool) : capacity_(pool.engine.kv_blocks), held_(pool.replicas, 0) {}

  [[nodiscard]] bool full() const { return full_; }

  // Returns the replica that gets the prompt, or the number of replicas if none does.
  [[nodiscard]] std::uint32_t place(std::span<const std::uint32_t> blocks) {
    const auto none = static_cast<std::uint32_t>(held_.size());
    if (full_) return none;
    std::size_t known = blocks.size();
    auto holder = holders_.end();
    while (known > 0 && (holder = holders_.find(blocks[known - 1])) == holders_.end()) --known;
    if (known == blocks.size()) return none;
    const bool mostly_held = 2 * known >= blocks.size();
    const auto least = static_cast<std::uint32_t>(std::min_element(held_.begin(), held_.end()) - held_.begin());
    const std::uint32_t replica = mostly_held ? holder->second : least;
    const bool has_known = known > 0 && holder->second == replica;
    const std::size_t added = blocks.size() - (has_known ? known : 0);
    if (held_[replica] + added > capacity_) {
      full_ = replica == least;
      return none;
    }
    held_[replica] += added;
    for (const std::uint32_t block : blocks.subspan(known)) holders_.emplace(block, replica);
    return replica;
  }

 private:
  std::size_t capacity_;
  std::vector<std::size_t> held_;  // Blocks, by replica.
  std::pmr::monotonic_buffer_resource memory_;
  std::pmr::unordered_map<std::uint32_t, std::uint32_t> holders_{&memory_};  // Replica by block: the first that got it.
  bool full_ = false;
};

}  // namespace

std::vector<CachedPrompt> place_prompts(std::span<const EarlierPrompt> prompts, const std::vector<PoolSpec>& pools) {
  std::deque<PoolCaches> caches(pools.begin(), pools.end());
  std::vector<CachedPrompt> placed;
  std::size_t blocks = 0;
  for (auto prompt = prompts.rbegin(); prompt != prompts.rend() && blocks < kBlocksMost; ++prompt) {
    PoolCaches& pool = caches[prompt->pool];
    if (prompt->block_ids.empty() || pools[prompt->pool].replicas == 0) continue;
    const std::uint32_t replica = pool.place(prompt->block_ids);
    if (replica < pools[prompt->pool].replicas) {
      placed.push_back({replica, *prompt});
      blocks += prompt->block_ids.size();
    } else if (std::ranges::all_of(caches, &PoolCaches::full)) {
      break;
    }
  }
  std::reverse(placed.begin(), placed.end());
  return placed;
}

}  // namespace penstock::simulation
