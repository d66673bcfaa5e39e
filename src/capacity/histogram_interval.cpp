#include "capacity/histogram_interval.h"

#include <algorithm>
#include <cmath>

namespace penstock::capacity {
namespace {

using signals::EngineSample;
using Totals = std::optional<telemetry::HistogramTotals>;
using Counter = std::optional<std::uint64_t>;

// Context of a sequence if nothing is known of prompts.
constexpr double kUsualContext = 256.0;

// Growth of a counter; empty if a sample lacks it.
std::optional<double> growth(const Counter& before, const Counter& after) {
  if (!before || !after) return std::nullopt;
  return static_cast<double>(*after - *before);
}
std::optional<double> growth(const Totals& before, const Totals& after) {
  if (!before || !after) return std::nullopt;
  return static_cast<double>(after->count - before->count);
}

std::uint64_t count_of(double count) { return static_cast<std::uint64_t>(std::llround(std::clamp(count, 0.0, 1e15))); }

double mean_running(const EngineSample& before, const EngineSample& after) {
  return std::max(1.0, (before.running_requests + after.running_requests) / 2.0);
}

struct Work {
  double decoded = 0.0, prompts = 0.0, prompt_tokens = 0.0, steps = 0.0, context = kUsualContext, running = 1.0;
};

Work work_between(const EngineSample& before, const EngineSample& after) {
  Work work;
  work.prompts = growth(before.ttft_s, after.ttft_s).value_or(0.0);
  // Some engines have one gap per request, its mean, so generated tokens count where they are reported.
  const auto generated = growth(before.generation_tokens_total, after.generation_tokens_total);
  work.decoded = generated ? *generated - work.prompts : static_cast<double>(after.itl_s->count - before.itl_s->count);
  const auto cached = growth(before.prefix_hit_tokens_total, after.prefix_hit_tokens_total);
  const auto tokens = growth(before.prompt_tokens_total, after.prompt_tokens_total);
  if (tokens) work.prompt_tokens = std::max(work.prompts, *tokens - std::min(*tokens, cached.value_or(0.0)));
  work.running = mean_running(before, after);
  const auto iterations = growth(before.iterations_total, after.iterations_total);
  work.steps = std::min(work.decoded, iterations.value_or(work.decoded / work.running));
  if (tokens && work.prompts > 0.0) work.context = std::max(1.0, *tokens / work.prompts);
  return work;
}

}  // namespace

bool histograms_went_back(const EngineSample& before, const EngineSample& after) {
  const auto lower = [](const Counter& from, const Counter& to) { return from && to && *to < *from; };
  const auto fewer = [](const Totals& from, const Totals& to) {
    return from && to && (to->count < from->count || to->sum < from->sum);
  };
  return lower(before.generation_tokens_total, after.generation_tokens_total) ||
         lower(before.prompt_tokens_total, after.prompt_tokens_total) ||
         lower(before.prefix_hit_tokens_total, after.prefix_hit_tokens_total) ||
         lower(before.iterations_total, after.iterations_total) || fewer(before.itl_s, after.itl_s) ||
         fewer(before.ttft_s, after.ttft_s);
}

std::optional<IterationInterval> histogram_interval(const EngineSample& before, const EngineSample& after) {
  if (!before.itl_s || !after.itl_s || after.itl_s->count == before.itl_s->count) return std::nullopt;
  const double gap_s =
      (after.itl_s->sum - before.itl_s->sum) / static_cast<double>(after.itl_s->count - before.itl_s->count);
  const Work work = work_between(before, after);
  if (!std::isfinite(gap_s) || gap_s <= 0.0 || work.decoded < 1.0 || work.steps < 1.0) return std::nullopt;

  IterationInterval interval;
  interval.elapsed = after.sampled_at - before.sampled_at;
  interval.kv_capacity_tokens = after.kv_capacity_tokens;
  core::IterationTotals& done = interval.done;
  const std::uint64_t steps = std::max<std::uint64_t>(1, count_of(work.steps));
  done.prefill.steps = work.prompt_tokens >= 1.0 ? std::min(steps, count_of(work.prompts)) : 0;
  done.decode.steps = steps - done.prefill.steps;
  const double held = after.kv_used_tokens ? static_cast<double>(*after.kv_used_tokens) : work.running * work.context;
  for (core::IterationSums* kind : {&done.prefill, &done.decode}) {
    const double share = static_cast<double>(kind->steps) / static_cast<double>(steps);
    kind->busy = core::from_seconds(gap_s * static_cast<double>(kind->steps));
    kind->decode_sequences = std::max(kind->steps, count_of(work.decoded * share));
    if (kind->steps == 0) kind->decode_sequences = 0;
    kind->decode_context_tokens = count_of(static_cast<double>(kind->decode_sequences) * work.context);
    kind->active_kv_tokens = count_of(held * static_cast<double>(kind->steps));
  }
  if (done.prefill.steps == 0) return interval;
  const double prompts = std::max(1.0, work.prompts), tokens = std::max(work.prompt_tokens, prompts);
  done.prefill_requests = count_of(prompts);
  done.prefill_new_tokens = count_of(tokens);
  const auto whole_tokens = static_cast<double>(done.prefill_new_tokens);
  done.prefill_new_tokens_squared = whole_tokens * whole_tokens / static_cast<double>(done.prefill.steps);
  done.prefill_attention_pairs = whole_tokens * (whole_tokens / prompts + 1.0) / 2.0;
  return interval;
}

}  // namespace penstock::capacity
