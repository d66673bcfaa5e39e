// Test support: step times that are easy to compute by hand, and a driver that advances an engine.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "engine/engine.h"

namespace penstock::engine::testing {

// Step times in whole nanoseconds that are linear in the work of a step.
class LinearNanoseconds final : public StepTimeModel {
 public:
  struct Terms {
    std::int64_t step = 1'000'000;  // Every step.
    std::int64_t prefill_token = 1'000;
    std::int64_t sequence = 0;
    std::int64_t context_token = 0;  // Sum of the lengths of decoding sequences.
    std::int64_t held_token = 0;     // Tokens in active blocks.
  };
  explicit LinearNanoseconds(const Terms& terms) : terms_(terms) {}

  [[nodiscard]] core::Duration step(const StepShape& shape) const override {
    const auto times = [](std::int64_t term, std::uint64_t count) { return term * static_cast<std::int64_t>(count); };
    return core::Duration{terms_.step + times(terms_.prefill_token, shape.prefill_new_tokens) +
                          times(terms_.sequence, shape.decode_sequences) +
                          times(terms_.context_token, shape.decode_context_tokens) +
                          times(terms_.held_token, shape.active_kv_tokens)};
  }
  [[nodiscard]] std::string description() const override { return "linear nanoseconds"; }

 private:
  Terms terms_;
};

struct TimedRequest {
  core::Instant at;
  EngineRequest request;
};

// Called every 7.777777 ms, which never coincides with a boundary between steps of whole microseconds.
using Look = std::function<void(core::Instant now)>;

// Submits the requests in order and advances until nothing is left. Held requests of a prefill engine are released
// `hold` after they completed.
inline std::vector<EngineEvent> drive(Engine& engine, const std::vector<TimedRequest>& requests,
                                      core::Duration hold = core::Duration{-1}, const Look& look = {}) {
  core::Instant next_look{core::Duration{7'777'777}};
  std::vector<EngineEvent> all, now_events;
  std::vector<std::pair<core::Instant, std::uint32_t>> held;
  std::size_t next = 0;
  for (;;) {
    const core::Instant arrival = next < requests.size() ? requests[next].at : core::kNever;
    const core::Instant release = held.empty() ? core::kNever : held.front().first;
    const core::Instant now = std::min({arrival, release, engine.next_event()});
    if (now == core::kNever) return all;
    for (; look && next_look < now; next_look += core::Duration{7'777'777}) look(next_look);
    if (now == release) {
      engine.release_held(held.front().second, now);
      held.erase(held.begin());
    } else if (now == arrival) {
      engine.submit(requests[next++].request, now);
    } else {
      now_events.clear();
      engine.advance(now, now_events);
      for (const EngineEvent& event : now_events) {
        all.push_back(event);
        if (hold >= core::Duration{} && event.kind == EngineEventKind::kCompleted)
          held.emplace_back(now + hold, event.request);
      }
    }
  }
}

}  // namespace penstock::engine::testing
