// Threads that parse and change large bodies, so that the threads of the data path go on with their streams.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace penstock::gateway {

// As many bodies as there are threads are worked on at once; the others wait unparsed. Tenants take turns, so that the
// bodies of one do not delay the first body of another. The threads have a lower priority than those of the data path.
// Any thread may call it.
class LargeBodies {
 public:
  using Ticket = std::uint64_t;  // 0 means none.

  explicit LargeBodies(std::uint32_t threads);
  ~LargeBodies();  // Waits for the tasks that run and drops the others.
  LargeBodies(const LargeBodies&) = delete;
  LargeBodies& operator=(const LargeBodies&) = delete;

  // Runs the task on a thread of this object. It must not throw.
  Ticket submit(std::uint32_t tenant, std::function<void()> task);
  // Removes a task. Returns false if it runs or has ended.
  [[nodiscard]] bool cancel(std::uint32_t tenant, Ticket ticket);

 private:
  struct Waiting {
    Ticket ticket = 0;
    std::function<void()> task;
  };

  void work();
  [[nodiscard]] std::function<void()> take_next();

  std::mutex mutex_;
  std::condition_variable added_;
  std::map<std::uint32_t, std::deque<Waiting>> waiting_;  // By tenant; no entry is empty.
  std::uint32_t last_tenant_ = 0;
  Ticket last_ticket_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace penstock::gateway
