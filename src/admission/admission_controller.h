// Admission control of the gateway as one state machine: budgets, concurrency limits, saturation and the queues before
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "admission/budget.h"
#include "admission/estimator.h"
#include "admission/overload.h"
#include "admission/pressure.h"
#include "admission/queue.h"
#include "admission/reservation.h"
#include "core/time.h"

namespace penstock::admission {

struct TenantLimits {
  std::string name;
  double weight = 1.0;
  std::int32_t tier = 0;
  BudgetLimits budget{};
  // A request that exceeds the budget or the concurrency limit is queued instead of refused.
  bool queue_over_budget = false;
  std::uint32_t concurrent = 0;              // Maximum number of concurrent requests; 0 means no limit.
  std::optional<OverloadAction> overload{};  // Empty: that of the class.
};

struct ClassLimits {
  // Maximum time in the queue; 0 means that a request is admitted or refused at once.
  core::Duration queue_time{};
  BudgetLimits budget;  // Shared by all tenants.
  OverloadAction overload = OverloadAction::kQueue;
  // Instead of queue_time for a request that arrives while no replica serves its model, if it is longer.
  core::Duration cold_start_queue_time{};

  [[nodiscard]] core::Duration wait_most(bool no_replica) const {
    return no_replica ? std::max(queue_time, cold_start_queue_time) : queue_time;
  }
};

struct AdmissionLimits {
  std::array<ClassLimits, 2> classes{};                     // Indexed by Class.
  QueueLimits queue;                                        // Applies to each model.
  QueueLimits deferred{65'536, UINT64_C(1) << 40, 65'536};  // Deferred requests of each model.
  std::uint32_t batch_turn = 8;
};

struct Arrival {
  std::uint64_t ticket = 0;  // Unique number that the caller assigns.
  std::uint32_t tenant = 0;
  std::uint32_t model = 0;  // Requests of one model compete for the same replicas and share a queue.
  Class traffic_class = Class::kInteractive;
  TokenEstimate estimate;
  core::Instant now;
  // Deadline of the request. The earlier of this and the deadline of its class applies.
  core::Instant deadline = core::kNever;
  std::optional<BudgetClaim> claim{};  // Of the budgets; the estimate if empty.
  // The request may wait for spare capacity until then. `deadline` alone applies then, not the one of its class.
  std::optional<core::Instant> deferred_until{};
  bool no_replica = false;  // No replica serves its model now.
  [[nodiscard]] BudgetClaim claimed() const { return claim.value_or(claim_of(estimate)); }
};

// Tokens that an earlier process of the gateway took from the budgets of a tenant and a class.
struct PastCharge {
  std::uint32_t tenant = 0;
  Class traffic_class = Class::kInteractive;
  std::uint64_t tokens = 0;
  core::Instant at;
};

// What one gateway took from a budget that several gateways share.
struct SharedUse {
  std::uint64_t taken = 0;    // All reservations since its start less what was returned. Decreases with refunds.
  double missing = 0.0;       // Tokens below the burst, with what other gateways took; 0 without a limit.
  std::uint32_t running = 0;  // Requests in flight; 0 for classes.
};

// What other gateways took from a budget, since the last change.
struct SharedChange {
  std::int64_t charged = 0;             // Negative: they returned tokens.
  double missing = 0.0;                 // At least this much is missing, however it was taken.
  std::uint32_t running_elsewhere = 0;  // Their requests in flight; 0 for classes.
};

enum class Decision : std::uint8_t {
  kAdmit,
  kQueue,
  kRefuseBudget,
  kRefuseConcurrency,
  kRefuseQueueFull,
  kRefusePressure,
  kRefuseQueueTime,  // The maximum time in the queue was reached.
  kRefuseDropped,    // It gives way to a request with precedence that waits.
};
inline constexpr std::size_t kDecisions = 8;
[[nodiscard]] const char* to_string(Decision decision);  // Returns "admit", …, "refuse_dropped".

struct Answer {
  Decision decision = Decision::kAdmit;
  // 1 to 60 for a temporary refusal; 0 if the request is admitted, queued or can never be granted.
  std::uint32_t retry_after_s = 0;
  std::string why;  // For refusals: a sentence that names the limit, its value and the observed value.
  // A limit of the request's tenant or class blocks it, or an earlier request that such a limit blocks and that it may
  // not overtake. More replicas would not help.
  bool own_limit = false;
  bool deferred = false;  // It is queued for spare capacity.
};

struct Admitted {
  std::uint64_t ticket = 0;
  std::uint32_t tenant = 0, model = 0;
  core::Duration waited{};
  bool due = false;  // It was deferred, and goes because its deadline is near.
};

struct Next {
  std::vector<Admitted> admitted;
  bool more = false;  // The call reached its bound and must be repeated.
};

struct Refused {
  std::uint64_t ticket = 0;
  Answer answer;
  bool due = false;  // It was deferred, and its deadline has passed.
};

struct ControllerState;  // In controller_state.h.

// A ticket arrives once and is admitted, queued or refused. A queued ticket is later returned once by next(), expired()
// or dropped(), or is cancelled. An admitted ticket ends once, through ended() or failed(). Budgets are reserved at
// admission, not while a request waits. A request never overtakes an earlier one of its model that its own limits allow
// to go; a request that only saturation blocks may be overtaken by kPassesMax smaller ones before its model waits for
// it. Requests of segments that drop (see overload.h) are not admitted, and delay no other, while a request with
// precedence waits for a replica. A deferred request is admitted while no request of its model waits for a replica and
// its verdict is kAdmit. From `deferred_until` on it is due, and waits like an interactive request until its deadline.
// Not thread-safe.
class AdmissionController {
 public:
  static constexpr std::size_t kAdmittedMax = 64;  // Maximum number of admissions in one call of next().
  // Maximum number of verdicts requested in one call of next().
  static constexpr std::size_t kVerdictsMax = 128;
  static constexpr std::uint32_t kPassesMax = 16;

