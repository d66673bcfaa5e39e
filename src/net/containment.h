// Keeps a thread alive when an allocation fails.
#pragma once

#include <new>

namespace penstock::net {

// Runs the task, and `failed` if an allocation within the task fails.
template <class Task, class Failed>
void contain(Task&& task, Failed&& failed) {
  try {
    task();
  } catch (const std::bad_alloc&) {
    failed();
  }
}

}  // namespace penstock::net
