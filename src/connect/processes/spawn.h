// One fork and exec, with all that can go wrong in the child told to the parent.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/result.h"

namespace penstock::connect {

struct Spawn {
  std::string program;  // a path
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value", all of it
  int output = -1;                       // open descriptor for output and errors; stays the caller's
  bool dies_with_us = false;
};

// Returns when the program runs, or could not. The caller has to wait for the process in the end.
[[nodiscard]] core::Result<pid_t> spawn(const Spawn& spawn);

}  // namespace penstock::connect
