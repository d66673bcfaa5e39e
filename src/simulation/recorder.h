// Keeps what became of every request, and turns it into windows, series, segments and summaries.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "core/sketch.h"
#include "core/time.h"
#include "decision/run_result.h"
#include "signals/observation.h"
#include "signals/slo.h"
#include "workload/request.h"

namespace penstock::simulation {

enum class Outcome : std::uint8_t {
  kOpen,
  kCompleted,
  kTooLarge,          // Prompt and output can never fit.
  kReplicaCrashed,    // After its first token; earlier, the request goes to another replica.
  kUnfinished,        // No replica served it before the run was given up.
  kRefused,           // The gateway refused it and counts the reason.
  kCancelled,         // The client left.
  kTimedOut,          // The time budget of its class ended.
  kReplicaTimeout,    // No first token in time, or its stream was silent for too long.
  kGatewayRestarted,  // After its first token; earlier, the client sends it again.
  kTruncated,         // Its replica ended the stream early.
};
inline constexpr std::size_t kOutcomes = 11;
[[nodiscard]] const char* to_string(Outcome outcome);

// The state of the fleet at one moment, summed over its replicas.
struct FleetSnapshot {
  std::uint32_t target = 0, starting = 0, ready = 0, draining = 0, asleep = 0;
  double asleep_paid = 0.0;  // Replicas asleep times the share of the price that each costs.
  std::vector<std::uint32_t> ready_by_pool;
  std::uint64_t queued_requests = 0, running_requests = 0;
  std::uint64_t kv_used_tokens = 0, kv_capacity_tokens = 0;
  std::uint64_t generated_tokens = 0;  // since the start
};

class Recorder {
 public:
  // Each request is judged by the target of its segment of `slo`.
  Recorder(const workload::Workload& workload, const signals::SloPolicy& slo, std::string_view model,
           core::Duration point_width);
  // Requests that arrive outside of this window are not counted.
  void judge_window(core::Instant from, core::Instant until);
  // Only judge() will be called.
  void skip_points() { keeps_points_ = false; }
  // Is called when a request has ended, however it ended.
  void on_end(std::function<void(std::uint32_t request, core::Instant at)> listener) { on_end_ = std::move(listener); }

  void arrived(std::uint32_t request);
  void first_token(std::uint32_t request, core::Instant at, std::uint32_t cached_tokens);
  // After so many tokens; the gateway may have granted fewer than the trace has.
  void completed(std::uint32_t request, core::Instant at, std::uint32_t output_tokens);
  void failed(std::uint32_t request, core::Instant at, Outcome outcome);

  [[nodiscard]] std::uint64_t arrivals() const { return arrived_; }
  [[nodiscard]] std::size_t requests() const { return records_.size(); }
  [[nodiscard]] bool has_arrived(std::uint32_t request) const { return records_[request].arrived; }
  // All requests have arrived, and have ended.
  [[nodiscard]] bool has_all() const { return arrived_ >= records_.size() && open() == 0; }
  [[nodiscard]] std::uint64_t open() const { return arrived_ - ended_; }
  [[nodiscard]] std::uint64_t open_in_window() const { return window_open_; }
  [[nodiscard]] std::uint64_t count(Outcome outcome) const { return by_outcome_[static_cast<std::size_t>(outcome)]; }
  [[nodiscard]] core::Instant last_end() const { return last_end_; }
  [[nodiscard]] bool has_first_token(std::uint32_t request) const { return records_[request].ttft_ms >= 0.0F; }
  [[nodiscard]] Outcome outcome(std::uint32_t request) const { return records_[request].outcome; }
  [[nodiscard]] bool cache_hit(std::uint32_t request) const { return records_[request].cache_hit; }
  [[nodiscard]] double ttft_ms(std::uint32_t request) const { return static_cast<double>(records_[request].ttft_ms); }
  [[nodiscard]] double itl_ms(std::uint32_t request) const { return static_cast<double>(records_[request].itl_ms); }
  // Of its SLO: 0 is the general one, i + 1 that of segment i.
  [[nodiscard]] std::uint8_t target(std::uint32_t request) const { return targets_.empty() ? 0 : targets_[request]; }

  void close_point(core::Instant at, const FleetSnapshot& fleet);

  // Counts, percentiles, attainment and segments of requests that arrived in the window, and the series of the whole
  // run, which lasted until `end`; what a fleet adds is left to the caller.
  void summarize(decision::RunResult& result, core::Instant end) const;
  // The counts and shares alone, of requests that arrived in the window.
  void judge(decision::RunResult& result) const;

 private:
  struct Record {  // 16 bytes a request
    float ttft_ms = -1.0F;
    float itl_ms = 0.0F;
    float e2e_ms = 0.0F;
    Outcome outcome = Outcome::kOpen;
    bool cache_hit = false;
    bool arrived = false;
  };
  struct Limits {
    double ttft_ms, itl_ms, e2e_ms;
  };
  // The SLO does not judge a request whose client left, nor a whole answer without an objective for its end.
  [[nodiscard]] bool is_judged(std::size_t request) const;
  // Counts the request if it is judged.
  void count(std::size_t request, decision::TargetResult& into) const;
  void set_attainment(const decision::TargetResult& all, decision::RunResult& result) const;
  // What a client sees: of a streamed answer only.
  [[nodiscard]] bool has_ttft(std::size_t request) const {
    return workload_.requests[request].streamed && records_[request].ttft_ms >= 0.0F;
  }
  [[nodiscard]] bool has_itl(std::size_t request) const {
    const workload::Request& shape = workload_.requests[request];
    return shape.streamed && shape.output_tokens > 1 && records_[request].outcome == Outcome::kCompleted;
  }
  [[nodiscard]] bool met_ttft(std::size_t request) const;
  [[nodiscard]] bool met_itl(std::size_t request) const;
  [[nodiscard]] bool met_all(std::size_t request) const;  // All objectives.
  [[nodiscard]] const Limits& limits_of(std::size_t request) const {
    return limits_[targets_.empty() ? 0 : targets_[request]];
  }
  // The targets with their counts. `all` has those of all requests that are judged.
  [[nodiscard]] std::vector<decision::TargetResult> by_target(const decision::TargetResult& all) const;
  [[nodiscard]] bool in_window(std::size_t request) const {
    const core::Instant arrival = workload_.requests[request].arrival;
    return window_from_ <= arrival && arrival < window_until_;
  }
  void ended(std::uint32_t request, core::Instant at, Outcome outcome);
  void add_segments(decision::RunResult& result) const;
  [[nodiscard]] decision::BurstResult in_bursts() const;

  const workload::Workload& workload_;
  std::function<void(std::uint32_t, core::Instant)> on_end_;
  signals::SloPolicy slo_;
  std::vector<Limits> limits_;         // by target
  std::vector<std::uint8_t> targets_;  // by request; empty: all have the general one
  core::Duration point_width_;
  std::vector<Record> records_;
  std::uint64_t arrived_ = 0, ended_ = 0, window_open_ = 0;
  core::Instant window_from_ = core::kStart, window_until_ = core::kNever;
  bool keeps_points_ = true;
  std::array<std::uint64_t, kOutcomes> by_outcome_{};
  core::Instant last_end_;
  decision::TokenCount completed_tokens_, goodput_tokens_;

  std::vector<decision::SeriesPoint> series_;
  core::Instant point_start_;
  std::uint64_t point_arrivals_ = 0, point_input_tokens_ = 0, point_completed_ = 0, generated_before_ = 0;
  core::QuantileSketch point_ttft_ms_, point_itl_ms_;
};

}  // namespace penstock::simulation
