// Shows the progress of a replay in one line on standard error.
#pragma once

#include "replay/task_pool.h"

namespace penstock::cli {

class ProgressBar {
 public:
  explicit ProgressBar(bool shown) : shown_(shown) {}
  ~ProgressBar() { erase(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(const replay::TaskProgress& progress);
  void erase();  // The next output then starts on an empty line.

 private:
  bool shown_;
  bool drawn_ = false;
};

}  // namespace penstock::cli
