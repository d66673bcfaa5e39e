#include "planner/penstock/output_lengths.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/random.h"

namespace penstock::planner {
namespace {

constexpr std::size_t kReadAtMost = 32'768;    // Requests that one estimate reads at most.
constexpr std::uint32_t kUnknownOutput = 256;  // Tokens beyond those generated, if no request has completed.
constexpr double kBeyondLongest = 0.25;        // Share that an output adds when it is longer than all completed ones.
constexpr double kSimilarLeast = 200.0;        // Completed requests; fewer say too little about their lengths.
constexpr double kLongerLeast = 10.0;          // Of them, those that are longer than what a request has generated.
constexpr double kMillisecondsMost = 1e8;      // Longer times are errors.
constexpr double kUsualItlMs = 20.0;           // Until a request has completed.
constexpr core::Duration kItlOf = std::chrono::minutes{2};  // Age of the ends whose gaps count, if there are any.

// Bins are exact up to 64 tokens and have 32 steps per doubling above.
constexpr std::uint32_t kExactLengths = 64, kStepsPerDoubling = 32;
constexpr int kStepBits = 5, kExactBits = 6;
constexpr std::size_t kLengthBins = kExactLengths + (32 - kExactBits) * kStepsPerDoubling;

bool is_expected(const signals::RecentRequest& request) { return request.expected_output_tokens > 0; }
int expectation_of(const signals::RecentRequest& request) { return std::bit_width(request.expected_output_tokens); }

bool is_time(float milliseconds) {
  return milliseconds >= 0.0F && static_cast<double>(milliseconds) < kMillisecondsMost;
}

std::size_t bin_of(std::uint32_t tokens) {
  if (tokens < kExactLengths) return tokens;
  const int octave = std::bit_width(tokens) - 1;
  const std::uint32_t step = (tokens >> (octave - kStepBits)) - kStepsPerDoubling;
  return kExactLengths + static_cast<std::size_t>(octave - kExactBits) * kStepsPerDoubling + step;
}

std::uint64_t start_of(std::size_t bin) {
  if (bin < kExactLengths) return bin;
  const std::size_t octave = (bin - kExactLengths) / kStepsPerDoubling,
                    step = (bin - kExactLengths) % kStepsPerDoubling;
  return static_cast<std::uint64_t>(kStepsPerDoubling + step) << (octave + kExactBits - kStepBits);
}

}  // namespace

void LengthCurve::count(std::vector<double>& bins, std::uint32_t tokens) {
  if (bins.empty()) bins.assign(kLengthBins, 0.0);
  bins[bin_of(tokens)] += 1.0;
}

void LengthCurve::estimate() {
  longer_.clear();
  completed_from_.clear();
  if (completed_.empty()) return;
  if (running_.empty()) running_.assign(kLengthBins, 0.0);
  double at_risk = 0.0;
  for (std::size_t bin = 0; bin < kLengthBins; ++bin) at_risk += completed_[bin] + running_[bin];
  double longer = 1.0;
  for (std::size_t bin = 0; bin < kLengthBins; ++bin) {
    if (completed_[bin] > 0.0) longer *= 1.0 - completed_[bin] / at_risk;
    at_risk -= completed_[bin] + running_[bin];
    longer_.push_back(longer);
  }
  completed_from_ = completed_;
  for (std::size_t bin = kLengthBins - 1; bin-- > 0;) completed_from_[bin] += completed_from_[bin + 1];
}

double LengthCurve::completed(std::uint32_t above) const {
  return completed_from_.empty() ? 0.0 : completed_from_[std::min(bin_of(above) + 1, kLengthBins - 1)];
}

void OutputLengths::observe(std::span<const signals::RecentRequest> requests, core::Instant now) {
  if (observed_at_ == now) return;
  observed_at_ = now;
  const std::size_t stride = requests.size() / kReadAtMost + 1;
  struct Gaps {
    double ms = 0.0, tokens = 0.0;
  } recent, all;
  double ttft_ms = 0.0, answered = 0.0;
  all_ = {};
  by_expectation_.clear();
  for (std::size_t i = 0; i < requests.size(); i += stride) {
    const signals::RecentRequest& request = requests[i];
    if (is_time(request.ttft_ms)) {
      ttft_ms += static_cast<double>(request.ttft_ms);
      ++answered;
    }
    if (request.output_tokens == 0) continue;
    all_.add_completed(request.output_tokens);
    if (is_expected(request)) by_expectation_[expectation_of(request)].add_completed(request.output_tokens);
    if (request.output_tokens < 2 || !is_time(request.ttft_ms) || !is_time(request.itl_ms)) continue;
    const double tokens = request.output_tokens - 1;
    all.ms += tokens * static_cast<double>(request.itl_ms);
    all.tokens += tokens;
    const core::Instant end = request.arrival + core::from_milliseconds(static_cast<double>(request.ttft_ms) +
                                                                        tokens * static_cast<double>(request.itl_ms));
    if (end < now - kItlOf) continue;
    recent.ms += tokens * static_cast<double>(request.itl_ms);
    recent.tokens += tokens;
  }
  const Gaps& gaps = recent.tokens > 0.0 ? recent : all;
  itl_ms_ = gaps.tokens > 0.0 ? gaps.ms / gaps.tokens : kUsualItlMs;
  ttft_ms_ = answered > 0.0 ? ttft_ms / answered : 0.0;
  for (std::size_t i = 0; i < requests.size(); i += stride) {
    if (!is_open(requests[i])) continue;
    const std::uint32_t running = generated(requests[i], now);
    all_.add_running(running);
    if (is_expected(requests[i])) by_expectation_[expectation_of(requests[i])].add_running(running);
  }
  all_.estimate();
  for (auto& [expectation, curve] : by_expectation_) curve.estimate();
}

const LengthCurve& OutputLengths::similar_to(const signals::RecentRequest& request, std::uint32_t generated) const {
  const auto found = by_expectation_.find(expectation_of(request));
  if (found == by_expectation_.end() || found->second.completed() < kSimilarLeast) return all_;
  return found->second.completed(generated) < kLongerLeast ? all_ : found->second;
}

double OutputLengths::itl_of(const signals::RecentRequest& request) const {
  return is_time(request.itl_ms) && request.output_tokens > 1 ? static_cast<double>(request.itl_ms) : itl_ms_;
}

std::optional<core::Instant> OutputLengths::first_token(const signals::RecentRequest& request) const {
  if (is_time(request.ttft_ms)) return request.arrival + core::from_milliseconds(static_cast<double>(request.ttft_ms));
  if (request.output_tokens > 0) return request.arrival + core::from_milliseconds(ttft_ms_);
  return std::nullopt;
}

std::uint32_t OutputLengths::generated(const signals::RecentRequest& request, core::Instant at) const {
  const auto first = first_token(request);
  if (!first || at < *first) return 0;
  const double since_ms = core::to_milliseconds(at - *first);
  const double itl_ms = itl_of(request);
  const double tokens = 1.0 + (itl_ms > 0.0 ? since_ms / itl_ms : 1e9);
  const double most = request.output_tokens > 0 ? request.output_tokens : 1e6;
  return static_cast<std::uint32_t>(std::min(tokens, most));
}

std::uint32_t OutputLengths::length(const signals::RecentRequest& request, core::Instant now) const {
  if (request.output_tokens > 0) return request.output_tokens;
  const auto arrived = static_cast<std::uint64_t>(request.arrival.time_since_epoch().count());
  const double share =
      core::RandomStream{core::mix64(arrived ^ (std::uint64_t{request.input_tokens} << 40U))}.uniform();
  // What a failed request would have generated is unknown.
  const std::uint32_t above = is_open(request) ? generated(request, now) : 0;
  return similar_to(request, above).draw(above, share);
}

std::uint32_t LengthCurve::draw(std::uint32_t above, double share) const {
  const std::size_t from = bin_of(above);
  const double left = longer_.empty() ? 0.0 : longer_[from];
  if (longer_.empty()) return above + std::max(kUnknownOutput, above);
  const auto beyond = [&](std::uint32_t tokens) {
    return tokens + 1 + static_cast<std::uint32_t>(kBeyondLongest * tokens);
  };
  if (left <= 0.0) return beyond(above);
  // The first bin after which at most this share of outputs is longer.
  const double target = left * share;
  const auto found = std::partition_point(longer_.begin() + static_cast<std::ptrdiff_t>(from), longer_.end(),
                                          [&](double longer) { return longer > target; });
  if (found == longer_.end()) {
    const auto longest =
        std::partition_point(longer_.begin(), longer_.end(), [&](double longer) { return longer > longer_.back(); });
    return beyond(
        std::max(above, static_cast<std::uint32_t>(start_of(static_cast<std::size_t>(longest - longer_.begin())))));
  }
  const auto bin = static_cast<std::size_t>(found - longer_.begin());
  const double before = bin == 0 ? 1.0 : longer_[bin - 1];
  const double width = static_cast<double>(start_of(bin + 1) - start_of(bin));
  const double part = before > *found ? (before - target) / (before - *found) : 0.0;
  const double tokens = static_cast<double>(start_of(bin)) + std::clamp(part, 0.0, 1.0 - 1e-9) * width;
  return std::max(above + 1, static_cast<std::uint32_t>(tokens));
}

std::uint32_t OutputLengths::quantile(double share) const { return all_.draw(0, 1.0 - share); }

core::Duration OutputLengths::request_time(double share) const {
  return core::from_milliseconds(std::min(ttft_ms_ + itl_ms_ * quantile(share), kMillisecondsMost));
}

}  // namespace penstock::planner
