// Chooses the replica that serves a simulated request.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/random.h"
#include "routing/picking_strategy.h"
#include "routing/prefix_index.h"

namespace penstock::routing {

struct RouteRequest {
  std::uint32_t input_tokens = 0;
  std::span<const std::uint64_t> keys;  // One for each full block of the prompt.
};

struct Choice {
  std::uint32_t slot = 0;
  // Leading blocks of the prompt that the replica's cache is expected to hold.
  std::uint32_t overlap_blocks = 0;
};

// Load of one replica, derived from the requests that the router sent and their responses.
struct ReplicaLoad {
  bool eligible = false;
  std::uint32_t open_requests = 0;
  std::uint64_t prefill_tokens = 0;  // Uncached prompt tokens that were sent and have no first token yet.
  std::uint64_t kv_blocks = 0;       // Prompt blocks of open requests.
};

// kKv chooses the replica with the lowest
//     uncached prefill blocks (queued blocks and those of the request minus the overlap)  +  KV blocks in use,
// which is Dynamo's default cost with weight 1 (ai-dynamo, KV router). Ties are broken at random, so that equal
// replicas share the load. Not thread-safe.
class Router {
 public:
  Router(Strategy strategy, std::uint32_t block_tokens, core::RandomStream random);

  void set_eligible(std::uint32_t slot, bool eligible);
  void forget(std::uint32_t slot);  // Removes the load and the prefixes of a replica that was stopped.

  // Returns nothing if no replica is eligible. Does not count the request as load.
  [[nodiscard]] std::optional<Choice> choose(const RouteRequest& request);

  // These calls report the phases of a request on a slot. `prefill_tokens` and `blocks` are the same in all three.
  void dispatched(std::uint32_t slot, std::uint32_t prefill_tokens, std::uint32_t blocks);
  void first_token(std::uint32_t slot, std::uint32_t prefill_tokens);
  void finished(std::uint32_t slot, std::uint32_t blocks);

  [[nodiscard]] PrefixIndex& index() { return index_; }
  [[nodiscard]] const ReplicaLoad& load(std::uint32_t slot) const { return loads_[slot]; }
  [[nodiscard]] std::span<const std::uint32_t> eligible() const { return eligible_; }

 private:
  [[nodiscard]] Choice choose_kv(const RouteRequest& request);

  Strategy strategy_;
  std::uint32_t block_tokens_;
  core::RandomStream random_;
  PrefixIndex index_;
  std::vector<ReplicaLoad> loads_;
  std::vector<std::uint32_t> eligible_;  // Eligible slots in ascending order.
  std::vector<std::uint32_t> overlap_;
  std::uint64_t turn_ = 0;
};

}  // namespace penstock::routing
