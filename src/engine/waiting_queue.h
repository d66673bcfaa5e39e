// Sequences that wait for admission, in the order in which the scheduler serves them.
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

// Preempted sequences precede all others, as in vLLM. The others are served first come first served, shortest first
// (bounded by the fairness bound), or by priority. O(1) for first come first served, O(log n) otherwise.
class WaitingQueue {
 public:
  using Slot = std::uint32_t;
  struct Item {
    Slot slot = 0;
    std::uint64_t serial = 0;  // Order of arrival.
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
  // Returns the next item at `now`. The queue must not be empty.
  [[nodiscard]] const Item& head(core::Instant now);
  void pop_head(core::Instant now);
  void remove(Slot slot, std::uint64_t serial);  // Removes a waiting item at any position; O(size).
  [[nodiscard]] core::Instant oldest() const;    // Arrival of the oldest item. The queue must not be empty.
  // Returns true if the head depends on later arrivals or on the time, and not only on the order of arrival.
  [[nodiscard]] bool reorders() const { return order_ != QueueOrder::kFcfs; }
  void clear();

 private:
  struct After {  // The top of the heap is the least item.
    QueueOrder order;
    bool operator()(const Item& left, const Item& right) const;
  };
  void drop_served();

  QueueOrder order_;
  core::Duration fairness_bound_;
  std::vector<Item> preempted_;  // Last in, first out.
  // All other items by arrival. With other orders some of them may have been served already.
  std::deque<Item> fifo_;
  std::priority_queue<Item, std::vector<Item>, After> heap_{After{order_}};
  std::vector<bool> served_;  // Indexed by serial − first_serial_, for the two orders that keep two structures.
  std::uint64_t first_serial_ = 0;
  std::size_t size_ = 0;  // Excludes preempted items.
};

}  // namespace penstock::engine
