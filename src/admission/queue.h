// Requests that wait to be let in: fair between tenants by weight, with a deadline each.
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
[[nodiscard]] const char* to_string(Class traffic_class);  // "interactive", "batch"

struct Waiting {
  std::uint64_t ticket = 0;  // the caller's number for it
  std::uint32_t tenant = 0;
  Class traffic_class = Class::kInteractive;
  std::uint64_t tokens = 0;  // what it will take: the unit of fairness
  std::int32_t tier = 0;     // a higher one goes first, whatever the weights
  core::Instant since;
  core::Instant deadline = core::kNever;  // after it, it is refused
};

struct QueueLimits {
  std::uint32_t requests = 2048;             // of one class
  std::uint64_t tokens = 50'000'000;         // of one class
  std::uint32_t requests_per_tenant = 1024;  // of all classes
};

// What a caller says of a head that it is shown.
enum class VisitResult : std::uint8_t { kTake, kPass, kStop };

// Weighted fair queueing by start-time tags (Goyal et al., SFQ, SIGCOMM 1996, equations 4 and 5): of the tenants that wait,
// each gets let in tokens in proportion to its weight; one that was idle, or was passed over, has no credit for it. Over any
// time in which two tenants of a class and tier both wait, tokens / weight of the two differ by at most the sum of the
// largest request / weight of each. Interactive requests go before batch ones, but one in `batch_turn` turns is batch's
// while any waits. Requests of one tenant, class and tier keep their order. O(log waiting). Not thread-safe.
class FairQueue {
 public:
  explicit FairQueue(const QueueLimits& limits = {}, std::uint32_t batch_turn = 8);
  ~FairQueue();
  FairQueue(FairQueue&&) noexcept;
  FairQueue& operator=(FairQueue&&) noexcept;

  void set_weight(std::uint32_t tenant, double weight);  // > 0; 1 unless set; counts from the tenant's next request on

  [[nodiscard]] bool push(const Waiting& waiting);  // false: full. A ticket waits once
  // The one to let in next, if `may` says that it may be: the queue shows the heads of classes and tenants in their order
  // of service and takes the first that may, so that a tenant without budget does not hold up the rest. `may` returns
  // bool or VisitResult, and does not change the queue.
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
  [[nodiscard]] bool remove(std::uint64_t ticket);  // its client left
  // Those whose deadline has come, oldest deadline first; they are removed.
  [[nodiscard]] std::vector<Waiting> expired(core::Instant now);
  [[nodiscard]] core::Instant next_deadline() const;  // kNever: none has one

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t size(Class traffic_class) const;
  [[nodiscard]] std::uint64_t tokens() const;
  [[nodiscard]] std::uint64_t tokens(Class traffic_class) const;
  [[nodiscard]] core::Instant oldest() const;         // kNever when nothing waits
  [[nodiscard]] std::vector<Waiting> by_age() const;  // all of them, oldest first

 private:
  // The i-th of the heads in the order of service; null after the last. Valid until the queue changes. O(1) for the first
  // and for the one after the last that was asked for.
  [[nodiscard]] const Waiting* head_at(std::size_t index);
  [[nodiscard]] Waiting take(std::size_t index);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::admission
