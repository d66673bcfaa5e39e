// Chooses the replica that serves a request.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/random.h"
#include "routing/prefix_index.h"

namespace penstock::routing {

enum class Strategy : std::uint8_t {
  kKv,  // prefix overlap against queued prefill and KV in use
  kRoundRobin,
  kLeastLoaded,  // fewest open requests
  kPowerOfTwo,   // the less loaded of two drawn at random
};

struct RouteRequest {
  std::uint32_t input_tokens = 0;
  std::span<const std::uint32_t> block_ids;  // full blocks of the prompt
};

struct Choice {
  std::uint32_t slot = 0;
  std::uint32_t overlap_blocks = 0;  // of the prompt, believed to be in that replica's cache
};

// What the router knows of one replica: only what it sent there and what came back.
struct ReplicaLoad {
  bool eligible = false;
  std::uint32_t open_requests = 0;
  std::uint64_t prefill_tokens = 0;  // uncached prompt tokens sent and not yet answered with a first token
  std::uint64_t kv_blocks = 0;       // prompt blocks of open requests
};

// kKv takes the least of
//     uncached prefill blocks (those under way, and the request's own minus the overlap)  +  KV blocks in use,
// Dynamo's default cost with weight 1 (ai-dynamo, KV router). Equal costs are drawn at random, so that replicas that know
// nothing yet share the load. Not thread-safe.
class Router {
 public:
  Router(Strategy strategy, std::uint32_t block_tokens, core::RandomStream random);

  void set_eligible(std::uint32_t slot, bool eligible);
  void forget(std::uint32_t slot);  // the replica is gone: its load and its prefixes

  // None when no replica is eligible. Does not count the request yet.
  [[nodiscard]] std::optional<Choice> choose(const RouteRequest& request);

  // The life of a request on a slot. `prefill_tokens` and `blocks` are the same in all three.
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
  std::vector<std::uint32_t> eligible_;  // slots, ascending
  std::vector<std::uint32_t> overlap_;
  std::uint64_t turn_ = 0;
};

}  // namespace penstock::routing
