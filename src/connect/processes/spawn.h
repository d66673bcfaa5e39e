// One fork and exec; every failure in the child is reported to the parent.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/result.h"

namespace penstock::connect {

struct Spawn {
  std::string program;  // A path.
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value"; the complete environment.
  int output = -1;                       // Open descriptor for output and errors; the caller keeps its ownership.
  bool dies_with_us = false;
};

// Returns when the program runs or could not be started. The caller must wait for the process in the end.
[[nodiscard]] core::Result<pid_t> spawn(const Spawn& spawn);

}  // namespace penstock::connect
