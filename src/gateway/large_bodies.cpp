#include "gateway/large_bodies.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace penstock::gateway {
namespace {

constexpr int kNice = 3;  // Half the weight of other threads. More would starve the bodies on a loaded machine.

}  // namespace

LargeBodies::LargeBodies(std::uint32_t threads) {
  for (std::uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

LargeBodies::~LargeBodies() {
  {
    const std::scoped_lock lock{mutex_};
    stopped_ = true;
  }
  added_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

LargeBodies::Ticket LargeBodies::submit(std::uint32_t tenant, std::function<void()> task) {
  Ticket ticket = 0;
  {
    const std::scoped_lock lock{mutex_};
    ticket = ++last_ticket_;
    waiting_[tenant].push_back({ticket, std::move(task)});
  }
  added_.notify_one();
  return ticket;
}

bool LargeBodies::cancel(std::uint32_t tenant, Ticket ticket) {
  const std::scoped_lock lock{mutex_};
  const auto own = waiting_.find(tenant);
  if (own == waiting_.end()) return false;
  const auto found = std::find_if(own->second.begin(), own->second.end(),
                                  [&](const Waiting& waiting) { return waiting.ticket == ticket; });
  if (found == own->second.end()) return false;
  own->second.erase(found);
  if (own->second.empty()) waiting_.erase(own);
  return true;
}

std::function<void()> LargeBodies::take_next() {
  auto next = waiting_.upper_bound(last_tenant_);
  if (next == waiting_.end()) next = waiting_.begin();
  last_tenant_ = next->first;
  std::function<void()> task = std::move(next->second.front().task);
  next->second.pop_front();
  if (next->second.empty()) waiting_.erase(next);
  return task;
}

void LargeBodies::work() {
  // On Linux the value applies to one thread.
  static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice));
  std::unique_lock lock{mutex_};
  for (;;) {
    added_.wait(lock, [this] { return stopped_ || !waiting_.empty(); });
    if (stopped_) return;
    const std::function<void()> task = take_next();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace penstock::gateway
