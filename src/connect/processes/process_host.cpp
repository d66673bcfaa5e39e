#include "connect/processes/process_host.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "connect/processes/proc_files.h"
#include "connect/processes/spawn.h"

namespace penstock::connect {

namespace {

constexpr const char* kMark = "PENSTOCK_PROCESS";

// The system call is used because <sys/pidfd.h> of glibc 2.36 cannot be linked from C++.
int open_pidfd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)); }
int signal_pidfd(int descriptor, int number) {
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, descriptor, number, nullptr, 0U));
}

pid_t number_of(const Process& process) { return static_cast<pid_t>(process.pid); }

bool is_the_one(const Process& process) {
  const auto stat = read_stat(process.pid);
  return stat && stat->started_ticks == process.started_ticks && !stat->has_ended();
}

core::Result<std::string> find_program(const std::string& name) {
  if (name.empty()) return core::invalid_input("command", "names no program");
  const auto is_program = [](const std::string& path) {
    struct stat file {};
    return ::stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) && ::access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) {
    if (::access(name.c_str(), F_OK) == 0) return name;
    return core::environment_error(name, "there is no such program", "check the path");
  }
  const char* const variable = ::getenv("PATH");
  const std::string_view path = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const std::string candidate = fmt::format("{}/{}", path.substr(at, end - at), name);
    if (end > at && is_program(candidate)) return candidate;
    at = end + 1;
  }
  return core::environment_error(name, "is not found in PATH", "install it, or name it with its path");
}

std::vector<std::string> environment_of(const Command& command) {
  std::vector<std::pair<std::string, std::string>> own = command.environment;
  if (!command.mark.empty()) own.emplace_back(kMark, command.mark);
  std::vector<std::string> all;
  for (char** at = ::environ; *at != nullptr; ++at) {
    const std::string_view variable = *at;
    const std::string_view name = variable.substr(0, variable.find('='));
    // The mark is not passed on to the processes that this process starts itself.
    const bool replaced =
        name == kMark || std::any_of(own.begin(), own.end(), [&](const auto& pair) { return pair.first == name; });
    if (!replaced) all.emplace_back(variable);
  }
  for (const auto& [name, value] : own) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

core::Result<int> open_log(const std::string& path, std::uint64_t bytes_max) {
  const bool none = path.empty();
  const int file = ::open(none ? "/dev/null" : path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0)
    return core::environment_error(none ? "/dev/null" : path,
                                   fmt::format("cannot open the log: {}", std::strerror(errno)),
                                   "name a file in a folder that is there and that you may write to");
  struct stat log {};
  if (::fstat(file, &log) == 0 && S_ISREG(log.st_mode) && static_cast<std::uint64_t>(log.st_size) > bytes_max)
    (void)!::ftruncate(file, 0);  // If this fails, the log grows beyond its limit.
  return file;
}

struct Known {
  Process process;
  int descriptor = -1;  // A pidfd; -1 if the kernel has none.
  bool ours = false;    // The process is our child, so we must wait for it.
};

}  // namespace

struct ProcessHost::State {
  ProcessLimits limits;
  int epoll = -1;
  std::vector<Known> known{};

  [[nodiscard]] const Known* find(const Process& process) const {
    const auto found = std::find_if(known.begin(), known.end(), [&](const Known& k) { return k.process == process; });
    return found == known.end() ? nullptr : &*found;
  }

  void keep(Known one) {
    if (one.descriptor >= 0 && epoll >= 0) {
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.fd = one.descriptor;
      if (::epoll_ctl(epoll, EPOLL_CTL_ADD, one.descriptor, &event) != 0) {
        ::close(one.descriptor);
        one.descriptor = -1;
      }
    }
    known.push_back(one);
  }

  [[nodiscard]] int open_descriptor(const Process& process) const {
    return epoll >= 0 ? open_pidfd(number_of(process)) : -1;
  }

  // Does not block. Empty while the process runs.
  static std::optional<Ended> end_of(const Known& one) {
    Ended ended{one.process};
    if (!one.ours) {
      if (is_the_one(one.process)) return std::nullopt;
      return ended;
    }
    siginfo_t info{};
    const pid_t pid = number_of(one.process);
    // The process id stays reserved until we have waited for the process, so the group is still the same.
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
      if (errno == ECHILD) return ended;  // Another thread has waited for it, or SIGCHLD is ignored.
      return std::nullopt;
    }
    if (info.si_pid == 0) return std::nullopt;
    ::kill(-pid, SIGKILL);
    ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG);
    (info.si_code == CLD_EXITED ? ended.exit_code : ended.signal) = info.si_status;
    return ended;
  }
};

ProcessHost::ProcessHost(const ProcessLimits& limits) : state_(std::make_unique<State>()) {
  state_->limits = limits;
  if (!limits.descriptors) return;
  const int own = open_pidfd(::getpid());
  if (own < 0) return;  // Linux before 5.3.
  ::close(own);
  state_->epoll = ::epoll_create1(EPOLL_CLOEXEC);
}

