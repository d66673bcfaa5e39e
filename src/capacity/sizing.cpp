#include "capacity/sizing.h"

#include <algorithm>
#include <cmath>

#include "capacity/engine_candidates.h"
#include "capacity/gpu_sharing.h"
#include "core/enum_names.h"

namespace penstock::capacity {
namespace {

constexpr double kSmallParameters = 10e9, kMediumParameters = 40e9;
constexpr double kGibBytes = 1024.0 * 1024.0 * 1024.0;
constexpr double kSame = 1e-9;  // Shares of GPUs that differ by less are equal.

// Fills memory, verdict and load of a choice whose GPU and memory are those of `spec`.
void evaluate(SizingChoice& choice, const engine::RooflineSpec& spec, const SizingRequest& request) {
  const engine::MemorySettings settings{request.max_sequences, request.max_batched_tokens};
  choice.memory_utilization = spec.memory_utilization;
  choice.memory = engine::kv_memory(spec, settings);
  if (choice.memory.kv_gib <= 0.0) {
    choice.verdict = Verdict::kWeightsDoNotFit;
    return;
  }
  const engine::KvLayout layout = engine::kv_layout(spec, settings.block_tokens);
  const auto held = [&](std::uint64_t tokens) {
    return layout.concurrency(choice.memory.kv_gib * kGibBytes, tokens, request.max_batched_tokens);
  };
  const double mean_tokens = request.traffic.input_tokens + request.traffic.output_tokens;
  choice.concurrency = held(request.longest_request);
  choice.requests_at_once = held(static_cast<std::uint64_t>(std::llround(mean_tokens)));
  if (choice.concurrency < 1.0 || choice.memory.tokens < 1.0) {
    choice.verdict = Verdict::kKvCacheTooSmall;
    return;
  }
  const engine::Roofline model{spec, request.efficiency};
  const EngineLimits limits{static_cast<double>(request.max_sequences), static_cast<double>(request.max_batched_tokens),
                            choice.memory.tokens};
  const auto found = token_capacity(model, request.traffic, limits, request.slo);
  const auto needed = found ? replicas_by_formula(request.requests_per_s * request.traffic.input_tokens,
                                                  request.requests_per_s * request.traffic.output_tokens, found->tokens,
                                                  request.utilisation)
                            : std::nullopt;
  if (!needed) {
    choice.verdict = Verdict::kMissesSlo;
    return;
  }
  choice.requests_per_s = found->requests_per_s;
  choice.replicas = std::max(request.min_replicas, needed->replicas);
  choice.utilisation = request.requests_per_s / (found->requests_per_s * choice.replicas);
  choice.gpus_used = choice.replicas * choice.gpu_share;
  choice.gpus_occupied = choice.replicas * choice.tensor_parallel / choice.replicas_per_gpu +
                         (choice.replicas * choice.tensor_parallel % choice.replicas_per_gpu > 0 ? 1 : 0);
}

void add_instances(SizingAdvice& advice, const SizingRequest& request) {
  const engine::GpuCard& gpu = *request.engine.gpu;
  for (const MigProfile& profile : mig_profiles(gpu)) {
    const engine::GpuCard instance = instance_of(gpu, profile);
    engine::RooflineSpec spec = request.engine;
    spec.gpu = &instance;
    SizingChoice choice;
    choice.placement = Placement::kMig;
    choice.mig_profile = profile.name;
    choice.replicas_per_gpu = profile.instances;
    choice.compute_share = instance.bf16_tflops / gpu.bf16_tflops;
    choice.bandwidth_share = instance.bandwidth_gb_per_s / gpu.bandwidth_gb_per_s;
    choice.gpu_share = profile.gpu_share();
    evaluate(choice, spec, request);
    advice.choices.push_back(choice);
  }
}

void add_shared(SizingAdvice& advice, const SizingRequest& request) {
  for (std::uint32_t processes = 2; processes <= kMpsProcessesMax; ++processes) {
    const engine::GpuCard shared = shared_by(*request.engine.gpu, processes);
    engine::RooflineSpec spec = request.engine;
    spec.gpu = &shared;
    spec.memory_utilization = request.engine.memory_utilization / processes;
    SizingChoice choice;
    choice.placement = Placement::kMps;
    choice.replicas_per_gpu = processes;
    choice.compute_share = choice.bandwidth_share = choice.gpu_share = 1.0 / processes;
    evaluate(choice, spec, request);
    if (request.isolated && choice.serves()) choice.verdict = Verdict::kNotIsolated;
    advice.choices.push_back(choice);
  }
}

void add_whole(SizingAdvice& advice, const SizingRequest& request) {
  for (const std::uint32_t gpus : tensor_parallel_sizes(request.engine)) {
    engine::RooflineSpec spec = request.engine;
    spec.tensor_parallel = gpus;
    SizingChoice choice;
    choice.tensor_parallel = gpus;
    choice.gpu_share = gpus;
    evaluate(choice, spec, request);
    advice.choices.push_back(choice);
  }
}

// The choice of that kind which serves with the least of a GPU; of several, the one with the fewest replicas.
std::optional<std::size_t> least_of(const SizingAdvice& advice, Placement placement, bool needs_batch) {
  std::optional<std::size_t> least;
  for (std::size_t i = 0; i < advice.choices.size(); ++i) {
    const SizingChoice& choice = advice.choices[i];
    if (choice.placement != placement || !choice.serves() || (needs_batch && !choice.holds_batch())) continue;
    if (!least) {
      least = i;
      continue;
    }
    const SizingChoice& known = advice.choices[*least];
    const double difference = choice.gpus_used - known.gpus_used;
    const bool fewer =
        std::abs(difference) <= kSame && choice.replicas < known.replicas && placement != Placement::kWholeGpus;
    if (difference < -kSame || fewer) least = i;
  }
  return least;
}

void choose(SizingAdvice& advice, bool needs_batch) {
  const auto whole = least_of(advice, Placement::kWholeGpus, needs_batch);
  const auto slice = least_of(advice, Placement::kMig, needs_batch);
  const auto shared = least_of(advice, Placement::kMps, needs_batch);
  const auto is_less = [&](const std::optional<std::size_t>& part, const std::optional<std::size_t>& other) {
    return part && (!other || advice.choices[*part].gpus_used < advice.choices[*other].gpus_used - kSame);
  };
  if (is_less(slice, whole)) {
    advice.best = slice;
    advice.reason = SizingReason::kSliceSuffices;
  } else if (!slice && is_less(shared, whole)) {
    advice.best = shared;
    advice.reason = SizingReason::kNoMig;
  } else if (whole) {
    advice.best = whole;
    const bool excluded = std::any_of(advice.choices.begin(), advice.choices.end(), [](const SizingChoice& choice) {
      return choice.verdict == Verdict::kNotIsolated;
    });
    advice.reason = slice || shared ? SizingReason::kFillsGpus
                    : excluded      ? SizingReason::kIsolation
                                    : SizingReason::kNeedsGpus;
  }
  if (advice.best && is_less(shared, advice.best)) advice.cheaper_mps = shared;
}

}  // namespace

const char* to_string(ModelClass model_class) {
  return core::name_of<ModelClass::kMixture>(model_class, {"small", "medium", "large", "mixture"});
}

const char* to_string(Placement placement) {
  return core::name_of<Placement::kWholeGpus>(placement, {"mig", "mps", "gpus"});
}

const char* to_string(Verdict verdict) {
  return core::name_of<Verdict::kNotIsolated>(
      verdict, {"serves", "weights_do_not_fit", "kv_cache_too_small", "misses_slo", "not_isolated"});
}

const char* to_string(SizingReason reason) {
  return core::name_of<SizingReason::kNothingServes>(
      reason, {"slice_suffices", "no_mig", "fills_gpus", "needs_gpus", "isolation", "nothing_serves"});
}

ModelClass class_of(const engine::ModelCard& model) {
  if (model.is_mixture()) return ModelClass::kMixture;
  const double parameters = model.parameters();
  if (parameters < kSmallParameters) return ModelClass::kSmall;
  return parameters < kMediumParameters ? ModelClass::kMedium : ModelClass::kLarge;
}

SizingAdvice advise(const SizingRequest& request) {
  SizingAdvice advice;
  advice.model_class = class_of(*request.engine.model);
  add_instances(advice, request);
  add_shared(advice, request);
  add_whole(advice, request);
  choose(advice, true);
  if (!advice.best) choose(advice, false);
  return advice;
}

}  // namespace penstock::capacity
