#include "capacity/engine_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::capacity {
namespace {

constexpr std::string_view kTokenArticle = "article on token-aware autoscaling with vLLM and TensorRT-LLM";
constexpr std::string_view kQueueArticle = "article on queue-aware scaling of vLLM with KEDA";
// The figure of the second article is for both measures together.
constexpr std::string_view kBudgetEffect =
    "INT8 or FP8 with speculative decoding: 40 to 60 % lower cost of GPU hours, less than 2 % loss of accuracy";

std::string percent(double share) { return fmt::format("{:.0f} %", share * 100.0); }

EngineAdvice advice_of(std::string_view rule, std::string evidence, std::string_view effect, std::string_view source) {
  const decision::EngineSetting& setting = decision::engine_setting(rule);
  return {setting.rule,
          std::string{setting.advice},
          std::move(evidence),
          std::string{setting.vllm},
          std::string{setting.sglang},
          std::string{setting.triton},
          effect,
          source};
}

std::optional<EngineAdvice> measured_rule(std::string_view rule, std::optional<std::string> evidence) {
  if (!evidence) return std::nullopt;
  return advice_of(rule, *std::move(evidence), {}, kTokenArticle);
}

std::optional<EngineAdvice> kv_reserve(const SizingRequest& request, const SizingChoice& best) {
  const double tokens = request.traffic.input_tokens + request.traffic.output_tokens;
  const double allowed = best.memory.tokens * kKvShareMax;
  if (request.max_sequences * tokens <= allowed) return std::nullopt;
  const double sequences = std::max(1.0, std::floor(allowed / tokens));
  EngineAdvice made = advice_of(
      "kv_reserve",
      fmt::format("{} sequences of {:.0f} tokens need {:.0f} KV tokens, the cache has {:.0f}", request.max_sequences,
                  tokens, request.max_sequences * tokens, std::floor(best.memory.tokens)),
      {}, kTokenArticle);
  made.advice = fmt::format("reserve {} of the KV cache: at most {:.0f} sequences at once", percent(1.0 - kKvShareMax),
                            sequences);
  for (std::string* flag : {&made.vllm, &made.sglang}) *flag += fmt::format(" {:.0f}", sequences);
  return made;
}

std::optional<EngineAdvice> precision(const SizingRequest& request, const SizingAdvice& sizing) {
  if (request.engine.precision != engine::Precision::kBf16) return std::nullopt;
  const bool has_fp8 = request.engine.gpu->fp8_tflops > request.engine.gpu->bf16_tflops;
  const double weights_gib = request.engine.model->parameters() * 2.0 / (1024.0 * 1024.0 * 1024.0);
  std::string evidence = fmt::format("weights in 16 bit have about {:.1f} GiB, in 8 bit half of it; the {} has {}",
                                     weights_gib, request.engine.gpu->name, has_fp8 ? "FP8 units" : "no FP8 units");
  if (!sizing.best) evidence += "; nothing serves in 16 bit";
  EngineAdvice made = advice_of("precision", std::move(evidence), kBudgetEffect, kQueueArticle);
  made.advice = has_fp8 ? "compare FP8: --engine …,precision=fp8" : "compare weights and activations in INT8";
  if (has_fp8) return made;
  made.vllm = "a model that is quantized as W8A8 INT8, which is detected";
  made.sglang = "--quantization w8a8_int8";
  made.triton = "an engine of quantize.py --qformat int8_sq";
  return made;
}

std::optional<EngineAdvice> speculative_decoding(const SizingChoice& best) {
  if (best.utilisation >= kLowUtilisation) return std::nullopt;
  return advice_of("speculative_decoding",
                   fmt::format("the load uses {} of the capacity of the replicas", percent(best.utilisation)),
                   kBudgetEffect, kQueueArticle);
}

std::optional<EngineAdvice> gpu_by_phase(const SizingRequest& request) {
  const double computed = request.traffic.input_tokens * (1.0 - request.traffic.cached_share);
  if (computed < kLongPromptTokens) return std::nullopt;
  EngineAdvice made = advice_of("gpu_by_phase",
                                fmt::format("{:.0f} prompt tokens of a request are computed, for {:.0f} output tokens",
                                            computed, request.traffic.output_tokens),
                                "more GPU cost, fewer timeouts and retries of long prompts", kQueueArticle);
  made.advice += " (the source names an A100 for prefill and an L40S for decode)";
  return made;
}

std::optional<EngineAdvice> weights_cache(const SizingChoice& best) {
  const double weights_gib = best.memory.weights_gib * best.tensor_parallel;
  if (weights_gib < kLargeWeightsGib) return std::nullopt;
  return advice_of("weights_cache", fmt::format("each start of a replica reads {:.1f} GiB of weights", weights_gib),
                   "a 70B model in 16 bit takes 2 to 6 minutes to start", kQueueArticle);
}

}  // namespace

std::vector<EngineAdvice> engine_advice(const SizingRequest& request, const SizingAdvice& sizing,
                                        const EngineMeasurement& measured) {
  std::vector<EngineAdvice> all;
  const auto add = [&](std::optional<EngineAdvice> advice) {
    if (advice) all.push_back(*std::move(advice));
  };
  const SizingChoice* best = sizing.best ? &sizing.choices[*sizing.best] : nullptr;
  add(measured_rule("queue_delay", decision::queue_delay_evidence(request.slo, measured)));
  add(measured_rule("batch_efficiency", decision::batch_efficiency_evidence(measured)));
  if (best != nullptr) add(kv_reserve(request, *best));
  add(precision(request, sizing));
  if (best != nullptr) add(speculative_decoding(*best));
  add(gpu_by_phase(request));
  if (best != nullptr) add(weights_cache(*best));
  return all;
}

}  // namespace penstock::capacity
