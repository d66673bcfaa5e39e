// One line on standard error that says how far a replay is.
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
  void erase();  // so that a table or an error stands on a clean line

 private:
  bool shown_;
  bool drawn_ = false;
};

}  // namespace penstock::cli
