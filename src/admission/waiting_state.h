// What AdmissionController keeps of tenants, models and tickets.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "admission/admission_controller.h"
#include "admission/budget.h"
#include "admission/overload.h"
#include "admission/queue.h"
#include "admission/token_rate.h"

namespace penstock::admission {

struct TenantState {
  TenantLimits limits;
  TokenBudget budget;
  std::uint32_t running = 0, waiting = 0;
  std::uint32_t running_elsewhere = 0;  // At other gateways with the same limits.
  // Whether the limit of concurrent requests is reached.
  [[nodiscard]] bool is_full() const {
    return limits.concurrent > 0 && std::uint64_t{running} + running_elsewhere >= limits.concurrent;
  }
  std::uint64_t reserved_total = 0, settled_total = 0, used_total = 0, largest_claim = 0;
  std::array<std::uint64_t, kDecisions> decisions{};
};

struct ModelQueue {
  FairQueue queue;
  FairQueue deferred;  // Requests that wait for spare capacity.
  TokenRate admit_rate{};
  // The last time at which no replica had room for a request of the precedence.
  std::map<Precedence, core::Instant> full_for{};
};

// The tenant's or class's limit that blocks a request.
enum class LimitKind : std::uint8_t {
  kNothing,
  kConcurrency,
  kBudget,
  kClassBudget,
  kTurn,  // An earlier request that waited for a limit may go now and has not been visited yet.
};

struct Record {  // A queued or admitted ticket.
  std::uint32_t tenant = 0, model = 0;
  Class traffic_class = Class::kInteractive;
  std::uint64_t tokens = 0;               // Estimated.
  std::uint64_t reserve = 0;              // Taken from the budgets.
  core::Instant deadline = core::kNever;  // Of a deferred request.
  bool admit = false;
  bool deferred = false;   // It waits for spare capacity.
  bool saturated = false;  // A replica was requested for it, and none had room.
  // The limit that blocks it, or an earlier request that it may not overtake; as of the last visit.
  LimitKind limit = LimitKind::kNothing;
  std::uint32_t passed = 0;           // Number of requests that overtook it while saturation blocked it.
  std::uint64_t blocked_in_call = 0;  // The call of next() that blocked it last.
};

}  // namespace penstock::admission