  AdmissionController(const AdmissionLimits& limits, core::Instant now);
  ~AdmissionController();
  AdmissionController(AdmissionController&&) noexcept;
  AdmissionController& operator=(AdmissionController&&) noexcept;

  // Adds a tenant or changes its limits. Tenants are numbered from 0 without gaps. The budget keeps its level, and
  // queued requests keep their tier. A budget that had no limit begins full, less what running requests reserved.
  void set_tenant(std::uint32_t tenant, const TenantLimits& limits, core::Instant now);

  // Changes the limits of the classes. Budgets keep their level, and queued requests keep their deadline. The action
  // under overload applies to queued requests, too, but those of a segment that sheds now go on waiting.
  void set_classes(const std::array<ClassLimits, 2>& classes, core::Instant now);
  // Sets the levels of budgets to what earlier processes left of them. Only before the first arrival. `charges` are in
  // the order of their times and begin not before `since`. All budgets count as empty at `since`, because their levels
  // then are unknown.
  void restore(std::span<const PastCharge> charges, core::Instant since);
  [[nodiscard]] std::optional<std::uint32_t> tenant_named(const std::string& name) const;
  [[nodiscard]] SharedUse shared_use(std::uint32_t tenant, core::Instant now) const;
  [[nodiscard]] SharedUse shared_use(Class traffic_class, core::Instant now) const;
  // Other gateways with the same limits took tokens. `gateways` counts them and this one: the budget is never left with
  // a larger debt than what that many gateways admit within a minute. The caller must call next() afterwards.
  void change_shared(std::uint32_t tenant, const SharedChange& change, std::uint32_t gateways, core::Instant now);
  void change_shared(Class traffic_class, const SharedChange& change, std::uint32_t gateways, core::Instant now);
  // The smallest burst of the budgets that apply to a request; infinite if none is limited.
  [[nodiscard]] double capacity(std::uint32_t tenant, Class traffic_class) const;

  // The verdict on the replica that would take the request.
  using VerdictOf = std::function<Verdict(std::uint64_t ticket)>;
  // `verdict_of` is called last and only if nothing else decides: once it returns kAdmit, the request is admitted.
  // After kQueue, next() may admit other requests. For a deferred request that is not due, it must return kAdmit only
  // if there is spare capacity. O(tenants that wait for the model).
  [[nodiscard]] Answer arrive(const Arrival& arrival, const VerdictOf& verdict_of);

