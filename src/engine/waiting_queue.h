// Sequences that wait for admission, in the order a scheduler serves them.
#pragma once

#include <cstdint>
#include <deque>
#include <queue>
#include <vector>

#include "core/time.h"
#include "engine/config.h"

namespace penstock::engine {

// Prompts that wait for their first admission.
struct PrefillBacklog {
  std::uint64_t tokens = 0;
  double squared = 0.0;  // Σ of the squares of their lengths. Exact: a sum of whole numbers far below 2^53.

  void add(std::uint32_t prompt) {
    tokens += prompt;
    squared += static_cast<double>(prompt) * prompt;
  }
  void remove(std::uint32_t prompt) {
    tokens -= prompt;
    squared -= static_cast<double>(prompt) * prompt;
  }
};

// A preempted sequence goes before all others, as in vLLM. Within the rest: first come first served, shortest first
// (but nobody waits longer than the fairness bound while shorter ones pass), or by priority. O(1) for first come first
// served, O(log n) otherwise.
class WaitingQueue {
 public:
  using Slot = std::uint32_t;
  struct Item {
    Slot slot = 0;
    std::uint64_t serial = 0;  // arrival order
    core::Instant since;
    std::uint64_t work_tokens = 0;
    std::int8_t priority = 0;
  };

  WaitingQueue(QueueOrder order, core::Duration fairness_bound) : order_(order), fairness_bound_(fairness_bound) {}

  void push(const Item& item);
  void push_preempted(const Item& item) { preempted_.push_back(item); }

  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] std::size_t size() const { return preempted_.size() + size_; }
  [[nodiscard]] std::uint32_t preempted() const { return static_cast<std::uint32_t>(preempted_.size()); }
  // The one to serve next at `now`. Not empty.
  [[nodiscard]] const Item& head(core::Instant now);
  void pop_head(core::Instant now);
  void remove(Slot slot, std::uint64_t serial);  // one that waits, wherever it stands; O(size)
  [[nodiscard]] core::Instant oldest() const;    // arrival of the one that waits longest; not empty
  // Whether the head depends on what arrives or on the time, not only on what was pushed first.
  [[nodiscard]] bool reorders() const { return order_ != QueueOrder::kFcfs; }
  void clear();

 private:
  struct After {  // the heap's top is the least
    QueueOrder order;
    bool operator()(const Item& left, const Item& right) const;
  };
  void drop_served();

  QueueOrder order_;
  core::Duration fairness_bound_;
  std::vector<Item> preempted_;  // last in, first out
  std::deque<Item> fifo_;        // all others, by arrival; some may be served already when the order is another
  std::priority_queue<Item, std::vector<Item>, After> heap_{After{order_}};
  std::vector<bool> served_;  // by serial − first_serial_, for the two orders that keep two structures
  std::uint64_t first_serial_ = 0;
  std::size_t size_ = 0;  // without the preempted
};

}  // namespace penstock::engine
