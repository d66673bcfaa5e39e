// Traces that a gateway records, spend logs of LiteLLM, and JSON arrays.
#include <gtest/gtest.h>

#include "workload/json_array.h"
#include "workload/reader.h"
#include "workload/reader_testing.h"

namespace penstock::workload {
namespace {

using std::chrono::milliseconds, std::chrono::seconds;
using testing::fault_of;
using testing::message_of;
using testing::read_text;

constexpr std::string_view kRecorded =
    R"({"timestamp":1790000002000.500,"input_length":600,"output_length":20,"block_tokens":256,"model":"m",)"
    R"("tenant":"a","class":"batch","streamed":false,"hash_ids":[18446744073709551615,7]})"
    "\n"
    R"({"timestamp":1790000000000.000,"input_length":300,"output_length":10,"block_tokens":256,"model":"m",)"
    R"("tenant":"b","class":"interactive","streamed":true,"hash_ids":[18446744073709551615]})"
    "\n";

TEST(RecordedTrace, IsSortedByArrivalAndKeepsItsBlocks) {
  ReadReport report;
  const auto workload = read_text(kRecorded, {}, &report).value();
  EXPECT_EQ(report.format, Format::kRecorded);
  EXPECT_EQ(workload.block_tokens, 256U);
  ASSERT_EQ(workload.requests.size(), 2U);
  EXPECT_EQ(workload.requests[0].input_tokens, 300U);
  EXPECT_EQ(workload.requests[0].arrival, core::kStart);
  EXPECT_EQ(workload.requests[1].arrival, core::kStart + std::chrono::microseconds{2'000'500});
  EXPECT_EQ(workload.requests[1].traffic_class, TrafficClass::kBatch);
  EXPECT_FALSE(workload.requests[1].streamed);
  EXPECT_EQ(workload.blocks_of(workload.requests[0])[0], workload.blocks_of(workload.requests[1])[0]);
  EXPECT_EQ(workload.tenants[workload.requests[1].tenant], "a");
}

TEST(RecordedTrace, WindowsCountFromTheEarliestArrival) {
  ReadOptions options;
  options.from = seconds{1};
  EXPECT_EQ(read_text(kRecorded, options).value().requests.at(0).input_tokens, 600U);
  EXPECT_EQ(read_text(kRecorded, options).value().requests.at(0).arrival,
            core::kStart + milliseconds{1000} + std::chrono::microseconds{500});
  options = {};
  options.to = seconds{2};
  EXPECT_EQ(read_text(kRecorded, options).value().requests.size(), 1U);
  options.from = seconds{1};
  EXPECT_EQ(message_of(kRecorded, options),
            "t.csv: no request arrives from 1 s to 2 s; the last one read arrives at 2.0005 s");
}

TEST(RecordedTrace, RowsOfAnotherBlockSizeAreFaults) {
  std::string text{kRecorded};
  text.replace(text.rfind("\"block_tokens\":256"), 18, "\"block_tokens\":128");
  EXPECT_EQ(fault_of(text), "t.csv:2: block_tokens is 128 where the first row has 256");
}

TEST(RecordedTrace, OneOfSeveralModelsMustBeChosen) {
  std::string text{kRecorded};
  text.replace(text.rfind("\"model\":\"m\""), 11, "\"model\":\"x\"");
  EXPECT_EQ(message_of(text),
            "t.csv: has requests of 2 models: \"m\" (1 rows), \"x\" (1 rows); choose one with --trace-model 'm', or "
            "--trace-model all");
  ReadOptions options;
  options.model = "x";
  EXPECT_EQ(read_text(text, options).value().requests.at(0).input_tokens, 300U);
  options.model = "all";
  EXPECT_EQ(read_text(text, options).value().requests.size(), 2U);
}

TEST(RecordedTrace, TheModelsOfATraceStayAligned) {
  std::string text{kRecorded};
  text.replace(text.rfind("\"model\":\"m\""), 11, "\"model\":\"x\"");
  ReadOptions options;
  options.model = "m";
  EXPECT_EQ(read_text(text, options).value().requests.at(0).arrival,
            core::kStart + std::chrono::microseconds{2'000'500});
  options.from = std::chrono::seconds{2};
  EXPECT_EQ(read_text(text, options).value().requests.at(0).arrival, core::kStart + std::chrono::microseconds{500});
  options.model = "x";
  options.from = {};
  EXPECT_EQ(read_text(text, options).value().requests.at(0).arrival, core::kStart);
}

constexpr std::string_view kSpendLogs = R"([
  {
    "request_id": "chatcmpl-2", "call_type": "acompletion", "api_key": "88dc28", "spend": 0.002, "total_tokens": 130,
    "prompt_tokens": 100, "completion_tokens": 30, "startTime": "2026-11-18T09:00:02.250000Z",
    "endTime": "2026-11-18T09:00:04Z", "model": "openai/llama", "model_group": "llama", "cache_hit": "False",
    "team_id": "search", "metadata": {"a": "}]\""}, "session_id": "s1"
  },
  {
    "request_id": "chatcmpl-1", "prompt_tokens": 40, "completion_tokens": 5,
    "startTime": "2026-11-18 09:00:00+00:00", "model_group": "llama", "model": "openai/other", "team_id": null
  },
  {"startTime": "2026-11-18T09:00:01Z", "prompt_tokens": 0, "completion_tokens": 0, "model": "llama"},
  {"startTime": "2026-11-18T09:00:01Z", "prompt_tokens": 4, "completion_tokens": 5, "model": "m", "cache_hit": "True"}
])";

