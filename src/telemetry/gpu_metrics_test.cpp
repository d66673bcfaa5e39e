#include "telemetry/gpu_metrics.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::telemetry {
namespace {

std::vector<GpuFigures> read(std::string_view text) {
  const auto exposition = parse_exposition(text, "dcgm");
  EXPECT_TRUE(exposition) << exposition.error().message();
  return exposition ? read_gpu_metrics(*exposition) : std::vector<GpuFigures>{};
}

// As the exporter shows it on a node of Kubernetes: one pod with two GPUs, another GPU that no pod has.
constexpr std::string_view kNode = R"(# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",Hostname="node-1",container="vllm",namespace="llm",pod="chat-0"} 90
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",Hostname="node-1",container="vllm",namespace="llm",pod="chat-0"} 70
DCGM_FI_DEV_GPU_UTIL{gpu="2",UUID="GPU-c",Hostname="node-1",container="",namespace="",pod=""} 0
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",Hostname="node-1",container="vllm",namespace="llm",pod="chat-0"} 60000
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a",Hostname="node-1",container="vllm",namespace="llm",pod="chat-0"} 20000
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",Hostname="node-1",container="vllm",namespace="llm",pod="chat-0"} 72000
DCGM_FI_DEV_FB_FREE{gpu="1",UUID="GPU-b",Hostname="node-1",container="vllm",namespace="llm",pod="chat-0"} 8000
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",UUID="GPU-a",Hostname="node-1",container="vllm",namespace="llm",pod="chat-0"} 0.5
)";

TEST(GpuMetrics, AreThoseOfEachPod) {
  const auto all = read(kNode);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].pod, "");
  EXPECT_EQ(all[0].host, "node-1");
  EXPECT_EQ(all[0].utilisation, 0.0);
  EXPECT_FALSE(all[0].memory_usage || all[0].bandwidth) << "missing is not zero";
  EXPECT_EQ(all[1].pod, "chat-0");
  EXPECT_EQ(all[1].in_namespace, "llm");
  EXPECT_DOUBLE_EQ(all[1].utilisation.value(), 0.8);
  EXPECT_DOUBLE_EQ(all[1].memory_usage.value(), 0.9) << "of the fullest GPU";
  EXPECT_DOUBLE_EQ(all[1].bandwidth.value(), 0.5);
}

TEST(GpuMetrics, PodsOfTwoNamespacesAreTwo) {
  const auto all = read(
      "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",namespace=\"staging\",pod=\"chat-0\"} 10\n"
      "DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",namespace=\"prod\",pod=\"chat-0\"} 90\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].in_namespace, "prod");
  EXPECT_EQ(all[0].utilisation, 0.9);
  EXPECT_EQ(all[1].in_namespace, "staging");
  EXPECT_EQ(all[1].utilisation, 0.1);
}

TEST(GpuMetrics, TheNamespaceIsThatOfThePodAndNotOfTheExporter) {
  const auto all = read(
      "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",exported_namespace=\"llm\",exported_pod=\"chat-0\",namespace=\"gpu-operator\","
      "pod=\"dcgm-x\"} 10\n"
      "DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",namespace=\"gpu-operator\"} 20\nDCGM_FI_DEV_GPU_UTIL{gpu=\"2\"} 40\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].in_namespace, "");
  EXPECT_DOUBLE_EQ(all[0].utilisation.value(), 0.3) << "no pod has both GPUs";
  EXPECT_EQ(all[1].pod, "chat-0");
  EXPECT_EQ(all[1].in_namespace, "llm");
}

TEST(GpuMetrics, AMigSliceHasTheShareOfItsEngine) {
  const auto all = read(
      "DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\",UUID=\"GPU-a\",GPU_I_ID=\"1\",exported_pod=\"chat-0\",pod=\"dcgm\"} "
      "0.25\n"
      "DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\",UUID=\"GPU-a\",GPU_I_ID=\"2\",exported_pod=\"chat-1\",pod=\"dcgm\"} "
      "0.75\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].pod, "chat-0");
  EXPECT_EQ(all[0].utilisation, 0.25);
  EXPECT_EQ(all[1].utilisation, 0.75);
}

TEST(GpuMetrics, ImpossibleValuesAreMissing) {
  const auto all = read(
      "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 101\nDCGM_FI_DEV_FB_USED{gpu=\"0\"} 5\n"
      "DCGM_FI_DEV_FB_TOTAL{gpu=\"0\"} 4\nDCGM_FI_PROF_DRAM_ACTIVE{gpu=\"0\"} NaN\n");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_FALSE(all[0].utilisation || all[0].memory_usage || all[0].bandwidth);
  EXPECT_TRUE(read("vllm:num_requests_running 3\n").empty());
}

}  // namespace
}  // namespace penstock::telemetry
