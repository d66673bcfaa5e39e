#include "gateway/traffic_recorder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>

#include "gateway/trace_file.h"
#include "logging/log_testing.h"

namespace penstock::gateway {
namespace {

namespace fs = std::filesystem;
using dispatch::TrafficEvent;

constexpr core::Duration kUnixAtStart = std::chrono::seconds{1'790'000'000};
constexpr std::string_view kLine =
    R"({"timestamp":1790000000250.000,"input_length":600,"output_length":20,"block_tokens":256,"model":"m",)"
    R"("tenant":"a \"b\"","class":"batch","streamed":true,"hash_ids":[18446744073709551615,7]})"
    "\n";

TrafficEvent arrival(std::uint64_t request) {
  TrafficEvent event;
  event.kind = TrafficEvent::Kind::kArrival;
  event.request = request;
  event.at = core::kStart + std::chrono::milliseconds{250};
  event.model = "m";
  event.tenant = "a \"b\"";
  event.traffic_class = "batch";
  event.input_tokens = 900;
  event.keys = {UINT64_MAX, 7, 8};
  return event;
}

TrafficEvent end(std::uint64_t request, std::uint32_t output_tokens = 20) {
  TrafficEvent event;
  event.kind = TrafficEvent::Kind::kEnd;
  event.request = request;
  event.prompt_tokens = 600;
  event.output_tokens = output_tokens;
  return event;
}

class Recorder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::path{::testing::TempDir()} / "penstock-recorder-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string path(const char* name = "trace.jsonl") const { return (folder_ / name).string(); }
  [[nodiscard]] std::string content(const char* name = "trace.jsonl") const {
    std::ifstream file{path(name)};
    return {std::istreambuf_iterator<char>{file}, {}};
  }
  void put(std::string_view text) const { std::ofstream{path()} << text; }

  fs::path folder_;
};

TEST_F(Recorder, ARequestIsOneLineWithTheTokensOfTheEngineAndItsFullBlocks) {
  RecordedLines lines{256, kUnixAtStart};
  std::string text;
  EXPECT_FALSE(lines.add(arrival(1), text));
  EXPECT_FALSE(lines.add(arrival(2), text));
  EXPECT_TRUE(lines.add(end(1), text));
  EXPECT_EQ(text, kLine);
  EXPECT_FALSE(lines.add(end(1), text));
  EXPECT_FALSE(lines.add(end(2, 0), text));
  EXPECT_EQ(text, kLine);
  EXPECT_EQ(lines.forget_open(), 0U);
}

TEST_F(Recorder, EndsWithoutAnArrivalAreLeftOut) {
  RecordedLines lines{256, kUnixAtStart};
  std::string text;
  EXPECT_FALSE(lines.add(arrival(1), text));
  EXPECT_EQ(lines.forget_open(), 1U);
  EXPECT_FALSE(lines.add(end(1), text));
  EXPECT_EQ(text, "");
}

