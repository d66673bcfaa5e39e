#include "routing/picking_strategy.h"

#include <algorithm>

#include "core/enum_names.h"
#include "routing/endpoint_picker.h"
#include "routing/router.h"

namespace penstock::routing {
namespace {

// A router of a peer. It knows what was sent and what came back, and for Strategy::kKv which blocks engines hold.
class PeerStrategy final : public PickingStrategy {
 public:
  PeerStrategy(Strategy strategy, std::uint32_t block_tokens, core::RandomStream random)
      : block_tokens_(block_tokens), router_(strategy, block_tokens, random) {}

  void add(std::uint32_t slot, core::Instant, double) override { router_.set_eligible(slot, true); }
  void set_eligible(std::uint32_t slot, bool eligible, core::Instant) override { router_.set_eligible(slot, eligible); }
  void forget(std::uint32_t slot) override { router_.forget(slot); }

  [[nodiscard]] std::optional<Selection> choose(const PickRequest& request, core::Instant) override {
    const std::size_t full_blocks = request.input_tokens / block_tokens_;
    const auto choice =
        router_.choose({request.input_tokens, request.keys.first(std::min(request.keys.size(), full_blocks))});
    if (!choice) return std::nullopt;
    Selection selection;
    selection.slot = choice->slot;
    selection.overlap_keys = choice->overlap_blocks;
    const std::uint64_t cached = std::uint64_t{choice->overlap_blocks} * block_tokens_;
    if (!request.decode_only)
      selection.uncached_tokens =
          request.input_tokens - static_cast<std::uint32_t>(std::min<std::uint64_t>(cached, request.input_tokens));
    selection.why = choice->overlap_blocks > 0 ? PickReason::kPrefix : PickReason::kLoad;
    return selection;
  }

  void dispatched(const PickRequest& request, const Selection& selection, core::Instant) override {
    router_.dispatched(selection.slot, selection.uncached_tokens, blocks(request.input_tokens));
  }
  void first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Duration, core::Instant) override {
    router_.first_token(slot, uncached_tokens);
  }
  void assume_first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Instant, core::Instant) override {
    router_.first_token(slot, uncached_tokens);
  }
  void finished(std::uint32_t slot, std::uint32_t uncached_tokens, std::uint32_t input_tokens, std::uint32_t,
                bool answered) override {
    if (!answered) router_.first_token(slot, uncached_tokens);
    router_.finished(slot, blocks(input_tokens));
  }

  void stored(std::uint32_t slot, std::uint64_t key) override { router_.index().stored(slot, key); }
  void removed(std::uint32_t slot, std::uint64_t key) override { router_.index().removed(slot, key); }
  void cleared(std::uint32_t slot) override { router_.index().forget(slot); }
  void events_lost(std::uint32_t slot) override { router_.index().forget(slot); }

  [[nodiscard]] Load load(std::uint32_t slot, core::Instant) const override {
    const ReplicaLoad& seen = router_.load(slot);
    Load load;
    load.eligible = seen.eligible;
    load.open_requests = seen.open_requests;
    load.prefill_tokens = seen.prefill_tokens;
    load.context_tokens = seen.kv_blocks * block_tokens_;
    load.by_events = true;
    return load;
  }

 private:
  [[nodiscard]] std::uint32_t blocks(std::uint32_t tokens) const {
    return (tokens + block_tokens_ - 1) / block_tokens_;
  }

  std::uint32_t block_tokens_;
  Router router_;
};

}  // namespace

const char* to_string(Strategy strategy) {
  return core::name_of<Strategy::kPowerOfTwo>(strategy, {"live", "kv", "round-robin", "least-loaded", "p2c"});
}

const char* to_string(PickReason why) {
  return core::name_of<PickReason::kOnly>(why, {"prefix", "load", "affinity", "only"});
}

std::unique_ptr<PickingStrategy> make_picking_strategy(Strategy strategy, const EndpointPickerOptions& options,
                                                       std::uint32_t block_tokens, core::RandomStream random) {
  if (strategy == Strategy::kLive) return std::make_unique<EndpointPicker>(options, random);
  return std::make_unique<PeerStrategy>(strategy, block_tokens, random);
}

}  // namespace penstock::routing
