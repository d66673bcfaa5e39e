// Chooses the replica for a live request by a price in milliseconds that adds up cache, queue and KV pressure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/random.h"
#include "core/time.h"
#include "routing/picking_strategy.h"

namespace penstock::routing {

struct EndpointPickerOptions {
  double prefill_tokens_per_s = 8000.0;  // Prefill rate of a replica that has not been measured yet.
  double decode_ms_per_sequence = 0.15;  // Time that each running sequence adds to an iteration.
  // Time over which the price of a new replica falls to its true value.
  core::Duration slow_start = std::chrono::seconds{20};
  core::Duration load_report_age = std::chrono::seconds{10};  // Older load reports are ignored.
  double kv_soft = 0.80;                                      // KV usage from which the price of a replica rises.
  // Expected KV usage from which a replica is left out, unless all are: it would get no prompt.
  double kv_full = 0.90;
  // Capacity of a replica that does not report its cache size. The least recently used keys are evicted first.
  std::uint32_t keys_per_replica = 65'536;
  core::Duration session_time = std::chrono::minutes{30};
  std::uint32_t sessions = 100'000;  // Maximum number of remembered sessions. The oldest are evicted first.
};

// The price of a replica is the expected time to first token of the request and the time that its prompt costs others
// there; docs/routing.md explains the terms. Load is what this gateway sent and has not ended, corrected by what the
// engine reports, because other clients may send to the engine, too. Ties are broken at random, so that equal replicas
// share the load.
//
// The prefixes that a replica holds are taken from its KV events. Without events, every prompt that was sent counts as
// cached, up to the replica's capacity. choose() is O(replicas + log keys · distinct sets of holders). Not thread-safe.
class EndpointPicker final : public PickingStrategy {
 public:
  EndpointPicker(const EndpointPickerOptions& options, core::RandomStream random);
  ~EndpointPicker() override;

  void add(std::uint32_t slot, core::Instant now, double weight = 1.0) override;
  // A slot that becomes eligible again starts slowly.
  void set_eligible(std::uint32_t slot, bool eligible, core::Instant now) override;
  void set_weight(std::uint32_t slot, double weight, core::Instant now) override;
  void forget(std::uint32_t slot) override;
  void set_capacity(std::uint32_t slot, std::uint32_t keys) override;
  void report_load(std::uint32_t slot, const ReportedLoad& report) override;
  void set_kv_full(double kv_usage) override;
  void busy(std::uint32_t slot, core::Instant now, core::Duration pause) override;

  [[nodiscard]] std::optional<Selection> choose(const PickRequest& request, core::Instant now) override;

  void dispatched(const PickRequest& request, const Selection& selection, core::Instant now) override;
  void first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Duration ttft, core::Instant now) override;
  void assume_first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Instant sent_at,
                          core::Instant now) override;
  void finished(std::uint32_t slot, std::uint32_t uncached_tokens, std::uint32_t input_tokens,
                std::uint32_t output_tokens, bool answered) override;

  // After the first event for a key that was sent to some slot, only events determine what the slot holds.
  void stored(std::uint32_t slot, std::uint64_t key) override;
  void removed(std::uint32_t slot, std::uint64_t key) override;
  void cleared(std::uint32_t slot) override;
  void events_lost(std::uint32_t slot) override;
  void prefix_missing(std::uint32_t slot, core::Instant used_at) override;

  [[nodiscard]] std::vector<Holder> holders(std::span<const std::uint64_t> keys, core::Instant now) override;
  void pinged(std::uint32_t slot, std::span<const std::uint64_t> keys, core::Instant now) override;
  [[nodiscard]] Load load(std::uint32_t slot, core::Instant now) const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::routing