  // Returns the requests to admit now, visiting the models in turn. The caller must call it when a request ended,
  // failed or was cancelled, when saturation decreased, and at wake_at(). `verdict_of` is called last: once it returns
  // kAdmit, that ticket is admitted, so that the caller can count its tokens on a replica before the next verdict.
  [[nodiscard]] Next next(core::Instant now, const VerdictOf& verdict_of);

  // Makes deferred requests due whose time has come. Returns their tickets. The caller must call it before next().
  [[nodiscard]] std::vector<std::uint64_t> make_due(core::Instant now);

  // Returns the earliest time at which time alone can admit or expire a request; kNever if there is none.
  [[nodiscard]] core::Instant wake_at(core::Instant now) const;
  // Returns the requests that have reached their maximum time in the queue. The caller must call it before next().
  [[nodiscard]] std::vector<Refused> expired(core::Instant now);
  // Returns the queued requests that give way to one with precedence for which no replica had room at the last visit;
  // those with the least precedence come first. The caller must call it after next(). O(tenants that wait) without any.
  [[nodiscard]] std::vector<Refused> dropped(core::Instant now);
  [[nodiscard]] bool drops() const;  // False if no segment drops, so that dropped() returns nothing.
  // The client of a queued request left. Returns false if the request is not queued.
  [[nodiscard]] bool cancelled(std::uint64_t ticket);

  // An admitted request ended and used `used_tokens`, or failed and used none.
  void ended(std::uint64_t ticket, std::uint64_t used_tokens, core::Instant now);
  void failed(std::uint64_t ticket, core::Instant now) { ended(ticket, 0, now); }

  [[nodiscard]] TokenEstimator& estimator() { return estimator_; }
  [[nodiscard]] const TokenEstimator& estimator() const { return estimator_; }

  struct Tenant {
    std::uint32_t running = 0, waiting = 0;
    std::uint32_t running_elsewhere = 0;                  // At other gateways with the same limits.
    bool is_full = false;                                 // The limit of concurrent requests is reached.
    double available_tokens = 0.0;                        // Infinite without a limit.
    std::uint64_t reserved_tokens = 0;                    // Reserved by running requests.
    std::uint64_t reserved_total = 0, settled_total = 0;  // All reservations, and those whose request has ended.
    std::uint64_t used_total = 0;                         // Tokens that the ended requests took.
    std::uint64_t largest_claim = 0;                      // The most tokens that one request reserved.
    // Indexed by Decision. A request that is admitted after it was queued counts in both.
    std::array<std::uint64_t, kDecisions> decisions{};
  };
  [[nodiscard]] Tenant tenant(std::uint32_t tenant, core::Instant now) const;
  [[nodiscard]] RateLimits rate_limits(std::uint32_t tenant, core::Instant now) const;
  // Without deferred requests that are not due.
  [[nodiscard]] std::size_t waiting() const;
  [[nodiscard]] std::size_t waiting(Class traffic_class) const;
  [[nodiscard]] std::size_t deferred() const;  // Deferred requests that are not due.
  [[nodiscard]] std::uint64_t deferred_tokens() const;
  [[nodiscard]] core::Instant next_due() const;  // When the first of them is due; kNever if there is none.
  // For one model.
  [[nodiscard]] std::uint64_t waiting_tokens(std::uint32_t model) const;
  // Of the class and of the classes with precedence over it.
  [[nodiscard]] std::uint64_t waiting_tokens(std::uint32_t model, Class traffic_class) const;
  // What happens to the requests of the tenant in the class under overload.
  [[nodiscard]] OverloadAction overload_action(std::uint32_t tenant, Class traffic_class) const;
  // Counts the queued requests that wait for a replica, without those that a limit of their tenant or class blocked at
  // the last visit and those that wait behind one of these. O(queued requests of the model).
  struct QueueDepth {
    std::uint32_t requests = 0;
    core::Instant oldest = core::kNever;  // Arrival of the oldest request.
  };
  [[nodiscard]] QueueDepth waiting_for_room(std::uint32_t model) const;
  // Arrival of the oldest queued request; kNever if none is queued.
  [[nodiscard]] core::Instant oldest() const;

 private:
  std::unique_ptr<ControllerState> state_;
  TokenEstimator estimator_;
};

}  // namespace penstock::admission
