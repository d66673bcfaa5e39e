#include "replay/task_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace penstock::replay {
namespace {

constexpr std::chrono::milliseconds kShowEvery{200};

class TaskPool {
 public:
  explicit TaskPool(const std::vector<Task>& tasks) : tasks_(tasks), states_(tasks.size()) {}

  core::Result<void> run(std::size_t jobs, const std::function<void(const TaskProgress&)>& show) {
    {
      std::vector<std::jthread> workers;
      workers_left_ = jobs;
      for (std::size_t i = 0; i < jobs; ++i) workers.emplace_back([this] { work(); });
      std::unique_lock lock{mutex_};
      while (!all_ended_.wait_for(lock, kShowEvery, [this] { return workers_left_ == 0; }))
        if (show) show(progress());
    }
    if (show) show(progress());
    for (State& state : states_)
      if (state.error) return tl::make_unexpected(*std::move(state.error));
    return {};
  }

 private:
  struct State {
    std::atomic<double> share_done = 0.0;
    std::atomic<bool> done = false;
    std::optional<core::Error> error;
  };

  void work() {
    while (!failed_) {
      const std::size_t index = next_++;
      if (index >= tasks_.size()) break;
      State& state = states_[index];
      if (auto done = guarded(tasks_[index], state); !done) {
        state.error = done.error();
        failed_ = true;
      }
      state.share_done = 1.0;
      state.done = true;
    }
    const std::lock_guard lock{mutex_};
    if (--workers_left_ == 0) all_ended_.notify_all();
  }

  // An exception must not leave the thread.
  static core::Result<void> guarded(const Task& task, State& state) {
    try {
      return task.run([&](double share_done) { state.share_done = share_done; });
    } catch (const std::bad_alloc&) {
      return core::environment_error(task.name, "out of memory",
                                     "replay a part with --from and --to, or use fewer --jobs");
    } catch (const std::exception& error) {
      return core::environment_error(task.name, fmt::format("stopped by a fault: {}", error.what()));
    }
  }

  [[nodiscard]] TaskProgress progress() const {
    TaskProgress progress;
    progress.tasks = tasks_.size();
    double weights = 0.0;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      weights += tasks_[i].weight;
      progress.share_done += tasks_[i].weight * states_[i].share_done;
      if (states_[i].done)
        ++progress.tasks_done;
      else if (progress.running.empty())
        progress.running = tasks_[i].name;
    }
    if (weights > 0.0) progress.share_done /= weights;
    return progress;
  }

  const std::vector<Task>& tasks_;
  std::vector<State> states_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::condition_variable all_ended_;
  std::size_t workers_left_ = 0;
};

}  // namespace

core::Result<void> run_tasks(const std::vector<Task>& tasks, std::uint32_t jobs,
                             const std::function<void(const TaskProgress&)>& show) {
  const std::size_t wanted = jobs != 0 ? jobs : std::max(1U, std::thread::hardware_concurrency());
  if (tasks.empty()) return {};
  return TaskPool{tasks}.run(std::min(wanted, tasks.size()), show);
}

}  // namespace penstock::replay
