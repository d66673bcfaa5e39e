#include "connect/processes/process_host.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "connect/processes/proc_files.h"

namespace penstock::connect {
namespace {

using namespace std::chrono_literals;

// True as soon as it holds; only a machine that is stuck makes it false.
bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 3000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

// With descriptors of processes, and as on a kernel that has none.
class ProcessHostTest : public ::testing::TestWithParam<bool> {
 protected:
  ProcessHostTest() { std::filesystem::create_directories(folder_); }
  ~ProcessHostTest() override {
    for (const Process& process : started_) (void)host_.signal(process, SIGKILL);
    for (const Process& process : started_) eventually([&] { return (void)host_.reap(), !host_.is_alive(process); });
    std::filesystem::remove_all(folder_);
  }

  static ProcessLimits limits() {
    ProcessLimits limits;
    limits.descriptors = GetParam();
    return limits;
  }
  [[nodiscard]] std::string path(const char* name) const { return folder_ / name; }
  [[nodiscard]] Command shell(const std::string& script) const { return {{"/bin/sh", "-c", script}, {}, path("log")}; }

  Process start(const Command& command) {
    const auto process = host_.start(command);
    EXPECT_TRUE(process) << process.error().message();
    if (!process) return {};
    started_.push_back(*process);
    return *process;
  }
  Ended wait(ProcessHost& host) {
    std::vector<Ended> ended;
    EXPECT_TRUE(eventually([&] { return ended = host.reap(), !ended.empty(); }));
    return ended.empty() ? Ended{} : ended.front();
  }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() /
                                  ("penstock-processes-" + std::to_string(::getpid()) + (GetParam() ? "-fd" : ""));
  ProcessHost host_{limits()};
  std::vector<Process> started_;
};

TEST_P(ProcessHostTest, StartsAProgramAndReportsHowItEnded) {
  const Process process = start(shell("echo hello; echo oh >&2; exit 3"));
  const Ended ended = wait(host_);
  EXPECT_EQ(ended.process, process);
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_EQ(describe(ended), "exit code 3");
  EXPECT_EQ(text_of(path("log")), "hello\noh\n");
  EXPECT_EQ(last_line(path("log")), "oh");
  EXPECT_FALSE(host_.is_alive(process));
  EXPECT_TRUE(host_.reap().empty());
}

TEST_P(ProcessHostTest, FindsAProgramInThePathAndAddsToTheEnvironment) {
  Command command{
      {"sh", "-c", "echo $COLOUR $HOME; read x || echo no input"}, {{"COLOUR", "red"}, {"HOME", "/h"}}, path("log")};
  start(command);
  EXPECT_EQ(wait(host_).exit_code, 0);
  EXPECT_EQ(text_of(path("log")), "red /h\nno input\n");
}

TEST_P(ProcessHostTest, SendsSignalsAndSaysWhichEndedIt) {
  const Process process = start({{"/bin/sleep", "1000"}});
  EXPECT_TRUE(host_.is_alive(process));
  EXPECT_TRUE(host_.reap().empty());
  ASSERT_TRUE(host_.signal(process, SIGTERM));
  const Ended ended = wait(host_);
  EXPECT_EQ(ended.signal, SIGTERM);
  EXPECT_EQ(describe(ended), "signal 15 (Terminated)");
  EXPECT_TRUE(host_.signal(process, SIGTERM));  // A signal to an ended process does nothing.
}

TEST_P(ProcessHostTest, ReportsTheEndToAnEventLoop) {
  if (!GetParam()) {
    EXPECT_FALSE(host_.descriptor());
    return;
  }
  ASSERT_TRUE(host_.descriptor());
  pollfd waiting{*host_.descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 0), 0);
  const Process process = start({{"/bin/sleep", "1000"}});
  EXPECT_EQ(::poll(&waiting, 1, 0), 0);
  ASSERT_TRUE(host_.signal(process, SIGKILL));
  EXPECT_EQ(::poll(&waiting, 1, 30'000), 1);
  wait(host_);
  EXPECT_EQ(::poll(&waiting, 1, 0), 0);
}

TEST_P(ProcessHostTest, GivesAProcessItsOwnGroupAndNoBlockedSignals) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  const auto handler = ::signal(SIGPIPE, SIG_IGN);
  const Process process = start({{"/bin/sleep", "1000"}});
  ::signal(SIGPIPE, handler);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(::getpgid(static_cast<pid_t>(process.pid)), process.pid);
  const std::string status = text_of("/proc/" + std::to_string(process.pid) + "/status");
  EXPECT_NE(status.find("SigBlk:\t0000000000000000"), std::string::npos) << status;
  const std::size_t ignored = status.find("SigIgn:\t");
  ASSERT_NE(ignored, std::string::npos);
  std::uint64_t signals = 0;
  std::from_chars(status.data() + ignored + 8, status.data() + status.size(), signals, 16);
  // glibc reserves 32 and 33 and sets them when it needs them; the parent may have ignored them.
  EXPECT_EQ(signals & ~std::uint64_t{0x180000000}, 0U) << status;
}

TEST_P(ProcessHostTest, LeavesNoDescriptorOpenInTheProcess) {
  const int leaked = ::dup(STDERR_FILENO);  // not closed on exec
  start(shell("ls /proc/self/fd | wc -l"));
  wait(host_);
  ::close(leaked);
  EXPECT_EQ(last_line(path("log")), "4");  // three, and that of ls for the folder
}

TEST_P(ProcessHostTest, KillsWhatIsLeftOfTheGroupOfOneThatEnded) {
  start(shell("/bin/sleep 1000 & echo $!; exit 1"));
  wait(host_);
  const std::string text = last_line(path("log"));
  std::int64_t worker = 0;
  std::from_chars(text.data(), text.data() + text.size(), worker);
  ASSERT_GT(worker, 0) << text;
  EXPECT_TRUE(eventually([&] {
    const auto stat = read_stat(worker);
    return !stat || stat->has_ended();
  }));
}

TEST_P(ProcessHostTest, ReportsWhyAProgramCannotBeStarted) {
  const auto message = [&](const Command& command) {
    const auto process = host_.start(command);
    return process ? "none" : process.error().message();
  };
  EXPECT_EQ(message({{}}), "command: is empty; name a program");
  EXPECT_EQ(message({{"no-such-engine"}}),
            "no-such-engine: is not found in PATH; install it, or name it with its path");
  EXPECT_EQ(message({{"/no/such/engine"}}), "/no/such/engine: there is no such program; check the path");
  std::ofstream{path("plain")} << "text";
  EXPECT_EQ(message({{path("plain")}}),
            path("plain") + ": cannot start: Permission denied; make it executable: chmod +x");
  std::ofstream{path("script")} << "#!/no/such/interpreter\n";
  std::filesystem::permissions(path("script"), std::filesystem::perms::owner_all);
  EXPECT_NE(message({{path("script")}}).find("is its interpreter there?"), std::string::npos);
  EXPECT_NE(message({{"/bin/sleep", "1"}, {}, path("no/log")}).find("cannot open the log"), std::string::npos);
  EXPECT_TRUE(host_.reap().empty());
}

TEST_P(ProcessHostTest, StartsNoMoreProcessesThanTheLimit) {
  ProcessLimits few = limits();
  few.processes_max = 1;
  ProcessHost host{few};
  const auto first = host.start({{"/bin/sleep", "1000"}});
  ASSERT_TRUE(first);
  const auto second = host.start({{"/bin/sleep", "1000"}});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message(), "/bin/sleep: 1 processes run already; that is the limit (processes_max)");
  ASSERT_TRUE(host.signal(*first, SIGKILL));
  wait(host);
  const auto third = host.start({{"/bin/true"}});
  ASSERT_TRUE(third);
  wait(host);
}

TEST_P(ProcessHostTest, BeginsALogThatIsTooLongAnew) {
  ProcessLimits small = limits();
  small.log_bytes_max = 10;
  ProcessHost host{small};
  for (const char* word : {"one", "two-and-more", "three"}) {
    ASSERT_TRUE(host.start({{"/bin/echo", word}, {}, path("log")}));
    wait(host);
  }
  EXPECT_EQ(text_of(path("log")), "three\n");
}

// Starts it from another process, which ends then, as a planner that was killed.
Process start_from_a_dead_parent(const Command& command) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    ProcessHost host;
    const auto process = host.start(command);
    const Process process_made = process.value_or(Process{});
    const bool written =
        ::write(ends[1], &process_made, sizeof process_made) == static_cast<ssize_t>(sizeof process_made);
    ::_exit(written ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(parent, &status, 0), parent);
  Process process;
  EXPECT_EQ(::read(ends[0], &process, sizeof process), static_cast<ssize_t>(sizeof process));
  ::close(ends[0]);
  ::close(ends[1]);
  return process;
}

