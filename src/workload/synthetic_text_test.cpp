#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "workload/synthetic.h"

namespace penstock::workload {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

std::string message(std::string_view text) {
  const auto spec = parse_synthetic(text);
  return spec ? "" : spec.error().message();
}

TEST(SyntheticText, TheKindAloneIsAllDefaults) {
  const auto spec = parse_synthetic("synthetic");
  ASSERT_TRUE(spec.has_value());
  EXPECT_EQ(spec->name, "synthetic");
  EXPECT_EQ(spec->duration, minutes{10});
  EXPECT_EQ(spec->rate.low, 1.0);
  EXPECT_EQ(spec->requests_max, 0U);
}

TEST(SyntheticText, EveryWordSetsItsSetting) {
  const auto spec = parse_synthetic(
      "synthetic:name=mine,rate=2..20,shape=burst,at=5m,length=90s,duration=1h30m,requests=7,cv=2.5,input=900,input_cv="
      "0.5,"
      "input_max=5000,output=80,output_cv=0.25,output_max=700,tenants=3,batch=25%,prefix_groups=4,prefix_tokens=600,"
      "turns=2.5,"
      "think=1500ms,block=64");
  ASSERT_TRUE(spec.has_value()) << spec.error().message();
  EXPECT_EQ(spec->name, "mine");
  EXPECT_EQ(spec->rate.shape, RateShape::kBurst);
  EXPECT_EQ(spec->rate.low, 2.0);
  EXPECT_EQ(spec->rate.high, 20.0);
  EXPECT_EQ(spec->rate.at, minutes{5});
  EXPECT_EQ(spec->rate.length, seconds{90});
  EXPECT_EQ(spec->duration, minutes{90});
  EXPECT_EQ(spec->requests_max, 7U);
  EXPECT_EQ(spec->arrival_cv, 2.5);
  EXPECT_EQ(spec->input.mean, 900.0);
  EXPECT_EQ(spec->input.cv, 0.5);
  EXPECT_EQ(spec->input.max, 5000U);
  EXPECT_EQ(spec->output.mean, 80.0);
  EXPECT_EQ(spec->output.cv, 0.25);
  EXPECT_EQ(spec->output.max, 700U);
  EXPECT_EQ(spec->tenants, 3U);
  EXPECT_EQ(spec->batch_share, 0.25);
  EXPECT_EQ(spec->prefix_groups, 4U);
  EXPECT_EQ(spec->prefix_tokens, 600U);
  EXPECT_EQ(spec->turns, 2.5);
  EXPECT_EQ(spec->think_time, milliseconds{1500});
  EXPECT_EQ(spec->block_tokens, 64U);
}

TEST(SyntheticText, BlanksAroundWordsDoNotCount) {
  EXPECT_EQ(parse_synthetic("synthetic: rate = 5 , cv = 0 ")->rate.low, 5.0);
}

TEST(SyntheticText, ANumberOfRequestsWithoutADurationLastsUntilAllHaveCome) {
  const auto spec = parse_synthetic("synthetic:requests=100000,input=1000,output=250,rate=200");
  ASSERT_TRUE(spec.has_value());
  EXPECT_EQ(spec->duration, kDurationMax);
  EXPECT_EQ(make_synthetic(*spec, 1)->requests.size(), 100'000U);
}

TEST(SyntheticText, TheRateCurveScalesWithTheDuration) {
  const auto ramp = parse_synthetic("synthetic:rate=2..20,duration=1h,at=10m");
  EXPECT_EQ(ramp->rate.shape, RateShape::kRamp);
  EXPECT_EQ(ramp->rate.length, minutes{50});
  const auto step = parse_synthetic("synthetic:rate=2..20,shape=step,duration=1h");
  EXPECT_EQ(step->rate.at, minutes{30});
  const auto burst = parse_synthetic("synthetic:rate=2..20,shape=burst,duration=1h");
  EXPECT_EQ(burst->rate.at, minutes{30});
  EXPECT_EQ(burst->rate.length, minutes{6});
  const auto day = parse_synthetic("synthetic:rate=2..20,shape=diurnal,duration=48h,period=1d");
  EXPECT_EQ(day->rate.length, hours{24});
  const auto counted = parse_synthetic("synthetic:rate=5..15,requests=36000");
  EXPECT_EQ(counted->rate.length, hours{1});
}

TEST(SyntheticText, LengthsComeFromAFile) {
  const auto path = std::filesystem::path{::testing::TempDir()} / "synthetic_text_test_lengths.csv";
  std::ofstream{path} << "input_tokens,output_tokens\n100,10\n200,20\n";
  const auto spec = parse_synthetic("synthetic:lengths=" + path.string());
  ASSERT_TRUE(spec.has_value()) << spec.error().message();
  ASSERT_EQ(spec->lengths.size(), 2U);
  EXPECT_EQ(spec->lengths[1].input_tokens, 200U);
  EXPECT_EQ(spec->lengths[1].output_tokens, 20U);
  std::filesystem::remove(path);
  const auto missing = parse_synthetic("synthetic:lengths=" + path.string());
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, core::ErrorCode::kEnvironment);
  EXPECT_EQ(missing.error().where, "synthetic: lengths: " + path.string());
}

TEST(SyntheticText, MisspeltWordsAreErrorsWithTheNearestAndAllThereAre) {
  EXPECT_EQ(
      message("synthetic:inptu=5"),
      "synthetic: unknown setting \"inptu\"; did you mean input? there are name, rate, shape, at, length, period, "
      "duration, requests, cv, input, input_cv, input_max, output, output_cv, output_max, lengths, tenants, batch, "
      "prefix_groups, prefix_tokens, turns, think, block");
  EXPECT_NE(message("synthetic:prefix_group=5").find("did you mean prefix_groups?"), std::string::npos);
  EXPECT_EQ(message("synthetic:speed=5").find("did you mean"), std::string::npos);
  EXPECT_EQ(message("synthetic:=5").find("did you mean"), std::string::npos);
}

TEST(SyntheticText, ErrorsNameTheWordAndItsValue) {
  const std::pair<const char*, const char*> rows[] = {
      {"synthetic:rate=fast", "synthetic: rate: must be a number, is \"fast\""},
      {"synthetic:rate=2..", "synthetic: rate: must be one rate or two like 2..20, is \"2..\""},
      {"synthetic:rate=-1", "synthetic: rate: must be a number, is \"-1\""},
      {"synthetic:rate=inf", "synthetic: rate: must be a number, is \"inf\""},
      {"synthetic:rate=0", "synthetic: rate: must be above 0"},
      {"synthetic:rate=2..20,shape=constant", "synthetic: rate: must be one rate where shape is constant"},
      {"synthetic:rate=2,shape=ramp", "synthetic: rate: must be two rates like 2..20 where shape is not constant"},
      {"synthetic:shape=square",
       "synthetic: shape: must be constant or ramp or step or burst or diurnal, is \"square\""},
      {"synthetic:at=5m", "synthetic: at: does not apply to a constant rate; give a shape and rate=2..20"},
      {"synthetic:rate=1..2,shape=step,length=5m", "synthetic: length: does not apply to a constant rate or to steps"},
      {"synthetic:duration=10", "synthetic: duration: must be a time like 90s, 1h30m or 500ms, is \"10\""},
      {"synthetic:duration=10x", "synthetic: duration: must be a time like 90s, 1h30m or 500ms, is \"10x\""},
      {"synthetic:duration=", "synthetic: duration: must be a time like 90s, 1h30m or 500ms, is \"\""},
      {"synthetic:duration=m", "synthetic: duration: must be a time like 90s, 1h30m or 500ms, is \"m\""},
      {"synthetic:duration=99999d", "synthetic: duration: must be a time like 90s, 1h30m or 500ms, is \"99999d\""},
      {"synthetic:duration=0", "synthetic: duration: must be above 0 and at most ten years"},
      {"synthetic:requests=1.5", "synthetic: requests: must be a whole number, is \"1.5\""},
      {"synthetic:requests=0", "synthetic: requests: must be at least 1, is 0"},
      {"synthetic:tenants=-1", "synthetic: tenants: must be a whole number, is \"-1\""},
      {"synthetic:tenants=4294967296", "synthetic: tenants: must be a whole number, is \"4294967296\""},
      {"synthetic:batch=many", "synthetic: batch: must be a share like 0.3 or 30%, is \"many\""},
      {"synthetic:batch=101%", "synthetic: batch: must be between 0 and 1, is 1.01"},
      {"synthetic:name=", "synthetic: name: must be 1 to 60 letters on one line, is \"\""},
      {"synthetic:rate=1,rate=2", "synthetic: rate: is given twice"},
      {"synthetic:length=1m,period=2m,rate=1..2", "synthetic: period: duplicates length"},
      {"synthetic:rate",
       "synthetic: expected setting=value, found \"rate\"; for example synthetic:rate=5,duration=10m"},
      {"synthetic:", "synthetic: expected setting=value, found \"\"; for example synthetic:rate=5,duration=10m"},
      {"synthetic:rate=1,", "synthetic: expected setting=value, found \"\"; for example synthetic:rate=5,duration=10m"},
      {"synthetics", "synthetic: does not begin with synthetic: \"synthetics\""},
  };
  for (const auto& [text, expected] : rows) EXPECT_EQ(message(text), expected) << text;
}

}  // namespace
}  // namespace penstock::workload
