#include "engine/waiting_queue.h"

#include <algorithm>

#include "core/result.h"

namespace penstock::engine {

bool WaitingQueue::After::operator()(const Item& left, const Item& right) const {
  if (order == QueueOrder::kShortest && left.work_tokens != right.work_tokens)
    return left.work_tokens > right.work_tokens;
  if (order == QueueOrder::kPriority && left.priority != right.priority) return left.priority < right.priority;
  return left.serial > right.serial;
}

void WaitingQueue::push(const Item& item) {
  fifo_.push_back(item);
  ++size_;
  if (!reorders()) return;
  if (fifo_.size() == 1) {
    first_serial_ = item.serial;
    served_.clear();
  }
  served_.resize(item.serial - first_serial_ + 1, false);
  heap_.push(item);
}

void WaitingQueue::drop_served() {
  const auto is_served = [&](const Item& item) {
    return item.serial < first_serial_ || served_[item.serial - first_serial_];
  };
  while (!fifo_.empty() && is_served(fifo_.front())) fifo_.pop_front();
  while (!heap_.empty() && is_served(heap_.top())) heap_.pop();
}

const WaitingQueue::Item& WaitingQueue::head(core::Instant now) {
  PENSTOCK_ASSERT(!empty(), "an empty queue has no head");
  if (!preempted_.empty()) return preempted_.back();
  if (!reorders()) return fifo_.front();
  drop_served();
  const bool overdue = order_ == QueueOrder::kShortest && now - fifo_.front().since > fairness_bound_;
  return overdue ? fifo_.front() : heap_.top();
}

void WaitingQueue::pop_head(core::Instant now) {
  if (!preempted_.empty()) {
    preempted_.pop_back();
    return;
  }
  if (reorders()) {
    served_[head(now).serial - first_serial_] = true;
    drop_served();
  } else {
    fifo_.pop_front();
  }
  --size_;
}

void WaitingQueue::remove(Slot slot, std::uint64_t serial) {
  if (std::erase_if(preempted_, [&](const Item& item) { return item.slot == slot; }) > 0) return;
  if (reorders()) {
    served_[serial - first_serial_] = true;
    drop_served();
  } else {
    const auto found = std::lower_bound(fifo_.begin(), fifo_.end(), serial,
                                        [](const Item& item, std::uint64_t wanted) { return item.serial < wanted; });
    PENSTOCK_ASSERT(found != fifo_.end() && found->serial == serial, "only who waits can leave");
    fifo_.erase(found);
  }
  --size_;
}

core::Instant WaitingQueue::oldest() const {
  core::Instant oldest = core::kNever;
  for (const Item& item : preempted_) oldest = std::min(oldest, item.since);
  if (!fifo_.empty()) oldest = std::min(oldest, fifo_.front().since);
  return oldest;
}

void WaitingQueue::clear() {
  preempted_.clear();
  fifo_.clear();
  heap_ = decltype(heap_){After{order_}};
  served_.clear();
  size_ = 0;
}

}  // namespace penstock::engine
