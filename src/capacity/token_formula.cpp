#include "capacity/token_formula.h"

#include <algorithm>
#include <cmath>

#include "capacity/mean_step.h"
#include "core/time.h"

namespace penstock::capacity {
namespace {

constexpr double kRounding = 1e-9;  // 3.0000000001 replicas count as 3.
constexpr double kTail = 1.645;     // Standard deviations below which 95 % lie.
constexpr double kTailShare = 0.05;
constexpr double kLeastSequences = 1e-3;
constexpr double kRateMax = 1e6;  // Requests per second.
constexpr int kHalvings = 40;

bool is_amount(double value) { return std::isfinite(value) && value >= 0.0; }

// ---- one replica at one load ---------------------------------------------------------------------------------------

struct Load {
  double itl_ms = 0.0;
  double ttft_ms = 0.0;
  double requests_per_s = 0.0;
};

class Replica {
 public:
  Replica(const engine::StepTimeModel& model, const TrafficShape& shape, const EngineLimits& limits,
          const CapacityOptions& options)
      : model_{model},
        limits_{limits},
        factor_{options.factor},
        room_margin_{options.room_margin},
        prompt_{options.role == signals::Role::kDecode
                    ? 0.0
                    : std::max(1.0, shape.input_tokens * (1.0 - shape.cached_share))},
        cached_{shape.input_tokens * shape.cached_share},
        gaps_{std::max(1.0, shape.output_tokens - 1.0)},
        context_{shape.input_tokens + 0.5 * shape.output_tokens} {}

  [[nodiscard]] bool holds(double sequences) const {
    const double most = at_busy_times(sequences);
    return most <= room_margin_ * limits_.max_sequences && most * context_ <= room_margin_ * limits_.kv_tokens;
  }

  // Load with a mean of `sequences` decoding sequences. Empty if prompts exceed the capacity.
  [[nodiscard]] std::optional<Load> decoding(double sequences) const {
    const auto usual = mix(sequences);
    if (!usual) return std::nullopt;
    const double per_ms = sequences / (gaps_ * usual->step_ms);
    Load load;
    load.requests_per_s = 1e3 * per_ms;
    const double undisturbed_ms = gaps_ * step_ms(at_busy_times(sequences), 0.0);
    if (prompt_ <= 0.0) {
      load.itl_ms = undisturbed_ms / gaps_;
      return load;
    }
    const auto queue = queue_ms(load.requests_per_s, sequences);
    if (!queue) return std::nullopt;
    load.ttft_ms = usual->step_ms + usual->own_steps * usual->prefill_ms + queue->late;
    const double behind_ms = usual->own_steps * usual->prefill_ms + queue->mean;
    // If every step has prompts, no further step can be delayed.
    load.itl_ms = std::min(disturbed_ms(undisturbed_ms, behind_ms, per_ms, *usual, sequences) / gaps_,
                           busiest_step_ms(sequences));
    return load;
  }

  // Load of a prefill replica, whose requests leave with their first token.
  [[nodiscard]] std::optional<Load> prefilling(double requests_per_s) const {
    Mix busy;
    double prompts = 1.0;
    for (int i = 0; i < 8; ++i) {  // A step computes the prompts that arrived during the previous step.
      busy = prompt_steps(0.0, prompts);
      const double came = requests_per_s * busy.prefill_ms / 1e3;
      prompts = std::max(1.0, came + kTail * std::sqrt(came));
    }
    // Rest of the current step, unless the engine is idle.
    const double wait_ms = busy.prefill_ms * std::min(1.0, requests_per_s * busy.prefill_ms / 1e3);
    const auto queue = queue_ms(requests_per_s, 0.0);
    if (!queue) return std::nullopt;
    return Load{0.0, wait_ms + busy.own_steps * busy.prefill_ms + queue->late, requests_per_s};
  }

 private:
  struct Mix {
    double step_ms = 0.0;     // Mean over all steps.
    double tokens = 0.0;      // New tokens of a step with prompts.
    double prefill_ms = 0.0;  // Time of such a step.
    double own_steps = 1.0;   // Steps that a prompt takes.
  };

  [[nodiscard]] static double at_busy_times(double sequences) { return sequences + kTail * std::sqrt(sequences); }
  [[nodiscard]] double budget(double sequences) const { return std::max(1.0, limits_.max_batched_tokens - sequences); }

