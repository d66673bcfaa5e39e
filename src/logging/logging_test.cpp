#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>
#include <thread>

#include "core/source_root_testing.h"
#include "logging/log_testing.h"
#include "logging/logger.h"
#include "logging/throttle.h"

namespace penstock::logging {
namespace {

using testing::CapturedLog;
using namespace std::chrono_literals;

std::string text_of(std::initializer_list<Field> fields) {
  return format_line(Format::kText, Event::kRetry, {fields.begin(), fields.size()});
}
std::string json_of(std::initializer_list<Field> fields) {
  return format_line(Format::kJson, Event::kRetry, {fields.begin(), fields.size()});
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file{path};
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(LogEvents, HaveUniqueNamesAndDocumentedFields) {
  std::set<std::string_view> names;
  for (const EventInfo& each : event_table()) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_TRUE(each.meaning.ends_with(".")) << each.name;
    EXPECT_TRUE(std::all_of(each.name.begin(), each.name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || c == '_';
    })) << each.name;
  }
}

TEST(LogEvents, ReferencePageIsUpToDate) {
  EXPECT_EQ(contents(core::testing::source_root() / "docs/reference/log-events.md"), log_events_markdown())
      << "write it with: penstock gateway --log-events-markdown";
}

TEST(LogLine, TextHasPlainValuesWithoutQuotes) {
  EXPECT_EQ(text_of({{"request_id", "r-1"}, {"attempt", 2U}, {"cause", -3}}),
            "retry request_id=r-1 attempt=2 cause=-3");
  EXPECT_EQ(text_of({{"a", true}, {"b", 0.25}, {"c", 1e9}, {"d", std::uint64_t{18446744073709551615U}}}),
            "retry a=true b=0.25 c=1e+09 d=18446744073709551615");
}

TEST(LogLine, UnknownValuesAreLeftOut) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(text_of({{"a", ""}, {"b", nan}, {"c", 0}}), "retry c=0");
  EXPECT_EQ(json_of({{"a", ""}, {"b", nan}, {"c", 0}}), R"("event":"retry","c":0)");
}

