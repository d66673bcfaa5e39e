#include "fidelity/closed_form.h"

#include <algorithm>
#include <cmath>

#include "engine/kv_memory.h"

namespace penstock::fidelity {
namespace {

// The number of sequences may be fractional: a batch of 10.5 is 10 half of the time.
struct DecodeBatch {
  double running;
  double context_tokens;  // Mean per sequence.
};

DecodeBatch decode_batch(const engine::Roofline& replica, const ServingPoint& point) {
  const double context = point.input_tokens + 0.5 * point.output_tokens;
  return {std::clamp(calibration_kv_tokens(replica.spec()) / context, 1.0, static_cast<double>(point.concurrency)),
          context};
}

engine::StepShape decode_shape(const DecodeBatch& batch, std::uint32_t sequences) {
  engine::StepShape shape;
  shape.decode_sequences = sequences;
  shape.decode_context_tokens = static_cast<std::uint64_t>(std::llround(sequences * batch.context_tokens));
  return shape;
}

engine::StepShape with_prompt(engine::StepShape shape, std::uint32_t tokens) {
  shape.prefill_requests = 1;
  shape.prefill_new_tokens = tokens;
  shape.prefill_attention_pairs = 0.5 * tokens * (tokens + 1.0);
  return shape;
}

struct StepTimes {
  double decode_ms;  // Step without prompts.
  double prompt_ms;  // Time that one prompt adds.
};

StepTimes step_times(const engine::Roofline& replica, const DecodeBatch& batch, std::uint32_t input_tokens) {
  const auto at = [&](std::uint32_t sequences) {
    const engine::StepShape shape = decode_shape(batch, sequences);
    const double decode = replica.step_ms(shape);
    return StepTimes{decode, replica.step_ms(with_prompt(shape, input_tokens)) - decode};
  };
  const double whole = std::floor(batch.running), share = batch.running - whole;
  const StepTimes low = at(static_cast<std::uint32_t>(whole));
  if (share == 0.0) return low;
  const StepTimes high = at(static_cast<std::uint32_t>(whole) + 1);
  return {low.decode_ms + share * (high.decode_ms - low.decode_ms),
          low.prompt_ms + share * (high.prompt_ms - low.prompt_ms)};
}

double tokens_per_s(const ServingPoint& point, const ServingEstimate& estimate) {
  const double request_ms = estimate.ttft_ms + point.output_tokens * estimate.tpot_ms;
  return 1e3 * point.concurrency * point.output_tokens / request_ms;
}

}  // namespace

// Prompts of 80 to 100 % of the stated length are 0.9 of it on average. The burst of equal requests is computed in
// iterations of several prompts, which then stay together.
ClosedLoop closed_loop_of(engine::Backend backend, LoadTest load_test, bool mixture) {
  switch (backend) {
    case engine::Backend::kSglang:
      return mixture ? ClosedLoop{229.0, 0.99, 3.3, 0.105} : ClosedLoop{174.0, 3.66, 0.0, 0.645};
    case engine::Backend::kVllm:
      if (mixture) return {4.9, 1.14, 5.2, 0.070};
      break;
    case engine::Backend::kTrtllm:
      if (mixture) return {26.0, 1.06, 9.7, 0.062};
      break;
  }
  return load_test == LoadTest::kEqualLengths ? ClosedLoop{92.0, 2.42, 0.0, 0.066} : ClosedLoop{38.0, 0.92, 1.3, 0.061};
}

double calibration_kv_tokens(const engine::RooflineSpec& spec) {
  constexpr double kMemoryShare = 0.9, kActivationBytes = 2e9;
  const engine::ModelCard& model = *spec.model;
  const double gpus = spec.tensor_parallel, ranks = std::min<double>(spec.attention_ranks, gpus);
  const double width = engine::dense_weight_bytes(model, spec.precision);
  const double weights = (model.attention_parameters() * ranks + model.dense_parameters()) * width +
                         model.expert_parameters() * engine::bytes_per_weight(spec.precision) +
                         model.embedding_parameters() * 4.0;
  const double spare = kMemoryShare * spec.gpu->memory_gb * 1e9 * gpus - kActivationBytes * gpus - weights;
  const double copies = gpus / std::min(gpus, ranks * model.kv_heads);
  const double layers = model.full_layers > 0 ? model.full_layers : model.layers;
  const double element = engine::kv_element_bytes(spec.kv_precision());
  return std::max(0.0, spare / (layers * model.kv_elements_per_token() * element * copies));
}

ServingEstimate aggregated_serving(const engine::Roofline& replica, const ServingPoint& point) {
  const ClosedLoop loop = closed_loop_of(replica.spec().backend, point.load_test, replica.spec().model->is_mixture());
  const DecodeBatch batch = decode_batch(replica, point);
  const auto [decode_ms, prompt_ms] = step_times(replica, batch, point.input_tokens);
  ServingEstimate estimate;
  estimate.running = batch.running;
  estimate.tpot_ms = decode_ms + (batch.running - 1.0) / point.output_tokens * prompt_ms;
  const double turns_waited = point.concurrency / batch.running - 1.0;
  estimate.ttft_ms = loop.fixed_ms + (loop.prompts + loop.burst_share * (batch.running - 1.0)) * prompt_ms +
                     loop.steps_waited * decode_ms + turns_waited * point.output_tokens * estimate.tpot_ms;
  estimate.output_tokens_per_s = tokens_per_s(point, estimate);
  return estimate;
}

ServingEstimate decode_serving(const engine::Roofline& replica, const ServingPoint& point) {
  const DecodeBatch batch = decode_batch(replica, point);
  ServingEstimate estimate;
  estimate.running = batch.running;
  estimate.tpot_ms = step_times(replica, batch, point.input_tokens).decode_ms;
  estimate.output_tokens_per_s = tokens_per_s(point, estimate);
  return estimate;
}

}  // namespace penstock::fidelity
