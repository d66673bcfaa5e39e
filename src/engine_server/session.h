// The simulated engine with what a server needs around it: prompts as text, answers as words, tokens at their times. No
// socket and no clock: the caller says what time it is.
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
  std::uint32_t context_tokens = 131'072;  // prompt and answer together
  bool hold_prefilled = false;             // a prefill engine: see Ask::keep_kv
  bool kv_events = false;
};

// What a request asks of the engine. The text need only live during submit().
struct Ask {
  std::string_view text;
  std::optional<std::uint32_t> max_tokens;  // none: what is left of the context
  bool ignore_eos = false;
  std::span<const std::string> stop;
  std::int8_t priority = 0;  // higher goes first
  core::Instant arrived;
  bool prefilled = false;  // its KV was fetched, and its first token with it
  bool keep_kv = false;    // of a prefill engine: one token, and the KV stays until release()
};

// A request that is open, or ended and not forgotten yet.
struct SessionRequest {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;  // of the prompt
  std::uint32_t generated = 0;
  AnswerPlan plan;
  bool completed = false;
  bool holds_kv = false;  // completed, and its KV is kept
  RequestTimes times;
};

// One iteration that is over, and what waited when it was.
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

  // Time goes on to `now`; no call may name an earlier one. Whatever is due by then has happened.
  void advance(core::Instant now);
  [[nodiscard]] core::Instant next_event() const;  // kNever while nothing runs

  // At the time of the last advance(). The request's number, or an error: the prompt and its answer are too long.
  [[nodiscard]] core::Result<std::uint32_t> submit(const Ask& ask);
  // The client is gone. The sequence leaves after the iteration under way, and the number means nothing any more.
  void cancel(std::uint32_t number);
  // Lets the KV of a completed request go.
  void release(std::uint32_t number);
  // After it has completed. One that holds its KV is remembered until release().
  void forget(std::uint32_t number);

  [[nodiscard]] const SessionRequest* find(std::uint32_t number) const;  // nullptr: there is none
  // Open requests, those included that hold KV or are leaving.
  [[nodiscard]] std::size_t open() const { return requests_.size(); }
  [[nodiscard]] engine::EngineState state() const { return engine_.state(now_); }
  [[nodiscard]] const BlockTable& blocks() const { return blocks_; }
  [[nodiscard]] Meter& meter() { return meter_; }
  [[nodiscard]] const Meter& meter() const { return meter_; }
  [[nodiscard]] core::Instant now() const { return now_; }

  // What has happened since these were last emptied, which is up to the caller.
  std::vector<std::uint32_t> progressed;  // requests that got tokens, each once; some may be forgotten since
  std::vector<IterationRecord> iterations;
  std::vector<telemetry::KvEvent> kv_events;

 private:
  struct Open {
    SessionRequest seen;
    bool keep_kv = false, leaving = false;
    std::size_t progress_at = SIZE_MAX;  // in `progressed`, if it is still there
    std::vector<std::uint32_t> block_ids;
  };

  void step(core::Instant at);
  void on_event(const engine::EngineEvent& event);
  void add_token(std::uint32_t number, Open& open, core::Instant at);
  void complete(std::uint32_t number, Open& open, core::Instant at);
  void touch(std::uint32_t number, Open& open);
  void acquire_blocks(std::string_view text, std::vector<std::uint32_t>& ids);
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
  std::vector<std::uint32_t> leaving_;  // cancelled, and still in the iteration under way
  std::vector<engine::EngineEvent> events_;
  std::vector<std::uint64_t> keys_;
};

}  // namespace penstock::engine_server
