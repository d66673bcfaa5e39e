#include "engine/profile.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/engine_data_testing.h"

namespace penstock::engine {
namespace {

core::Result<EngineProfile> read(const std::string& json, const std::string& name = "p.json") {
  const ProfileFile file{name, testing::bytes_of(json)};
  return read_profile({&file, 1});
}

constexpr const char* kPrefill = R"("prefill_isl": [100, 1000], "prefill_ttft_ms": [20, 50])";

std::string with_decode(const std::string& decode) { return std::string{"{"} + kPrefill + ", " + decode + "}"; }

std::string with_prefill(const std::string& prefill) {
  return "{" + prefill + R"(, "decode_active_kv_tokens": [1], "decode_context_length": [1], "decode_itl": [5]})";
}

std::string problem(const std::string& json) {
  const auto profile = read(json);
  return profile ? "" : profile.error().message();
}

TEST(Profile, LimitsOfTheMeasurementAreNoLimitsOfTheEngine) {
  const std::string points = R"("decode_active_kv_tokens": [1], "decode_context_length": [1], "decode_itl": [5])";
  struct Case {
    const char* fields;
    double kv_tokens, sequences;
    bool kv_tokens_at_least, sequences_at_least;
  };
  for (const Case& each : {
           Case{R"("max_kv_tokens": 454144, "max_sequences": 64)", 454'144, 64, false, false},
           Case{R"("max_kv_tokens": 9000, "max_sequences": 4, "max_sequences_from": "measurement")", 9000, 4, false,
                true},
           Case{R"("max_kv_tokens": 9000, "max_kv_tokens_from": "measurement")", 9000, 0, true, false},
           Case{R"("max_kv_tokens": 9000, "max_sequences": 4, "measured": [])", 9000, 4, false, true},
           Case{R"("max_sequences": 4, "max_sequences_from": "metrics", "measured": [])", 0, 4, false, false},
       }) {
    const auto profile = read(with_decode(points + ", " + each.fields));
    ASSERT_TRUE(profile) << profile.error().message();
    EXPECT_EQ(profile->kv_tokens_max, each.kv_tokens) << each.fields;
    EXPECT_EQ(profile->sequences_max, each.sequences) << each.fields;
    EXPECT_EQ(profile->kv_tokens_at_least, each.kv_tokens_at_least) << each.fields;
    EXPECT_EQ(profile->sequences_at_least, each.sequences_at_least) << each.fields;
  }
}

TEST(Profile, SortsScatteredPointsIntoLines) {
  const auto profile = read(with_decode(R"("decode_active_kv_tokens": [900, 100, 500, 200],
      "decode_context_length": [100, 100, 50, 50], "decode_itl": [9, 4, 6, 5])"));
  ASSERT_TRUE(profile) << profile.error().message();
  ASSERT_EQ(profile->decode.size(), 2U);
  EXPECT_EQ(profile->decode[0].context_tokens, 50.0);
  EXPECT_EQ(profile->decode[0].points[0].ms, 5.0);
  EXPECT_EQ(profile->decode[1].points[1].x, 900.0);
  EXPECT_EQ(profile->kv_tokens_max, 0.0);
}

TEST(Profile, ReadsWhatAPromptAddsToAStepThatDecodes) {
  const auto profile =
      read(with_prefill(R"("prefill_isl": [100, 1000], "prefill_ttft_ms": [20, 50], "prefill_added_ms": [15, 45])"));
  ASSERT_TRUE(profile) << profile.error().message();
  ASSERT_EQ(profile->prefill_added.size(), 2U);
  EXPECT_EQ(profile->prefill_added[1].x, 1000.0);
  EXPECT_EQ(profile->prefill_added[1].ms, 45.0);
  EXPECT_EQ(problem(with_prefill(R"("prefill_isl": [1, 2], "prefill_ttft_ms": [20, 50], "prefill_added_ms": [15])")),
            "p.json: prefill_added_ms: has 1 values where p.json: prefill_isl has 2");
  EXPECT_TRUE(read(with_prefill(R"("prefill_isl": [100], "prefill_ttft_ms": [20])"))->prefill_added.empty());
}

TEST(Profile, ReadsAGridByItsTwoAxes) {
  const auto profile =
      read(with_decode(R"("decode_active_kv_tokens": [100, 200, 300], "decode_context_length": [50, 100],
      "decode_itl": [[1, 2], [3, 4], [5, 6]])"));
  ASSERT_TRUE(profile) << profile.error().message();
  ASSERT_EQ(profile->decode.size(), 2U);
  EXPECT_EQ(profile->decode[1].points[2].x, 300.0);
  EXPECT_EQ(profile->decode[1].points[2].ms, 6.0);
}

TEST(Profile, TurnsCacheUseIntoTokens) {
  const std::string decode = R"("x_kv_usage": [0.25], "y_context_length": [10], "z_itl_ms": [5])";
  const auto profile = read(with_decode(decode + R"(, "max_kv_tokens": 4000)"));
  ASSERT_TRUE(profile) << profile.error().message();
  EXPECT_EQ(profile->decode[0].points[0].x, 1000.0);
  EXPECT_EQ(profile->kv_tokens_max, 4000.0);
  EXPECT_EQ(problem(with_decode(decode)),
            "p.json: x_kv_usage: needs max_kv_tokens above 0, to convert usage to tokens");
}

TEST(Profile, NamesHolesAndNumbersThatCannotBe) {
  EXPECT_EQ(problem(with_prefill(R"("prefill_isl": [1, null], "prefill_ttft_ms": [1, 2])")),
            "p.json: prefill_isl[1]: must be a number, is null");
  EXPECT_EQ(problem(with_prefill(R"("prefill_isl": [1, 2], "prefill_ttft_ms": [1, -2])")),
            "p.json: prefill_ttft_ms[1]: must be from 0 to 1e12, is -2");
  EXPECT_EQ(problem(with_prefill(R"("prefill_isl": [1, 2], "prefill_ttft_ms": [1, 0])")),
            "p.json: prefill_ttft_ms[1]: must be above 0 ms");
  EXPECT_EQ(problem(with_prefill(R"("prefill_isl": "x", "prefill_ttft_ms": [1, 0])")),
            "p.json: prefill_isl: must be a list of numbers, is string");
  EXPECT_EQ(problem(with_decode(R"("decode_itl": [[1, 2], [3]])")),
            "p.json: decode_itl[1]: must be a list of 2 numbers; the grid has holes");
  EXPECT_EQ(problem("{\"prefill_isl\": [NaN]}"), "p.json: is not valid JSON");
  const std::string hole = testing::zip({{"prefill_isl.npy", testing::npy_doubles({1, std::nan("")})}});
  EXPECT_EQ(read(hole, "p.npz").error().message(),
            "p.npz: prefill_isl[1]: is a hole (NaN); fill or leave out the point");
}

TEST(Profile, RefusesAxesThatDoNotRise) {
  EXPECT_EQ(problem(with_prefill(R"("prefill_isl": [100, 100], "prefill_ttft_ms": [1, 2])")),
            "p.json: prefill_isl[1]: must be above the one before (100), is 100; sort the profile");
  EXPECT_EQ(problem(with_decode(R"("decode_active_kv_tokens": [200, 100], "decode_context_length": [1],
                                   "decode_itl": [[1], [2]])")),
            "p.json: decode_active_kv_tokens[1]: must be above the one before (200), is 100; sort the profile");
  EXPECT_EQ(problem(with_decode(R"("decode_active_kv_tokens": [5, 5], "decode_context_length": [1, 1],
                                   "decode_itl": [1, 2])")),
            "p.json: decode_active_kv_tokens: has 5 twice at context length 1");
}

TEST(Profile, NamesLengthsThatDiffer) {
  EXPECT_EQ(problem(with_prefill(R"("prefill_isl": [1, 2], "prefill_ttft_ms": [1])")),
            "p.json: prefill_ttft_ms: has 1 values where p.json: prefill_isl has 2");
  EXPECT_EQ(
      problem(with_decode(R"("decode_active_kv_tokens": [1], "decode_context_length": [1], "decode_itl": [[1, 2]])")),
      "p.json: decode_itl: is a grid of 1 by 2 where p.json: decode_active_kv_tokens has 1 values and "
      "p.json: decode_context_length has 1");
}

TEST(Profile, NamesTheFieldThatIsMissing) {
  EXPECT_EQ(problem("{}"),
            "p.json: has no field prefill_isl; a profile needs prefill_isl, prefill_ttft_ms, "
            "decode_active_kv_tokens, decode_context_length and decode_itl");
  EXPECT_EQ(problem("[]"), "p.json: must be a JSON object of lists");
  EXPECT_TRUE(problem(with_prefill(R"("prefill_isl": [], "prefill_ttft_ms": [])"))
                  .starts_with("p.json: prefill_isl: is empty"));
}

TEST(Profile, JoinsPartsOfSeveralFiles) {
  const std::string prefill = std::string{"{"} + kPrefill + "}";
  const std::string decode = testing::zip({{"decode_active_kv_tokens.npy", testing::npy_doubles({10, 20})},
                                           {"decode_context_length.npy", testing::npy_doubles({10, 10})},
                                           {"decode_itl.npy", testing::npy_doubles({4, 5}), true}});
  const ProfileFile files[] = {{"p.json", testing::bytes_of(prefill)}, {"d.npz", testing::bytes_of(decode)}};
  const auto profile = read_profile(files);
  ASSERT_TRUE(profile) << profile.error().message();
  EXPECT_EQ(profile->prefill.size(), 2U);
  EXPECT_EQ(profile->decode[0].points.size(), 2U);
}

}  // namespace
}  // namespace penstock::engine
