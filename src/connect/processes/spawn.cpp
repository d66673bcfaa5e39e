#include "connect/processes/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace penstock::connect {

namespace {

struct Prepared {
  const char* program;
  char* const* argv;
  char* const* environment;
  int input, output, report;
  pid_t parent;
  bool dies_with_us;
};

// Other threads may have held any lock at the fork, so only async-signal-safe calls may follow, and no allocation.
[[noreturn]] void become(const Prepared& prepared) {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);

  ::setpgid(0, 0);
  bool ready = true;
  if (prepared.dies_with_us) {
    ready = ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
    if (::getppid() != prepared.parent) ::_exit(127);  // The parent ended before the death signal was set.
  }
  ready = ready && ::dup2(prepared.input, STDIN_FILENO) >= 0 && ::dup2(prepared.output, STDOUT_FILENO) >= 0 &&
          ::dup2(prepared.output, STDERR_FILENO) >= 0;
  // Closes descriptors that a library left open. Old kernels cannot, but our own descriptors are all closed on exec.
  ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  if (ready) ::execve(prepared.program, prepared.argv, prepared.environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(prepared.report, &error, sizeof error);
  ::_exit(127);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }
  [[nodiscard]] int get() const { return number_; }

 private:
  int number_;
};

std::string hint_for(int error) {
  switch (error) {
    case ENOENT: return "is its interpreter there? (first line of a script)";
    case EACCES: return "make it executable: chmod +x";
    case ENOEXEC: return "not an executable for this machine, and not a script with a first line #!";
    case E2BIG: return "its arguments and environment are too long";
    case EAGAIN: return "too many processes: raise ulimit -u or the container's limit of pids";
    case EMFILE:
    case ENFILE: return "too many open files: raise ulimit -n";
    case ENOMEM: return "out of memory";
    default: return "";
  }
}

tl::unexpected<core::Error> failure(const Spawn& spawn, int error) {
  return core::environment_error(spawn.program, fmt::format("cannot start: {}", std::strerror(error)), hint_for(error));
}

// Returns 0 if a successful exec closed the pipe.
int read_report(int pipe) {
  int error = 0;
  ssize_t got = 0;
  do got = ::read(pipe, &error, sizeof error);
  while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof error) ? error : 0;
}

}  // namespace

core::Result<pid_t> spawn(const Spawn& spawn) {
  const Descriptor input{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  if (input.get() < 0) return failure(spawn, errno);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failure(spawn, errno);
  const Descriptor report{ends[0]};
  Descriptor child_end{ends[1]};
  const std::vector<char*> argv = pointers(spawn.argv);
  const std::vector<char*> environment = pointers(spawn.environment);
  const Prepared prepared{spawn.program.c_str(), argv.data(), environment.data(), input.get(),
                          spawn.output,          ends[1],     ::getpid(),         spawn.dies_with_us};

  // Our signal handlers must not run in the child before it has reset them.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) become(prepared);
  const int fork_error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return failure(spawn, fork_error);

  ::setpgid(pid, pid);  // Parent and child both call this, so that the group exists whichever runs first.
  child_end.close();
  const int error = read_report(report.get());
  if (error == 0) return pid;
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {}
  return failure(spawn, error);
}

}  // namespace penstock::connect
