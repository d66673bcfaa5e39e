// Published traces, where they lie beside the repository; without them a sample of the same kind.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "core/source_root_testing.h"
#include "workload/reader.h"
#include "workload/reader_testing.h"

namespace penstock::workload {
namespace {

struct Expected {
  std::size_t requests = 0, tenants = 0, blocks = 0;
  Format format = Format::kCsv;
  core::Seconds span{};
};

std::string published(std::string_view name) {
  return (core::testing::source_root().parent_path() / "shared/traces" / name).string();
}

// False where the trace is not there.
bool check_published(std::string_view name, const Expected& expected) {
  const std::string path = published(name);
  if (!std::filesystem::exists(path)) return false;
  ReadReport report;
  const auto workload = read_workload(path, {}, &report);
  EXPECT_TRUE(workload) << (workload ? "" : workload.error().message());
  if (!workload) return true;
  EXPECT_EQ(workload->requests.size(), expected.requests);
  EXPECT_EQ(workload->tenants.size(), expected.tenants);
  EXPECT_EQ(workload->block_ids.size(), expected.blocks);
  EXPECT_EQ(report.format, expected.format);
  EXPECT_EQ(report.rows, expected.requests);
  EXPECT_NEAR(core::Seconds{workload->span()}.count(), expected.span.count(), 0.05);
  return true;
}

// ServeGen's way: arrivals in milliseconds, several clients, many rows.
std::string servegen_sample(int rows) {
  std::string text = "arrival_s,client,input_tokens,output_tokens\n";
  for (int i = 0; i < rows; ++i)
    text += std::to_string(i / 1000) + "." + std::to_string(100 + i % 900) + "," + std::to_string(i % 45) + ",979,27\n";
  return text;
}

TEST(PublishedTraces, MooncakeConversation) {
  if (check_published("mooncake_conversation.jsonl.xz", {12'031, 1, 288'500, Format::kMooncake, core::Seconds{3537.0}}))
    return;
  const auto sample = testing::xz(
      "{\"timestamp\": 27, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": "
      "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]}\n");
  EXPECT_EQ(read_workload_bytes("sample", sample, {}).value().block_ids.size(), 14U);
}

TEST(PublishedTraces, Azure2023Code) {
  if (check_published("azure2023_code.csv.xz", {8'819, 1, 0, Format::kAzure2023, core::Seconds{3435.9}})) return;
  const auto sample = testing::xz("TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n");
  EXPECT_EQ(read_workload_bytes("sample", sample, {}).value().requests.size(), 1U);
}

TEST(PublishedTraces, ServeGenMidDay) {
  if (check_published("servegen_mid_day1.csv.xz", {613'525, 45, 0, Format::kCsv, core::Seconds{86'398.8}})) return;
  EXPECT_EQ(read_workload_bytes("sample", testing::xz(servegen_sample(900)), {}).value().requests.size(), 900U);
}

TEST(PublishedTraces, ServeGenMidDayThinned) {
  if (check_published("servegen_mid_day1_thinned.csv.zst", {389'564, 47, 0, Format::kCsv, core::Seconds{86'399.9}}))
    return;
  EXPECT_EQ(read_workload_bytes("sample", testing::zstd(servegen_sample(900)), {}).value().tenants.size(), 45U);
}

TEST(PublishedTraces, AibrixHasBlankOutputsWhichMayBeSkipped) {
  const std::string path = published("aibrix_8min_up_and_down.csv.zst");
  const bool is_there = std::filesystem::exists(path);
  const std::string sample = "timestamp_ms,input_tokens,output_tokens\n6011,178,8\n6917,258,\n";
  const auto read = [&](const ReadOptions& options, ReadReport* report = nullptr) {
    return is_there ? read_workload(path, options, report) : testing::read_text(sample, options, report);
  };
  const auto strict = read({});
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().what, "output_tokens is blank");
  EXPECT_NE(strict.error().hint.find("--skip-bad-rows"), std::string::npos);
  ReadReport report;
  const auto workload = read({.skip_bad_rows = true}, &report).value();
  EXPECT_EQ(workload.requests.size(), is_there ? 2'024U : 1U);
  EXPECT_EQ(report.skipped_rows, is_there ? 2U : 1U);
}

TEST(PublishedTraces, RequestsOfSessionsCannotBeReplayedWithoutTheStartsOfThese) {
  if (!std::filesystem::exists(published("claude_code_requests.csv.zst"))) return;
  const auto workload = read_workload(published("claude_code_requests.csv.zst"), {.skip_bad_rows = true});
  ASSERT_FALSE(workload);
  EXPECT_NE(workload.error().what.find("arrival time of the session is missing"), std::string::npos)
      << workload.error().what;
}
TEST(PublishedTraces, SessionsOfClaudeCodeBecomeTurnsThatWait) {
  if (!std::filesystem::exists(published("claude_code_sessions.jsonl.zst"))) return;
  const auto workload = read_workload(published("claude_code_sessions.jsonl.zst"), {.session_rate = 0.1});
  ASSERT_TRUE(workload) << workload.error().message();
  EXPECT_EQ(workload->requests.size(), 32'746U);  // As in claude_code_requests.
  EXPECT_GE(workload->waits.size(), 32'746U - 1000U);
}

}  // namespace
}  // namespace penstock::workload
