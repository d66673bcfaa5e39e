#include "controller/worker_parts.h"

#include <utility>

namespace penstock::controller {
namespace {

using signals::EngineSample;
using Counter = std::optional<std::uint64_t> EngineSample::*;

constexpr Counter kCounters[] = {&EngineSample::prompt_tokens_total,     &EngineSample::prefix_hit_tokens_total,
                                 &EngineSample::generation_tokens_total, &EngineSample::completed_total,
                                 &EngineSample::preemptions_total,       &EngineSample::evictions_total,
                                 &EngineSample::iterations_total};
constexpr std::optional<telemetry::HistogramTotals> EngineSample::*kHistograms[] = {
    &EngineSample::itl_s, &EngineSample::prefill_s, &EngineSample::ttft_s};

// Divides counts so that the parts of all workers add up to the whole, and none decreases while the whole grows.
class Divisor {
 public:
  Divisor(std::size_t index, std::size_t workers) : index_(index), workers_(workers) {}

  template <class Count>
  [[nodiscard]] Count of(Count count) const {
    return static_cast<Count>(count / workers_ + (index_ < count % workers_ ? 1 : 0));
  }
  [[nodiscard]] double of(double amount) const { return amount / static_cast<double>(workers_); }
  [[nodiscard]] core::Duration of(core::Duration time) const { return time / static_cast<std::int64_t>(workers_); }
  template <class Count>
  [[nodiscard]] std::optional<Count> of(const std::optional<Count>& count) const {
    return count ? std::optional{of(*count)} : std::nullopt;
  }
  template <class... Counts>
  void divide(Counts&... counts) const {
    ((counts = of(counts)), ...);
  }

 private:
  std::size_t index_, workers_;
};

void divide_gauges(const Divisor& part, EngineSample& sample) {
  part.divide(sample.queued_requests, sample.running_requests, sample.deferred_requests, sample.queued_prefill_tokens,
              sample.inflight_prefill_tokens, sample.scheduled_kv_tokens, sample.queued_kv_tokens,
              sample.kv_used_tokens, sample.kv_capacity_tokens);
  core::IterationTotals& iterations = sample.iterations;
  for (core::IterationSums* sums : {&iterations.prefill, &iterations.decode})
    part.divide(sums->steps, sums->decode_sequences, sums->decode_context_tokens, sums->active_kv_tokens, sums->busy);
  part.divide(iterations.prefill_requests, iterations.prefill_new_tokens, iterations.prefill_context_tokens,
              iterations.prefill_new_tokens_squared, iterations.prefill_attention_pairs);
}

}  // namespace

void WorkerParts::set(std::vector<std::uint32_t> workers, const std::optional<EngineSample>& whole) {
  if (workers == workers_) return;
  std::map<std::uint32_t, EngineSample> parts;
  for (std::size_t index = 0; whole && index < workers_.size(); ++index)
    parts.emplace(workers_[index], part(index, *whole));
  by_worker_ = std::move(parts);
  // Nothing is known of workers that are seen for the first time: their parts are those of the whole.
  changed_ = whole && !workers_.empty() ? *whole : EngineSample{};
  workers_ = std::move(workers);
}

EngineSample WorkerParts::part(std::size_t index, const EngineSample& whole) const {
  const Divisor divisor{index, workers_.size()};
  EngineSample part = whole;
  divide_gauges(divisor, part);
  const auto known = by_worker_.find(workers_[index]);
  const EngineSample before = known == by_worker_.end() ? EngineSample{} : known->second;
  for (const Counter counter : kCounters) {
    if (!(whole.*counter)) continue;
    const std::uint64_t now = *(whole.*counter), then = (changed_.*counter).value_or(0);
    part.*counter = now < then ? divisor.of(now) : (before.*counter).value_or(0) + divisor.of(now - then);
  }
  for (const auto histogram : kHistograms) {
    if (!(whole.*histogram)) continue;
    const telemetry::HistogramTotals now = *(whole.*histogram);
    const auto then = (changed_.*histogram).value_or(telemetry::HistogramTotals{});
    const auto own = (before.*histogram).value_or(telemetry::HistogramTotals{});
    if (now.count < then.count || now.sum < then.sum)
      part.*histogram = telemetry::HistogramTotals{divisor.of(now.count), divisor.of(now.sum)};
    else
      part.*histogram = telemetry::HistogramTotals{own.count + divisor.of(now.count - then.count),
                                                   own.sum + divisor.of(now.sum - then.sum)};
  }
  return part;
}

}  // namespace penstock::controller
