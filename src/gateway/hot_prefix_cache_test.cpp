#include "gateway/hot_prefix_cache.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "api/prompt_keys.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;
constexpr core::Instant kNow = core::kStart + 100s;

struct Users {
  explicit Users(HotPrefixCacheOptions made = {}) : hot_prefix_cache(made), options(made) {}

  // A chat with this system prompt and a unique question.
  void ask(const std::string& system, core::Instant now = kNow, const std::string& model = "m") {
    body = fmt::format(R"({{"model":"{}","messages":[{{"role":"system","content":"{}"}},)"
                       R"({{"role":"user","content":"question {} {}"}}]}})",
                       model, system, ++number, std::string(4096, 'q'));
    offer(now);
  }
  void offer(core::Instant now) {
    ASSERT_TRUE(reader.read(api::Endpoint::kChatCompletions, body, request));
    api::prompt_keys(request.text, options.key_tokens * api::kBytesPerToken, keys);
    hot_prefix_cache.offer(request, body, keys, now);
  }

  HotPrefixCache hot_prefix_cache;
  HotPrefixCacheOptions options;
  int number = 0;
  std::string body;
  api::RequestReader reader;
  api::InferenceRequest request;
  std::vector<std::uint64_t> keys;
};

// Of so many whole keys, with the role in front.
std::string system_prompt(char letter, std::size_t keys) { return std::string(keys * 1024 - 7, letter); }

TEST(HotPrefixCache, KeepsWhatSeveralRequestsShareAndNothingElse) {
  Users users;
  for (int i = 0; i < 2; ++i) users.ask(system_prompt('a', 3));
  EXPECT_TRUE(users.hot_prefix_cache.hot("m", kNow).empty());
  users.ask(system_prompt('a', 3));
  users.ask(system_prompt('b', 2));
  const auto hot = users.hot_prefix_cache.hot("m", kNow);
  ASSERT_EQ(hot.size(), 1U);
  EXPECT_EQ(hot[0].hits, 3U);
  EXPECT_EQ(hot[0].text->tokens, 3 * 256U);
  EXPECT_EQ(hot[0].text->keys.size(), 3U);
  EXPECT_EQ(hot[0].text->body.find("question"), std::string::npos) << "of what one user asked, nothing is kept";
}

TEST(HotPrefixCache, ItsBodyHasTheSameKeys) {
  Users users;
  for (int i = 0; i < 3; ++i) users.ask(system_prompt('a', 3));
  const auto hot = users.hot_prefix_cache.hot("m", kNow);
  ASSERT_EQ(hot.size(), 1U);
  users.body = hot[0].text->body;
  users.offer(kNow);
  ASSERT_GE(users.keys.size(), 3U);
  EXPECT_TRUE(std::equal(hot[0].text->keys.begin(), hot[0].text->keys.end(), users.keys.begin()));
}

TEST(HotPrefixCache, SeparatesModels) {
  Users users;
  for (int i = 0; i < 2; ++i)
    for (const char* model : {"m", "n"}) users.ask(system_prompt('a', 1), kNow, model);
  EXPECT_TRUE(users.hot_prefix_cache.hot("", kNow).empty());
  users.ask(system_prompt('a', 1), kNow, "n");
  EXPECT_TRUE(users.hot_prefix_cache.hot("m", kNow).empty());
  EXPECT_EQ(users.hot_prefix_cache.hot("n", kNow).size(), 1U);
}

TEST(HotPrefixCache, ThoseThatSaveMostComeFirstAndStay) {
  HotPrefixCacheOptions options;
  options.prefixes_max = 2;
  options.between_texts = core::Duration{};
  Users users{options};
  for (int i = 0; i < 10; ++i) users.ask(system_prompt('a', 1));
  for (int i = 0; i < 3; ++i) users.ask(system_prompt('b', 2));
  for (int i = 0; i < 5; ++i) users.ask(system_prompt('c', 4));
  const auto hot = users.hot_prefix_cache.hot("m", kNow);
  ASSERT_EQ(hot.size(), 2U);
  EXPECT_EQ(hot[0].text->tokens, 4 * 256U);
  EXPECT_EQ(hot[1].hits, 10U);
}

TEST(HotPrefixCache, StaysWithinItsBytes) {
  HotPrefixCacheOptions options;
  options.bytes_max = 10'000;
  options.text_bytes_max = 4096;
  options.between_texts = core::Duration{};
  Users users{options};
  for (const char letter : {'a', 'b', 'c', 'd'})
    for (int i = 0; i < 3; ++i) users.ask(system_prompt(letter, 8));
  const auto hot = users.hot_prefix_cache.hot("m", kNow);
  EXPECT_EQ(hot.size(), 2U);
  for (const HotPrefix& prefix : hot) EXPECT_LT(prefix.text->body.size(), 5000U);
}

TEST(HotPrefixCache, TakesFewTextsInAShortTime) {
  Users users;
  for (const char letter : {'a', 'b'})
    for (int i = 0; i < 3; ++i) users.ask(system_prompt(letter, 1));
  EXPECT_EQ(users.hot_prefix_cache.hot("m", kNow).size(), 1U);
  users.ask(system_prompt('b', 1), kNow + 1s);
  EXPECT_EQ(users.hot_prefix_cache.hot("m", kNow + 1s).size(), 2U);
}

TEST(HotPrefixCache, AnUnusedPrefixIsNoLongerHot) {
  Users users;
  for (int i = 0; i < 3; ++i) users.ask(system_prompt('a', 1));
  EXPECT_EQ(users.hot_prefix_cache.hot("m", kNow + 29min).size(), 1U);
  EXPECT_TRUE(users.hot_prefix_cache.hot("m", kNow + 31min).empty());
  // Hits of long ago do not count.
  for (int i = 0; i < 2; ++i) users.ask(system_prompt('a', 1), kNow + 40min);
  EXPECT_TRUE(users.hot_prefix_cache.hot("m", kNow + 40min).empty());
}

TEST(HotPrefixCache, ManyUniquePromptsDoNotEvictAHotOne) {
  Users users;
  for (int i = 0; i < 3000; ++i) {
    users.ask(system_prompt('a', 1));
    users.ask(fmt::format("{} {}", i, system_prompt('x', 20)));
  }
  const auto hot = users.hot_prefix_cache.hot("m", kNow);
  ASSERT_FALSE(hot.empty());
  EXPECT_EQ(hot[0].hits, 3000U);
}

}  // namespace
}  // namespace penstock::gateway