TEST(LiteLlmSpendLogs, AreReadAsAnArray) {
  ReadReport report;
  const auto read = read_text(kSpendLogs, {}, &report);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(report.format, Format::kLiteLlm);
  ASSERT_EQ(read->requests.size(), 2U);
  EXPECT_EQ(read->requests[0].input_tokens, 40U);
  EXPECT_EQ(read->requests[1].arrival, core::kStart + milliseconds{2250});
  EXPECT_EQ(read->requests[1].output_tokens, 30U);
  EXPECT_EQ(read->tenants, (std::vector<std::string>{"search", "default"}));
  EXPECT_EQ(report.skipped, (std::vector<std::string>{"t.csv:12: 0 prompt tokens and 0 output tokens",
                                                      "t.csv:13: was answered from the cache of LiteLLM"}));
}

TEST(LiteLlmSpendLogs, AreReadAsATable) {
  const std::string text =
      "request_id,call_type,startTime,endTime,prompt_tokens,completion_tokens,model,model_group,team_id,cache_hit,"
      "metadata\n"
      "b,acompletion,2026-11-18 09:00:02.25+00,2026-11-18 09:00:03+00,100,30,openai/llama,llama,search,False,"
      "\"{\"\"a\"\": 1}\"\n"
      "a,acompletion,2026-11-18 09:00:00+00,2026-11-18 09:00:03+00,40,5,openai/llama,llama,,False,{}\n"
      "c,acompletion,2026-11-18 09:00:01+00,2026-11-18 09:00:03+00,40,0,openai/llama,llama,,False,{}\n"
      "d,acompletion,2026-11-18 09:00:01+00,2026-11-18 09:00:03+00,40,5,openai/llama,llama,,True,{}\n";
  ReadReport report;
  const auto read = read_text(text, {}, &report);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(report.format, Format::kLiteLlm);
  ASSERT_EQ(read->requests.size(), 2U);
  EXPECT_EQ(read->requests[1].arrival, core::kStart + milliseconds{2250});
  EXPECT_EQ(read->requests[1].input_tokens, 100U);
  EXPECT_EQ(report.skipped_rows, 2U);
}

TEST(LiteLlmSpendLogs, BadRowsNameTheLineOfTheirObject) {
  std::string text{kSpendLogs};
  text.replace(text.find("\"2026-11-18 09:00:00+00:00\""), 27, "\"yesterday\"");
  EXPECT_EQ(message_of(text),
            "t.csv:8: startTime \"yesterday\" is not a date and time; correct the row, or skip such rows with "
            "--skip-bad-rows");
}

TEST(JsonArray, OnOneLineCountsItsElements) {
  const std::string row = R"({"timestamp":0,"input_length":1,"output_length":2})";
  const std::string text = "[" + row + ", " + row + " ," + row + "]";
  EXPECT_EQ(read_text(text).value().requests.size(), 3U);
  EXPECT_EQ(read_text("\xef\xbb\xbf \n " + text + "\n").value().requests.size(), 3U);
  EXPECT_EQ(fault_of("[" + row + ",{},7," + row + "]"), "t.csv:2: has no timestamp, no input_length, no output_length");
  EXPECT_EQ(fault_of("[" + row + ",7," + row + "]"), "t.csv:2: is not one JSON object");
  EXPECT_EQ(message_of("[]"), "t.csv: holds no request; the file is empty");
}

TEST(JsonArray, WithoutItsEndIsAnError) {
  const std::string row = R"({"timestamp":0,"input_length":1,"output_length":2})";
  EXPECT_EQ(message_of("[" + row + ","), "t.csv: the JSON array ends early; copy or download the file again");
  EXPECT_EQ(message_of("[" + row), "t.csv: the JSON array ends early; copy or download the file again");
  EXPECT_EQ(fault_of("[" + row + "] x"), "t.csv:2: is not one JSON object");
}

}  // namespace
}  // namespace penstock::workload
