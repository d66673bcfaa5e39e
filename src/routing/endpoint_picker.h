// Chooses the replica for a live request: one price in milliseconds for cache, queue and KV pressure.
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

// What a request is chosen by. Keys name prefixes (api/prompt_keys.h); overlap counts in them.
struct PickRequest {
  std::span<const std::uint64_t> keys;
  std::uint32_t input_tokens = 0;   // estimate of the whole prompt
  std::uint32_t key_tokens = 256;   // tokens that a key stands for
  std::uint64_t affinity = 0;       // hash of a session; 0: none
  std::uint32_t output_tokens = 0;  // expected
  // How much longer the first token may take, so that the session stays where it is; a batch request affords more.
  core::Duration affinity_worth = std::chrono::milliseconds{200};
  std::span<const std::uint32_t> without{};  // slots that failed it already
};

enum class PickReason : std::uint8_t {
  kPrefix,    // its cache makes up for its queue
  kLoad,      // the shortest expected wait
  kAffinity,  // the session was there before
  kOnly,      // no other could be chosen
};
[[nodiscard]] const char* to_string(PickReason why);  // "prefix", "load", "affinity", "only"

struct Selection {
  std::uint32_t slot = 0;
  std::uint32_t overlap_keys = 0;
  core::Instant overlap_used_at = core::kNever;  // when the whole of them was last sent there; never: by events only
  std::uint32_t uncached_tokens = 0;             // of the prompt, as believed
  double expected_ttft_ms = 0.0;
  PickReason why = PickReason::kLoad;
  // For dispatched(): by how much another replica would have been cheaper, had it held the first `shared_keys`, too.
  // Negative: this replica is to hold them from now on, and what was counted so far is settled.
  double forgone_ms = 0.0;
  std::uint32_t shared_keys = 0;
};

// What an engine says of itself, when it says anything.
struct ReportedLoad {
  core::Instant at;
  std::uint32_t waiting = 0, running = 0;
  std::optional<std::uint64_t> waiting_prefill_tokens;
  std::optional<double> kv_usage;  // 0..1
};

struct EndpointPickerOptions {
  double prefill_tokens_per_s = 8000.0;                       // of a replica nobody has measured yet
  double decode_ms_per_sequence = 0.15;                       // that each running sequence adds to an iteration
  core::Duration slow_start = std::chrono::seconds{20};       // over which a new replica's price falls to its true one
  core::Duration load_report_age = std::chrono::seconds{10};  // older words of an engine do not count
  double kv_soft = 0.80;                                      // KV usage from which a replica's price rises
  std::uint32_t keys_per_replica = 65'536;  // of one whose cache size nobody told; the least recently used go first
  core::Duration session_time = std::chrono::minutes{30};
  std::uint32_t sessions = 100'000;  // remembered; the oldest go first
};

// The price of a replica is the expected time to first token there: (uncached prompt tokens sent and not yet answered +
// its own) over the rate at which this replica has been seen to prefill, plus what its running sequences slow it by, plus
// what a nearly full KV cache costs. Load is what was sent and has not ended, corrected by what the engine says of itself
// (others may send to it, too). Equal prices are drawn, so that replicas that know nothing share the load.
//
// Which prefixes a replica holds is taken from its KV events where there are any, else believed of what was sent there,
// up to its capacity. choose() is O(replicas + log keys · distinct sets of holders). Not thread-safe.
class EndpointPicker {
 public:
  EndpointPicker(const EndpointPickerOptions& options, core::RandomStream random);
  ~EndpointPicker();
  EndpointPicker(EndpointPicker&&) noexcept;
  EndpointPicker& operator=(EndpointPicker&&) noexcept;

  void add(std::uint32_t slot, core::Instant now, double weight = 1.0);  // eligible from now on; slots are used again
  void set_eligible(std::uint32_t slot, bool eligible,
                    core::Instant now);  // draining, broken, or back: with slow start
  void set_weight(std::uint32_t slot, double weight, core::Instant now);
  void forget(std::uint32_t slot);                            // gone, with all that it held
  void set_capacity(std::uint32_t slot, std::uint32_t keys);  // of its cache
  void report_load(std::uint32_t slot, const ReportedLoad& heard);
  // It said that it is busy (429, 503): for `pause`, it is chosen only if no other can be.
  void busy(std::uint32_t slot, core::Instant now, core::Duration pause);

  // None when no slot is eligible. Counts nothing yet.
  [[nodiscard]] std::optional<Selection> choose(const PickRequest& ask, core::Instant now);

  // The life of a request on a slot. `uncached_tokens` is the selection's, the same in all of them.
  void dispatched(const PickRequest& ask, const Selection& selection, core::Instant now);
  void first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Duration ttft, core::Instant now);
  // The same of an answer that is not streamed: nobody sees its first token, which should be out by now. Teaches nothing.
  void assume_first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Instant sent_at, core::Instant now);
  // `answered`: its first token had come. `output_tokens` as expected at dispatch.
  void finished(std::uint32_t slot, std::uint32_t uncached_tokens, std::uint32_t input_tokens,
                std::uint32_t output_tokens, bool answered);

  // KV events: from the first on that names a key which was sent to some slot, only they say what the slot holds.
  void stored(std::uint32_t slot, std::uint64_t key);
  void removed(std::uint32_t slot, std::uint64_t key);
  void cleared(std::uint32_t slot);
  void events_lost(std::uint32_t slot);  // some are missing
  // It did not hold what was last sent there at that time: all that was used no later is forgotten, unless it has events.
  void lacked(std::uint32_t slot, core::Instant used_at);

  struct Holder {
    std::uint32_t slot = 0;
    core::Instant sent_at;  // the prefix, last
  };
  // The slots that are believed to hold all of the keys. Those that only events told of, nothing having been sent, are left out.
  [[nodiscard]] std::vector<Holder> holders(std::span<const std::uint64_t> keys, core::Instant now);
  // A prompt that is no user's request: it counts as held, and as no load.
  void pinged(std::uint32_t slot, std::span<const std::uint64_t> keys, core::Instant now);

  struct Load {
    bool eligible = false;
    std::uint32_t open_requests = 0;
    std::uint64_t prefill_tokens = 0;   // uncached, sent and not yet answered with a first token
    std::uint64_t context_tokens = 0;   // of open requests: prompt and expected output
    double prefill_tokens_per_s = 0.0;  // as measured
    std::optional<double> kv_usage;     // as last heard, if not too old
    std::uint64_t keys = 0;             // prefixes it is believed to hold
    bool by_events = false;
  };
  [[nodiscard]] Load load(std::uint32_t slot, core::Instant now) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::routing
