// Distribution of output lengths in which requests that still run count with the tokens that they have generated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/time.h"
#include "signals/observation.h"

namespace penstock::planner {

// A request that neither completed nor ended in another way.
[[nodiscard]] inline bool is_open(const signals::RecentRequest& request) {
  return request.output_tokens == 0 && request.end == signals::RequestEnd::kNone;
}

// The Kaplan-Meier estimate: a running request proves that its output is longer than what it has generated so far. An
// average over completed requests alone would be too short, because long outputs complete last.
class LengthCurve {
 public:
  void add_completed(std::uint32_t tokens) { count(completed_, tokens); }
  void add_running(std::uint32_t generated) { count(running_, generated); }
  // Called after all requests were added.
  void estimate();

  [[nodiscard]] double completed() const { return completed_from_.empty() ? 0.0 : completed_from_.front(); }
  // Completed requests whose output was longer than that, within the resolution of 3 %.
  [[nodiscard]] double completed(std::uint32_t above) const;
  // The length that this share of the outputs above `above` tokens exceeds; a quarter more than `above` if no completed
  // one was longer.
  [[nodiscard]] std::uint32_t draw(std::uint32_t above, double share) const;

 private:
  void count(std::vector<double>& bins, std::uint32_t tokens);

  std::vector<double> completed_, running_;  // Number by bin of tokens; empty without any.
  std::vector<double> longer_;  // By bin: share of outputs that are longer than the bin. Empty without completed ones.
  std::vector<double> completed_from_;  // By bin: number of completed requests in it and in later ones.
};

// Requests whose gateway expected answers of a similar length, by powers of two, are estimated together, as soon as
// enough of them have completed. A request that has generated more than nearly all of them is estimated by all.
class OutputLengths {
 public:
  // Reads the requests at `now`; of more than 32,768 an even share. Linear in their number, once for each time.
  void observe(std::span<const signals::RecentRequest> requests, core::Instant now);
  [[nodiscard]] bool known() const { return observed_at_.has_value(); }  // After the first observe().

  // Time of the first token; empty before it. Of a response that was not streamed it is estimated by the mean TTFT.
  [[nodiscard]] std::optional<core::Instant> first_token(const signals::RecentRequest& request) const;
  // Tokens that the request had generated at `at`, which is not in the future. Of an open request it is estimated from
  // the time since its first token.
  [[nodiscard]] std::uint32_t generated(const signals::RecentRequest& request, core::Instant at) const;
  // The output length of a completed request. Of any other one it is drawn from the lengths of similar requests above
  // what it has generated at `now`; equal requests at equal times draw alike.
  [[nodiscard]] std::uint32_t length(const signals::RecentRequest& request, core::Instant now) const;

  // Smallest length that this share of outputs does not exceed.
  [[nodiscard]] std::uint32_t quantile(double share) const;
  // Time of a request with an output of that length, with the mean TTFT and ITL of recent requests.
  [[nodiscard]] core::Duration request_time(double share) const;

 private:
  [[nodiscard]] double itl_of(const signals::RecentRequest& request) const;
  // `generated`: the tokens that it has generated.
  [[nodiscard]] const LengthCurve& similar_to(const signals::RecentRequest& request, std::uint32_t generated) const;

  LengthCurve all_;
  std::map<int, LengthCurve> by_expectation_;  // Keyed by the bits of the expected length.
  double itl_ms_ = 0.0;                        // Mean gap between recent tokens.
  double ttft_ms_ = 0.0;
  std::optional<core::Instant> observed_at_;
};

}  // namespace penstock::planner
