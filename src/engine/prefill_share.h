// The share of an iteration's token budget that prompts may take, controlled by the growth of the queues.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/time.h"
#include "engine/config.h"

namespace penstock::engine {

// Every interval the share grows by one step if the prefill queue grew more than the decode queue and KV usage allows
// it, and shrinks by one step otherwise. A configured share of 1 switches it off. The config must outlive it.
class PrefillShare {
 public:
  explicit PrefillShare(const EngineConfig& config) : config_(config), share_(config.prefill_share) {}

  [[nodiscard]] bool active() const { return config_.prefill_share < 1.0; }
  [[nodiscard]] core::Instant next_update() const { return updated_ + config_.prefill_share_interval; }
  // Prompt tokens that one iteration may compute.
  [[nodiscard]] std::uint64_t budget(std::uint32_t decoding) const {
    if (!active() || decoding == 0) return config_.max_batched_tokens;
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(share_ * config_.max_batched_tokens));
  }
  void update(core::Instant now, std::int64_t waiting, std::int64_t decoding, double kv_usage) {
    if (!active()) return;
    while (now - updated_ >= config_.prefill_share_interval) {
      updated_ += config_.prefill_share_interval;
      const bool prefill_grows = waiting - waiting_ > decoding - decoding_;
      const bool more = prefill_grows && kv_usage < config_.prefill_share_kv_limit;
      share_ = std::clamp(share_ + (more ? config_.prefill_share_step : -config_.prefill_share_step),
                          config_.prefill_share_min, config_.prefill_share_max);
      waiting_ = waiting;
      decoding_ = decoding;
    }
  }

 private:
  const EngineConfig& config_;
  double share_;
  core::Instant updated_;
  std::int64_t waiting_ = 0, decoding_ = 0;  // Queue lengths at the last update.
};

}  // namespace penstock::engine
