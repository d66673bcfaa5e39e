#include "simulation/load_curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace penstock::simulation {
namespace {

constexpr std::array kOutputWeights{0.5, 1.0, 2.0, 3.5, 6.0, 10.0, 20.0, 40.0};
constexpr std::array kPeakWeights{0.0, 0.35, 0.7};
constexpr double kScaleMost = 1.6;  // What a larger load does not explain is taken for misses at any size.
constexpr double kScaleLeast = 0.3;
constexpr double kFall = 0.2;
constexpr double kDraining = 0.2;        // A window after one with more misses may serve what that one left behind.
constexpr double kCertainMisses = 0.02;  // Below it, the lowest sampled share is taken for what no replica avoids.

double span_of(const std::vector<double>& slices, std::size_t window, double weight, std::size_t slice) {
  return weight == 0.0 ? 0.0 : weight * slices[window * kSlicesPerWindow + slice];
}

}  // namespace

TokenLoad token_load(const workload::Workload& workload, core::Duration window, std::size_t windows,
                     core::Duration itl) {
  TokenLoad made{window, std::vector<double>(windows), std::vector<double>(windows * kSlicesPerWindow), {}};
  const double slice_s = core::to_seconds(window) / static_cast<double>(kSlicesPerWindow);
  const double itl_s = std::max(1e-6, core::to_seconds(itl));
  const std::size_t slices = made.prompt.size();
  std::vector<double> partial(slices + 1);       // Tokens of slices that an answer covers in part.
  std::vector<double> rate_changes(slices + 1);  // Tokens per second of slices that it covers in full.
  for (const workload::Request& request : workload.requests) {
    const double from = core::to_seconds(request.arrival) / slice_s;
    const double until = from + itl_s * request.output_tokens / slice_s;
    const auto first = std::min(static_cast<std::size_t>(from), slices - 1);
    const auto last = std::min(static_cast<std::size_t>(until), slices - 1);
    made.requests[first / kSlicesPerWindow] += 1.0;
    made.prompt[first] += request.input_tokens / slice_s;
    if (first == last) {
      partial[first] += std::min(1.0, until - from) * slice_s / itl_s;
      continue;
    }
    partial[first] += (static_cast<double>(first) + 1.0 - from) * slice_s / itl_s;
    partial[last] += std::min(1.0, until - static_cast<double>(last)) * slice_s / itl_s;
    rate_changes[first + 1] += 1.0 / itl_s;
    rate_changes[last] -= 1.0 / itl_s;
  }
  made.output.resize(slices);
  double rate = 0.0;
  for (std::size_t i = 0; i < slices; ++i) {
    rate += rate_changes[i];
    made.output[i] = std::max(0.0, rate) + partial[i] / slice_s;
  }
  return made;
}

void LoadCurve::set_weights(const TokenLoad& load, signals::Role role, double output_weight, double peak_weight) {
  const double prompts = role == signals::Role::kDecode ? 0.0 : 1.0;
  const double answers = role == signals::Role::kPrefill ? 0.0 : output_weight;
  output_weight_ = output_weight;
  load_.assign(requests_.size(), 0.0);
  for (std::size_t window = 0; window < load_.size(); ++window) {
    double sum = 0.0, peak = 0.0;
    for (std::size_t slice = 0; slice < kSlicesPerWindow; ++slice) {
      const double tokens = span_of(load.prompt, window, prompts, slice) + span_of(load.output, window, answers, slice);
      sum += tokens;
      peak = std::max(peak, tokens);
    }
    load_[window] = (1.0 - peak_weight) * sum / static_cast<double>(kSlicesPerWindow) + peak_weight * peak;
  }
}

LoadCurve LoadCurve::fit(const TokenLoad& load, signals::Role role, std::span<const LoadSample> samples) {
  LoadCurve best;
  double least = std::numeric_limits<double>::infinity();
  for (const double output_weight : kOutputWeights) {
    for (const double peak_weight : kPeakWeights) {
      LoadCurve curve;
      curve.window_ = load.window;
      curve.requests_ = load.requests;
      curve.scale_.assign(load.requests.size(), 1.0);
      curve.extra_.assign(load.requests.size(), 0.0);
      curve.set_weights(load, role, output_weight, peak_weight);
      const double error = curve.fit_knots(samples);
      if (error >= least) continue;
      least = error;
      best = std::move(curve);
    }
    if (role != signals::Role::kAggregated) break;  // Only one kind of token counts.
  }
  return best;
}

void LoadCurve::refit(std::span<const LoadSample> samples) { fit_knots(samples); }

