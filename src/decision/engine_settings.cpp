#include "decision/engine_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/result.h"
#include "core/time.h"

namespace penstock::decision {
namespace {

constexpr std::array<EngineSetting, 7> kSettings = {{
    {"queue_delay", "let requests wait longer for a batch, which uses the GPU better",
     "no queue delay; raise --max-num-batched-tokens or --max-num-seqs",
     "no queue delay; raise --chunked-prefill-size or --max-running-requests",
     "max_queue_delay_microseconds: 2000 to 5000 for interactive requests"},
    {"batch_efficiency",
     "allow slightly more queue delay, or more requests at once on each replica: fewer replicas, or higher concurrency "
     "limits in front of them",
     "--max-num-seqs must not be below the requests that a replica gets at once",
     "--max-running-requests must not be below the requests that a replica gets at once",
     "max_queue_delay_microseconds"},
    {"kv_reserve", "keep a part of the KV cache free: fewer sequences at once", "--max-num-seqs",
     "--max-running-requests", "kv_cache_free_gpu_mem_fraction, and max_batch_size of the engine"},
    {"precision", "compare FP8, or INT8 on GPUs without FP8 units, if the engine runs in 16 bit", "--quantization fp8",
     "--quantization fp8", "an engine of quantize.py --qformat fp8"},
    {"speculative_decoding", "try speculative decoding: small batches leave compute for draft tokens",
     R"(--speculative-config '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}')",
     "--speculative-algorithm NGRAM", "an engine of trtllm-build --speculative_decoding_mode"},
    {"gpu_by_phase", "compare pools with role prefill and decode instead of one, each with a type of GPU of its own",
     "--kv-transfer-config", "--disaggregation-mode", ""},
    {"weights_cache", "keep the weights on a local NVMe of the nodes: penstock manifests engines --weights-path",
     "--download-dir", "--download-dir", "--model-repository"},
}};

std::vector<std::string_view> rules_against(Cause cause) {
  switch (cause) {
    case Cause::kPrefill: return {"gpu_by_phase", "precision"};
    case Cause::kDecodeBatch: return {"precision", "kv_reserve"};
    case Cause::kKvPressure:
    case Cause::kPreemption: return {"kv_reserve", "precision"};
    case Cause::kColdStart: return {"weights_cache"};
    // More replicas, other routes or other limits help against these.
    case Cause::kNone:
    case Cause::kUnknown:
    case Cause::kQueue:
    case Cause::kRoutingCache:
    case Cause::kAdmission:
    case Cause::kTransfer:
    case Cause::kEarlySigns:
    case Cause::kClient: return {};
  }
  return {};
}

std::string percent_of(double share) { return fmt::format("{:.0f} %", share * 100.0); }

}  // namespace

const EngineSetting& engine_setting(std::string_view rule) {
  const auto found =
      std::find_if(kSettings.begin(), kSettings.end(), [&](const auto& each) { return each.rule == rule; });
  PENSTOCK_ASSERT(found != kSettings.end(), "callers name rules of the table");
  return *found;
}

std::vector<EngineSetting> settings_against(Cause cause) {
  std::vector<EngineSetting> settings;
  for (const std::string_view rule : rules_against(cause)) settings.push_back(engine_setting(rule));
  return settings;
}

std::optional<std::string> queue_delay_evidence(const signals::SloTarget& slo, const EngineMeasurement& measured) {
  if (!measured.ttft_p95_s || !measured.itl_p95_s || !measured.utilisation) return std::nullopt;
  const double ttft = *measured.ttft_p95_s / core::to_seconds(slo.ttft);
  const double itl = *measured.itl_p95_s / core::to_seconds(slo.itl);
  if (std::max(ttft, itl) > kHealthyShare || *measured.utilisation < kHighUtilisation) return std::nullopt;
  return fmt::format("the p95 of TTFT is {} and that of ITL {} of its limit, at {} utilisation", percent_of(ttft),
                     percent_of(itl), percent_of(*measured.utilisation));
}

std::optional<std::string> batch_efficiency_evidence(const EngineMeasurement& measured) {
  if (!measured.batch_efficiency || !measured.batch_efficiency_before) return std::nullopt;
  const double now = *measured.batch_efficiency, before = *measured.batch_efficiency_before;
  if (now >= before * (1.0 - kEfficiencyFall)) return std::nullopt;
  return fmt::format("{} of the sequence slots are filled, before it was {}", percent_of(now), percent_of(before));
}

}  // namespace penstock::decision