ProcessHost::~ProcessHost() {
  for (const Known& one : state_->known)
    if (one.descriptor >= 0) ::close(one.descriptor);
  if (state_->epoll >= 0) ::close(state_->epoll);
}

core::Result<Process> ProcessHost::start(const Command& command) {
  if (command.argv.empty()) return core::invalid_input("command", "is empty", "name a program");
  if (state_->known.size() >= state_->limits.processes_max)
    return core::environment_error(command.argv[0], fmt::format("{} processes run already", state_->known.size()),
                                   "that is the limit (processes_max)");
  auto program = find_program(command.argv[0]);
  if (!program) return tl::make_unexpected(program.error());
  const auto log = open_log(command.log_file, state_->limits.log_bytes_max);
  if (!log) return tl::make_unexpected(log.error());
  const auto pid = spawn({*program, command.argv, environment_of(command), *log, command.dies_with_us});
  ::close(*log);
  if (!pid) return tl::make_unexpected(pid.error());

  // The process id stays reserved until we wait for it, even if the process has ended by now.
  const auto stat = read_stat(*pid);
  Known one{{*pid, stat ? stat->started_ticks : 0}, -1, true};
  one.descriptor = state_->open_descriptor(one.process);
  state_->keep(one);
  return one.process;
}

core::Result<bool> ProcessHost::adopt(const Process& process) {
  if (state_->find(process) != nullptr) return true;
  if (process.pid <= 1 || process.pid > 0x7fffffff) return false;  // Would signal ourselves, init or every process.
  if (state_->known.size() >= state_->limits.processes_max)
    return core::environment_error(fmt::format("process {}", process.pid),
                                   fmt::format("{} processes are watched already", state_->known.size()),
                                   "that is the limit (processes_max)");
  // The descriptor is opened before the check, so that both refer to the same process.
  const Known one{process, state_->open_descriptor(process), false};
  if (!is_the_one(process)) {
    if (one.descriptor >= 0) ::close(one.descriptor);
    return false;
  }
  state_->keep(one);
  return true;
}

std::vector<Process> ProcessHost::find(std::string_view mark) {
  std::vector<Process> found;
  for (const std::int64_t pid : process_numbers()) {
    if (!has_variable(pid, kMark, mark)) continue;
    const auto stat = read_stat(pid);
    // Its children inherit the mark, but lead no process group.
    if (stat && !stat->has_ended() && stat->group == pid) found.push_back({pid, stat->started_ticks});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Process& a, const Process& b) { return a.started_ticks < b.started_ticks; });
  return found;
}

core::Result<void> ProcessHost::signal(const Process& process, int number) {
  const Known* const one = state_->find(process);
  if (one == nullptr) return {};
  int result = 0;
  if (one->ours)  // The process was not waited for yet, so the id is still its own.
    result = ::kill(number == SIGKILL ? -number_of(process) : number_of(process), number);
  else if (one->descriptor >= 0)
    result = signal_pidfd(one->descriptor, number);
  else if (is_the_one(process))
    result = ::kill(number_of(process), number);
  if (result == 0 || errno == ESRCH) return {};
  return core::environment_error(fmt::format("process {}", process.pid),
                                 fmt::format("cannot send signal {}: {}", number, std::strerror(errno)),
                                 errno == EPERM ? "it belongs to another user" : "");
}

bool ProcessHost::is_alive(const Process& process) const {
  return state_->find(process) != nullptr && is_the_one(process);
}

std::vector<Ended> ProcessHost::reap() {
  std::vector<Ended> ended;
  std::erase_if(state_->known, [&](const Known& one) {
    const auto end = State::end_of(one);
    if (!end) return false;
    if (one.descriptor >= 0) ::close(one.descriptor);
    ended.push_back(*end);
    return true;
  });
  return ended;
}

std::optional<int> ProcessHost::descriptor() const {
  if (state_->epoll < 0) return std::nullopt;
  return state_->epoll;
}

std::string describe(const Ended& ended) {
  if (ended.exit_code) return fmt::format("exit code {}", *ended.exit_code);
  if (ended.signal) return fmt::format("signal {} ({})", *ended.signal, ::strsignal(*ended.signal));
  return "ended";
}

std::string last_line(const std::string& log_file, std::size_t bytes) {
  std::ifstream file{log_file, std::ios::binary | std::ios::ate};
  if (!file) return "";
  const auto size = static_cast<std::size_t>(file.tellg());
  std::string tail(std::min(size, 4 * bytes), '\0');
  file.seekg(static_cast<std::streamoff>(size - tail.size()));
  file.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  while (!tail.empty() && (tail.back() == '\n' || tail.back() == '\r' || tail.back() == ' ')) tail.pop_back();
  tail.erase(0, tail.find_last_of('\n') + 1);
  if (tail.size() > bytes) tail.resize(bytes);
  std::erase_if(tail, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  return tail;
}

}  // namespace penstock::connect
