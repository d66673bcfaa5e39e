#include "cli/engine_scheduling.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace penstock::cli {
namespace {

using deployment::EngineKind;
using deployment::EnginePool;
using deployment::EngineScheduling;
using engine::EngineConfig;
using engine::IterationOrder;
using engine::PreemptionOrder;
using engine::QueueOrder;

class SchedulingBuilder {
 public:
  SchedulingBuilder(EngineKind kind, const EngineConfig& engine, EnginePool& pool)
      : name_{engine_name(kind)}, engine_{engine}, pool_{pool}, made_{pool.scheduling} {}

  void set_for(EngineKind kind) {
    if (kind == EngineKind::kVllm) return set_vllm();
    if (kind == EngineKind::kSglang) return set_sglang();
    if (engine_.queue_order != QueueOrder::kFcfs) drop("queue_order", "serves requests in the order of their arrival");
    if (engine_.preemption_order != PreemptionOrder::kLifo) drop("preemption_order", "has no such flag");
    if (engine_.watermark > 0.0) drop("watermark", "has no such flag");
    if (engine_.prefill_share < 1.0) drop("prefill_share", "has no such flag");
  }

  [[nodiscard]] std::vector<std::string> take() { return std::move(notes_); }

 private:
  // vLLM 0.32. Prompts are computed beside decoding sequences, which come first.
  void set_vllm() {
    made_.by_priority = engine_.queue_order == QueueOrder::kPriority;
    if (engine_.queue_order == QueueOrder::kShortest) drop("queue_order", "has no order by length");
    switch (engine_.preemption_order) {
      case PreemptionOrder::kLifo:
        if (made_.by_priority)
          differ("preemption_order", "preempts by priority where it schedules by priority; set priority here, too");
        break;
      case PreemptionOrder::kLeastProgress:
        drop("preemption_order", "preempts the sequence that was admitted last, or by priority");
        break;
      case PreemptionOrder::kPriority:
        if (!made_.by_priority) drop("preemption_order", "preempts by priority with queue_order: priority only");
        break;
    }
    if (engine_.watermark < 1.0) made_.watermark = engine_.watermark;
    if (engine_.iteration_order == IterationOrder::kPrefillFirst)
      drop("iteration_order", "computes prompts beside decoding sequences");
    if (engine_.prefill_share >= 1.0) return;
    if (!engine_.chunked_prefill) return drop("prefill_share", "needs chunked prefill for it");
    made_.long_prefill_tokens =
        std::max(1U, static_cast<std::uint32_t>(engine_.prefill_share * engine_.max_batched_tokens));
    differ("prefill_share",
           fmt::format("limits each prompt to {} tokens of an iteration, not all prompts together, and the share does "
                       "not move between prefill_share_min and prefill_share_max",
                       made_.long_prefill_tokens));
  }

  // SGLang 0.5.23. Prompts are computed in iterations of their own.
  void set_sglang() {
    made_.by_priority = engine_.queue_order == QueueOrder::kPriority;
    if (engine_.queue_order == QueueOrder::kShortest && engine_.prefix_caching) {
      made_.shortest_first = true;
      drop("fairness_bound", "lets short prompts overtake without a bound");
    } else if (engine_.queue_order == QueueOrder::kShortest) {
      drop("queue_order", "orders by length with prefix_caching only");
    }
    made_.preempts_by_priority = engine_.preemption_order == PreemptionOrder::kPriority;
    made_.preempts_least_progress = engine_.preemption_order == PreemptionOrder::kLeastProgress;
    if (engine_.watermark > 0.0)
      drop("watermark", "has none; --engine-argument=--schedule-conservativeness=1.3 admits fewer requests");
    if (engine_.prefill_share < 1.0)
      drop("prefill_share",
           "computes prompts in iterations of their own; a lower max_batched_tokens makes these shorter");
  }

  void drop(const char* key, const std::string& why) { note(key, "counts in simulations only", why); }
  void differ(const char* key, const std::string& why) { note(key, "is followed in part", why); }
  void note(const char* key, const char* what, const std::string& why) {
    notes_.push_back(fmt::format("engine.{} of pool {} {}: {} {}.", key, pool_.pool, what, name_, why));
  }

  const char* name_;
  const EngineConfig& engine_;
  EnginePool& pool_;
  EngineScheduling& made_;
  std::vector<std::string> notes_;
};

}  // namespace

const char* engine_name(EngineKind kind) {
  switch (kind) {
    case EngineKind::kVllm: return "vLLM";
    case EngineKind::kSglang: return "SGLang";
    case EngineKind::kTriton: return "Triton";
    case EngineKind::kTrtllm: return "trtllm-serve";
  }
  return "";
}

std::vector<std::string> set_scheduling(EngineKind kind, const EngineConfig& engine, EnginePool& pool) {
  SchedulingBuilder builder{kind, engine, pool};
  builder.set_for(kind);
  return builder.take();
}

}  // namespace penstock::cli
