#include "load/request_writer.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "api/prompt_keys.h"
#include "load/prompt_text.h"
#include "net/http.h"

namespace penstock::load {
namespace {

std::string prompt(const RequestShape& shape, std::uint64_t seed, std::uint64_t number) {
  std::string text;
  append_prompt(text, shape, seed, number);
  return text;
}

std::size_t common(const std::string& left, const std::string& right) {
  std::size_t size = 0;
  while (size < std::min(left.size(), right.size()) && left[size] == right[size]) ++size;
  return size;
}

TEST(PromptText, IsFourBytesATokenAndReadsAsWords) {
  for (const std::uint32_t tokens : {1U, 3U, 4U, 5U, 1000U}) {
    const std::string text = prompt({.input_tokens = tokens}, 1, 0);
    ASSERT_EQ(text.size(), tokens * 4);
    EXPECT_EQ(api::simulated_tokens(text.size()), tokens);
    for (std::size_t i = 0; i < text.size(); ++i) EXPECT_TRUE(i % 4 == 0 ? text[i] == ' ' : std::islower(text[i])) << i;
  }
}

TEST(PromptText, OfSharedBlocksIsSharedAndNoFurther) {
  const std::array<std::uint32_t, 3> left_ids{4, 5, 6}, right_ids{4, 5, 7};
  const std::string left = prompt({.input_tokens = 350, .blocks = left_ids, .block_tokens = 100}, 1, 10);
  const std::string right = prompt({.input_tokens = 390, .blocks = right_ids, .block_tokens = 100}, 1, 11);
  EXPECT_EQ(left.size(), 350U * 4);
  const std::size_t shared = common(left, right);
  EXPECT_GE(shared, 200U * 4);
  EXPECT_LT(shared, 203U * 4) << "beyond the shared blocks only by chance";
}

TEST(PromptText, OfTheSameRequestIsTheSameAndOfAnotherSeedIsNot) {
  const std::array<std::uint32_t, 1> ids{4};
  const RequestShape shape{.input_tokens = 300, .blocks = ids, .block_tokens = 200};
  EXPECT_EQ(prompt(shape, 1, 5), prompt(shape, 1, 5));
  EXPECT_LT(common(prompt(shape, 1, 5), prompt(shape, 2, 5)), 16U);
  EXPECT_LT(common(prompt(shape, 1, 5), prompt(shape, 1, 6)), 204U * 4);
}

TEST(PromptText, ShorterThanItsPrefixIsAPieceOfIt) {
  const std::array<std::uint32_t, 1> ids{4};
  const std::string shorter = prompt({.input_tokens = 50, .blocks = ids, .block_tokens = 200}, 1, 1);
  const std::string longer = prompt({.input_tokens = 300, .blocks = ids, .block_tokens = 200}, 1, 2);
  EXPECT_TRUE(longer.starts_with(shorter));
}

TEST(RequestWriter, WritesAChatThatReadsBack) {
  Dialect dialect;
  dialect.host_field = "h:1";
  dialect.path_prefix = "/x";
  dialect.model = "a \"model\"";
  dialect.senders = {{"one", ""}, {"two", "sk-2"}};
  dialect.send_class = true;
  const Message message = write_request(
      dialect, {.input_tokens = 9, .output_tokens = 17, .tenant = 1, .traffic_class = workload::TrafficClass::kBatch},
      3);
  net::RequestHead head;
  ASSERT_EQ(net::parse_request_head(message.head, head).state, net::HeadState::kComplete);
  EXPECT_EQ(head.target, "/x/v1/chat/completions");
  EXPECT_EQ(head.content_length, message.body.size());
  EXPECT_EQ(head.field("authorization"), "Bearer sk-2");
  EXPECT_EQ(head.field("x-traffic-class"), "batch");
  const auto body = nlohmann::json::parse(message.body);
  EXPECT_EQ(body["model"], "a \"model\"");
  EXPECT_EQ(body["max_tokens"], 17);
  EXPECT_EQ(body["ignore_eos"], true);
  EXPECT_EQ(body["stream"], true);
  EXPECT_EQ(body["stream_options"]["include_usage"], true);
  EXPECT_EQ(body["messages"][0]["content"].get<std::string>().size(), 36U);
}

TEST(RequestWriter, LeavesOutWhatIsNotWanted) {
  Dialect dialect;
  dialect.host_field = "h:1";
  dialect.model = "m";
  dialect.endpoint = api::Endpoint::kCompletions;
  dialect.ignore_eos = false;
  const Message message = write_request(dialect, {.input_tokens = 2, .stream = false}, 0);
  net::RequestHead head;
  ASSERT_EQ(net::parse_request_head(message.head, head).state, net::HeadState::kComplete);
  EXPECT_EQ(head.target, "/v1/completions");
  EXPECT_FALSE(head.has_field("authorization"));
  EXPECT_FALSE(head.has_field("x-traffic-class"));
  const auto body = nlohmann::json::parse(message.body);
  EXPECT_FALSE(body.contains("ignore_eos"));
  EXPECT_FALSE(body.contains("stream_options"));
  EXPECT_EQ(body["stream"], false);
  EXPECT_EQ(body["prompt"].get<std::string>().size(), 8U);
}

}  // namespace
}  // namespace penstock::load
