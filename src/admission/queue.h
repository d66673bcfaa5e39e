// Queue of requests before admission: fair between tenants by weight, with a deadline for each request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "core/time.h"

namespace penstock::admission {

enum class Class : std::uint8_t { kInteractive, kBatch };
[[nodiscard]] constexpr std::size_t index_of(Class traffic_class) { return static_cast<std::size_t>(traffic_class); }
[[nodiscard]] const char* to_string(Class traffic_class);  // Returns "interactive" or "batch".

struct Waiting {
  std::uint64_t ticket = 0;  // Unique number that the caller assigns.
  std::uint32_t tenant = 0;
  Class traffic_class = Class::kInteractive;
  std::uint64_t tokens = 0;  // Estimated tokens of the request, the unit of fairness.
  std::int32_t tier = 0;     // Higher tiers are served first, regardless of weights.
  core::Instant since;
  core::Instant deadline = core::kNever;  // The request is refused after this time.
  std::uint64_t needed = 0;               // Tokens that the budgets must hold.
  // It was deferred and its deadline is near: it is queued with the interactive requests, whatever the limits.
  bool due = false;
};

// The class among whose requests it is queued.
[[nodiscard]] constexpr Class line_of(const Waiting& waiting) {
  return waiting.due ? Class::kInteractive : waiting.traffic_class;
}

struct QueueLimits {
  std::uint32_t requests = 2048;             // Per class.
  std::uint64_t tokens = 50'000'000;         // Per class.
  std::uint32_t requests_per_tenant = 1024;  // Sum over all classes.
};

// Result of a caller's visit to the head of a tenant's queue.
enum class VisitResult : std::uint8_t { kTake, kPass, kStop };

// Weighted fair queueing by start-time tags (Goyal et al., SFQ, SIGCOMM 1996, equations 4 and 5): tenants that wait are
// admitted tokens in proportion to their weights. An idle or skipped tenant earns no credit. Over any interval in which
// two tenants of a class and tier both wait, their tokens / weight differ by at most the sum of the largest request /
// weight of each. Interactive requests are served before batch requests, except that one in `batch_turn` turns belongs
// to batch while batch requests wait. Requests of one tenant, class and tier keep their order. O(log waiting). Not
// thread-safe.
class FairQueue {
 public:
  explicit FairQueue(const QueueLimits& limits = {}, std::uint32_t batch_turn = 8);
  ~FairQueue();
  FairQueue(FairQueue&&) noexcept;
  FairQueue& operator=(FairQueue&&) noexcept;

  void set_weight(std::uint32_t tenant,
                  double weight);  // Must be positive; applies from the tenant's next request. The default weight is 1.

  // Returns false if the queue is full, which it never is for a request that is due. A ticket may be queued once.
  [[nodiscard]] bool push(const Waiting& waiting);
  // Removes and returns the next request for which `may` returns true. The heads of all classes and tenants are visited
  // in their order of service, so that a tenant without budget does not block the others. `may` returns bool or
  // VisitResult and must not change the queue.
  template <class May>
  [[nodiscard]] std::optional<Waiting> pop(May&& may) {
    for (std::size_t i = 0; const Waiting* head = head_at(i); ++i) {
      const auto answer = may(*head);
      if constexpr (std::is_same_v<std::remove_cv_t<decltype(answer)>, VisitResult>) {
        if (answer == VisitResult::kStop) return std::nullopt;
        if (answer == VisitResult::kTake) return take(i);
      } else if (answer) {
        return take(i);
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] bool remove(std::uint64_t ticket);  // The client left.
  // Removes and returns the requests whose deadline has passed, oldest deadline first.
  [[nodiscard]] std::vector<Waiting> expired(core::Instant now);
  [[nodiscard]] core::Instant next_deadline() const;  // kNever if no request has a deadline.

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t size(Class traffic_class) const;
  [[nodiscard]] std::uint64_t tokens() const;
  [[nodiscard]] std::uint64_t tokens(Class traffic_class) const;
  [[nodiscard]] core::Instant oldest() const;         // kNever if the queue is empty.
  [[nodiscard]] std::vector<Waiting> by_age() const;  // Returns all requests, oldest first.

 private:
  // Returns the i-th head in the order of service, or null after the last. The pointer is valid until the queue
  // changes. O(1) for the first head and for the successor of the last returned one.
  [[nodiscard]] const Waiting* head_at(std::size_t index);
  [[nodiscard]] Waiting take(std::size_t index);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::admission
