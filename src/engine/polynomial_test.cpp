#include "engine/polynomial.h"

#include <gtest/gtest.h>

namespace penstock::engine {
namespace {

StepShape shape_of(std::uint64_t prefill, std::uint32_t decoding, std::uint64_t context, std::uint64_t total) {
  StepShape shape;
  shape.prefill_requests = prefill > 0 ? 1 : 0;
  shape.prefill_new_tokens = prefill;
  shape.decode_sequences = decoding;
  shape.decode_context_tokens = context;
  shape.total_kv_tokens = total;
  return shape;
}

double step_ms(const StepShape& shape) { return core::to_milliseconds(Polynomial{}.step(shape)); }

// 4.209989e-07·n² + 1.518344e-02·n + 16.50142
TEST(Polynomial, PrefillFollowsItsParabola) {
  EXPECT_NEAR(step_ms(shape_of(1000, 0, 0, 1)), 0.4209989 + 15.18344 + 16.50142, 1e-6);
  EXPECT_NEAR(step_ms(shape_of(8192, 0, 0, 1)), 28.252798 + 124.382740 + 16.50142, 1e-4);
  EXPECT_NEAR(step_ms(shape_of(1, 0, 0, 1)), 16.516604, 1e-6);
}

// −25.74·p² + 54.01·p + 5.74
TEST(Polynomial, DecodeFollowsTheLengthsOfTheSequences) {
  EXPECT_NEAR(step_ms(shape_of(0, 1, 0, 1000)), 5.74, 1e-9);
  EXPECT_NEAR(step_ms(shape_of(0, 64, 500, 1000)), -6.435 + 27.005 + 5.74, 1e-6);
  EXPECT_NEAR(step_ms(shape_of(0, 64, 1000, 1000)), 34.01, 1e-6);
}

TEST(Polynomial, SharedPrefixesThatExceedTheCacheCountAsAFullCache) {
  EXPECT_NEAR(step_ms(shape_of(0, 64, 3000, 1000)), 34.01, 1e-6);
}

TEST(Polynomial, BlocksInUseCountOnlyByTheRulesOfDynamo13) {
  StepShape shape = shape_of(0, 64, 900, 1000);
  shape.active_kv_tokens = 500;
  EXPECT_NEAR(step_ms(shape), -25.74 * 0.81 + 54.01 * 0.9 + 5.74, 1e-6);
  shape.dynamo_13 = true;
  EXPECT_NEAR(step_ms(shape), 26.31, 1e-6);
  shape.active_kv_tokens = 3000;
  EXPECT_NEAR(step_ms(shape), 1.0, 1e-9);
}

TEST(Polynomial, AMixedStepIsBothPartsOneAfterTheOther) {
  EXPECT_NEAR(step_ms(shape_of(1000, 64, 500, 1000)), 32.1058589 + 26.31, 1e-6);
}

TEST(Polynomial, NumberOfSequencesAloneChangesNothing) {
  EXPECT_EQ(Polynomial{}.step(shape_of(0, 1, 400, 1000)), Polynomial{}.step(shape_of(0, 200, 400, 1000)));
}

}  // namespace
}  // namespace penstock::engine