double LoadCurve::fit_knots(std::span<const LoadSample> samples) {
  struct Block {
    double load = 0.0, missed = 0.0, weight = 0.0;  // Means, and the sum of the weights.
  };
  std::vector<Block> points;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const LoadSample& sample = samples[i];
    const double weight = requests_[sample.window];
    if (weight <= 0.0 || sample.replicas <= 0.0) continue;
    const double load = load_[sample.window] * scale_[sample.window] / sample.replicas;
    const bool follows = i > 0 && samples[i - 1].window + 1 == sample.window;
    if (follows && samples[i - 1].missed > kDraining && samples[i - 1].missed > sample.missed) continue;
    points.push_back({load, sample.missed, weight});
  }
  std::stable_sort(points.begin(), points.end(), [](const Block& a, const Block& b) { return a.load < b.load; });
  // Pool adjacent violators.
  std::vector<Block> blocks;
  for (const Block& point : points) {
    blocks.push_back(point);
    while (blocks.size() > 1 && blocks[blocks.size() - 2].missed >= blocks.back().missed) {
      const Block last = blocks.back();
      blocks.pop_back();
      Block& into = blocks.back();
      const double weight = into.weight + last.weight;
      into.load = (into.load * into.weight + last.load * last.weight) / weight;
      into.missed = (into.missed * into.weight + last.missed * last.weight) / weight;
      into.weight = weight;
    }
  }
  knots_.clear();
  for (const Block& block : blocks) knots_.push_back({block.load, block.missed});
  // The first block holds all loads that miss as little as the lowest: its mean is not where misses begin.
  if (knots_.size() > 1 && knots_.front().missed < kCertainMisses) {
    double largest = knots_.front().load;
    for (const Block& point : points)
      if (point.load < knots_[1].load) largest = std::max(largest, point.load);
    if (largest > knots_.front().load) knots_.insert(knots_.begin() + 1, {largest, knots_.front().missed});
    if (knots_[1].load >= knots_[2].load) knots_[1].load = 0.5 * (knots_[0].load + knots_[2].load);
  }
  double error = 0.0;
  for (const Block& point : points) {
    const double off = point.missed - missed_at(point.load);
    error += point.weight * off * off;
  }
  return error;
}

double LoadCurve::missed_at(double load) const {
  if (load <= 0.0) return 0.0;
  if (knots_.empty()) return 0.0;
  const Knot& first = knots_.front();
  const Knot& last = knots_.back();
  if (load <= first.load) {
    if (first.missed < kCertainMisses) return first.missed;
    return first.missed * std::max(0.0, 2.0 * load / first.load - 1.0);
  }
  // What a replica serves in time stays the same beyond the largest load that was seen.
  if (load >= last.load) return 1.0 - (1.0 - last.missed) * last.load / load;
  const auto above = std::upper_bound(knots_.begin(), knots_.end(), load,
                                      [](double value, const Knot& knot) { return value < knot.load; });
  const Knot& low = *(above - 1);
  return low.missed + (above->missed - low.missed) * (load - low.load) / (above->load - low.load);
}

double LoadCurve::load_at(double missed) const {
  if (knots_.empty()) return 0.0;
  double low = 0.0, high = 10.0 * knots_.back().load;
  for (int i = 0; i < 50; ++i) {
    const double middle = 0.5 * (low + high);
    (missed_at(middle) <= missed ? low : high) = middle;
  }
  return low;
}

void LoadCurve::correct(const LoadSample& sample) {
  const double load = load_[sample.window];
  if (knots_.empty() || load <= 0.0 || sample.replicas <= 0.0 || requests_[sample.window] <= 0.0) return;
  double& scale = scale_[sample.window];
  const double predicted = missed(sample.window, sample.replicas);
  // Counts of misses scatter as those of rare events do.
  const double expected = predicted * requests_[sample.window], seen = sample.missed * requests_[sample.window];
  if (std::abs(expected - seen) < 1.0 + std::sqrt(expected + seen)) return;
  double& extra = extra_[sample.window];
  const double explained = load_at(std::max(knots_.front().missed, sample.missed - extra)) * sample.replicas / load;
  // Schedules take advantage of every window that seems to need little, also where that was luck, so that a load falls
  // more slowly than it rises.
  const double change = std::max(1e-9, explained / scale);
  const double factor =
      sample.missed > predicted ? std::max(1.0, std::sqrt(change)) : std::min(1.0, std::pow(change, kFall));
  scale = std::clamp(scale * factor, kScaleLeast, kScaleMost);
  const double rest = sample.missed - missed(sample.window, sample.replicas);
  if (rest < 0.0 || scale == kScaleMost) extra = std::max(0.0, extra + 0.5 * rest);
}

double LoadCurve::missed(std::size_t window, double replicas) const {
  if (requests_[window] <= 0.0 && load_[window] <= 0.0) return 0.0;
  if (replicas <= 0.0) return 1.0;
  return std::min(1.0, missed_at(load_[window] * scale_[window] / replicas) + extra_[window]);
}

double LoadCurve::utilisation(std::size_t window, double replicas) const {
  if (knots_.empty() || replicas <= 0.0) return 0.0;
  return load_[window] * scale_[window] / replicas / std::max(1e-9, load_at(knots_.front().missed + kCertainMisses));
}

MissTable LoadCurve::table(std::uint32_t smallest, std::uint32_t largest, std::uint32_t needed) const {
  MissTable made{window_, smallest, std::vector<std::vector<double>>(requests_.size())};
  double most = 0.0;
  for (std::size_t window = 0; window < load_.size(); ++window) most = std::max(most, load_[window] * scale_[window]);
  const double enough = knots_.empty() ? 1.0 : most / std::max(1e-9, load_at(knots_.front().missed)) + 2.0;
  const auto sizes_to =
      static_cast<std::uint32_t>(std::clamp<double>(std::max<double>(enough, needed), smallest, largest));
  for (std::size_t window = 0; window < requests_.size(); ++window)
    for (std::uint32_t size = smallest; size <= sizes_to; ++size)
      made.misses[window].push_back(requests_[window] * missed(window, size));
  return made;
}

std::uint32_t LoadCurve::fixed_size(std::uint32_t smallest, std::uint32_t largest, double allowed) const {
  for (std::uint32_t size = smallest; size < largest; ++size) {
    double misses = 0.0;
    for (std::size_t window = 0; window < requests_.size(); ++window)
      misses += requests_[window] * missed(window, size);
    if (misses <= allowed) return size;
  }
  return largest;
}

}  // namespace penstock::simulation
