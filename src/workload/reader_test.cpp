#include "workload/reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "workload/reader_testing.h"

namespace penstock::workload {
namespace {

using namespace std::chrono_literals;
using testing::fault_of;
using testing::message_of;
using testing::read_text;

constexpr std::string_view kHeader = "arrival_s,input_tokens,output_tokens\n";
std::string table(std::string_view rows) { return std::string{kHeader} + std::string{rows}; }

// Ten requests, one each second from 5 s on.
std::string ten_seconds() {
  std::string rows;
  for (int i = 5; i < 15; ++i) rows += std::to_string(i) + ",100,10\n";
  return table(rows);
}

class TraceFile {
 public:
  explicit TraceFile(std::string_view name, std::span<const std::uint8_t> bytes)
      : folder_{std::filesystem::temp_directory_path() / ("penstock-reader-" + std::to_string(::getpid()))} {
    std::filesystem::create_directories(folder_);
    path_ = (folder_ / name).string();
    std::ofstream{path_, std::ios::binary}.write(reinterpret_cast<const char*>(bytes.data()),
                                                 static_cast<std::streamsize>(bytes.size()));
  }
  ~TraceFile() { std::filesystem::remove_all(folder_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::filesystem::path folder_;
  std::string path_;
};

TEST(Reader, ArrivalsCountFromTheFirstRequest) {
  const auto workload = read_text(ten_seconds()).value();
  ASSERT_EQ(workload.requests.size(), 10U);
  EXPECT_EQ(workload.requests[0].arrival, core::kStart);
  EXPECT_EQ(workload.span(), 9s);
}

TEST(Reader, ATimeWithoutRequestsOfMoreThanADayIsNamedWithItsRow) {
  const auto workload = read_text(table("10,1,1\n100,1,1\n86600,1,1\n31536000,1,1\n31536001,1,1\n")).value();
  ASSERT_EQ(workload.long_gaps.size(), 1U);
  EXPECT_EQ(workload.long_gaps[0].before, "t.csv:5");
  EXPECT_EQ(workload.long_gaps[0].at, 86'590s);
  EXPECT_EQ(workload.long_gaps[0].length, core::Duration{31'449'400s});
  EXPECT_TRUE(read_text(table("0,1,1\n86400,1,1\n")).value().long_gaps.empty());
  ReadOptions window;
  window.to = 86'700s;
  EXPECT_EQ(read_text(table("10,1,1\n100,1,1\n86600,1,1\n31536000,1,1\n"), window).value().long_gaps.size(), 1U);
  window.from = 200s;
  EXPECT_TRUE(read_text(table("10,1,1\n100,1,1\n86600,1,1\n31536000,1,1\n"), window).value().long_gaps.empty());
}

TEST(Reader, LineEndsByteOrderMarkAndBlankLinesDoNotMatter) {
  const auto workload = read_text(
                            "\xef\xbb\xbf"
                            "arrival_s, input_tokens ,output_tokens\r\n0,1,1\r\n\r\n 1 , 2 , 3 \r\n\n\n")
                            .value();
  ASSERT_EQ(workload.requests.size(), 2U);
  EXPECT_EQ(workload.requests[1].output_tokens, 3U);
  EXPECT_EQ(fault_of(table("0,1,1\n\n\nx,1,1\n")), "t.csv:5: arrival_s \"x\" is not a number of seconds");
}

TEST(Reader, EmptyTracesHoldNoRequest) {
  EXPECT_EQ(message_of(""), "t.csv: holds no request; the file is empty");
  EXPECT_EQ(message_of("\n\n"), "t.csv: holds no request; the file is empty");
  EXPECT_EQ(message_of(kHeader), "t.csv: holds no request; nothing follows the header");
}

TEST(Reader, UnknownFormatShowsTheFirstLineAndNamesTheKnownOnes) {
  EXPECT_EQ(message_of("7z\x03\x04 some archive\nmore"),
            "t.csv:1: unknown trace format: \"7z?? some archive\"; known are mooncake, azure2023, azure2024, "
            "burstgpt, csv, ledger, recorded, agentic, weka, litellm");
}

TEST(Reader, MissingColumnsAreNamed) {
  EXPECT_EQ(message_of("agent,timestamp_us,input_chars,output_tokens\n"),
            "t.csv:1: the header has no column of input tokens; its columns are \"agent\", \"timestamp_us\", "
            "\"input_chars\", \"output_tokens\"; map them with "
            "--columns 'time=timestamp_us,input=COLUMN,output=output_tokens'");
  EXPECT_EQ(fault_of("num_prefill_tokens\n"),
            "t.csv:1: the header has no column of arrival times, no column of output tokens");
  EXPECT_EQ(message_of("arrival_s,input_tokens,output_tokens,prefix_tokens\n"),
            "t.csv:1: the header has only one of prefix_group and prefix_tokens; a shared prefix needs both");
}

TEST(Reader, DuplicateColumnsAreRefused) {
  EXPECT_EQ(message_of("arrival_s,input_tokens,output_tokens,Input Tokens\n"),
            "t.csv:1: names the column \"input_tokens\" twice");
  EXPECT_EQ(message_of(",arrival_s,input_tokens,output_tokens,\n,0,1,1,\n"), "");
}

TEST(Reader, BadRowsAreErrorsAtTheirLine) {
  const auto row = [](std::string_view text) { return fault_of(table("0,1,1\n" + std::string{text} + "\n")); };
  EXPECT_EQ(row("1,5"), "t.csv:3: has 2 columns where the header has 3");
  EXPECT_EQ(row("1,5,6,7"), "t.csv:3: has 4 columns where the header has 3");
  EXPECT_EQ(row("1,0,5"), "t.csv:3: input_tokens is 0, must be at least 1");
  EXPECT_EQ(row("1,5,-1"), "t.csv:3: output_tokens is -1, must be at least 1");
  EXPECT_EQ(row("1,5.5,1"), "t.csv:3: input_tokens \"5.5\" is not a whole number");
  EXPECT_EQ(row("1,5,100000001"), "t.csv:3: output_tokens is 100000001, must be at most 100000000");
  EXPECT_EQ(row("1,5,"), "t.csv:3: output_tokens is blank");
  EXPECT_EQ(row("nan,5,1"), "t.csv:3: arrival_s \"nan\" is not a number of seconds");
  EXPECT_EQ(row("1e99,5,1"), "t.csv:3: arrival_s is 1e99, must be below 9000000000 seconds");
  EXPECT_EQ(row("1,\"5,1"), "t.csv:3: a quoted field does not end on its line");
  EXPECT_EQ(message_of(table("0,1,\n")),
            "t.csv:2: output_tokens is blank; correct the row, or skip such rows with --skip-bad-rows");
}

TEST(Reader, BadOptionalColumnsAreErrorsToo) {
  const auto row = [](std::string_view column, std::string_view value) {
    return fault_of("arrival_s,input_tokens,output_tokens," + std::string{column} + "\n0,100,1," + std::string{value});
  };
  EXPECT_EQ(row("priority", "128"), "t.csv:2: priority \"128\" is not a whole number from -128 to 127");
  EXPECT_EQ(row("priority", "high"), "t.csv:2: priority \"high\" is not a whole number from -128 to 127");
  EXPECT_EQ(row("class", "best-effort"), "t.csv:2: class \"best-effort\" is neither interactive nor batch");
  EXPECT_EQ(row("tenant", std::string(257, 'x')), "t.csv:2: tenant is longer than 256 bytes");
  EXPECT_EQ(row("user", "a\x1b[2J"), "t.csv:2: the tenant \"a?[2J\" holds control characters or is not UTF-8");
  EXPECT_EQ(row("user", "\xff"), "t.csv:2: the tenant \"?\" holds control characters or is not UTF-8");
  EXPECT_EQ(row("user", "Zo\xc3\xab"), "");
  EXPECT_EQ(row("prefix_group,prefix_tokens", "a,101"),
            "t.csv:2: prefix_tokens is 101, must be at most 100 (input_tokens)");
  EXPECT_EQ(row("prefix_group,prefix_tokens", ",64"), "t.csv:2: prefix_group is blank");
  EXPECT_EQ(row("prefix_group,prefix_tokens", "a,"), "t.csv:2: prefix_tokens is blank");
}

TEST(Reader, TimesThatGoBackAreErrors) {
  EXPECT_EQ(message_of(table("0,1,1\n12.50,1,1\n3,1,1\n")),
            "t.csv:4: timestamps decrease from 12.50 to 3; sort the rows by time");
  EXPECT_EQ(message_of(table("0,1,1\n0,1,1\n")), "");
}

TEST(Reader, TimesOfEachSessionsOwnCannotBeReplayedAndCannotBeSkipped) {
  const std::string text = "session,t_s,input_tokens,output_tokens\na,0.0,1,1\na,19.0,1,1\nb,0.0,1,1\n";
  const std::string message =
      "t.csv:4: time starts again at 0.0 with session \"b\": times count from the start of each session, and the "
      "arrival time of the session is missing; add to each time the arrival of its session, and sort the rows";
  EXPECT_EQ(message_of(text), message);
  EXPECT_EQ(message_of(text, {.skip_bad_rows = true}), message);
  EXPECT_EQ(fault_of("{\"id\":\"trace_0001\",\"requests\":[{\"t\":0.0,\"in\":5,\"out\":6}]}"),
            "t.csv: holds whole sessions, whose starts are not recorded");
}

TEST(Reader, SkippedRowsAreCountedAndTheFirstTenRemembered) {
  std::string rows = "0,1,1\n";
  for (int i = 0; i < 12; ++i) rows += "1,1,\n2,1,1\n";
  rows += "1,1,1\n";
  ReadReport report;
  const auto workload = read_text(table(rows), {.skip_bad_rows = true}, &report).value();
  EXPECT_EQ(workload.requests.size(), 13U);
  EXPECT_EQ(workload.skipped_rows, 13U);
  EXPECT_EQ(report.rows, 26U);
  EXPECT_EQ(report.skipped_rows, 13U);
  ASSERT_EQ(report.skipped.size(), 10U);
  EXPECT_EQ(report.skipped[0], "t.csv:3: output_tokens is blank");
}

TEST(Reader, ARowThatIsSkippedLeavesNoTrace) {
  const auto workload = read_text("arrival_s,client,input_tokens,output_tokens\n9,a,1,\n0,b,1,1\n5,c,1,0\n1,b,1,1\n",
                                  {.skip_bad_rows = true})
                            .value();
  EXPECT_EQ(workload.tenants, std::vector<std::string>{"b"});
  EXPECT_EQ(workload.span(), 1s);
}

TEST(Reader, ATraceOfBadRowsOnlyIsAnErrorEvenWhenTheyMayBeSkipped) {
  EXPECT_EQ(message_of(table("0,1,\n1,1,\n"), {.skip_bad_rows = true}),
            "t.csv: has no valid row: all 2 are invalid, the first at t.csv:2: output_tokens is blank");
}

TEST(Reader, WindowsCutAndArrivalsCountFromTheirStart) {
  const auto workload = read_text(ten_seconds(), {.from = 2s, .to = 5s}).value();
  ASSERT_EQ(workload.requests.size(), 3U);
  EXPECT_EQ(workload.requests[0].arrival, core::kStart);
  EXPECT_EQ(workload.requests[2].arrival, core::kStart + 2s);
  EXPECT_EQ(read_text(ten_seconds(), {.from = 2500ms}).value().requests[0].arrival, core::kStart + 500ms);
}

TEST(Reader, ReadingEndsWhereTheWindowDoes) {
  ReadReport report;
  const auto workload = read_text(ten_seconds() + "broken\n", {.to = 3s}, &report).value();
  EXPECT_EQ(workload.requests.size(), 3U);
  EXPECT_EQ(report.rows, 4U);
}

TEST(Reader, TenantsSessionsAndBlocksOutsideTheWindowAreNotNamed) {
  const auto workload = read_text(
                            "arrival_s,client,session,input_tokens,output_tokens,prefix_id,prefix_tokens\n"
                            "0,a,s,100,1,p,64\n5,b,t,100,1,q,64\n9,c,u,100,1,r,64\n",
                            {.from = 5s, .to = 9s})
                            .value();
  EXPECT_EQ(workload.tenants, std::vector<std::string>{"b"});
  EXPECT_EQ(workload.requests[0].session, 0U);
  EXPECT_EQ(workload.block_ids, std::vector<std::uint32_t>{0});
}

TEST(Reader, EmptyWindowsAreErrors) {
  EXPECT_EQ(message_of(ten_seconds(), {.from = 5s, .to = 5s}), "t.csv: the window from 5 s to 5 s is empty");
  EXPECT_EQ(message_of(ten_seconds(), {.from = -1s}), "t.csv: the window begins at -1 s, before the trace");
  EXPECT_EQ(message_of(ten_seconds(), {.from = 1h}),
            "t.csv: no request arrives from 3600 s on; the last one read arrives at 9 s");
  EXPECT_EQ(message_of(table("0,1,1\n100,1,1\n"), {.from = 5s, .to = 10s}),
            "t.csv: no request arrives from 5 s to 10 s; the last one read arrives at 100 s");
}

TEST(Reader, RequestsAreLimited) {
  EXPECT_EQ(message_of(ten_seconds(), {.requests_max = 9}),
            "t.csv:11: holds more than 9 requests; read a shorter window of it");
  EXPECT_EQ(message_of(ten_seconds(), {.requests_max = 10}), "");
  EXPECT_EQ(message_of(ten_seconds(), {.skip_bad_rows = true, .requests_max = 3}),
            "t.csv:5: holds more than 3 requests; read a shorter window of it");
}

TEST(Reader, EveryPackingReadsAsThePlainTextDoes) {
  const auto plain = read_text(ten_seconds()).value();
  for (const auto& packed : {testing::gzip(ten_seconds()), testing::xz(ten_seconds()), testing::zstd(ten_seconds())}) {
    const auto workload = read_workload_bytes("t.csv", packed, {}).value();
    EXPECT_EQ(workload.requests.size(), plain.requests.size());
    EXPECT_EQ(workload.span(), plain.span());
  }
}

TEST(Reader, APackedTraceThatEndsEarlyIsAnErrorEvenWhenBadRowsMayBeSkipped) {
  for (auto packed : {testing::gzip(ten_seconds()), testing::xz(ten_seconds()), testing::zstd(ten_seconds())}) {
    packed.resize(packed.size() - 5);
    const auto workload = read_workload_bytes("t.csv", packed, {.skip_bad_rows = true});
    ASSERT_FALSE(workload);
    EXPECT_EQ(workload.error().code, core::ErrorCode::kInvalidInput);
    EXPECT_EQ(workload.error().where, "t.csv");
    EXPECT_TRUE(workload.error().what.ends_with("data ends early")) << workload.error().what;
  }
}

TEST(Reader, DecompressionBombsEndAtTheLineLimit) {
  const auto bomb = testing::gzip(std::string(std::size_t{64} << 20, '1'));
  EXPECT_LT(bomb.size(), 100'000U);
  EXPECT_EQ(read_workload_bytes("t.csv", bomb, {}).error().message(), "t.csv:1: the line is longer than 16 MiB");
}

TEST(Reader, AFileIsNamedByItsPathInErrorsAndByItsStemInTheWorkload) {
  const TraceFile file{"small.trace.csv.xz", testing::xz(ten_seconds() + "14,,\n")};
  EXPECT_EQ(read_workload(file.path(), {}).error().where, file.path() + ":12");
  EXPECT_EQ(read_workload(file.path(), {.skip_bad_rows = true}).value().name, "small.trace");
}

TEST(Reader, AFileThatCannotBeReadIsAnErrorOfTheEnvironment) {
  const auto missing = read_workload("/nonexistent/trace.csv", {});
  EXPECT_EQ(missing.error().code, core::ErrorCode::kEnvironment);
  EXPECT_EQ(missing.error().message(), "/nonexistent/trace.csv: cannot be opened: no such file or directory");
  const auto folder = read_workload("/", {});
  EXPECT_EQ(folder.error().code, core::ErrorCode::kEnvironment);
  EXPECT_EQ(folder.error().message(), "/: cannot be read: is a directory");
}

TEST(Reader, LengthsNeedNoArrivals) {
  const TraceFile file{"lengths.csv",
                       testing::bytes_of("num_prefill_tokens,num_decode_tokens,pd_ratio\n74,918,0.08\n290,905,0.3\n")};
  const auto pairs = read_lengths(file.path()).value();
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].input_tokens, 74U);
  EXPECT_EQ(pairs[1].output_tokens, 905U);
}

TEST(Reader, LengthsOfATraceArePairsToo) {
  const TraceFile csv{"a.csv", testing::bytes_of("TIMESTAMP,ContextTokens,GeneratedTokens\nXXX,107,15\n")};
  EXPECT_EQ(read_lengths(csv.path()).value()[0].input_tokens, 107U);
  const TraceFile json{"a.jsonl", testing::bytes_of("{\"input_length\": 7, \"output_length\": 5}\n")};
  EXPECT_EQ(read_lengths(json.path()).value()[0].output_tokens, 5U);
}

TEST(Reader, BadLengthsAreErrorsAtTheirLine) {
  const TraceFile bad{"a.csv", testing::bytes_of("input_tokens,output_tokens\n1,1\n1,0\n")};
  EXPECT_EQ(read_lengths(bad.path()).error().message(), bad.path() + ":3: output_tokens is 0, must be at least 1");
  const TraceFile empty{"b.csv", testing::bytes_of("input_tokens,output_tokens\n")};
  EXPECT_EQ(read_lengths(empty.path()).error().message(),
            empty.path() + ": holds no lengths; nothing follows the header");
}

}  // namespace
}  // namespace penstock::workload
