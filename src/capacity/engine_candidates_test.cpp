#include "capacity/engine_candidates.h"

#include <gtest/gtest.h>

namespace penstock::capacity {
namespace {

std::vector<std::string> engines(std::string_view engine, const EngineGrid& grid) {
  std::vector<std::string> made;
  const auto candidates = engine_candidates(engine, grid);
  EXPECT_TRUE(candidates) << candidates.error().message();
  if (candidates)
    for (const EngineCandidate& each : *candidates) made.push_back(each.engine);
  return made;
}

TEST(EngineCandidates, ARooflineWithoutParallelismIsComparedOnOneToEightGpus) {
  EXPECT_EQ(engines("roofline:llama-3.1-8b,h100", {}),
            (std::vector<std::string>{"roofline:llama-3.1-8b,h100,tp=1", "roofline:llama-3.1-8b,h100,tp=2",
                                      "roofline:llama-3.1-8b,h100,tp=4", "roofline:llama-3.1-8b,h100,tp=8"}));
  EXPECT_EQ(engines("roofline:llama-3.1-8b,h100,tp=2", {}),
            (std::vector<std::string>{"roofline:llama-3.1-8b,h100,tp=2"}));
}

TEST(EngineCandidates, AGridReplacesWhatTheEngineNames) {
  const EngineGrid grid{{"h100", "l40s"}, {"bf16", "fp8"}, {1}};
  EXPECT_EQ(engines("roofline:llama-3.1-8b,a100,tp=4,backend=sglang", grid),
            (std::vector<std::string>{"roofline:llama-3.1-8b,h100,backend=sglang,precision=bf16,tp=1",
                                      "roofline:llama-3.1-8b,h100,backend=sglang,precision=fp8,tp=1",
                                      "roofline:llama-3.1-8b,l40s,backend=sglang,precision=bf16,tp=1",
                                      "roofline:llama-3.1-8b,l40s,backend=sglang,precision=fp8,tp=1"}));
  const auto made = engine_candidates("roofline:llama-3.1-8b", grid);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(made->at(3).gpu, "l40s");
  EXPECT_EQ(made->at(3).label, "l40s tp=1 fp8");
}

TEST(EngineCandidates, OtherEnginesStayAsTheyAreAndTakeNoGrid) {
  EXPECT_EQ(engines("engine.json", {}), std::vector<std::string>{"engine.json"});
  EXPECT_FALSE(engine_candidates("engine.json", {{"h100"}, {}, {}}));
}

TEST(EngineCandidates, FiguresOfOneGpuAndUnknownNamesAreErrors) {
  EXPECT_EQ(engine_candidates("roofline:llama-3.1-8b,h100,gpu_memory_gib=40", {{"l40s"}, {}, {}}).error().where,
            "roofline: gpu_memory_gib");
  EXPECT_FALSE(engine_candidates("roofline:llama-3.1-8b", {}));
  EXPECT_FALSE(engine_candidates("roofline:llama-3.1-8b,h100x", {}));
  EXPECT_FALSE(engine_candidates("roofline:llama-3.1-8b,h100", {{}, {"fp5"}, {}}));
}

}  // namespace
}  // namespace penstock::capacity
