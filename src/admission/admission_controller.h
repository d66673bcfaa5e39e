// The gateway's door: budgets, concurrency, pressure and the queues in front of them, as one state machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "admission/budget.h"
#include "admission/estimator.h"
#include "admission/pressure.h"
#include "admission/queue.h"
#include "core/time.h"

namespace penstock::admission {

struct TenantLimits {
  std::string name;
  double weight = 1.0;
  std::int32_t tier = 0;
  BudgetLimits budget{};
  bool queue_over_budget = false;  // wait for budget or for an end of one's own requests, rather than be refused
  std::uint32_t concurrent = 0;    // requests let in at once; 0: no limit
};

struct ClassLimits {
  core::Duration queue_time{};  // that a request may wait at most; 0: it is let in or refused
  BudgetLimits budget;          // of all tenants together
};

struct AdmissionLimits {
  std::array<ClassLimits, 2> classes{};  // by Class
  QueueLimits queue;                     // of each lane
  std::uint32_t batch_turn = 8;
};

struct Arrival {
  std::uint64_t ticket = 0;  // the caller's number for it, never used twice
  std::uint32_t tenant = 0;
  std::uint32_t lane = 0;  // requests of one lane compete for the same replicas: a model
  Class traffic_class = Class::kInteractive;
  TokenEstimate estimate;
  core::Instant now;
  core::Instant deadline = core::kNever;  // its own; it waits until the earlier of this one and its class's
};

enum class Decision : std::uint8_t {
  kAdmit,
  kQueue,
  kRefuseBudget,
  kRefuseConcurrency,
  kRefuseQueueFull,
  kRefusePressure,
  kRefuseQueueTime,  // it waited as long as it may
};
inline constexpr std::size_t kDecisions = 7;
[[nodiscard]] const char* to_string(Decision decision);  // "admit", …, "refuse_queue_time"

struct Answer {
  Decision decision = Decision::kAdmit;
  std::uint32_t retry_after_s = 0;  // 1..60 of what is refused for now; 0: let in, waits, or will never be granted
  std::string why;                  // of what is refused: a sentence with the limit's name, its value and what was seen
  bool own_limit = false;  // a limit of its tenant or class holds it up or refuses it: more replicas would not help
};

struct Admitted {
  std::uint64_t ticket = 0;
  std::uint32_t tenant = 0, lane = 0;
  core::Duration waited{};
};

struct Next {
  std::vector<Admitted> admitted;
  bool more = false;  // the call's bound was reached: call again
};

struct Refused {
  std::uint64_t ticket = 0;
  Answer answer;
};

// A ticket arrives once. It is let in, queued or refused at once; if queued, it is later named once by next() or expired(),
// or cancelled. What was let in ends once, by ended() or failed(). Budgets are taken when a request is let in, not while it
// waits. Nobody overtakes a request of the same lane that its own limits would allow to go: a request that only pressure
// holds up may be passed by kPassesMax smaller ones, then the lane waits for it. Not thread-safe.
class AdmissionController {
 public:
  static constexpr std::size_t kAdmittedMax = 64;   // by one call of next()
  static constexpr std::size_t kVerdictsMax = 128;  // asked for by one call of next()
  static constexpr std::uint32_t kPassesMax = 16;

  AdmissionController(const AdmissionLimits& limits, core::Instant now);
  ~AdmissionController();
  AdmissionController(AdmissionController&&) noexcept;
  AdmissionController& operator=(AdmissionController&&) noexcept;

  // Adds a tenant, numbered from 0 without gaps, or changes its limits; what is in its budget is kept. What waits keeps
  // its tier.
  void set_tenant(std::uint32_t tenant, const TenantLimits& limits, core::Instant now);

  // `pressure` is the verdict on the replica that would take it. After kQueue, next() may have something to let in.
  // O(tenants that wait in the lane).
  [[nodiscard]] Answer arrive(const Arrival& arrival, Verdict pressure);

  // Those to let in now, of all lanes in turn. To be called when a request ended, failed or was cancelled, when pressure fell,
  // and at wake_at(). `verdict_of` is asked last of all: once it says kAdmit, that ticket is let in, so that the caller can
  // count its tokens on a replica before it is asked of the next one.
  using VerdictOf = std::function<Verdict(std::uint64_t ticket)>;
  [[nodiscard]] Next next(core::Instant now, const VerdictOf& verdict_of);

  // The earliest moment at which time alone could let in or end the waiting of any request; kNever if there is none.
  [[nodiscard]] core::Instant wake_at(core::Instant now) const;
  // Those that have waited as long as they may; to be called before next().
  [[nodiscard]] std::vector<Refused> expired(core::Instant now);
  // Its client left while it waited. False: it does not wait.
  [[nodiscard]] bool cancelled(std::uint64_t ticket);

  // What was let in has ended and took so many tokens, or failed and took none.
  void ended(std::uint64_t ticket, std::uint64_t used_tokens, core::Instant now);
  void failed(std::uint64_t ticket, core::Instant now) { ended(ticket, 0, now); }

  [[nodiscard]] TokenEstimator& estimator() { return estimator_; }

  struct Tenant {
    std::uint32_t running = 0, waiting = 0;
    double available_tokens = 0.0;                      // infinite where there is no limit
    std::array<std::uint64_t, kDecisions> decisions{};  // by Decision; what was let in after it waited counts in both
  };
  [[nodiscard]] Tenant tenant(std::uint32_t tenant, core::Instant now) const;
  [[nodiscard]] std::size_t waiting() const;
  [[nodiscard]] std::size_t waiting(Class traffic_class) const;
  // Of one lane.
  [[nodiscard]] std::uint64_t waiting_tokens(std::uint32_t lane) const;
  // Those whom a replica with room would let go, and not those whom limits of their tenant or class held up when they
  // were last looked at. O(those that wait in the lane).
  struct QueueDepth {
    std::uint32_t requests = 0;
    core::Instant oldest = core::kNever;  // since when it waits
  };
  [[nodiscard]] QueueDepth waiting_for_room(std::uint32_t lane) const;
  [[nodiscard]] core::Instant oldest() const;  // since when the oldest waits; kNever when nothing does

 private:
  struct State;
  std::unique_ptr<State> state_;
  TokenEstimator estimator_;
};

}  // namespace penstock::admission
