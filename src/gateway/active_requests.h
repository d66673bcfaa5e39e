// The requests a gateway has in hand, by ticket.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "admission/estimator.h"
#include "core/time.h"
#include "gateway/dispatcher.h"
#include "ledger/entry.h"
#include "signals/segment_meter.h"

namespace penstock::gateway {

inline constexpr std::uint32_t kNoSlot = UINT32_MAX;

struct ActiveRequest {
  Ticket ticket = 0;  // 0: the place is free
  GrantListener* listener = nullptr;
  std::uint32_t tenant = 0, lane = 0;
  admission::Class traffic_class = admission::Class::kInteractive;
  admission::TokenEstimate estimate;
  std::size_t text_bytes = 0;
  std::uint32_t prompt_tokens_given = 0;
  std::optional<std::uint32_t> max_tokens;
  std::uint64_t affinity = 0;
  std::string_view route;  // in memory that stays
  bool stream = false, splits = true;
  std::vector<std::uint64_t> keys;  // until it is answered

  // Where it is now; kNoSlot while it waits or between two replicas.
  std::uint32_t slot = kNoSlot;
  std::uint32_t last_slot = kNoSlot;
  bool decodes_only = false;  // on this slot
  bool slot_answered = false;
  std::uint32_t uncached_tokens = 0, cached_tokens = 0, input_tokens = 0;  // as the selection had them
  core::Instant dispatched_at;
  core::Instant overlap_used_at = core::kNever;  // of what it was chosen for
  std::vector<std::uint32_t> failed_slots;
  std::uint32_t attempts = 0;
  Grant grant;  // of one that waited, until it is delivered

  core::Instant received_at, granted_at, answered_at;
  // When it came to be work for replicas, as planners are told: when it was received, or once its tenant's own limits let it
  // go. None: they have not heard of it.
  std::optional<core::Instant> wanted_at;
  bool granted = false, answered = false;
  ledger::Entry entry;

  [[nodiscard]] signals::RequestTraits traits() const {
    return {estimate.prompt_tokens, tenant, traffic_class == admission::Class::kBatch, cached_tokens > 0, route};
  }
};

// A ticket is never used twice, and one that is no longer in hand is found to be so.
class ActiveRequests {
 public:
  ActiveRequest& add();
  [[nodiscard]] ActiveRequest* find(Ticket ticket);  // null: it has ended
  void remove(ActiveRequest& request);
  [[nodiscard]] std::uint32_t size() const { return size_; }

 private:
  static constexpr std::uint32_t kPlaceBits = 24;
  std::vector<std::unique_ptr<ActiveRequest>> places_;
  std::vector<std::uint32_t> free_;
  std::uint64_t serial_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace penstock::gateway