TEST(LogLine, EscapesUntrustedText) {
  const struct {
    std::string_view value, text, json;
  } cases[] = {
      {"two words", R"("two words")", R"("two words")"},
      {"a=b", R"("a=b")", R"("a=b")"},
      {"say \"hi\"\\", R"("say \"hi\"\\")", R"("say \"hi\"\\")"},
      {"line\nbreak\r\t", R"("line\nbreak\r\t")", R"("line\nbreak\r\t")"},
      {std::string_view{"\0\x1b[31m", 6}, R"("\x00\x1b[31m")", R"("\u0000\u001b[31m")"},
      {"Zürich", R"("Zürich")", R"("Zürich")"},
      {"\xff\xfe", R"("\xff\xfe")", "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
      {"\xC2\x9B", R"("\xc2\x9b")", "\"\xEF\xBF\xBD\""},
      {"\xE2\x80\xAE", R"("\xe2\x80\xae")", "\"\xEF\xBF\xBD\""},
  };
  for (const auto& each : cases) {
    EXPECT_EQ(text_of({{"cause", each.value}}), "retry cause=" + std::string{each.text});
    EXPECT_EQ(json_of({{"cause", each.value}}), R"("event":"retry","cause":)" + std::string{each.json});
  }
}

TEST(LogLine, LongValuesAreCutBetweenCharacters) {
  EXPECT_EQ(text_of({{"cause", std::string(3 * kValueBytesMax, 'x')}}),
            "retry cause=\"" + std::string(kValueBytesMax, 'x') + "…\"");
  const std::string wide = "x" + [] {
    std::string made;
    for (std::size_t i = 0; i < kValueBytesMax; ++i) made += "ü";
    return made;
  }();
  const std::string line = text_of({{"cause", wide}});
  EXPECT_EQ(line.find("\\x"), std::string::npos) << line;
  EXPECT_TRUE(line.ends_with("ü…\""));
}

TEST(Log, WritesEventsOfItsLevelAndAbove) {
  CapturedLog log{Level::kWarning};
  EXPECT_FALSE(log.takes(Event::kRequestPhase));
  EXPECT_FALSE(log.takes(Event::kStart));
  EXPECT_TRUE(log.takes(Event::kRetry));
  log.write(Event::kStart, {{"command", "gateway"}});
  log.write(Event::kRetry, {{"attempt", 1}});
  EXPECT_EQ(log.lines(), std::vector<std::string>{"retry attempt=1"});
}

class LoggerTest : public ::testing::Test {
 protected:
  ~LoggerTest() override { std::remove(path_.c_str()); }
  const std::string path_ =
      ::testing::TempDir() + "penstock_log_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(LoggerTest, WritesTimeLevelAndEventInOrder) {
  {
    auto log = Logger::open({Format::kText, Level::kInfo, path_, 8192});
    ASSERT_TRUE(log) << log.error().message();
    (*log)->write(Event::kStart, {{"command", "gateway"}});
    (*log)->write(Event::kRequestPhase, {{"request_id", "r"}});
    (*log)->write(Event::kRetry, {{"attempt", 1}});
  }
  const std::string text = contents(path_);
  ASSERT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  const std::string first = text.substr(0, text.find('\n')), second = text.substr(text.find('\n') + 1);
  // 2026-11-22T15:57:28.123Z
  for (const std::size_t at : {4U, 7U}) EXPECT_EQ(first[at], '-');
  EXPECT_EQ(first[10], 'T');
  EXPECT_EQ(first.substr(23), "Z info start command=gateway");
  EXPECT_EQ(second.substr(23), "Z warning retry attempt=1\n");
}

TEST_F(LoggerTest, WritesJsonObjects) {
  {
    auto log = Logger::open({Format::kJson, Level::kInfo, path_, 8192});
    ASSERT_TRUE(log) << log.error().message();
    (*log)->write(Event::kRetry, {{"attempt", 1}, {"cause", "a \"b\""}});
  }
  const std::string text = contents(path_);
  EXPECT_TRUE(text.starts_with(R"({"time":"20)")) << text;
  EXPECT_TRUE(
      text.ends_with("Z\",\"level\":\"warning\",\"event\":\"retry\",\"attempt\":1,\"cause\":\"a \\\"b\\\"\"}\n"))
      << text;
}

TEST_F(LoggerTest, ManyThreadsWriteWholeLines) {
  constexpr int kThreads = 4, kLines = 500;
  {
    auto log = Logger::open({Format::kText, Level::kInfo, path_, kThreads * kLines});
    ASSERT_TRUE(log) << log.error().message();
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&] {
        for (int i = 0; i < kLines; ++i) (*log)->write(Event::kRetry, {{"cause", std::string(50, 'x')}});
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ((*log)->dropped(), 0U);
  }
  std::istringstream text{contents(path_)};
  std::string line;
  int lines = 0;
  for (; std::getline(text, line); ++lines) EXPECT_TRUE(line.ends_with("warning retry cause=" + std::string(50, 'x')));
  EXPECT_EQ(lines, kThreads * kLines);
}

TEST_F(LoggerTest, DropsAndCountsLinesThatCannotBeWrittenInTime) {
  constexpr std::uint64_t kLines = 20'000;
  std::uint64_t dropped = 0;
  {
    auto log = Logger::open({Format::kText, Level::kInfo, path_, 1});
    ASSERT_TRUE(log) << log.error().message();
    for (std::uint64_t i = 0; i < kLines; ++i) (*log)->write(Event::kRetry, {{"attempt", i}});
    dropped = (*log)->dropped();
  }
  EXPECT_GT(dropped, 0U);
  std::istringstream text{contents(path_)};
  std::string line;
  std::uint64_t written = 0;
  for (; std::getline(text, line);) written += line.find(" retry ") != std::string::npos ? 1 : 0;
  EXPECT_EQ(written + dropped, kLines);
  EXPECT_NE(contents(path_).find("log_lines_dropped lines="), std::string::npos);
}

TEST(Logger, LinesThatTheDiskDoesNotTakeAreCountedAndReportedOnce) {
  std::vector<std::string> reports;
  {
    LoggerOptions options;
    options.file = "/dev/full";
    options.on_outage = [&](const std::string& error, bool begins) {
      reports.push_back((begins ? "begins " : "ends ") + error);
    };
    auto log = Logger::open(options);
    ASSERT_TRUE(log);
    for (int i = 0; i < 5; ++i) (*log)->write(Event::kDrain, {{"cause", "SIGTERM"}});
    while ((*log)->unwritten() < 5) std::this_thread::yield();
    EXPECT_EQ((*log)->dropped(), 0U);
  }
  EXPECT_EQ(reports, std::vector<std::string>{"begins /dev/full: cannot be written: No space left on device"});
}

TEST(Logger, AFileThatWasRenamedIsOpenedAgain) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("penstock-reopen-" + std::to_string(::getpid()));
  const std::string name = folder / "log", renamed = folder / "log.1";
  const auto lines_of = [](const std::string& file) {
    std::ifstream stream{file};
    return std::count(std::istreambuf_iterator<char>{stream}, {}, '\n');
  };
  const auto until_lines = [&](const std::string& file, std::ptrdiff_t lines) {
    for (int i = 0; i < 2000 && lines_of(file) < lines; ++i) std::this_thread::sleep_for(5ms);
    return lines_of(file);
  };
  {
    LoggerOptions options;
    options.file = name;
    auto log = Logger::open(options);
    ASSERT_TRUE(log);
    (*log)->write(Event::kDrain, {{"cause", "SIGTERM"}});
    EXPECT_EQ(until_lines(name, 1), 1);
    std::filesystem::rename(name, renamed);
    (*log)->write(Event::kDrain, {{"cause", "SIGTERM"}});
    EXPECT_EQ(until_lines(renamed, 2), 2);
    EXPECT_TRUE((*log)->reopen());
    EXPECT_TRUE((*log)->reopen()) << "before a line was written";
    (*log)->write(Event::kDrain, {{"cause", "SIGTERM"}});
    EXPECT_EQ(until_lines(name, 1), 1);
    EXPECT_EQ(lines_of(renamed), 2);
    std::filesystem::rename(name, renamed);
    std::filesystem::create_directory(name);
    const auto failed = (*log)->reopen();
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().where, name);
    (*log)->write(Event::kDrain, {{"cause", "SIGTERM"}});
    EXPECT_EQ(until_lines(renamed, 2), 2) << "the former file";
  }
  std::filesystem::remove_all(folder);
}

TEST(Logger, AFileThatCannotBeOpenedIsAnError) {
  const auto log = Logger::open({Format::kText, Level::kInfo, "/proc/none/log", 10});
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().code, core::ErrorCode::kEnvironment);
  EXPECT_EQ(log.error().where, "/proc/none/log");
}

TEST(Throttle, LetsOneLineOfAKindThroughInAnInterval) {
  Throttle throttle{10s};
  const core::Instant start = core::kStart + 100s;
  EXPECT_EQ(throttle.pass("queue_full", "shop", start), 0U);
  EXPECT_EQ(throttle.pass("queue_full", "shop", start + 1s), std::nullopt);
  EXPECT_EQ(throttle.pass("queue_full", "search", start + 1s), 0U);
  EXPECT_EQ(throttle.pass("over_budget", "shop", start + 1s), 0U);
  EXPECT_EQ(throttle.pass("queue_full", "shop", start + 9s), std::nullopt);
  EXPECT_EQ(throttle.pass("queue_full", "shop", start + 10s), 2U);
  EXPECT_EQ(throttle.pass("queue_full", "shop", start + 20s), 0U);
}

TEST(Throttle, KindsAboveTheLimitShareOne) {
  Throttle throttle{10s, 2};
  EXPECT_EQ(throttle.pass("a", "", core::kStart), 0U);
  EXPECT_EQ(throttle.pass("b", "", core::kStart), 0U);
  EXPECT_EQ(throttle.pass("c", "", core::kStart), 0U);
  EXPECT_EQ(throttle.pass("d", "", core::kStart), std::nullopt);
  EXPECT_EQ(throttle.pass("a", "", core::kStart), std::nullopt);
}

}  // namespace
}  // namespace penstock::logging