  [[nodiscard]] double step_ms(double sequences, double new_tokens) const {
    MeanShape shape;
    shape.decode_sequences = sequences;
    shape.decode_context_tokens = sequences * context_;
    shape.total_kv_tokens = limits_.kv_tokens;
    double held = shape.decode_context_tokens;
    if (new_tokens > 0.0) {
      const double prompts = new_tokens / prompt_;
      // Mean computed tokens of a prompt in chunks.
      const double before = cached_ + 0.5 * std::max(0.0, prompt_ - new_tokens);
      shape.prefill_requests = std::max(1.0, prompts);
      shape.prefill_new_tokens = new_tokens;
      shape.prefill_context_tokens = shape.prefill_requests * before;
      shape.prefill_attention_pairs = new_tokens * (before + 0.5 * (std::min(new_tokens, prompt_) + 1.0));
      held += new_tokens + shape.prefill_context_tokens;
    }
    shape.active_kv_tokens = std::min(held, limits_.kv_tokens);
    return factor_ * mean_step_ms(model_, shape);
  }

  // Steps with `prompts` prompts, or the part that fits.
  [[nodiscard]] Mix prompt_steps(double sequences, double prompts) const {
    Mix mix;
    mix.tokens = std::min(budget(sequences), prompt_ * prompts);
    mix.prefill_ms = step_ms(sequences, mix.tokens);
    mix.own_steps = std::max(1.0, std::ceil(prompt_ / budget(sequences) - kRounding));
    return mix;
  }

  // Empty if the prompts of `sequences` sequences take more than the available steps.
  [[nodiscard]] std::optional<Mix> mix(double sequences) const {
    if (prompt_ <= 0.0) {
      const double decode_ms = step_ms(sequences, 0.0);
      return Mix{decode_ms, 0.0, 0.0, 0.0};
    }
    const double prompts = sequences / gaps_;  // Per step.
    Mix mix = prompt_steps(sequences, prompts / -std::expm1(-prompts));
    const double share = prompts * prompt_ / mix.tokens;  // Share of steps that compute prompts.
    if (share > 1.0) return std::nullopt;
    mix.step_ms = share * mix.prefill_ms + (share < 1.0 ? (1.0 - share) * step_ms(sequences, 0.0) : 0.0);
    return mix;
  }

  struct Queue {
    double mean = 0.0;  // Milliseconds.
    double late = 0.0;  // Milliseconds; 95 % of the waits are below.
  };
  // Queueing delay of prompts, M/D/1 with an exponential tail, for the maximum prompt rate of a replica.
  [[nodiscard]] std::optional<Queue> queue_ms(double requests_per_s, double sequences) const {
    const double full = budget(sequences);
    const double service_ms = step_ms(sequences, full) * prompt_ / full;
    const double load = requests_per_s * service_ms / 1e3;
    if (load >= 1.0) return std::nullopt;
    const double given_one_ms = service_ms / (2.0 * (1.0 - load));  // Mean of the requests that wait.
    return Queue{load * given_one_ms, load <= kTailShare ? 0.0 : given_one_ms * std::log(load / kTailShare)};
  }

  [[nodiscard]] double busiest_step_ms(double sequences) const {
    const double most = at_busy_times(sequences), prompts = most / gaps_;
    return prompt_steps(most, prompts / -std::expm1(-prompts)).prefill_ms;
  }

  // Decode time below which 95 % of the requests stay, if every prompt that arrives meanwhile, or was behind the
  // request's own prompt, delays decoding. Each delay lets more prompts arrive: a busy period of M/D/1 that starts with
  // the undisturbed time.
  [[nodiscard]] double disturbed_ms(double undisturbed_ms, double behind_ms, double per_ms, const Mix& usual,
                                    double sequences) const {
    const double hold_up_ms =
        std::max(0.0, usual.step_ms - step_ms(sequences, 0.0)) * gaps_ / sequences;  // Delay per prompt.
    const double left = 1.0 - per_ms * hold_up_ms;  // Share of the time without delays, greater than 0.
    const double start_ms = undisturbed_ms + per_ms * hold_up_ms * behind_ms;
    const double variance = per_ms * hold_up_ms * hold_up_ms / (left * left) * (behind_ms + start_ms / left);
    return start_ms / left + kTail * std::sqrt(variance);
  }

