#include "capacity/engine_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/time.h"

namespace penstock::capacity {
namespace {

constexpr std::string_view kTokenArticle = "article on token-aware autoscaling with vLLM and TensorRT-LLM";
constexpr std::string_view kQueueArticle = "article on queue-aware scaling of vLLM with KEDA";
// The figure of the second article is for both measures together.
constexpr std::string_view kBudgetEffect =
    "INT8 or FP8 with speculative decoding: 40 to 60 % lower cost of GPU hours, less than 2 % loss of accuracy";

double seconds_of(core::Duration duration) { return core::to_milliseconds(duration) / 1e3; }
std::string percent(double share) { return fmt::format("{:.0f} %", share * 100.0); }

std::optional<EngineAdvice> queue_delay(const SizingRequest& request, const EngineMeasurement& measured) {
  if (!measured.ttft_p95_s || !measured.itl_p95_s || !measured.utilisation) return std::nullopt;
  const double ttft = *measured.ttft_p95_s / seconds_of(request.slo.ttft);
  const double itl = *measured.itl_p95_s / seconds_of(request.slo.itl);
  if (std::max(ttft, itl) > kHealthyShare || *measured.utilisation < kHighUtilisation) return std::nullopt;
  return EngineAdvice{"queue_delay",
                      "let requests wait longer for a batch, which uses the GPU better",
                      fmt::format("the p95 of TTFT is {} and that of ITL {} of its limit, at {} utilisation",
                                  percent(ttft), percent(itl), percent(*measured.utilisation)),
                      "no queue delay; raise --max-num-batched-tokens or --max-num-seqs",
                      "no queue delay; raise --chunked-prefill-size or --max-running-requests",
                      "max_queue_delay_microseconds: 2000 to 5000 for interactive requests",
                      {},
                      kTokenArticle};
}

std::optional<EngineAdvice> batch_efficiency(const EngineMeasurement& measured) {
  if (!measured.batch_efficiency || !measured.batch_efficiency_before) return std::nullopt;
  const double now = *measured.batch_efficiency, before = *measured.batch_efficiency_before;
  if (now >= before * (1.0 - kEfficiencyFall)) return std::nullopt;
  return EngineAdvice{
      "batch_efficiency",
      "allow slightly more queue delay, or more requests at once on each replica: fewer replicas, or "
      "higher concurrency limits in front of them",
      fmt::format("{} of the sequence slots are filled, before it was {}", percent(now), percent(before)),
      "--max-num-seqs must not be below the requests that a replica gets at once",
      "--max-running-requests must not be below the requests that a replica gets at once",
      "max_queue_delay_microseconds",
      {},
      kTokenArticle};
}

std::optional<EngineAdvice> kv_reserve(const SizingRequest& request, const SizingChoice& best) {
  const double tokens = request.traffic.input_tokens + request.traffic.output_tokens;
  const double allowed = best.memory.tokens * kKvShareMax;
  if (request.max_sequences * tokens <= allowed) return std::nullopt;
  const double sequences = std::max(1.0, std::floor(allowed / tokens));
  return EngineAdvice{
      "kv_reserve",
      fmt::format("reserve {} of the KV cache: at most {:.0f} sequences at once", percent(1.0 - kKvShareMax),
                  sequences),
      fmt::format("{} sequences of {:.0f} tokens need {:.0f} KV tokens, the cache has {:.0f}", request.max_sequences,
                  tokens, request.max_sequences * tokens, std::floor(best.memory.tokens)),
      fmt::format("--max-num-seqs {:.0f}", sequences),
      fmt::format("--max-running-requests {:.0f}", sequences),
      "kv_cache_free_gpu_mem_fraction, and max_batch_size of the engine",
      {},
      kTokenArticle};
}

std::optional<EngineAdvice> precision(const SizingRequest& request, const SizingAdvice& sizing) {
  if (request.engine.precision != engine::Precision::kBf16) return std::nullopt;
  const bool has_fp8 = request.engine.gpu->fp8_tflops > request.engine.gpu->bf16_tflops;
  const double weights_gib = request.engine.model->parameters() * 2.0 / (1024.0 * 1024.0 * 1024.0);
  std::string evidence = fmt::format("weights in 16 bit have about {:.1f} GiB, in 8 bit half of it; the {} has {}",
                                     weights_gib, request.engine.gpu->name, has_fp8 ? "FP8 units" : "no FP8 units");
  if (!sizing.best) evidence += "; nothing serves in 16 bit";
  return EngineAdvice{"precision",
                      has_fp8 ? "compare FP8: --engine …,precision=fp8" : "compare weights and activations in INT8",
                      std::move(evidence),
                      has_fp8 ? "--quantization fp8" : "a model that is quantized as W8A8 INT8, which is detected",
                      has_fp8 ? "--quantization fp8" : "--quantization w8a8_int8",
                      has_fp8 ? "an engine of quantize.py --qformat fp8" : "an engine of quantize.py --qformat int8_sq",
                      kBudgetEffect,
                      kQueueArticle};
}

std::optional<EngineAdvice> speculative_decoding(const SizingChoice& best) {
  if (best.utilisation >= kLowUtilisation) return std::nullopt;
  return EngineAdvice{
      "speculative_decoding",
      "try speculative decoding: small batches leave compute for draft tokens",
      fmt::format("the load uses {} of the capacity of the replicas", percent(best.utilisation)),
      R"(--speculative-config '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}')",
      "--speculative-algorithm NGRAM",
      "an engine of trtllm-build --speculative_decoding_mode",
      kBudgetEffect,
      kQueueArticle};
}

std::optional<EngineAdvice> gpu_by_phase(const SizingRequest& request) {
  const double computed = request.traffic.input_tokens * (1.0 - request.traffic.cached_share);
  if (computed < kLongPromptTokens) return std::nullopt;
  return EngineAdvice{
      "gpu_by_phase",
      "compare pools with role prefill and decode, each with a type of GPU of its own (the source names an A100 for "
      "prefill and an L40S for decode)",
      fmt::format("{:.0f} prompt tokens of a request are computed, for {:.0f} output tokens", computed,
                  request.traffic.output_tokens),
      "--kv-transfer-config",
      "--disaggregation-mode",
      "",
      "more GPU cost, fewer timeouts and retries of long prompts",
      kQueueArticle};
}

std::optional<EngineAdvice> weights_cache(const SizingChoice& best) {
  const double weights_gib = best.memory.weights_gib * best.tensor_parallel;
  if (weights_gib < kLargeWeightsGib) return std::nullopt;
  return EngineAdvice{"weights_cache",
                      "keep the weights on a local NVMe of the nodes: penstock manifests engines --weights-path",
                      fmt::format("each start of a replica reads {:.1f} GiB of weights", weights_gib),
                      "--download-dir",
                      "--download-dir",
                      "--model-repository",
                      "a 70B model in 16 bit takes 2 to 6 minutes to start",
                      kQueueArticle};
}

}  // namespace

std::vector<EngineAdvice> engine_advice(const SizingRequest& request, const SizingAdvice& sizing,
                                        const EngineMeasurement& measured) {
  std::vector<EngineAdvice> all;
  const auto add = [&](std::optional<EngineAdvice> advice) {
    if (advice) all.push_back(*std::move(advice));
  };
  const SizingChoice* best = sizing.best ? &sizing.choices[*sizing.best] : nullptr;
  add(queue_delay(request, measured));
  add(batch_efficiency(measured));
  if (best != nullptr) add(kv_reserve(request, *best));
  add(precision(request, sizing));
  if (best != nullptr) add(speculative_decoding(*best));
  add(gpu_by_phase(request));
  if (best != nullptr) add(weights_cache(*best));
  return all;
}

}  // namespace penstock::capacity
