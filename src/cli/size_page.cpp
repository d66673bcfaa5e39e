#include "cli/size_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "capacity/gpu_sharing.h"
#include "core/time.h"
#include "options/scalars.h"
#include "report/format.h"
#include "report/grid.h"

namespace penstock::cli {
namespace {

using capacity::EngineAdvice;
using capacity::ModelClass;
using capacity::Placement;
using capacity::SizingAdvice;
using capacity::SizingChoice;
using capacity::SizingReason;
using capacity::SizingRequest;
using capacity::Verdict;
using report::format_count;
using report::format_quantity;
using report::format_share;

constexpr std::size_t kPageWidth = 120;

std::string counted_gpus(std::uint32_t gpus) { return gpus == 1 ? "1 GPU" : fmt::format("{} GPUs", gpus); }
std::string counted_replicas(std::uint32_t replicas) {
  return replicas == 1 ? "1 replica" : fmt::format("{} replicas", format_count(replicas));
}

std::string name_of_choice(const SizingChoice& choice) {
  switch (choice.placement) {
    case Placement::kMig: return fmt::format("MIG {}", choice.mig_profile);
    case Placement::kMps: return fmt::format("MPS, {} engines a GPU", choice.replicas_per_gpu);
    case Placement::kWholeGpus: return counted_gpus(choice.tensor_parallel);
  }
  return {};
}

std::string place_of(const SizingChoice& best) {
  const std::string each = best.replicas == 1 ? "" : " each";
  switch (best.placement) {
    case Placement::kMig: return fmt::format("on a MIG instance {}{}", best.mig_profile, each);
    case Placement::kMps: return fmt::format("by MPS, {} engines on a GPU", best.replicas_per_gpu);
    case Placement::kWholeGpus: return fmt::format("on {}{}", counted_gpus(best.tensor_parallel), each);
  }
  return {};
}

std::string gpus_of(const SizingChoice& best) {
  if (best.placement == Placement::kWholeGpus)
    return best.replicas == 1 ? std::string{} : fmt::format(" ({})", counted_gpus(best.gpus_occupied));
  return fmt::format(" ({:.2f} of {})", best.gpus_used, counted_gpus(best.gpus_occupied));
}

std::string verdict_text(const SizingChoice& choice, const SizingRequest& request) {
  switch (choice.verdict) {
    case Verdict::kServes: return {};
    case Verdict::kWeightsDoNotFit:
      return fmt::format("weights and overhead do not fit {:.1f} GiB",
                         choice.memory_utilization * choice.memory.total_gib);
    case Verdict::kKvCacheTooSmall:
      return fmt::format("the KV cache holds no request of {} tokens", format_count(request.longest_request));
    case Verdict::kMissesSlo: return "misses the SLO at any rate";
    case Verdict::kNotIsolated: return "engines slow each other down (--isolated)";
  }
  return {};
}

std::string head_text(const SizingRequest& request, const SizingAdvice& advice) {
  const engine::RooflineSpec& spec = request.engine;
  const engine::KvMemory memory = engine::kv_memory(spec, {request.max_sequences, request.max_batched_tokens});
  const std::string load = fmt::format(
      "Load: {} requests/s of {} prompt ({} cached) and {} output tokens, within TTFT {} and ITL {}; at most {} of the "
      "capacity of a replica is used",
      format_quantity(request.requests_per_s), format_count(static_cast<std::uint64_t>(request.traffic.input_tokens)),
      format_share(request.traffic.cached_share),
      format_count(static_cast<std::uint64_t>(request.traffic.output_tokens)),
      options::format_duration(request.slo.ttft), options::format_duration(request.slo.itl),
      format_share(request.utilisation));
  return fmt::format(
             "{}, {:.1f} billion parameters ({}): {:.1f} GiB of weights in {}, {} bytes of KV cache a token in "
             "{}\n",
             report::printable(spec.model->name), spec.model->parameters() / 1e9,
             advice.model_class == ModelClass::kMixture ? "mixture of experts"
                                                        : capacity::to_string(advice.model_class),
             memory.weights_gib, name_of(spec.precision), format_count(static_cast<std::uint64_t>(memory.token_bytes)),
             name_of(spec.kv_precision())) +
         report::wrapped(load, kPageWidth, 0, 2);
}

std::string choices_table(const SizingRequest& request, const SizingAdvice& advice) {
  std::vector<std::vector<std::string>> rows{{report::printable(request.engine.gpu->name), "memory", "compute",
                                              "bandwidth", "KV tokens", "requests/s", "replicas", "GPUs"}};
  std::string refused, small;
  for (const SizingChoice& choice : advice.choices) {
    if (!choice.serves()) {
      refused += fmt::format("  {}: {}\n", name_of_choice(choice), verdict_text(choice, request));
      continue;
    }
    if (!choice.holds_batch())
      small += fmt::format("  {}: the KV cache holds {:.1f} requests of mean length\n", name_of_choice(choice),
                           choice.requests_at_once);
    const double memory_gib = choice.memory.total_gib * choice.tensor_parallel /
                              (choice.placement == Placement::kMps ? choice.replicas_per_gpu : 1);
    rows.push_back({name_of_choice(choice), fmt::format("{:.1f} GiB", memory_gib),
                    format_share(choice.compute_share * choice.tensor_parallel),
                    format_share(choice.bandwidth_share * choice.tensor_parallel),
                    format_count(static_cast<std::uint64_t>(choice.memory.tokens)),
                    format_quantity(choice.requests_per_s), format_count(choice.replicas),
                    fmt::format("{:.2f}", choice.gpus_used)});
  }
  std::string text = rows.size() > 1
                         ? report::aligned(rows) +
                               "Memory, compute, bandwidth (of one GPU), KV tokens and requests/s are those "
                               "of one replica.\n"
                         : std::string{};
  if (!small.empty())
    text += fmt::format("\nHolds fewer than {:.0f} requests at once, advised only if nothing else serves\n{}",
                        capacity::kBatchRequestsMin, small);
  if (!refused.empty()) text += "\nDoes not serve\n" + refused;
  return text;
}

std::string why_best(const SizingRequest& request, const SizingAdvice& advice) {
  const auto uses = [](const SizingChoice& best) { return fmt::format("{:.2f} GPUs", best.gpus_used); };
  switch (advice.reason) {
    case SizingReason::kSliceSuffices:
      return "A MIG instance has memory, bandwidth and compute of its own, and the load needs less of a GPU with it "
             "than with whole GPUs.";
    case SizingReason::kNoMig:
      return "No MIG profile serves the load with a batch of requests, and engines that share a GPU by MPS need less "
             "of it than whole GPUs.";
    case SizingReason::kFillsGpus:
      return fmt::format(
          "The load uses {}, and no {} does with less. A whole GPU has the largest batches and the most tokens per "
          "second for one model.",
          uses(advice.choices[*advice.best]), advice.cheaper_mps ? "MIG instance" : "part of a GPU");
    case SizingReason::kNeedsGpus:
      return "No part of a GPU holds the model and the KV cache of a batch of requests within the SLO.";
    case SizingReason::kIsolation:
      return "Only MPS would serve the load on a part of a GPU, and it does not isolate engines from each other.";
    case SizingReason::kNothingServes: {
      const bool slow = std::any_of(advice.choices.begin(), advice.choices.end(),
                                    [](const SizingChoice& choice) { return choice.verdict == Verdict::kMissesSlo; });
      return fmt::format("Nothing up to the GPUs of one node serves {}: {}.",
                         report::printable(request.engine.model->name),
                         slow ? "relax the SLO, lower the precision or choose a faster GPU"
                              : "lower the precision or choose a GPU with more memory");
    }
  }
  return {};
}

std::string reason_text(const SizingRequest& request, const SizingAdvice& advice) {
  std::string text = why_best(request, advice);
  if (!advice.cheaper_mps) return text;
  const SizingChoice& cheaper = advice.choices[*advice.cheaper_mps];
  return text + fmt::format(
                    " {} would need {:.2f} GPUs. It is advised only where no MIG instance serves the load, because its "
                    "engines slow each other down and a fault of one ends all.",
                    name_of_choice(cheaper), cheaper.gpus_used);
}

std::string hint_text(const SizingChoice& best, const SizingAdvice& advice) {
  std::string text;
  if (best.placement == Placement::kMig)
    text += fmt::format(
        "Request it as nvidia.com/mig-{0}, which the device plugin offers with the MIG strategy mixed: penstock "
        "manifests engines --gpu-resource nvidia.com/mig-{0}. A GPU has at most {1} of it, and an engine cannot spread "
        "over several.",
        best.mig_profile, best.replicas_per_gpu);
  if (best.placement == Placement::kMps)
    text += fmt::format(
        "Give each engine gpu_memory_utilization {:.2f} and start them one after the other. Requests/s hold while all "
        "engines compute. MPS isolates neither bandwidth nor faults: limit each engine by budgets and concurrent, and "
        "use it for services that may slow each other down.",
        best.memory_utilization);
  if (best.placement == Placement::kWholeGpus && best.tensor_parallel > 1)
    text += fmt::format("A replica is one engine with tensor parallelism {}.", best.tensor_parallel);
  if (advice.model_class == ModelClass::kMixture)
    text += fmt::format("{}The routing of experts varies with the traffic: measure one replica with penstock profile.",
                        text.empty() ? "" : " ");
  return text;
}

std::string advice_text(const SizingRequest& request, const SizingAdvice& advice) {
  std::string text;
  if (advice.best) {
    const SizingChoice& best = advice.choices[*advice.best];
    text = fmt::format("Advice: {} {}{}, at {} of {} capacity\n", counted_replicas(best.replicas), place_of(best),
                       gpus_of(best), format_share(best.utilisation), best.replicas == 1 ? "its" : "their");
  } else {
    text = "Advice: none\n";
  }
  text += report::wrapped(reason_text(request, advice), kPageWidth, 2, 2);
  if (!advice.best) return text;
  const std::string hint = hint_text(advice.choices[*advice.best], advice);
  return hint.empty() ? text : text + report::wrapped(hint, kPageWidth, 2, 2);
}

nlohmann::ordered_json json_of_choice(const SizingChoice& choice) {
  nlohmann::ordered_json made;
  made["placement"] = capacity::to_string(choice.placement);
  if (choice.placement == Placement::kMig) made["mig_profile"] = choice.mig_profile;
  made["gpus_per_replica"] = choice.tensor_parallel;
  made["replicas_per_gpu"] = choice.replicas_per_gpu;
  made["compute_share"] = choice.compute_share;
  made["bandwidth_share"] = choice.bandwidth_share;
  made["gpu_share"] = choice.gpu_share;
  made["gpu_memory_utilization"] = choice.memory_utilization;
  made["memory_gib"] = choice.memory.total_gib;
  made["weights_gib"] = choice.memory.weights_gib;
  made["overhead_gib"] = choice.memory.overhead_gib;
  made["kv_cache_gib"] = std::max(0.0, choice.memory.kv_gib);
  made["verdict"] = capacity::to_string(choice.verdict);
  if (choice.replicas == 0) return made;
  made["kv_cache_tokens"] = std::floor(choice.memory.tokens);
  made["longest_requests_at_once"] = choice.concurrency;
  made["mean_requests_at_once"] = choice.requests_at_once;
  made["requests_per_s"] = choice.requests_per_s;
  made["replicas"] = choice.replicas;
  made["utilisation"] = choice.utilisation;
  made["gpus_used"] = choice.gpus_used;
  made["gpus_occupied"] = choice.gpus_occupied;
  return made;
}

std::string engine_text(const std::vector<EngineAdvice>& engine) {
  std::string text;
  for (const EngineAdvice& each : engine) {
    text += text.empty() ? "\nEngine settings to try\n" : "";
    text += report::wrapped(fmt::format("{}: {}", each.rule, each.advice), kPageWidth, 2, 4);
    text += report::wrapped("because " + each.evidence, kPageWidth, 4, 6);
    for (const auto& [name, setting] :
         {std::pair{"vLLM", &each.vllm}, {"SGLang", &each.sglang}, {"Triton", &each.triton}})
      if (!setting->empty()) text += report::wrapped(fmt::format("{}: {}", name, *setting), kPageWidth, 4, 6);
    const std::string effect = each.effect.empty() ? "" : fmt::format("{}; ", each.effect);
    text += report::wrapped(fmt::format("{}source: {}", effect, each.source), kPageWidth, 4, 6);
  }
  return text;
}

nlohmann::ordered_json json_of_engine_advice(const EngineAdvice& advice) {
  nlohmann::ordered_json settings;
  for (const auto& [name, setting] :
       {std::pair{"vllm", &advice.vllm}, {"sglang", &advice.sglang}, {"triton", &advice.triton}})
    settings[name] = setting->empty() ? nlohmann::ordered_json{} : nlohmann::ordered_json(*setting);
  nlohmann::ordered_json made{{"rule", advice.rule}, {"advice", advice.advice}, {"evidence", advice.evidence}};
  made["settings"] = std::move(settings);
  if (!advice.effect.empty()) made["effect"] = advice.effect;
  made["source"] = advice.source;
  return made;
}

}  // namespace

std::string size_page(const SizingRequest& request, const SizingAdvice& advice,
                      const std::vector<EngineAdvice>& engine) {
  return head_text(request, advice) + "\n" + choices_table(request, advice) + "\n" + advice_text(request, advice) +
         engine_text(engine);
}

std::string size_json(const SizingRequest& request, const SizingAdvice& advice,
                      const std::vector<EngineAdvice>& engine) {
  nlohmann::ordered_json made;
  made["penstock"] = PENSTOCK_VERSION;
  made["model"] = report::printable(request.engine.model->name);
  made["model_class"] = capacity::to_string(advice.model_class);
  made["parameters"] = request.engine.model->parameters();
  made["precision"] = name_of(request.engine.precision);
  made["gpu"] = report::printable(request.engine.gpu->name);
  made["kv_bytes_per_token"] = engine::kv_layout(request.engine, engine::MemorySettings{}.block_tokens).token_bytes();
  made["requests_per_s"] = request.requests_per_s;
  made["input_tokens"] = request.traffic.input_tokens;
  made["output_tokens"] = request.traffic.output_tokens;
  made["longest_request_tokens"] = request.longest_request;
  made["ttft_ms"] = core::to_milliseconds(request.slo.ttft);
  made["itl_ms"] = core::to_milliseconds(request.slo.itl);
  made["reason"] = capacity::to_string(advice.reason);
  made["why"] = reason_text(request, advice);
  made["advice"] = advice.best ? json_of_choice(advice.choices[*advice.best]) : nlohmann::ordered_json{};
  nlohmann::ordered_json& choices = made["choices"] = nlohmann::ordered_json::array();
  for (const SizingChoice& choice : advice.choices) choices.push_back(json_of_choice(choice));
  nlohmann::ordered_json& settings = made["engine_advice"] = nlohmann::ordered_json::array();
  for (const EngineAdvice& each : engine) settings.push_back(json_of_engine_advice(each));
  return made.dump(1) + "\n";
}

}  // namespace penstock::cli
