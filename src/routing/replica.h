// Tracks the load of one replica as this gateway sees it, and computes the expected wait of a request there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "core/fading_sum.h"
#include "routing/endpoint_picker.h"
#include "routing/prefill_rate.h"

namespace penstock::routing {

inline constexpr double kIterationTokens = 2048.0;  // Prompt tokens that an engine computes in one iteration.
inline constexpr core::Duration kRecent = std::chrono::seconds{2};  // Work of this age counts 1/e.
inline constexpr core::Duration kBound = std::chrono::minutes{1};   // As do requests with a cached prefix.

// The parts of a price that do not depend on the request. choose() reads them in sequence.
struct PriceTerms {
  core::Instant due = core::kNever;  // Time at which the terms must be recomputed.
  core::Instant since{};             // Start of the current work on the oldest prompt without a first token.
  double queue_ms = 0.0;             // Wait caused by the prompt tokens ahead, as of `since`.
  double progress_ms_max = 0.0;      // Upper bound of the progress since `since`: the oldest prompt.
  double recent_ms = 0.0;            // Prefill work of the last seconds.
  double ms_per_token = 0.0;
  // The price of the uncached tokens of a prompt, see prompt_price().
  double token_price = 0.0, square_price = 0.0, bound_price_max = 0.0, evicted_price = 0.0;
  double free_tokens = 0.0;                                   // Tokens that evict nothing.
  double decode_ms = 0.0;                                     // Time that running sequences add to an iteration.
  double fixed_ms = std::numeric_limits<double>::infinity();  // Infinite if the replica is not eligible.
  double factor = 1.0;  // Multiplier of the whole price, for slow start and weight.

  [[nodiscard]] double wait_ms(core::Instant now) const {
    const double progress_ms = core::to_milliseconds(now - since);
    return queue_ms - std::clamp(progress_ms, 0.0, progress_ms_max);
  }
  // Price of the prompt tokens ahead and of the running sequences.
  [[nodiscard]] double load_price(core::Instant now, double iterations) const {
    return factor * (fixed_ms + wait_ms(now) + recent_ms + iterations * decode_ms);
  }
  // Price of `tokens` uncached tokens of a prompt: their own time, once more for each sequence that waits for it; the
  // time that later requests with a prefix here wait, which is half of that on average, or what they save here if they
  // go elsewhere; and the time to compute again what they evict.
  [[nodiscard]] double prompt_price(double tokens) const {
    return tokens * (token_price + std::min(tokens * square_price, bound_price_max)) +
           std::max(0.0, tokens - free_tokens) * evicted_price;
  }
};

struct CacheTerms {
  double capacity_tokens = 0.0, free_tokens = 0.0;
  double used_again = 0.0;  // Probability that what is evicted next would be used again.
};

// Counts requests that were sent and have not ended. Not thread-safe.
class Replica {
 public:
  // Penalty of a busy replica: larger than any queue, smaller than infinity.
  static constexpr double kBusyMs = 1e7;
  // Maximum number of unanswered requests that are tracked individually.
  static constexpr std::size_t kUnansweredMax = 1024;

  Replica(core::Instant now, double weight) : weight_(weight), since_(now) {}
  void set_weight(double weight) { weight_ = weight; }

  void set_eligible(bool eligible, core::Instant now);
  void busy_until(core::Instant until);
  void report_load(const ReportedLoad& report);

  void dispatched(const PickRequest& request, const Selection& selection, double tokens_ahead, core::Instant now);
  void first_token(std::uint32_t uncached_tokens, core::Duration ttft, core::Instant now, FleetSpeed& fleet);
  void assume_first_token(std::uint32_t uncached_tokens, core::Instant sent_at, core::Instant now);
  void finished(std::uint32_t uncached_tokens, std::uint32_t input_tokens, std::uint32_t output_tokens, bool answered);

  // `stagger` spreads the times at which many replicas are recomputed.
  [[nodiscard]] PriceTerms terms(const EndpointPickerOptions& options, const FleetSpeed& fleet, const CacheTerms& cache,
                                 core::Duration stagger, core::Instant now) const;
  void describe(const EndpointPickerOptions& options, const FleetSpeed& fleet, core::Instant now,
                EndpointPicker::Load& load) const;

 private:
  struct Unanswered {
    core::Instant at;
    std::uint32_t uncached_tokens;
    double tokens_ahead;
  };

  [[nodiscard]] bool has_recent_report(const EndpointPickerOptions& options, core::Instant now) const;
  [[nodiscard]] double kv_usage(const EndpointPickerOptions& options, double capacity_tokens, core::Instant now) const;
  // The reported usage with what was sent since, and at least what the open requests need. Empty without a report.
  [[nodiscard]] std::optional<double> expected_kv_usage(const EndpointPickerOptions& options, core::Instant now) const;
  [[nodiscard]] double slow_start(const EndpointPickerOptions& options, core::Instant now) const;
  // A first token came; returns what it answers, if that is known.
  std::optional<Unanswered> answer(std::uint32_t uncached_tokens, core::Instant sent_at, core::Instant now);
  std::optional<Unanswered> take_unanswered(std::uint32_t uncached_tokens, core::Instant at);

  double weight_;
  bool eligible_ = true;
  core::Instant since_;  // Time at which the replica became eligible.
  core::Instant busy_until_{};
  core::Instant working_since_{};  // Start of work on the oldest prompt without a first token.
  std::uint32_t open_requests_ = 0;
  std::uint32_t unanswered_requests_ = 0;
  std::uint64_t prefill_tokens_ = 0;
  std::uint64_t context_tokens_ = 0;
  std::uint64_t kv_tokens_ = 0;                                    // Sum of kv_tokens_of().
  core::FadingSum bound_requests_{kBound}, bound_tokens_{kBound};  // Requests with a cached prefix, and its tokens.
  core::FadingSum recent_tokens_{kRecent};  // Uncached prompt tokens, by the time at which they were sent.
  core::FadingSum young_sequences_{
      kRecent};  // Answered requests that have not ended, by the time of their first token.
  double usual_uncached_tokens_ = 1024.0;
  std::vector<Unanswered> unanswered_;  // Oldest first.
  PrefillRate rate_;

  std::optional<ReportedLoad> report_;
  double others_requests_ = 0.0;  // Requests that other clients sent.
  double others_prefill_tokens_ = 0.0;
  std::uint64_t context_at_report_ = 0, kv_at_report_ = 0;
};

}  // namespace penstock::routing
