// The requests that a dispatcher has in hand, by ticket.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admission/estimator.h"
#include "core/time.h"
#include "dispatch/request.h"
#include "ledger/entry.h"
#include "signals/segment_meter.h"

namespace penstock::dispatch {

inline constexpr std::uint32_t kNoSlot = UINT32_MAX;

struct ActiveRequest {
  Ticket ticket = 0;  // 0: the place is free
  GrantListener* listener = nullptr;
  std::uint32_t tenant = 0;
  std::uint32_t model = 0;  // ReplicaSet's number of it
  std::uint32_t lane = 0;   // of the admission queues and meters
  admission::Class traffic_class = admission::Class::kInteractive;
  admission::TokenEstimate estimate;
  std::size_t text_bytes = 0;
  std::uint32_t prompt_tokens_given = 0;
  std::optional<std::uint32_t> max_tokens;
  std::uint64_t affinity = 0;
  std::string_view route;  // in memory that outlives the dispatcher
  bool stream = false, splits = true;
  std::vector<std::uint64_t> keys;  // until it is answered

  std::uint32_t slot = kNoSlot;  // kNoSlot: it waits, or is between two replicas
  bool decodes_only = false;     // its prompt was computed by a prefill replica
  bool slot_answered = false;    // its first token came from this slot
  std::uint32_t uncached_tokens = 0, cached_tokens = 0, input_tokens = 0;  // as the selection had them
  core::Instant dispatched_at;
  core::Instant overlap_used_at = core::kNever;  // when the cached prefix that it was chosen for was last sent there
  std::vector<std::uint32_t> failed_slots;
  std::uint32_t attempts = 0;
  Grant grant;  // of a request that waited, until it is delivered

  core::Instant received_at, granted_at, answered_at;
  // When it became work for replicas, as planners count it: when it was received, or once its tenant's own limits let it
  // go. None: planners were not told of it.
  std::optional<core::Instant> wanted_at;
  bool granted = false, answered = false;
  ledger::Entry entry;

  [[nodiscard]] signals::RequestTraits traits() const {
    return {estimate.prompt_tokens, tenant, traffic_class == admission::Class::kBatch, cached_tokens > 0, route};
  }
};

// A ticket is never used twice, and one that is no longer in hand is found to be so. References stay valid until the
// request is removed.
class ActiveRequests {
 public:
  ActiveRequest& add();
  [[nodiscard]] ActiveRequest* find(Ticket ticket);  // null: it has ended
  void remove(ActiveRequest& request);
  // Its keys are needed no more; their memory serves later requests.
  void release_keys(ActiveRequest& request);
  [[nodiscard]] std::uint32_t size() const { return size_; }
  // Calls visit(const ActiveRequest&) for each of them, in no meaningful order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const auto& place : places_)
      if (place->ticket != 0) visit(*place);
  }

 private:
  static constexpr std::uint32_t kPlaceBits = 24;
  static constexpr std::size_t kSpareKeysMax = 64;        // vectors kept for later requests …
  static constexpr std::size_t kSpareCapacityMax = 1024;  // … of at most so many keys
  std::vector<std::unique_ptr<ActiveRequest>> places_;
  std::vector<std::uint32_t> free_;
  std::vector<std::vector<std::uint64_t>> spare_keys_;
  std::uint64_t serial_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace penstock::dispatch
