// Every format, from small samples as their publishers write them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "workload/reader.h"
#include "workload/reader_testing.h"

namespace penstock::workload {
namespace {

using testing::fault_of;
using testing::message_of;
using testing::read_text;

constexpr std::string_view kMooncake =
    "{\"timestamp\": 0, \"input_length\": 1100, \"output_length\": 52, \"hash_ids\": [46, 47, 48]}\n"
    "{\"timestamp\": 1500, \"input_length\": 700, \"output_length\": 1, \"hash_ids\": [46, 2305]}\n";
constexpr std::string_view kAzure2023 =
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:17:03.9799600,4808,10\n"
    "2023-11-16 18:17:04.0319600,3180,8\n";
constexpr std::string_view kAzure2024 =
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2024-05-10 00:00:00.009930+00:00,2162,5\n"
    "2024-05-10 00:00:00.017335+00:00,2399,6\n";
constexpr std::string_view kBurstGpt =
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n"
    "45,GPT-4,1087,230,1317,API log\n";
constexpr std::string_view kBurstGptSessions =
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5.0,12,3.2,ChatGPT,472,18,490,Conversation log\n"
    "6.0,,1.0,GPT-4,30,20,50,API log\n"
    "9.5,12,4.0,ChatGPT,500,20,520,Conversation log\n";

TEST(TraceFormats, MooncakeGivesArrivalsLengthsAndBlocksNumberedByFirstAppearance) {
  ReadReport report;
  const auto workload = read_text(kMooncake, {}, &report).value();
  EXPECT_EQ(report.format, Format::kMooncake);
  EXPECT_EQ(report.rows, 2U);
  EXPECT_EQ(workload.block_tokens, 512U);
  EXPECT_EQ(workload.tenants, std::vector<std::string>{"default"});
  ASSERT_EQ(workload.requests.size(), 2U);
  EXPECT_EQ(workload.requests[0].arrival, core::kStart);
  EXPECT_EQ(workload.requests[1].arrival, core::kStart + std::chrono::milliseconds{1500});
  EXPECT_EQ(workload.requests[0].input_tokens, 1100U);
  EXPECT_EQ(workload.requests[0].output_tokens, 52U);
  EXPECT_EQ(workload.requests[0].session, kNoSession);
  EXPECT_EQ(workload.block_ids, (std::vector<std::uint32_t>{0, 1, 2, 0, 3}));
  EXPECT_EQ(workload.blocks_of(workload.requests[1]).size(), 2U);
}

TEST(TraceFormats, MooncakeFieldsMayHaveAnyOrder) {
  const auto workload = read_text(
                            "{\"note\":{\"deep\":[1,{\"timestamp\":9}]},\"hash_ids\":[],\"output_length\":2,"
                            "\"input_length\":1,\"timestamp\":0.5}")
                            .value();
  EXPECT_EQ(workload.requests[0].input_tokens, 1U);
  EXPECT_EQ(workload.requests[0].output_tokens, 2U);
  EXPECT_EQ(workload.requests[0].block_count, 0U);
}

TEST(TraceFormats, TimesOfMooncakeThatLookLikeAnotherUnitMustBeConfirmed) {
  const auto trace = [](std::initializer_list<const char*> times) {
    std::string text;
    for (const char* time : times)
      text += fmt::format("{{\"timestamp\":{},\"input_length\":5,\"output_length\":6}}\n", time);
    return text;
  };
  const std::string seconds = trace({"0.072", "0.5", "1.25", "1.572"});
  EXPECT_EQ(message_of(seconds),
            "t.csv:1: timestamp: times 0.072, 0.5, 1.25 would be 2000 requests per second as milliseconds, and 2 as "
            "seconds; the guess is s: confirm it with --time-format s, or give s, ms, us or ns");
  EXPECT_EQ(read_text(seconds, {.time_format = TimeFormat::kSeconds}).value().requests.back().arrival,
            core::kStart + std::chrono::milliseconds{1500});
  EXPECT_EQ(read_text(seconds, {.time_format = TimeFormat::kMilliseconds}).value().requests.back().arrival,
            core::kStart + std::chrono::microseconds{1500});
  EXPECT_NE(message_of(trace({"1794992400", "1794992401", "1794992402"})), "");
  // Whole numbers and fractions at a usual rate are milliseconds.
  for (const auto& times : {trace({"0", "1", "2"}), trace({"0.5", "400.25", "900"}), trace({"0.5"}),
                            trace({"1794992400181", "1794992400182", "1794992400183.5"})})
    EXPECT_EQ(message_of(times), "") << times;
}

// Two requests in every second or millisecond, or in every ten milliseconds.
TEST(TraceFormats, WholeSecondsOfMooncakeMustBeConfirmed) {
  const auto trace = [](int rows, int step) {
    std::string text;
    for (int row = 0; row < rows; ++row)
      text += fmt::format("{{\"timestamp\":{},\"input_length\":5,\"output_length\":6}}\n", row / 2 * step);
    return text;
  };
  EXPECT_EQ(message_of(trace(200, 1)),
            "t.csv:1: timestamp: times 0, 0, 1 would be 2010 requests per second as milliseconds, and 2.01 as seconds; "
            "the guess is s: confirm it with --time-format s, or give s, ms, us or ns");
  EXPECT_EQ(message_of(trace(200, 10)), "");
  EXPECT_EQ(message_of(trace(20, 1)), "") << "a burst";
  EXPECT_EQ(read_text(trace(200, 1), {.time_format = TimeFormat::kSeconds}).value().requests.back().arrival,
            core::kStart + std::chrono::seconds{99});
}

TEST(TraceFormats, MooncakeIdsMayBeHashesOfAnySize) {
  const auto workload =
      read_text(
          "{\"timestamp\":0,\"input_length\":2048,\"output_length\":1,"
          "\"hash_ids\":[18446744073709551615,-1,9223372036854775807,3]}\n"
          "{\"timestamp\":0,\"input_length\":2048,\"output_length\":1,\"hash_ids\":[3,9223372036854775807,-2]}")
          .value();
  EXPECT_EQ(workload.block_ids, (std::vector<std::uint32_t>{0, 0, 1, 2, 2, 1, 3}));
}

TEST(TraceFormats, MooncakeRowsMayNameTenantSessionClassAndPriority) {
  const auto workload =
      read_text(
          "{\"timestamp\":0,\"input_length\":5,\"output_length\":1}\n"
          "{\"timestamp\":0,\"input_length\":5,\"output_length\":1,\"tenant\":\"a \\\"b\\\"\",\"session_id\":17,"
          "\"traffic_class\":\"batch\",\"priority\":-3}\n"
          "{\"timestamp\":0,\"input_length\":5,\"output_length\":1,\"tenant\":null,\"session\":\"17\","
          "\"class\":\"interactive\",\"priority\":null}\n")
          .value();
  EXPECT_EQ(workload.tenants, (std::vector<std::string>{"default", "a \"b\""}));
  EXPECT_EQ(workload.requests[0].tenant, 0U);
  EXPECT_EQ(workload.requests[0].session, kNoSession);
  EXPECT_EQ(workload.requests[1].tenant, 1U);
  EXPECT_EQ(workload.requests[1].session, 0U);
  EXPECT_EQ(workload.requests[1].traffic_class, TrafficClass::kBatch);
  EXPECT_EQ(workload.requests[1].priority, -3);
  EXPECT_EQ(workload.requests[2].tenant, 0U);
  EXPECT_EQ(workload.requests[2].session, 0U);
  EXPECT_EQ(workload.requests[2].traffic_class, TrafficClass::kInteractive);
  EXPECT_EQ(workload.requests[2].priority, 0);
  const auto row = [](const std::string& fields) {
    return fault_of("{\"timestamp\":0,\"input_length\":5,\"output_length\":1," + fields + "}");
  };
  EXPECT_EQ(row("\"priority\":128"), "t.csv:1: priority \"128\" is not a whole number from -128 to 127");
  EXPECT_EQ(row("\"class\":\"best effort\""), "t.csv:1: class \"best effort\" is neither interactive nor batch");
  EXPECT_EQ(row("\"tenant\":[1]"), "t.csv:1: tenant is neither a string nor a number");
  EXPECT_EQ(row("\"tenant\":\"" + std::string(257, 'x') + "\""), "t.csv:1: tenant is longer than 256 bytes");
  EXPECT_EQ(row("\"session\":1,\"session_id\":1"), "t.csv:1: names session_id twice");
}

TEST(TraceFormats, ARowMayHaveAnAnswerThatWasNotStreamed) {
  const auto streamed = [](const std::string& text) {
    const auto read = read_text(text);
    std::vector<bool> all;
    for (const Request& request : read.value().requests) all.push_back(request.streamed);
    return all;
  };
  const auto row = [](const std::string& fields) {
    return "{\"timestamp\":0,\"input_length\":5,\"output_length\":1" + fields + "}\n";
  };
  EXPECT_EQ(streamed(row("") + row(",\"streamed\":false") + row(",\"stream\":true") + row(",\"streamed\":null") +
                     row(",\"streamed\":\"false\"") + row(",\"streamed\":0")),
            (std::vector<bool>{true, false, true, true, false, false}));
  EXPECT_EQ(streamed("arrival_s,input_tokens,output_tokens,Streamed\n0,5,1,false\n0,5,1,\n0,5,1,TRUE\n0,5,1,0\n"),
            (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(fault_of(row(",\"streamed\":\"no\"")), "t.csv:1: streamed \"no\" is neither true nor false");
  EXPECT_EQ(fault_of(row(",\"streamed\":2")), "t.csv:1: streamed \"2\" is neither true nor false");
  EXPECT_EQ(fault_of("arrival_s,input_tokens,output_tokens,stream\n0,5,1,maybe"),
            "t.csv:2: stream \"maybe\" is neither true nor false");
}

TEST(TraceFormats, MooncakeWithoutBlockIdsSharesNothing) {
  const auto workload = read_text("{\"timestamp\":0,\"input_length\":9,\"output_length\":1}").value();
  EXPECT_EQ(workload.requests[0].block_count, 0U);
}

TEST(TraceFormats, ErrorsOfMooncakeRowsAreExplained) {
  const auto row = [](std::string_view text) { return fault_of(text); };
  EXPECT_EQ(row("{}"), "t.csv:1: has no timestamp, no input_length, no output_length");
  EXPECT_EQ(row("{\"timestamp\":0,\"input_length\":5}"), "t.csv:1: has no output_length");
  EXPECT_EQ(row("{\"timestamp\":0,\"timestamp\":1}"), "t.csv:1: names timestamp twice");
  EXPECT_EQ(row("{\"timestamp\":\"now\"}"), "t.csv:1: timestamp \"\"now\"\" is not a number of milliseconds");
  EXPECT_EQ(row("{\"timestamp\":-1}"), "t.csv:1: timestamp is -1, must be at least 0");
  EXPECT_EQ(row("{\"timestamp\":1e300}"), "t.csv:1: timestamp is 1e300, must be below 9000000000000 milliseconds");
  EXPECT_EQ(row("{\"timestamp\":null}"), "t.csv:1: timestamp \"null\" is not a number of milliseconds");
  EXPECT_EQ(row("{\"input_length\":0}"), "t.csv:1: input_length is 0, must be at least 1");
  EXPECT_EQ(row("{\"output_length\":1.5}"), "t.csv:1: output_length \"1.5\" is not a whole number");
  EXPECT_EQ(row("{\"output_length\":[1]}"), "t.csv:1: output_length \"[\" is not a whole number");
  EXPECT_EQ(row("{\"hash_ids\":7}"), "t.csv:1: hash_ids is not a list");
  EXPECT_EQ(row("{\"hash_ids\":[1,\"a\"]}"),
            "t.csv:1: hash_ids holds \"\"a\"\", which is not a whole number of 64 bits");
  EXPECT_EQ(row("{\"hash_ids\":[18446744073709551616]}"),
            "t.csv:1: hash_ids holds \"18446744073709551616\", which is not a whole number of 64 bits");
  EXPECT_EQ(row("{\"timestamp\":0,\"input_length\":500,\"output_length\":12,\"hash_ids\":[1,2]}"),
            "t.csv:1: hash_ids holds 2 ids for 512 tokens, must be at most 1 (one for each 512 tokens)");
}

TEST(TraceFormats, LinesThatAreNotOneJsonObjectAreRefused) {
  const std::string good = "{\"timestamp\":0,\"input_length\":5,\"output_length\":5}";
  for (const std::string& text : {std::string{"{"}, good.substr(0, good.size() - 1), good + "x", good + good,
                                  good + " 5", std::string{"{\"timestamp\" 0}"}, std::string{"{\"a\":\"\xff\"}"},
                                  std::string{"{\"timestamp\":0 5}"}, std::string{"{timestamp:0}"}})
    EXPECT_EQ(fault_of(text), "t.csv:1: is not one JSON object") << text;
  EXPECT_EQ(fault_of(good + "\nnull\n"), "t.csv:2: is not one JSON object");
  EXPECT_EQ(fault_of(good + "\n[" + good + "]\n"), "t.csv:2: is not one JSON object");
}

TEST(TraceFormats, AzureFormatsDifferByTheTimeZone) {
  ReadReport report;
  const auto first = read_text(kAzure2023, {}, &report).value();
  EXPECT_EQ(report.format, Format::kAzure2023);
  EXPECT_EQ(first.requests[0].arrival, core::kStart);
  EXPECT_EQ(first.requests[1].arrival, core::kStart + std::chrono::milliseconds{52});
  EXPECT_EQ(first.requests[0].input_tokens, 4808U);
  EXPECT_EQ(first.requests[0].output_tokens, 10U);

  const auto second = read_text(kAzure2024, {}, &report).value();
  EXPECT_EQ(report.format, Format::kAzure2024);
  EXPECT_EQ(second.requests[1].arrival, core::kStart + std::chrono::microseconds{7405});
}

TEST(TraceFormats, BurstGptGivesModelsAsTenantsAndSessionsWhereTheyAre) {
  ReadReport report;
  const auto workload = read_text(kBurstGpt, {}, &report).value();
  EXPECT_EQ(report.format, Format::kBurstGpt);
  EXPECT_EQ(workload.tenants, (std::vector<std::string>{"ChatGPT", "GPT-4"}));
  EXPECT_EQ(workload.requests[1].arrival, core::kStart + std::chrono::seconds{40});
  EXPECT_EQ(workload.requests[1].tenant, 1U);
  EXPECT_EQ(workload.requests[1].output_tokens, 230U);

  const auto sessions = read_text(kBurstGptSessions, {}, &report).value();
  EXPECT_EQ(report.format, Format::kBurstGpt);
  EXPECT_EQ(sessions.requests[0].session, 0U);
  EXPECT_EQ(sessions.requests[1].session, kNoSession);
  EXPECT_EQ(sessions.requests[2].session, 0U);
}

TEST(TraceFormats, BurstGptFailuresAreBadRows) {
  std::string text{kBurstGpt};
  text += "46,GPT-4,90,0,90,API log\n";
  EXPECT_EQ(fault_of(text), "t.csv:4: Response tokens is 0, must be at least 1");
  ReadReport report;
  EXPECT_EQ(read_text(text, {.skip_bad_rows = true}, &report).value().requests.size(), 2U);
  EXPECT_EQ(report.skipped, std::vector<std::string>{"t.csv:4: Response tokens is 0, must be at least 1"});
}

TEST(TraceFormats, TablesNameTheirColumnsInAnyOfTheUsualWays) {
  struct Case {
    std::string_view header, row;
    core::Duration second_arrival;
  };
  for (const auto& [header, row, arrival] : {
           Case{"arrival_s,input_tokens,output_tokens", "2.5,10,20", std::chrono::milliseconds{2500}},
           Case{"t_s,input_length,output_length", "2.5,10,20", std::chrono::milliseconds{2500}},
           Case{"time_s,prompt_tokens,completion_tokens", "2.5,10,20", std::chrono::milliseconds{2500}},
           Case{"timestamp_s,num_prefill_tokens,num_decode_tokens", "2.5,10,20", std::chrono::milliseconds{2500}},
           Case{"timestamp_ms,ContextTokens,GeneratedTokens", "2.5,10,20", std::chrono::microseconds{2500}},
           Case{"arrival_ms,Input Tokens,OUTPUT-TOKENS", "2.5,10,20", std::chrono::microseconds{2500}},
           Case{"timestamp_us,input_tokens,output_tokens", "2.5,10,20", std::chrono::nanoseconds{2500}},
           Case{"timestamp,input_tokens,output_tokens", "2.5,10,20", std::chrono::milliseconds{2500}},
       }) {
    const std::string zero = "0,1,1";
    const auto workload = read_text(std::string{header} + '\n' + zero + '\n' + std::string{row} + '\n').value();
    EXPECT_EQ(workload.requests[1].arrival - core::kStart, arrival) << header;
    EXPECT_EQ(workload.requests[1].input_tokens, 10U) << header;
    EXPECT_EQ(workload.requests[1].output_tokens, 20U) << header;
  }
}

TEST(TraceFormats, TimestampOfATableMayBeADate) {
  const auto workload =
      read_text("timestamp,input_tokens,output_tokens\n2024-05-10 00:00:00,1,1\n2024-05-10 00:01:00,1,1").value();
  EXPECT_EQ(workload.span(), std::chrono::minutes{1});
}

TEST(TraceFormats, TablesMayNameTenantSessionClassAndPriority) {
  const auto workload = read_text(
                            "client,arrival_s,session,input_tokens,output_tokens,class,priority,"
                            "prefix_hit_tokens\n"
                            "\"b, the second\",0,x,1,1,Batch,-128,7\n"
                            "a,0,y,1,1,interactive,127,0\n"
                            ",0,x,1,1,,,\n")
                            .value();
  EXPECT_EQ(workload.tenants, (std::vector<std::string>{"b, the second", "a", "default"}));
  EXPECT_EQ(workload.requests[2].tenant, 2U);
  EXPECT_EQ(workload.requests[1].session, 1U);
  EXPECT_EQ(workload.requests[2].session, 0U);
  EXPECT_EQ(workload.requests[0].traffic_class, TrafficClass::kBatch);
  EXPECT_EQ(workload.requests[0].priority, -128);
  EXPECT_EQ(workload.requests[1].traffic_class, TrafficClass::kInteractive);
  EXPECT_EQ(workload.requests[1].priority, 127);
  EXPECT_EQ(workload.requests[2].priority, 0);
}

TEST(TraceFormats, PrefixGroupsShareTheirFullBlocks) {
  const auto workload = read_text(
                            "arrival_s,input_tokens,output_tokens,prefix_group,prefix_tokens\n"
                            "0,500,1,docs,200\n1,500,1,code,64\n2,500,1,docs,270\n3,500,1,docs,63\n4,500,1,,\n")
                            .value();
  EXPECT_EQ(workload.block_tokens, 64U);
  EXPECT_EQ(workload.block_ids, (std::vector<std::uint32_t>{0, 1, 2, 3, 0, 1, 2, 4}));
  EXPECT_EQ(workload.requests[2].block_count, 4U);
  EXPECT_EQ(workload.requests[3].block_count, 0U);
  EXPECT_EQ(workload.requests[4].block_count, 0U);
}

TEST(TraceFormats, FormatThatIsGivenIsTheOneThatIsRead) {
  EXPECT_EQ(message_of(kAzure2023, {.format = Format::kCsv}), "");
  EXPECT_EQ(message_of(kAzure2024, {.format = Format::kAzure2023}), "");
  EXPECT_EQ(fault_of(kAzure2023, {.format = Format::kMooncake}), "t.csv:1: is not one JSON object");
  EXPECT_EQ(message_of(kAzure2023, {.format = Format::kBurstGpt}),
            "t.csv:1: the header has no column of input tokens, no column of output tokens; burstgpt calls it "
            "request_tokens; burstgpt calls it response_tokens");
  EXPECT_EQ(fault_of(kBurstGpt, {.format = Format::kAzure2024}),
            "t.csv:1: the header has no column of input tokens, no column of output tokens");
}

TEST(TraceFormats, FormatNamesRoundTrip) {
  for (const auto name : format_names()) EXPECT_EQ(name_of(parse_format(name).value()), name);
  EXPECT_EQ(parse_format("parquet").error().message(),
            "unknown trace format \"parquet\"; use one of auto, mooncake, azure2023, azure2024, burstgpt, csv, "
            "ledger, recorded, agentic, weka, litellm");
}

}  // namespace
}  // namespace penstock::workload
