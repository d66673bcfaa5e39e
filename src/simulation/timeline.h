// Simulated time, and what happens next.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "core/time.h"
#include "simulation/event_heap.h"

namespace penstock::simulation {

enum class EventKind : std::uint8_t {
  kReplicaHealthy,
  kReplicaReady,
  kFleet,
  kTransferDone,
  kArrival,  // Of a request that waited for the end of others.
  kCrash,
  kFault,
  kFaultEnd,
  kHealthCheck,
  kReplicaSilent,
  kClientLeaves,
  kOutOfTime,
  kFirstByteTimeout,
  kCacheEvents,
  kDispatcher,
  kLoadReports,
  kScrape,
  kTick,
  kScoring,
  kPoint
};

struct Event {
  core::Instant at;
  std::uint64_t serial;  // events of the same time run in the order in which they were scheduled
  EventKind kind;
  std::uint32_t subject;  // replica, transfer, request or fault
  bool operator>(const Event& other) const { return at != other.at ? at > other.at : serial > other.serial; }
};

class Timeline {
 public:
  core::Instant now;
  EventHeap engines;  // the next step of each engine, by replica

  void schedule(core::Instant at, EventKind kind, std::uint32_t subject = 0) {
    events_.push({at, next_serial_++, kind, subject});
  }
  [[nodiscard]] core::Instant next_event() const { return events_.empty() ? core::kNever : events_.top().at; }
  Event take_event() {
    const Event event = events_.top();
    events_.pop();
    return event;
  }

 private:
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t next_serial_ = 0;
};

}  // namespace penstock::simulation
