// Processes of this machine: starts, finds, adopts and signals them, and reports when they have ended.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actuation/fleet_state.h"
#include "core/result.h"

namespace penstock::connect {

using actuation::Process;

struct Command {
  std::vector<std::string> argv;  // The program with a path, or a name that is looked up in PATH.
  std::vector<std::pair<std::string, std::string>> environment{};  // Added to our own environment.
  std::string log_file{};  // Output and errors are appended to this file; empty means /dev/null.
  // Value of the environment variable PENSTOCK_PROCESS, by which find() finds the process. Empty: it cannot be found.
  std::string mark{};
  // If true, the process is killed when the thread that started it ends. Otherwise it survives us and can be adopted.
  bool dies_with_us = false;
};

struct Ended {
  Process process;
  // Both are empty for an adopted process, because only the parent can read its exit status.
  std::optional<int> exit_code{};
  std::optional<int> signal{};
};
// Returns "exit code 1", "signal 9 (Killed)" or "ended".
[[nodiscard]] std::string describe(const Ended& ended);

struct ProcessLimits {
  std::uint32_t processes_max = 1024;                 // Started or adopted processes that have not ended.
  std::uint64_t log_bytes_max = 64ULL * 1024 * 1024;  // A longer log is truncated when a process starts.
  bool descriptors = true;  // Use pidfds where the kernel has them; false: use process ids, as on old kernels.
};

// Each process leads its own process group, so that Ctrl-C at our terminal does not reach it. It inherits our
// environment, but no other descriptors and no blocked or ignored signals. When a process that we started ends, the
// rest of its group is killed, so that no worker keeps a GPU. Not thread-safe.
class ProcessHost {
 public:
  explicit ProcessHost(const ProcessLimits& limits = {});
  ~ProcessHost();  // Does not end the processes.
  ProcessHost(const ProcessHost&) = delete;
  ProcessHost& operator=(const ProcessHost&) = delete;

  // Returns an error if the program cannot be executed.
  [[nodiscard]] core::Result<Process> start(const Command& command);
  // Manages a process that another process started. Returns false if it has ended or its id belongs to another process.
  [[nodiscard]] core::Result<bool> adopt(const Process& process);
  // Returns this user's running processes with this mark, oldest first. O(processes of the machine).
  [[nodiscard]] static std::vector<Process> find(std::string_view mark);

  // Signals the process; SIGKILL goes to its whole group if we started it. Does nothing if the process has ended.
  [[nodiscard]] core::Result<void> signal(const Process& process, int number);
  [[nodiscard]] bool is_alive(const Process& process) const;  // The process was started or adopted, and not reaped.
  // Returns the processes that ended since the last call. Does not block.
  [[nodiscard]] std::vector<Ended> reap();
  // Becomes readable when reap() has something to return. Empty if the caller has to poll.
  [[nodiscard]] std::optional<int> descriptor() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns the last line of a log, at most `bytes` long, without control characters; empty if there is none.
[[nodiscard]] std::string last_line(const std::string& log_file, std::size_t bytes = 400);

}  // namespace penstock::connect
