#include "profiling/progress_file.h"

#include <gtest/gtest.h>

#include "engine/profile.h"
#include "engine/step_time_models.h"

namespace penstock::profiling {
namespace {

const MeasurementId kId{"http://127.0.0.1:8000", "m", {2048, 16}};

ProfilerState some_state() {
  ProfilerState state;
  state.points.push_back({{512, 4, true}, {10.5, 10.25}, {520, 521}});
  state.sequences_max = 6;
  state.kv_tokens_too_many = 9000;
  state.prompt_tokens_per_step = 2048;
  return state;
}

std::string error_of(std::string_view text, const MeasurementId& id = kId) {
  const auto read = read_progress(text, "p.partial", id);
  return read ? std::string{} : read.error().message();
}

TEST(ProgressFile, ReadsWhatItWrote) {
  const auto read = read_progress(progress_text(kId, some_state()), "p.partial", kId);
  ASSERT_TRUE(read.has_value()) << read.error().message();
  ASSERT_EQ(read->points.size(), 1U);
  EXPECT_EQ(read->points[0].point.sequences, 4U);
  EXPECT_EQ(read->points[0].ms, (std::vector<double>{10.5, 10.25}));
  EXPECT_EQ(read->points[0].tokens, (std::vector<double>{520, 521}));
  EXPECT_EQ(read->sequences_max, 6U);
  EXPECT_EQ(read->kv_tokens_too_many, 9000U);
  EXPECT_EQ(read->prompt_tokens_per_step, 2048);
}

TEST(ProfileDocument, SaysWhichLimitsAreThoseOfTheMeasurement) {
  ProfileDocument document;
  document.id = kId;
  document.sequences_max = 4;
  document.sequences_from = "measurement";
  document.kv_tokens_from = "metrics";
  document.warnings = {"the capacity is a lower bound"};
  const std::string points = R"({"prefill_isl": [100, 1000], "prefill_ttft_ms": [20, 50], "decode_itl": [5],
      "decode_active_kv_tokens": [1], "decode_context_length": [1], "max_kv_tokens": 65536})";
  const std::string text = profile_document(points, document, some_state());
  EXPECT_NE(text.find(R"("warnings":["the capacity is a lower bound"])"), std::string::npos) << text;
  const engine::ProfileFile file{"p.json", {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}};
  const auto read = engine::read_profile({&file, 1});
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_TRUE(read->sequences_at_least);
  EXPECT_FALSE(read->kv_tokens_at_least);
  EXPECT_EQ(read->kv_tokens_max, 65'536.0);
}

TEST(ProgressFile, MeasurementsOfSomethingElseAreRefused) {
  const std::string text = progress_text(kId, some_state());
  MeasurementId other = kId;
  other.endpoint = "http://127.0.0.1:9000";
  EXPECT_EQ(error_of(text, other),
            "p.partial: has measurements of http://127.0.0.1:8000, not of http://127.0.0.1:9000; remove it to measure "
            "from the start");
  other = kId;
  other.model = "n";
  EXPECT_NE(error_of(text, other).find("of the model m, not of n"), std::string::npos);
  other = kId;
  other.grid.prompt_tokens = 4096;
  EXPECT_NE(error_of(text, other).find("prompts up to 2048 tokens, not 4096"), std::string::npos);
}

TEST(ProgressFile, DamagedTextsAreRefused) {
  const std::string whole = progress_text(kId, some_state());
  for (std::size_t size = 0; size + 2 < whole.size(); size += 7)
    EXPECT_NE(error_of(whole.substr(0, size)).find("is not a file of unfinished measurements"), std::string::npos);
  EXPECT_NE(error_of("[1]"), "");
  EXPECT_NE(error_of(R"({"unfinished_profile":2})").find("another version"), std::string::npos);
}

TEST(ProgressFile, IsNotReadAsAProfile) {
  const std::string text = progress_text(kId, some_state());
  const engine::ProfileFile file{"p.partial", {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}};
  const auto model = engine::make_table_model({&file, 1});
  ASSERT_FALSE(model.has_value());
  EXPECT_NE(model.error().message().find("has no field prefill_isl"), std::string::npos) << model.error().message();
}

}  // namespace
}  // namespace penstock::profiling