  const engine::StepTimeModel& model_;
  EngineLimits limits_;
  double factor_, room_margin_;
  double prompt_, cached_;  // Prompt tokens to compute, and cached prompt tokens.
  double gaps_, context_;
};

bool is_sane(const TrafficShape& shape, const EngineLimits& limits, const signals::SloTarget& slo,
             const CapacityOptions& options) {
  const double positive[] = {shape.input_tokens,        shape.output_tokens, limits.max_sequences,
                             limits.max_batched_tokens, limits.kv_tokens,    options.factor,
                             options.ttft_margin,       options.itl_margin,  options.room_margin};
  for (const double value : positive)
    if (!(value > 0.0 && value <= 1e12)) return false;
  return shape.cached_share >= 0.0 && shape.cached_share < 1.0 && shape.output_tokens >= 1.0 &&
         slo.ttft > core::Duration{} && slo.itl > core::Duration{};
}

// The largest x for which `keeps` holds, with a relative error of 1e-6; empty if it does not hold at `low`. Bisects the
// logarithm.
template <class Keeps>
std::optional<double> greatest(double low, double high, const Keeps& keeps) {
  if (!keeps(low)) return std::nullopt;
  if (keeps(high)) return high;
  for (int i = 0; i < kHalvings && high > low * (1.0 + 1e-6); ++i) {
    const double middle = std::sqrt(low * high);
    (keeps(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace

std::optional<FormulaResult> replicas_by_formula(double input_tokens_per_s, double output_tokens_per_s,
                                                 const TokenCapacity& capacity, double utilisation) {
  if (!is_amount(input_tokens_per_s) || !is_amount(output_tokens_per_s) || !is_amount(capacity.input_tokens_per_s) ||
      !is_amount(capacity.output_tokens_per_s) || !(utilisation > 0.0 && utilisation <= 1.0))
    return std::nullopt;
  const auto loads = [](double rate, double most) { return rate == 0.0 ? 0.0 : rate / most; };
  const double input = loads(input_tokens_per_s, capacity.input_tokens_per_s);
  const double output = loads(output_tokens_per_s, capacity.output_tokens_per_s);
  const auto replicas = [&](double load) { return std::ceil(load / utilisation - kRounding); };
  if (!(replicas(input) <= 4e9 && replicas(output) <= 4e9)) return std::nullopt;
  FormulaResult result;
  result.by_input = static_cast<std::uint32_t>(std::max(input > 0.0 ? 1.0 : 0.0, replicas(input)));
  result.by_output = static_cast<std::uint32_t>(std::max(output > 0.0 ? 1.0 : 0.0, replicas(output)));
  result.replicas = std::max(result.by_input, result.by_output);
  if (result.replicas > 0) result.utilisation = std::max(input, output) / result.replicas;
  return result;
}

std::optional<ReplicaEstimate> token_capacity(const engine::StepTimeModel& model, const TrafficShape& shape,
                                              const EngineLimits& limits, const signals::SloTarget& slo,
                                              const CapacityOptions& options) {
  if (!is_sane(shape, limits, slo, options)) return std::nullopt;
  // A request of one token ends at its prefill replica.
  if (options.role == signals::Role::kDecode && shape.output_tokens <= 1.0) return std::nullopt;
  const Replica replica{model, shape, limits, options};
  const double ttft_ms = core::to_milliseconds(slo.ttft) * options.ttft_margin;
  const double itl_ms = core::to_milliseconds(slo.itl) * options.itl_margin;
  const bool decodes = options.role != signals::Role::kPrefill && shape.output_tokens > 1.0;
  const auto load_at = [&](double x) { return decodes ? replica.decoding(x) : replica.prefilling(x); };
  const auto keeps = [&](double x) {
    if (decodes && !replica.holds(x)) return false;
    const auto load = load_at(x);
    return load && load->ttft_ms <= ttft_ms && load->itl_ms <= itl_ms;
  };
  const auto found = greatest(kLeastSequences, decodes ? limits.max_sequences : kRateMax, keeps);
  if (!found) return std::nullopt;
  const Load load = *load_at(*found);
  ReplicaEstimate estimate;
  estimate.requests_per_s = load.requests_per_s;
  estimate.tokens = {load.requests_per_s * shape.input_tokens, load.requests_per_s * shape.output_tokens};
  estimate.concurrency = decodes ? *found : 0.0;
  estimate.itl_ms = load.itl_ms;
  estimate.ttft_ms = load.ttft_ms;
  return estimate;
}

}  // namespace penstock::capacity
