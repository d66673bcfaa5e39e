// What a new replica is asked before it takes traffic, and how hot prefixes are kept from growing cold.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/time.h"

namespace penstock::actuation {

// A request that makes an engine compute a prefix that many users' requests begin with.
struct HotPrefix {
  std::string path, body;    // "/v1/chat/completions", JSON
  std::uint32_t tokens = 0;  // about
  std::uint64_t hits = 0;    // requests that began with it lately
};

struct WarmUpOptions {
  std::uint32_t representative = 4;          // prompts of made-up text, with lengths across those of recent traffic
  std::uint32_t prefixes_max = 32;           // hot ones
  std::uint64_t tokens_max = 200'000;        // of all prompts together
  std::uint64_t bytes_max = 1'000'000;       // of their text
  std::uint32_t prompt_tokens_max = 32'768;  // of one of made-up text
  std::uint32_t output_tokens = 8;           // asked of a representative prompt; of a prefix one is enough
  double bytes_per_token = 4.0;              // of made-up text
};

// Made-up texts for completions, and requests as they are, to be sent once those are answered.
struct WarmUp {
  struct Prompt {
    std::string text;
    std::uint32_t tokens = 0;      // about
    std::uint32_t max_tokens = 1;  // to be answered
  };
  std::vector<Prompt> representative;
  std::vector<HotPrefix> prefixes;
};

// Representative prompts first, shortest first, so that the engine compiles and allocates what it needs; no two of them
// share a prefix, so that each is computed. Then the prefixes that save most (hits · tokens) as far as the limits allow.
// Lengths are the middles of equal parts of `recent_input_tokens` when sorted; without any, one of 256 tokens.
// The order of `prefixes` does not matter. O(n log n).
[[nodiscard]] WarmUp plan_warm_up(std::span<const std::uint32_t> recent_input_tokens,
                                  std::span<const HotPrefix> prefixes, const WarmUpOptions& options);

// A prefix on one replica. The caller keeps `pinged_at`.
struct PrefixUse {
  std::uint32_t replica = 0;
  std::uint64_t prefix = 0;  // whatever names it for the caller
  std::uint64_t hits = 0;    // lately
  std::uint32_t tokens = 0;
  core::Instant used_at;                     // by a user
  std::optional<core::Instant> pinged_at{};  // last
};

struct PingOptions {
  core::Duration idle = std::chrono::minutes{2};  // without use or ping, after which it is pinged
  core::Duration hot = std::chrono::minutes{30};  // after the last use by a user; then it may go
  std::uint64_t hits_min = 2;                     // that make a prefix hot
  std::uint32_t per_replica = 2;                  // pings to one replica at one time
};

struct Ping {
  std::uint32_t replica = 0;
  std::uint64_t prefix = 0;

  friend bool operator==(const Ping&, const Ping&) = default;
};

// The pings that are due now, by replica, those that save most first. One that is left for lack of room is due again.
[[nodiscard]] std::vector<Ping> pings_due(std::span<const PrefixUse> uses, const PingOptions& options,
                                          core::Instant now);
// When the next one is due, if nobody uses anything until then; none: nothing is hot. May be in the past.
[[nodiscard]] std::optional<core::Instant> next_ping(std::span<const PrefixUse> uses, const PingOptions& options,
                                                     core::Instant now);

}  // namespace penstock::actuation
