// The simulated engine with text prompts, text answers and token times. It has no socket and no clock: the caller
// passes the time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "engine/engine.h"
#include "engine_server/answer_plan.h"
#include "engine_server/block_table.h"
#include "engine_server/meter.h"
#include "telemetry/kv_event.h"

namespace penstock::engine_server {

struct SessionOptions {
  engine::EngineConfig engine;
  AnswerOptions answers;
  std::uint32_t context_tokens = 131'072;  // Maximum of prompt and answer together.
  bool hold_prefilled = false;             // The engine is a prefill engine; see keep_kv.
  bool kv_events = false;
};

// A request to the engine. The text must be valid only during submit().
struct Ask {
  std::string_view text;
  std::optional<std::uint32_t> max_tokens;  // Empty means the rest of the context.
  bool ignore_eos = false;
  std::span<const std::string> stop;
  std::int8_t priority = 0;  // Higher priorities are served first.
  core::Instant arrived;
  std::string_view cache_salt{};  // Blocks are shared only between requests with the same salt.
  bool prefilled = false;         // The KV and the first token were fetched from a prefill engine.
  bool keep_kv = false;           // Prefill engine: generate one token and hold the KV until release().
};

// A request that is open, or ended and not forgotten yet.
struct SessionRequest {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;  // Cached prompt tokens.
  std::uint32_t generated = 0;
  AnswerPlan plan;
  bool completed = false;
  bool holds_kv = false;  // The request has completed and its KV is held.
  RequestTimes times;
};

// One completed iteration, and the queue at its end.
struct IterationRecord {
  core::Instant ended_at;
  engine::IterationDetail detail;
  engine::EngineState state;
};

class Session {
 public:
  Session(const SessionOptions& options, const engine::StepTimeModel& step_time);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Advances the time to `now`, which must not decrease, and processes everything that is due.
  void advance(core::Instant now);
  [[nodiscard]] core::Instant next_event() const;  // kNever while nothing runs.

  // Submits at the time of the last advance(). Returns the request's number, or an error if prompt and answer are too
  // long.
  [[nodiscard]] core::Result<std::uint32_t> submit(const Ask& ask);
  // The client left. The sequence ends with the current iteration, and the number becomes invalid.
  void cancel(std::uint32_t number);
  // Releases the KV of a completed request.
  void release(std::uint32_t number);
  // Discards the content of the KV cache. Nothing may be open.
  void discard_kv();
  // The engine becomes a prefill engine, or no longer is one, and its KV cache is empty. Nothing is open.
  void set_prefill(bool prefill);
  // Removes a completed request. One that holds KV stays until release().
  void forget(std::uint32_t number);

  // Returns nullptr if the number is unknown.
  [[nodiscard]] const SessionRequest* find(std::uint32_t number) const;
  // Number of open requests, including those that hold KV or are leaving.
  [[nodiscard]] std::size_t open() const { return requests_.size(); }
  [[nodiscard]] engine::EngineState state() const { return engine_.state(now_); }
  [[nodiscard]] const BlockTable& blocks() const { return blocks_; }
  [[nodiscard]] Meter& meter() { return meter_; }
  [[nodiscard]] const Meter& meter() const { return meter_; }
  [[nodiscard]] core::Instant now() const { return now_; }

  // Events since the caller last cleared these lists.
  std::vector<std::uint32_t> progressed;
  std::vector<IterationRecord> iterations;
  std::vector<telemetry::KvEvent> kv_events;

 private:
  struct Open {
    SessionRequest seen;
    bool keep_kv = false, leaving = false;
    std::size_t progress_at = SIZE_MAX;  // Position in `progressed`, if it is still there.
    std::vector<std::uint32_t> block_ids;
  };

  void step(core::Instant at);
  void on_event(const engine::EngineEvent& event);
  void add_token(std::uint32_t number, Open& open, core::Instant at);
  void complete(std::uint32_t number, Open& open, core::Instant at);
  void touch(std::uint32_t number, Open& open);
  void acquire_blocks(const Ask& ask, std::vector<std::uint32_t>& ids);
  void erase(std::uint32_t number);
  void erase_left();
  void take_cache_events();
  void note_stored(std::uint32_t block);

  SessionOptions options_;
  engine::Engine engine_;
  BlockTable blocks_;
  Meter meter_;
  core::Instant now_;
  std::uint32_t next_number_ = 1;
  std::unordered_map<std::uint32_t, Open> requests_;
  std::vector<std::uint32_t> leaving_;  // Cancelled requests that are still in the current iteration.
  std::vector<engine::EngineEvent> events_;
  std::vector<std::uint64_t> keys_;
};

}  // namespace penstock::engine_server
