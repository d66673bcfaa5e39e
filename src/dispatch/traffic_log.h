// What planners read from a gateway: the latest arrivals, first tokens and ends of requests, in order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"
#include "ledger/entry.h"

namespace penstock::dispatch {

struct TrafficEvent {
  enum class Kind : std::uint8_t { kArrival, kFirstToken, kEnd };
  std::uint64_t sequence = 0;  // from 1, without gaps
  Kind kind = Kind::kArrival;
  std::uint64_t request = 0;  // the same in all events of a request
  core::Instant at;
  // Of an arrival:
  std::string model, traffic_class, tenant;
  std::string_view route;                    // the path, in memory that outlives the log
  std::uint32_t input_tokens = 0;            // estimated, or given by the client
  std::vector<std::uint64_t> keys;           // Keys of its prefix blocks, at most kKeysMax.
  bool streamed = true;                      // False: it has no first token, only an end.
  std::uint32_t expected_output_tokens = 0;  // Estimated.
  double completion_window_s = 0.0;          // For which it may wait for spare capacity; 0: it is not deferred.
  // Of a first token: `admission_ms` is the part of `ttft_ms` until the request was admitted. Before both, limits of
  // its tenant or class held it up for `own_limit_ms`, or it waited for spare capacity.
  double admission_ms = 0.0, ttft_ms = 0.0, own_limit_ms = 0.0;
  double transfer_ms = 0.0;         // Part of `ttft_ms` after the end of its prefill on another replica.
  std::uint32_t cached_tokens = 0;  // Expected number.
  // Of an end; the replica is the last that had the request:
  ledger::Outcome outcome = ledger::Outcome::kCompleted;
  std::string replica;
  std::uint32_t prompt_tokens = 0, output_tokens = 0;
  double itl_ms = -1.0;
  double client_ms = 0.0;  // Time for which the answer waited for its client to read.

  static constexpr std::size_t kKeysMax = 256;
};

// Keeps the latest kEventsMax events; a reader that comes late learns how many it missed. Not thread-safe.
class TrafficLog {
 public:
  static constexpr std::size_t kEventsMax = 100'000;

  void add(TrafficEvent event);
  struct Page {
    std::uint64_t next = 1;  // the next page begins after this number
    std::uint64_t lost = 0;  // events that were requested and are gone
    std::vector<TrafficEvent> events;
  };
  [[nodiscard]] Page after(std::uint64_t sequence, std::size_t events_max) const;

 private:
  // Pieces are never moved, and are used again once there are kEventsMax events, so that adding does not allocate.
  static constexpr std::size_t kPieceEvents = 500;
  static_assert(kEventsMax % kPieceEvents == 0);
  using Piece = std::array<TrafficEvent, kPieceEvents>;

  [[nodiscard]] std::size_t size() const;

  std::vector<std::unique_ptr<Piece>> pieces_;
  std::uint64_t last_ = 0;
};

}  // namespace penstock::dispatch
