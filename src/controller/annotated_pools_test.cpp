#include "controller/annotated_pools.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "logging/log_testing.h"

namespace penstock::controller {
namespace {

using connect::VariantAnnotations;
using logging::Event;

class AnnotatedPoolsTest : public ::testing::Test {
 protected:
  AnnotatedPoolsTest() {
    pools[0].name = "chat";
    pools[0].max_replicas = 64;
    pools[0].gpus_per_replica = 2;
    scaler.object = "HorizontalPodAutoscaler \"chat\"";
    scaler.min_replicas = 2;
    scaler.max_replicas = 10;
    scaler.model = "org/model";
    scaler.cost = 10.0;
    target.object = "deployments.apps \"chat\"";
  }
  std::vector<AnnotationNote> apply(std::vector<std::string> given = {}) {
    const auto is_given = [&](std::size_t, std::string_view key) {
      return std::find(given.begin(), given.end(), key) != given.end();
    };
    return apply_annotations({{scaler, target}}, is_given, pools, model);
  }

  std::vector<signals::Pool> pools = std::vector<signals::Pool>(1);
  std::string model;
  VariantAnnotations scaler, target;
};

TEST_F(AnnotatedPoolsTest, GiveWhatTheConfigurationLeavesOpen) {
  const auto notes = apply();
  EXPECT_EQ(pools[0].min_replicas, 2U);
  EXPECT_EQ(pools[0].max_replicas, 10U);
  EXPECT_EQ(pools[0].price_per_gpu_hour, 5.0) << "the cost is that of a replica with two GPUs";
  EXPECT_EQ(model, "org/model");
  ASSERT_EQ(notes.size(), 4U);
  for (const AnnotationNote& note : notes) EXPECT_EQ(note.ignored_because, "");
}

TEST_F(AnnotatedPoolsTest, TheConfigurationWinsAndADifferenceIsNoted) {
  pools[0].max_replicas = 8;
  model = "mine";
  const auto notes = apply({"max_replicas", "model"});
  EXPECT_EQ(pools[0].max_replicas, 8U);
  EXPECT_EQ(model, "mine");
  EXPECT_EQ(notes.at(0),
            (AnnotationNote{"chat", scaler.object, "maxReplicas", "10", "the configuration gives max_replicas 8"}));
  EXPECT_EQ(notes.at(3), (AnnotationNote{"chat", scaler.object, "llm-d.ai/model-id", "org/model",
                                         "the configuration gives model mine"}));
  pools[0].max_replicas = 10;
  EXPECT_EQ(apply({"max_replicas", "model"}).size(), 3U) << "the same value is no conflict";
}

TEST_F(AnnotatedPoolsTest, TheAutoscalerGoesBeforeTheTarget) {
  target.model = "old";
  target.cost = 10.0;
  const auto notes = apply();
  EXPECT_EQ(model, "org/model");
  ASSERT_EQ(notes.size(), 5U);
  EXPECT_EQ(notes.back(), (AnnotationNote{"chat", target.object, "llm-d.ai/model-id", "old",
                                          "HorizontalPodAutoscaler \"chat\" goes first"}));
}

TEST_F(AnnotatedPoolsTest, BoundsThatContradictEachOtherAreIgnored) {
  pools[0].min_replicas = 20;
  EXPECT_EQ(apply({"min_replicas"}).at(0).ignored_because, "min_replicas is 20");
  EXPECT_EQ(pools[0].max_replicas, 64U);
  scaler.min_replicas = 0;
  EXPECT_EQ(apply().at(1).ignored_because, "");
  EXPECT_EQ(pools[0].min_replicas, 0U);  // It scales to zero.
  EXPECT_EQ(pools[0].max_replicas, 10U);
}

TEST_F(AnnotatedPoolsTest, TwoPoolsAreOfOneModel) {
  pools.push_back(pools[0]);
  pools[1].name = "decode";
  VariantAnnotations other;
  other.object = "other";
  other.model = "another";
  const auto notes = apply_annotations(
      {{scaler}, {other}}, [](std::size_t, std::string_view) { return false; }, pools, model);
  EXPECT_EQ(model, "org/model");
  EXPECT_EQ(notes.back(), (AnnotationNote{"decode", "other", "llm-d.ai/model-id", "another",
                                          "another pool is of the model org/model"}));
}

TEST_F(AnnotatedPoolsTest, AModelThatNoReplicaServesIsAFault) {
  std::vector<VariantAnnotations> annotations{scaler};
  check_models({"other", "org/model"}, annotations);
  EXPECT_EQ(annotations[0], scaler);
  check_models({"other"}, annotations);
  EXPECT_EQ(annotations[0].model, "") << "its traffic would be none";
  EXPECT_EQ(annotations[0].faults, std::vector<std::string>{"llm-d.ai/model-id: replicas serve other, not org/model"});
  annotations = {scaler};
  check_models(models_of(std::nullopt), annotations);
  EXPECT_EQ(annotations[0].model, "") << "the gateway has not answered yet";
  EXPECT_TRUE(annotations[0].faults.empty());
  GatewayState state;
  state.replicas["a"].model = "org/model";
  EXPECT_EQ(models_of(state), std::vector<std::string>{"org/model"});
}

TEST_F(AnnotatedPoolsTest, EachNoteIsLoggedOnceUntilItChanges) {
  logging::testing::CapturedLog log;
  AnnotationLog written;
  scaler.faults = {"llm-d.ai/variant-cost: must be a number of at least 0, is \"x\""};
  pools[0].max_replicas = 8;
  for (int turn = 0; turn < 3; ++turn) written.write(apply({"max_replicas"}), log);
  EXPECT_EQ(log.count(Event::kActuationWarning), 2U);
  EXPECT_EQ(log.count(Event::kActuation), 3U);
  EXPECT_NE(log.lines(Event::kActuationWarning).at(0).find("the configuration gives max_replicas 8"),
            std::string::npos);
  scaler.max_replicas = 12;
  written.write(apply({"max_replicas"}), log);
  EXPECT_EQ(log.count(Event::kActuationWarning), 3U);
}

TEST_F(AnnotatedPoolsTest, TheVariantHasTheNameThatItsAutoscalerReads) {
  const auto name = [&] { return variant_of({scaler, target}, "pool", "deployment", "llm").name; };
  EXPECT_EQ(name(), "deployment");
  scaler.managed_name = "hpa";
  EXPECT_EQ(name(), "hpa");
  target.variant = "label";
  EXPECT_EQ(name(), "label");
  scaler.variant = "read";
  EXPECT_EQ(name(), "read");
  target.accelerator = "H100";
  EXPECT_EQ(variant_of({scaler, target}, "pool", "deployment", "llm").accelerator, "H100");
}

}  // namespace
}  // namespace penstock::controller