TEST_P(ProcessHostTest, AdoptsAProcessWhoseParentDied) {
  const Process process = start_from_a_dead_parent({{"/bin/sleep", "1000"}});
  EXPECT_FALSE(host_.is_alive(process));  // not known yet
  ASSERT_EQ(host_.adopt(process), true);
  ASSERT_EQ(host_.adopt(process), true);
  EXPECT_TRUE(host_.is_alive(process));
  EXPECT_TRUE(host_.reap().empty());
  ASSERT_TRUE(host_.signal(process, SIGTERM));
  const Ended ended = wait(host_);
  EXPECT_EQ(ended.process, process);
  EXPECT_FALSE(ended.exit_code || ended.signal);
  EXPECT_EQ(describe(ended), "ended");
  EXPECT_EQ(host_.adopt(process), false);
}

TEST_P(ProcessHostTest, NeverTakesAReusedNumberForTheProcess) {
  const Process process = start({{"/bin/sleep", "1000"}});
  ProcessHost other{limits()};
  const Process earlier{process.pid, process.started_ticks - 1};
  EXPECT_EQ(other.adopt(earlier), false);
  EXPECT_TRUE(other.signal(earlier, SIGKILL));
  EXPECT_EQ(other.adopt({1, 0}), false);
  EXPECT_EQ(other.adopt({-1, 0}), false);
  EXPECT_EQ(other.adopt({0x1'0000'0000 + process.pid, process.started_ticks}), false);
  EXPECT_TRUE(host_.is_alive(process));
}