TEST_F(Recorder, AFullFileBecomesTheOlderOne) {
  auto file = TraceFile::open(path(), 2 * kLine.size()).value();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(file.append(kLine));
  EXPECT_EQ(content(), kLine);
  EXPECT_EQ(content("trace.jsonl.1"), std::string{kLine} + std::string{kLine});
  EXPECT_EQ(fs::status(path()).permissions() & fs::perms::all, fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(Recorder, AnIncompleteLastLineIsRemovedAndOtherFilesStay) {
  put(std::string{kLine} + "{\"timestamp\":17");
  ASSERT_TRUE(TraceFile::open(path(), 1'000'000).value().append(kLine));
  EXPECT_EQ(content(), std::string{kLine} + std::string{kLine});
  put("gateway:\n  record: x");
  EXPECT_EQ(TraceFile::open(path(), 1'000'000).error().message(),
            path() + ": is no trace that a gateway recorded; name another file");
  EXPECT_EQ(content(), "gateway:\n  record: x");
  EXPECT_EQ(TraceFile::open("/dev/null", 1'000'000).error().code, core::ErrorCode::kInvalidInput);
  EXPECT_EQ(TraceFile::open(path("missing/trace"), 1'000'000).error().code, core::ErrorCode::kEnvironment);
}

TEST_F(Recorder, AFileThatWasRenamedIsCreatedAgain) {
  auto file = TraceFile::open(path(), 1'000'000).value();
  ASSERT_TRUE(file.append(kLine));
  fs::rename(path(), path("old"));
  ASSERT_TRUE(file.append(kLine));
  EXPECT_EQ(content(), kLine);
}

// While it lives, no file of this process grows beyond `bytes`, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST_F(Recorder, AFullDiskLeavesWholeLines) {
  auto file = TraceFile::open(path(), 1'000'000).value();
  ASSERT_TRUE(file.append(kLine));
  {
    const FullDisk full{kLine.size() + 10};
    const auto failed = file.append(kLine);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, core::ErrorCode::kEnvironment);
  }
  EXPECT_EQ(content(), kLine);
  ASSERT_TRUE(file.append(kLine));
  EXPECT_EQ(content(), std::string{kLine} + std::string{kLine});
}

// A traffic log with a lock, as the dispatcher has it.
struct Traffic {
  std::mutex mutex{};
  dispatch::TrafficLog log{};
  void add(TrafficEvent event) {
    const std::scoped_lock lock{mutex};
    log.add(std::move(event));
  }
  TrafficRecorder::Traffic reader() {
    return [this](std::uint64_t after, std::size_t events_max) {
      const std::scoped_lock lock{mutex};
      return log.after(after, events_max);
    };
  }
};

RecorderOptions quick(const std::string& file) {
  RecorderOptions options;
  options.file = file;
  options.interval = std::chrono::milliseconds{1};
  return options;
}

TEST_F(Recorder, EverythingThatHasEndedIsWrittenAtTheEnd) {
  logging::testing::CapturedLog log;
  Traffic traffic;
  for (std::uint64_t request = 1; request <= 250; ++request) traffic.add(arrival(request));
  for (std::uint64_t request = 1; request <= 250; ++request) traffic.add(end(request));
  {
    const auto recorder = TrafficRecorder::start(quick(path()), kUnixAtStart, traffic.reader(), log);
    ASSERT_TRUE(recorder);
    traffic.add(arrival(251));
    traffic.add(end(251));
  }
  EXPECT_EQ(content().size(), 251 * kLine.size());
}

void wait_for_lines(const logging::testing::CapturedLog& log, std::size_t count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  while (log.count(logging::Event::kRecording) < count && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  ASSERT_EQ(log.count(logging::Event::kRecording), count);
}

TEST_F(Recorder, LinesWaitWhileTheFileCannotBeWrittenAndFurtherOnesAreCounted) {
  logging::testing::CapturedLog log;
  Traffic traffic;
  RecorderOptions options = quick(path());
  options.waiting_bytes_max = 2 * kLine.size();
  auto recorder = TrafficRecorder::start(options, kUnixAtStart, traffic.reader(), log);
  ASSERT_TRUE(recorder);
  fs::remove_all(folder_);
  {
    const std::scoped_lock lock{traffic.mutex};
    for (std::uint64_t request = 1; request <= 3; ++request) {
      traffic.log.add(arrival(request));
      traffic.log.add(end(request));
    }
  }
  wait_for_lines(log, 1);
  fs::create_directories(folder_);
  wait_for_lines(log, 2);
  recorder->reset();
  const auto lines = log.lines(logging::Event::kRecording);
  EXPECT_NE(lines[0].find("traffic is not recorded: " + path() + ": cannot be opened"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("traffic is recorded again; 1 requests are missing"), std::string::npos) << lines[1];
  EXPECT_EQ(content(), std::string{kLine} + std::string{kLine});
}

}  // namespace
}  // namespace penstock::gateway
