// Measurements of a run: latencies and outcomes in total, by segment, over time and for the last seconds.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/sketch.h"
#include "core/time.h"
#include "load/answer_timer.h"
#include "load/request_shape.h"

namespace penstock::load {

// Measurements of a set of requests. Latencies in milliseconds.
struct Figures {
  std::array<std::uint64_t, kOutcomes> outcomes{};
  // TTFT includes all requests with a token, and timed-out requests without one (with their waiting time as a lower
  // bound). ITL and latency include successful requests only.
  core::QuantileSketch ttft_ms, itl_ms, latency_ms;
  std::uint64_t tokens_out = 0, tokens_wanted = 0;  // Successful requests only.

  [[nodiscard]] std::uint64_t of(Outcome outcome) const { return outcomes[static_cast<std::size_t>(outcome)]; }
  [[nodiscard]] std::uint64_t errors() const;  // Sum of failed, truncated and timed out.
  [[nodiscard]] std::uint64_t ended() const;   // All except cancelled.
  void add(const RequestRecord& record, const RequestShape& shape);
};

struct Segment {
  std::string_view group;  // "class", "tenant", "prompt" or "output".
  std::string label;
  Figures figures;
};

// A time slot of the run. Requests count at their intended start; tokens and requests in flight count when they were
// observed.
struct TimeSlot {
  std::uint64_t meant = 0, ok = 0, refused = 0, errors = 0, tokens = 0;
  std::uint32_t in_flight_max = 0;
  core::QuantileSketch ttft_ms, itl_ms;
};

// A failure cause with one example.
struct Cause {
  std::uint64_t count = 0;
  std::string example;  // Truncated response of the server.
};

class Tally {
 public:
  explicit Tally(std::vector<std::string> tenants);

  struct Sent {
    core::Duration intended{}, sent{};
    bool held_by_limit = false;  // Delayed by max_in_flight, so that the generator was not late.
  };
  void record_sent(const Sent& sent);
  void record_unsent(core::Duration intended);  // A request that was given up before it was sent.
  void record_in_flight(std::uint32_t requests, core::Duration now);
  void record_first_token(core::Duration ttft, core::Duration now);
  void record_tokens(const AnswerTimer::Tokens& tokens, core::Duration now);  // At least one.
  // `response` is the start of the body of an unsuccessful response.
  void record_end(const RequestRecord& record, const RequestShape& shape, std::string_view response);

  [[nodiscard]] const Figures& all() const { return all_; }
  [[nodiscard]] std::vector<Segment> segments() const;  // Segments with requests, in a fixed order.
  [[nodiscard]] const core::QuantileSketch& gaps_ms() const { return gaps_ms_; }  // Gaps between all tokens.
  // Longest gap of each request.
  [[nodiscard]] const core::QuantileSketch& max_gaps_ms() const { return max_gaps_ms_; }
  [[nodiscard]] const core::QuantileSketch& first_byte_ms() const { return first_byte_ms_; }
  [[nodiscard]] const core::QuantileSketch& lateness_ms() const { return lateness_ms_; }
  [[nodiscard]] std::uint64_t held_by_limit() const { return held_by_limit_; }
  [[nodiscard]] std::uint64_t tokens_received() const { return tokens_received_; }
  [[nodiscard]] std::uint64_t cached_tokens() const { return cached_tokens_; }
  // Prompt tokens of answered requests.
  [[nodiscard]] std::uint64_t prompt_tokens() const { return prompt_tokens_; }
  [[nodiscard]] const std::map<std::string, Cause>& causes() const { return causes_; }
  [[nodiscard]] core::Duration last_end() const { return last_end_; }

  [[nodiscard]] const std::vector<TimeSlot>& slots() const { return slots_; }
  [[nodiscard]] core::Duration slot_width() const { return slot_width_; }

  // The last ten complete seconds before `now`.
  struct Recent {
    core::QuantileSketch ttft_ms, gap_ms;
    double sent_per_s = 0.0, tokens_per_s = 0.0;
  };
  [[nodiscard]] Recent recent(core::Duration now) const;

  static constexpr std::size_t kSlotsMax = 240;  // Neighbouring slots are merged at this limit.
  static constexpr std::size_t kCausesMax = 32;  // Further causes are combined into one.

 private:
  struct Second {
    std::int64_t number = -1;
    std::uint64_t sent = 0, tokens = 0;
    core::QuantileSketch ttft_ms, gap_ms;
  };
  static constexpr std::size_t kSeconds = 11;  // Ten complete seconds and the current one.

  [[nodiscard]] TimeSlot& slot_at(core::Duration time);
  [[nodiscard]] Second& second_at(core::Duration time);

  std::vector<std::string> tenants_;
  Figures all_;
  std::vector<Figures> by_class_, by_tenant_, by_prompt_, by_output_;
  core::QuantileSketch gaps_ms_, max_gaps_ms_, first_byte_ms_, lateness_ms_;
  std::uint64_t held_by_limit_ = 0, tokens_received_ = 0, cached_tokens_ = 0, prompt_tokens_ = 0;
  std::map<std::string, Cause> causes_;
  core::Duration last_end_{};
  std::vector<TimeSlot> slots_;
  core::Duration slot_width_ = std::chrono::seconds{1};
  std::array<Second, kSeconds> seconds_;
};

}  // namespace penstock::load
