// The load of one replica as the gateway knows it, and what a request would wait there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "routing/endpoint_picker.h"
#include "routing/prefill_rate.h"

namespace penstock::routing {

// The parts of a price that do not depend on the request: one cache line a replica, read in a row by each choice.
struct alignas(64) PriceTerms {
  core::Instant due = core::kNever;  // when time has changed them
  core::Instant since{};             // the replica has worked on its queue without an answer since
  double queue_ms = 0.0;             // prompt tokens ahead, as of `since`
  double progress_ms_max = 0.0;      // of these, what it can have done since: the oldest prompt
  double ms_per_token = 0.0;
  double decode_ms = 0.0;                                     // that its sequences add to an iteration
  double fixed_ms = std::numeric_limits<double>::infinity();  // infinite: not eligible
  double factor = 1.0;                                        // of the whole, for slow start and weight

  [[nodiscard]] double wait_ms(core::Instant now) const {
    const double progress_ms = core::to_milliseconds(now - since);
    return queue_ms - std::clamp(progress_ms, 0.0, progress_ms_max);
  }
  [[nodiscard]] double price(core::Instant now, double tokens, double iterations) const {
    return factor * (fixed_ms + wait_ms(now) + tokens * ms_per_token + iterations * decode_ms);
  }
};

// Counts what was sent and has not ended. Not thread-safe.
class Replica {
 public:
  static constexpr double kBusyMs = 1e7;               // more than any queue, less than never
  static constexpr std::size_t kUnansweredMax = 1024;  // that are remembered one by one, to learn from

  Replica(core::Instant now, double weight) : weight_(weight), since_(now) {}
  void set_weight(double weight) { weight_ = weight; }

  void set_eligible(bool eligible, core::Instant now);
  void busy_until(core::Instant until);
  void report_load(const ReportedLoad& heard);

  void dispatched(const PickRequest& ask, const Selection& selection, double tokens_ahead, core::Instant now);
  // The tokens a second that this observed, if it did.
  std::optional<double> first_token(std::uint32_t uncached_tokens, core::Duration ttft, core::Instant now,
                                    double fleet_tokens_per_s);
  void assume_first_token(std::uint32_t uncached_tokens, core::Instant sent_at, core::Instant now);
  void finished(std::uint32_t uncached_tokens, std::uint64_t context_tokens, bool answered);

  // `capacity_tokens` of its KV cache. `stagger` spreads the times at which many replicas are due.
  [[nodiscard]] PriceTerms terms(const EndpointPickerOptions& options, double fleet_tokens_per_s,
                                 double capacity_tokens, core::Duration stagger, core::Instant now) const;
  void describe(const EndpointPickerOptions& options, double fleet_tokens_per_s, core::Instant now,
                EndpointPicker::Load& load) const;

 private:
  struct Unanswered {
    core::Instant at;
    std::uint32_t uncached_tokens;
    double tokens_ahead;
  };

  [[nodiscard]] bool hears(const EndpointPickerOptions& options, core::Instant now) const;
  [[nodiscard]] double kv_usage(const EndpointPickerOptions& options, double capacity_tokens, core::Instant now) const;
  [[nodiscard]] double slow_start(const EndpointPickerOptions& options, core::Instant now) const;
  std::optional<Unanswered> take_unanswered(std::uint32_t uncached_tokens, core::Instant at);

  double weight_;
  bool eligible_ = true;
  core::Instant since_;  // eligible since
  core::Instant busy_until_{};
  core::Instant working_since_{};  // on the oldest prompt without an answer
  std::uint32_t open_requests_ = 0;
  std::uint32_t unanswered_requests_ = 0;
  std::uint64_t prefill_tokens_ = 0;
  std::uint64_t context_tokens_ = 0;
  double usual_uncached_tokens_ = 1024.0;
  std::vector<Unanswered> unanswered_;  // the oldest first
  PrefillRate rate_;

  std::optional<ReportedLoad> heard_;
  double others_requests_ = 0.0;  // that somebody else sent
  double others_prefill_tokens_ = 0.0;
  std::uint64_t context_when_heard_ = 0;
};

}  // namespace penstock::routing
