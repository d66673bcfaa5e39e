// The interface of what chooses a replica: Penstock's endpoint picker and the routers of peers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/random.h"
#include "core/time.h"

namespace penstock::routing {

struct EndpointPickerOptions;

enum class Strategy : std::uint8_t {
  kLive,  // EndpointPicker: the lowest expected time to first token.
  kKv,    // Weighs prefix overlap against queued prefill and KV in use.
  kRoundRobin,
  kLeastLoaded,  // Fewest open requests.
  kPowerOfTwo,   // The less loaded of two replicas that are drawn at random.
};
[[nodiscard]] const char* to_string(Strategy strategy);  // Returns "live", "kv", "round-robin", …

// The input of one choice. A key names a prefix of the prompt up to and including its block, and overlap is counted in
// keys.
struct PickRequest {
  std::span<const std::uint64_t> keys;
  std::uint32_t unshared_keys = 0;  // Number of further keys of the prompt, which no other prompt has.
  std::uint32_t input_tokens = 0;   // Estimated tokens of the whole prompt.
  std::uint32_t key_tokens = 256;   // Prompt tokens that one key covers.
  std::uint64_t affinity = 0;       // Hash of the session; 0 means no session.
  std::uint32_t output_tokens = 0;  // Expected output tokens.
  // The session keeps its replica while its price exceeds the lowest one by no more than this; batch requests use more.
  core::Duration affinity_tolerance = std::chrono::milliseconds{200};
  std::span<const std::uint32_t> without{};  // Slots that have already failed this request.
  bool decode_only = false;                  // The prompt was computed elsewhere and is charged to no replica.
};

enum class PickReason : std::uint8_t {
  kPrefix,    // The cached prefix outweighs the longer queue.
  kLoad,      // The replica has the shortest expected wait.
  kAffinity,  // The session was served there before.
  kOnly,      // No other replica was eligible.
};
inline constexpr std::size_t kPickReasons = 4;
[[nodiscard]] const char* to_string(PickReason why);  // Returns "prefix", "load", "affinity" or "only".

// KV tokens that a request adds to a replica, on average over its life: what is not cached there, and half of its
// answer, because requests that overlap are half done on average.
[[nodiscard]] constexpr std::uint64_t kv_tokens_of(std::uint32_t uncached_tokens, std::uint32_t output_tokens) {
  return std::uint64_t{uncached_tokens} + output_tokens / 2;
}

struct Selection {
  std::uint32_t slot = 0;
  std::uint32_t overlap_keys = 0;
  // Last time the whole overlap was sent to this replica; kNever if it is known from events only.
  core::Instant overlap_used_at = core::kNever;
  std::uint32_t uncached_tokens = 0;  // Prompt tokens that the replica is expected to compute.
  double expected_ttft_ms = 0.0;
  PickReason why = PickReason::kLoad;
  // dispatched() reads both fields. Positive: another replica would have been this much cheaper if it held the first
  // `shared_keys` keys, too. Negative: this replica shall hold these keys from now on, and the accumulated rent of the
  // prefix is reset.
  double forgone_ms = 0.0;
  std::uint32_t shared_keys = 0;
};

// The load that an engine reports in its metrics.
struct ReportedLoad {
  core::Instant at;
  std::uint32_t waiting = 0, running = 0;
  std::optional<std::uint64_t> waiting_prefill_tokens;
  std::optional<double> kv_usage;  // Range 0 to 1.
  std::optional<std::uint64_t> kv_capacity_tokens{};
};

// Chooses among the replicas of one group, which are numbered by slot, and learns from what is reported of them. Not
// thread-safe.
class PickingStrategy {
 public:
  PickingStrategy() = default;
  PickingStrategy(const PickingStrategy&) = delete;
  PickingStrategy& operator=(const PickingStrategy&) = delete;
  virtual ~PickingStrategy() = default;

  // The life of a replica. The slot is eligible at once. Slots may be reused after forget().
  virtual void add(std::uint32_t slot, core::Instant now, double weight) = 0;
  virtual void set_eligible(std::uint32_t slot, bool eligible, core::Instant now) = 0;
  virtual void forget(std::uint32_t slot) = 0;  // Removes the replica and all prefixes that it held.

