#include "connect/policy_state_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace penstock::connect {
namespace {

SavedPolicyState sample() {
  SavedPolicyState saved;
  saved.state.policy = "penstock";
  saved.state.pools = {"prefill", "decode"};
  saved.state.at = core::kStart + std::chrono::seconds{90};
  saved.state.values = "loop 0 penstock 1 0.25";
  saved.saved_unix_ms = 1'700'000'000'000;
  saved.costs = decision::GpuCosts{1'600'000'000'000,
                                   true,
                                   {0.25, 0.5},
                                   {{"decode", std::chrono::hours{3}, 7.5}},
                                   {{{"shop", "m", {10, 20}, {5, 6}}, {1.0, 2.0}, 3.5, 4.5}}};
  saved.start_up = {{"decode", std::chrono::minutes{3}, {std::chrono::seconds{90}, std::chrono::milliseconds{1500}}}};
  return saved;
}

TEST(PolicyStateFile, WhatIsSavedReadsBackTheSame) {
  const std::string path = ::testing::TempDir() + "penstock-policy-state.json";
  std::filesystem::remove(path);
  const auto absent = load_policy_state(path);
  ASSERT_TRUE(absent);
  EXPECT_FALSE(*absent);
  ASSERT_TRUE(save_policy_state(path, sample()));
  const auto read = load_policy_state(path);
  ASSERT_TRUE(read && *read) << (read ? "" : read.error().message());
  EXPECT_EQ(policy_state_text(**read), policy_state_text(sample()));
  EXPECT_EQ((*read)->state.pools, sample().state.pools);
  ASSERT_EQ((*read)->start_up.size(), 1U);
  EXPECT_EQ((*read)->start_up[0].times, sample().start_up[0].times);
}

TEST(PolicyStateFile, ErrorsNameTheFileAndTheField) {
  const auto error_of = [](const std::string& from, const std::string& to) {
    std::string text = policy_state_text(sample());
    text.replace(text.find(from), from.size(), to);
    const auto read = read_policy_state(text, "policy.json");
    return read ? "" : read.error().message();
  };
  const std::string version = fmt::format("\"version\": {}", decision::PolicyState::kVersion);
  EXPECT_EQ(error_of(version, "\"version\": 999"), "");  // The caller of restore() checks the version.
  EXPECT_TRUE(error_of("\"policy\"", "\"plicy\"").starts_with("policy.json: policy: is missing"));
  EXPECT_TRUE(error_of("\"prefill\"", "7").starts_with("policy.json: pools: must be a list of names"));
  EXPECT_NE(error_of("{", "["), "");
  EXPECT_NE(error_of("90000000000", "\"soon\""), "");
  EXPECT_TRUE(error_of("\"input_usd\": 1.0", "\"input_usd\": -1")
                  .starts_with("policy.json: gpu_costs.tenants[0].input_usd: must be 0"));
  EXPECT_EQ(error_of("90000,", "\"long\","), "policy.json: start_up[0].times_ms: must be a list of milliseconds");
  EXPECT_TRUE(
      error_of("\"gpu_costs\": {", "\"gpu_costs\": 7, \"others\": {").starts_with("policy.json: gpu_costs: must"));
}

TEST(PolicyStateFile, AFileOfAnEarlierVersionHasNoCostsAndNoStartUpTimes) {
  SavedPolicyState earlier = sample();
  earlier.costs.reset();
  earlier.start_up.clear();
  const auto read = read_policy_state(policy_state_text(earlier), "policy.json");
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->costs);
  EXPECT_TRUE(read->start_up.empty());
}

}  // namespace
}  // namespace penstock::connect