TEST_P(ProcessHostTest, FindsByItsMarkWhatADeadParentStartedButNotItsWorkers) {
  const std::string mark = "test/" + std::to_string(::getpid());
  EXPECT_TRUE(ProcessHost::find(mark).empty());
  Command command = shell("/bin/sleep 1000 & echo ready; wait");
  command.mark = mark;
  const Process process = start_from_a_dead_parent(command);
  EXPECT_TRUE(eventually([&] { return text_of(path("log")) == "ready\n"; }));
  EXPECT_EQ(ProcessHost::find(mark), std::vector<Process>{process});
  EXPECT_TRUE(ProcessHost::find(mark + "0").empty());
  ASSERT_EQ(host_.adopt(process), true);
  ::kill(-static_cast<pid_t>(process.pid), SIGKILL);
  wait(host_);
}

TEST_P(ProcessHostTest, CanLetAProcessDieWithItsParent) {
  const Process process = start_from_a_dead_parent({{"/bin/sleep", "1000"}, {}, {}, {}, true});
  EXPECT_TRUE(eventually([&] {
    const auto stat = read_stat(process.pid);
    return !stat || stat->has_ended() || stat->started_ticks != process.started_ticks;
  }));
}

INSTANTIATE_TEST_SUITE_P(Kernels, ProcessHostTest, ::testing::Bool(),
                         [](const auto& kernel) { return kernel.param ? "New" : "Old"; });

TEST(ProcStat, IsReadPastAnyNameOfAProgram) {
  const auto stat =
      parse_stat("25349 (a) R 1 (b\nc) S 1 25338 18670 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 1 0 1308467 3133440 413\n");
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->group, 25338);
  EXPECT_EQ(stat->started_ticks, 1308467U);
  EXPECT_FALSE(parse_stat(""));
  EXPECT_FALSE(parse_stat("1 (a) S 1 2"));
  EXPECT_FALSE(parse_stat("1 (a) S 1 x 3 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 1 0 5 6\n"));
  EXPECT_FALSE(read_stat(0x7fffffff));
}

TEST(LastLine, IsLimitedAndWithoutControlCharacters) {
  const auto file = std::filesystem::temp_directory_path() / ("penstock-last-line-" + std::to_string(::getpid()));
  EXPECT_EQ(last_line(file), "");
  std::ofstream{file} << "first\n\x1b[31mred\x07\n\n";
  EXPECT_EQ(last_line(file), "[31mred");
  std::ofstream{file} << std::string(5000, 'x');
  EXPECT_EQ(last_line(file, 20), std::string(20, 'x'));
  std::ofstream{file} << "";
  EXPECT_EQ(last_line(file), "");
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace penstock::connect