  // Returns nothing if no slot is eligible. Does not count the request as load.
  [[nodiscard]] virtual std::optional<Selection> choose(const PickRequest& request, core::Instant now) = 0;

  // These calls report the phases of a request on a slot. `uncached_tokens` is the selection's value in each of them.
  virtual void dispatched(const PickRequest& request, const Selection& selection, core::Instant now) = 0;
  virtual void first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Duration ttft,
                           core::Instant now) = 0;
  // Replaces first_token() for responses that are not streamed: the first token is assumed to be out by now. Nothing is
  // learned from it.
  virtual void assume_first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Instant sent_at,
                                  core::Instant now) = 0;
  // `answered` is true if the first token was reported. `output_tokens` is the value that was expected at dispatch.
  virtual void finished(std::uint32_t slot, std::uint32_t uncached_tokens, std::uint32_t input_tokens,
                        std::uint32_t output_tokens, bool answered) = 0;

  // KV events of the engine on a slot.
  virtual void stored(std::uint32_t slot, std::uint64_t key) = 0;
  virtual void removed(std::uint32_t slot, std::uint64_t key) = 0;
  virtual void cleared(std::uint32_t) {}
  virtual void events_lost(std::uint32_t) {}  // The event stream has a gap.

  struct Load {
    bool eligible = false;
    std::uint32_t open_requests = 0;
    std::uint64_t prefill_tokens = 0;   // Uncached prompt tokens that were sent and have no first token yet.
    std::uint64_t context_tokens = 0;   // Prompt and expected output tokens of open requests.
    double prefill_tokens_per_s = 0.0;  // Measured prefill rate.
    std::optional<double> kv_usage;     // Last reported value, if it is recent enough.
    // That value with what was sent since, or what the open requests need on average if that is more. Above 1 if they
    // need more than there is. Empty without a recent report.
    std::optional<double> kv_usage_expected;
    std::optional<std::uint64_t> kv_capacity_tokens;  // As reported.
    std::uint64_t keys = 0;                           // Number of prefixes that the replica is expected to hold.
    bool by_events = false;
  };
  [[nodiscard]] virtual Load load(std::uint32_t slot, core::Instant now) const = 0;

  // Only some strategies make use of these.
  virtual void set_weight(std::uint32_t, double, core::Instant) {}
  virtual void set_capacity(std::uint32_t, std::uint32_t /*keys of its cache*/) {}
  virtual void report_load(std::uint32_t, const ReportedLoad&) {}
  // Replaces EndpointPickerOptions::kv_full.
  virtual void set_kv_full(double) {}
  // The engine answered 429 or 503. For `pause` it is chosen only if no other replica is eligible.
  virtual void busy(std::uint32_t, core::Instant, core::Duration /*pause*/) {}
  // The engine did not hold a prefix that was last sent at `used_at`. Every prefix that was used no later is dropped,
  // unless the slot has KV events.
  virtual void prefix_missing(std::uint32_t, core::Instant /*used_at*/) {}

  struct Holder {
    std::uint32_t slot = 0;
    core::Instant sent_at;  // Last time the prefix was sent to the slot.
  };
  // Returns the slots that hold all of the keys. Slots that are known from events only, without a request, are left
  // out.
  [[nodiscard]] virtual std::vector<Holder> holders(std::span<const std::uint64_t>, core::Instant) { return {}; }
  // Counts a prompt that no user sent, such as a cache keep-alive, as cached but not as load.
  virtual void pinged(std::uint32_t, std::span<const std::uint64_t>, core::Instant) {}
};

// `block_tokens` is the block size of the peers' strategies.
[[nodiscard]] std::unique_ptr<PickingStrategy> make_picking_strategy(Strategy strategy,
                                                                     const EndpointPickerOptions& options,
                                                                     std::uint32_t block_tokens,
                                                                     core::RandomStream random);

}  // namespace penstock::routing
