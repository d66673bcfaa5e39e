// Processes of this machine: started, found again, told to end, and heard of when they have ended.
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
  std::vector<std::string> argv;  // the program with a path, or a name that is looked for in PATH
  std::vector<std::pair<std::string, std::string>> environment{};  // on top of ours
  std::string log_file{};  // gets its output and errors at the end; empty: /dev/null
  // By which find() knows it again, in its environment as PENSTOCK_PROCESS. Empty: not to be found.
  std::string mark{};
  // It is killed when the thread that started it ends. Otherwise it goes on when we crash, and can be adopted.
  bool dies_with_us = false;
};

struct Ended {
  Process process;
  // Neither for one that was adopted: only a parent is told.
  std::optional<int> exit_code{};
  std::optional<int> signal{};
};
// "exit code 1", "signal 9 (Killed)", "ended".
[[nodiscard]] std::string describe(const Ended& ended);

struct ProcessLimits {
  std::uint32_t processes_max = 1024;                 // started or adopted, and not ended yet
  std::uint64_t log_bytes_max = 64ULL * 1024 * 1024;  // a longer log is begun anew when a process starts
  bool descriptors = true;  // pidfds, where the kernel has them; false: ask by number, as old kernels must be asked
};

// Each process leads a group of its own, so that Ctrl-C at our terminal does not reach it; it has our environment, no
// other descriptors of ours, and no blocked or ignored signals. When one that we started ends, what is left of its group
// is killed, so that no worker keeps a GPU. Not thread-safe.
class ProcessHost {
 public:
  explicit ProcessHost(const ProcessLimits& limits = {});
  ~ProcessHost();  // leaves the processes alone
  ProcessHost(const ProcessHost&) = delete;
  ProcessHost& operator=(const ProcessHost&) = delete;

  // A program that cannot be executed is an error here, not a process that ends at once.
  [[nodiscard]] core::Result<Process> start(const Command& command);
  // Takes care of a process that somebody else started. False: it has ended, or another one has its number now.
  [[nodiscard]] core::Result<bool> adopt(const Process& process);
  // Those of this user that run with this mark, whoever started them, oldest first. O(processes of the machine).
  [[nodiscard]] static std::vector<Process> find(std::string_view mark);

  // To the process; SIGKILL goes to its whole group if we started it. Nothing happens if it has ended.
  [[nodiscard]] core::Result<void> signal(const Process& process, int number);
  [[nodiscard]] bool is_alive(const Process& process) const;  // one that was started or adopted, and not reaped yet
  // Those that ended since the last call. Does not wait.
  [[nodiscard]] std::vector<Ended> reap();
  // Readable when reap() has something to return, for an event loop. None: ask now and then.
  [[nodiscard]] std::optional<int> descriptor() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The last line of a log, at most `bytes` of it, without what no terminal should see; empty: there is none.
[[nodiscard]] std::string last_line(const std::string& log_file, std::size_t bytes = 400);

}  // namespace penstock::connect
