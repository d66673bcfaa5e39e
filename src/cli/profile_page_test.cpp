#include "cli/profile_page.h"

#include <gtest/gtest.h>

#include "engine/linear.h"

namespace penstock::cli {
namespace {

ProfiledReplica measured_replica() {
  ProfiledReplica replica;
  replica.model = std::make_shared<const engine::Linear>(*engine::Linear::make({6.0, 0.05, 0.03, 0.00002}));
  replica.limits = {16, 8192, 200'000};
  replica.traffic = {2000, 200, 0.0};
  replica.slo = {std::chrono::seconds{2}, std::chrono::milliseconds{50}};
  replica.longest_prompt = 8192;
  replica.measured_sequences = 16;
  return replica;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(ProfilePage, ACapacityWithinTheMeasurementHasNoWarning) {
  const std::string page = profile_page(measured_replica());
  EXPECT_TRUE(contains(page, "KV cache of 200,000 tokens, 16 sequences at once,")) << page;
  EXPECT_FALSE(contains(page, "at least")) << page;
  EXPECT_FALSE(contains(page, "warning")) << page;
}

TEST(ProfilePage, ALimitOfTheMeasurementIsNoPropertyOfTheEngine) {
  ProfiledReplica replica = measured_replica();
  replica.sequences_at_least = true;
  const std::string page = profile_page(replica);
  EXPECT_TRUE(contains(page, "at least 16 (limit of the measurement) sequences at once")) << page;
  EXPECT_TRUE(contains(page,
                       "warning: the measurement ended at 16 sequences at once, and the engine may run more: the "
                       "capacity is a lower bound (--max-concurrency)"))
      << page;
}

TEST(ProfilePage, CapacityBeyondTheMeasurementHasWarnings) {
  ProfiledReplica replica = measured_replica();
  replica.limits.max_sequences = 256;
  replica.measured_sequences = 2;
  replica.longest_prompt = 512;
  const std::string page = profile_page(replica);
  EXPECT_TRUE(contains(page, "sequences at once are extrapolated, because at most 2 were measured")) << page;
  EXPECT_TRUE(contains(page,
                       "warning: prompts of 2,000 tokens are extrapolated, because the longest that was measured "
                       "has 512 (--max-prompt)"))
      << page;
  replica.traffic.input_tokens = 500;
  replica.traffic.output_tokens = 100;
  EXPECT_TRUE(contains(profile_page(replica),
                       "warning: contexts of 600 tokens are beyond the longest that was measured, 512 (--max-prompt)"));
}

}  // namespace
}  // namespace penstock::cli
