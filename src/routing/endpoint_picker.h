// Chooses the replica for a live request by a price in milliseconds that adds up cache, queue and KV pressure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/random.h"
#include "core/time.h"

namespace penstock::routing {

// The input of one choice. Keys name prefixes (api/prompt_keys.h), and overlap is counted in keys.
struct PickRequest {
  std::span<const std::uint64_t> keys;
  std::uint32_t input_tokens = 0;   // Estimated tokens of the whole prompt.
  std::uint32_t key_tokens = 256;   // Prompt tokens that one key covers.
  std::uint64_t affinity = 0;       // Hash of the session; 0 means no session.
  std::uint32_t output_tokens = 0;  // Expected output tokens.
  // The session keeps its replica while its price exceeds the lowest one by no more than this; batch requests use more.
  core::Duration affinity_tolerance = std::chrono::milliseconds{200};
  std::span<const std::uint32_t> without{};  // Slots that have already failed this request.
};

enum class PickReason : std::uint8_t {
  kPrefix,    // The cached prefix outweighs the longer queue.
  kLoad,      // The replica has the shortest expected wait.
  kAffinity,  // The session was served there before.
  kOnly,      // No other replica was eligible.
};
[[nodiscard]] const char* to_string(PickReason why);  // Returns "prefix", "load", "affinity" or "only".

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
};

struct EndpointPickerOptions {
  double prefill_tokens_per_s = 8000.0;  // Prefill rate of a replica that has not been measured yet.
  double decode_ms_per_sequence = 0.15;  // Time that each running sequence adds to an iteration.
  // Time over which the price of a new replica falls to its true value.
  core::Duration slow_start = std::chrono::seconds{20};
  core::Duration load_report_age = std::chrono::seconds{10};  // Older load reports are ignored.
  double kv_soft = 0.80;                                      // KV usage from which the price of a replica rises.
  // Capacity of a replica that does not report its cache size. The least recently used keys are evicted first.
  std::uint32_t keys_per_replica = 65'536;
  core::Duration session_time = std::chrono::minutes{30};
  std::uint32_t sessions = 100'000;  // Maximum number of remembered sessions. The oldest are evicted first.
};

// The price of a replica is its expected time to first token. It is the sum of (uncached prompt tokens that were sent
// and are not answered yet + those of this request) / the measured prefill rate, the delay that running sequences add,
// and a penalty for a nearly full KV cache. Load is what this gateway sent and has not ended, corrected by what the
// engine reports, because other clients may send to the engine, too. Ties are broken at random, so that equal replicas
// share the load.
//
// The prefixes that a replica holds are taken from its KV events. Without events, every prompt that was sent counts as
// cached, up to the replica's capacity. choose() is O(replicas + log keys · distinct sets of holders). Not thread-safe.
class EndpointPicker {
 public:
  EndpointPicker(const EndpointPickerOptions& options, core::RandomStream random);
  ~EndpointPicker();
  EndpointPicker(EndpointPicker&&) noexcept;
  EndpointPicker& operator=(EndpointPicker&&) noexcept;

  // The slot is eligible at once. Slots may be reused after forget().
  void add(std::uint32_t slot, core::Instant now, double weight = 1.0);
  void set_eligible(std::uint32_t slot, bool eligible,
                    core::Instant now);  // draining, broken, or back: with slow start
  void set_weight(std::uint32_t slot, double weight, core::Instant now);
  void forget(std::uint32_t slot);                            // Removes the replica and all prefixes that it held.
  void set_capacity(std::uint32_t slot, std::uint32_t keys);  // Size of the replica's cache.
  void report_load(std::uint32_t slot, const ReportedLoad& report);
  // The engine answered 429 or 503. For `pause` it is chosen only if no other replica is eligible.
  void busy(std::uint32_t slot, core::Instant now, core::Duration pause);

  // Returns nothing if no slot is eligible. Does not count the request as load.
  [[nodiscard]] std::optional<Selection> choose(const PickRequest& request, core::Instant now);

  // These calls report the phases of a request on a slot. `uncached_tokens` is the selection's value in each of them.
  void dispatched(const PickRequest& request, const Selection& selection, core::Instant now);
  void first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Duration ttft, core::Instant now);
  // Replaces first_token() for responses that are not streamed: the first token is assumed to be out by now. The
  // prefill rate is not updated.
  void assume_first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Instant sent_at, core::Instant now);
  // `answered` is true if the first token was reported. `output_tokens` is the value that was expected at dispatch.
  void finished(std::uint32_t slot, std::uint32_t uncached_tokens, std::uint32_t input_tokens,
                std::uint32_t output_tokens, bool answered);

  // KV events. After the first event for a key that was sent to some slot, only events determine what the slot holds.
  void stored(std::uint32_t slot, std::uint64_t key);
  void removed(std::uint32_t slot, std::uint64_t key);
  void cleared(std::uint32_t slot);
  void events_lost(std::uint32_t slot);  // The event stream has a gap.
  // The engine did not hold a prefix that was last sent at `used_at`. Every prefix that was used no later is dropped,
  // unless the slot has KV events.
  void prefix_missing(std::uint32_t slot, core::Instant used_at);

  struct Holder {
    std::uint32_t slot = 0;
    core::Instant sent_at;  // Last time the prefix was sent to the slot.
  };
  // Returns the slots that hold all of the keys. Slots that are known from events only, without a request, are left
  // out.
  [[nodiscard]] std::vector<Holder> holders(std::span<const std::uint64_t> keys, core::Instant now);
  // Counts a prompt that no user sent, such as a cache keep-alive, as cached but not as load.
  void pinged(std::uint32_t slot, std::span<const std::uint64_t> keys, core::Instant now);

  struct Load {
    bool eligible = false;
    std::uint32_t open_requests = 0;
    std::uint64_t prefill_tokens = 0;   // Uncached prompt tokens that were sent and have no first token yet.
    std::uint64_t context_tokens = 0;   // Prompt and expected output tokens of open requests.
    double prefill_tokens_per_s = 0.0;  // Measured prefill rate.
    std::optional<double> kv_usage;     // Last reported value, if it is recent enough.
    std::uint64_t keys = 0;             // Number of prefixes that the replica is expected to hold.
    bool by_events = false;
  };
  [[nodiscard]] Load load(std::uint32_t slot, core::Instant now) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::routing
