#include "telemetry/gpu_metrics.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace penstock::telemetry {
namespace {

enum Series : std::size_t { kUtil, kEngineActive, kUsed, kFree, kTotal, kDramActive, kSeries };

struct SeriesRule {
  std::string_view name;
  Series series;
  double max;  // A share has 1, a percentage 100.
};
constexpr double kBytesMax = 1e9;  // In MiB.
constexpr std::array kRules = {
    SeriesRule{"DCGM_FI_DEV_GPU_UTIL", kUtil, 100.0},
    SeriesRule{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", kEngineActive, 1.0},
    SeriesRule{"DCGM_FI_DEV_FB_USED", kUsed, kBytesMax},
    SeriesRule{"DCGM_FI_DEV_FB_FREE", kFree, kBytesMax},
    SeriesRule{"DCGM_FI_DEV_FB_TOTAL", kTotal, kBytesMax},
    SeriesRule{"DCGM_FI_PROF_DRAM_ACTIVE", kDramActive, 1.0},
};

using Gpu = std::array<std::optional<double>, kSeries>;

std::string label_of(const MetricSample& sample, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const auto value = find_label(sample.labels, name); value && !value->empty()) return unescape_label(*value);
  return {};
}

struct Mean {
  double sum = 0.0;
  int count = 0;
  void add(std::optional<double> value) {
    if (!value) return;
    sum += *value;
    ++count;
  }
  [[nodiscard]] std::optional<double> value() const { return count == 0 ? std::nullopt : std::optional{sum / count}; }
};

std::optional<double> utilisation_of(const Gpu& gpu) {
  return gpu[kUtil] ? std::optional{*gpu[kUtil] / 100.0} : gpu[kEngineActive];
}

std::optional<double> memory_usage_of(const Gpu& gpu) {
  if (!gpu[kUsed] || (!gpu[kFree] && !gpu[kTotal])) return std::nullopt;
  const double total = gpu[kTotal] ? *gpu[kTotal] : *gpu[kUsed] + *gpu[kFree];
  return total > 0.0 && *gpu[kUsed] <= total ? std::optional{*gpu[kUsed] / total} : std::nullopt;
}

}  // namespace

std::vector<GpuFigures> read_gpu_metrics(const Exposition& exposition) {
  // By pod, namespace and host, then by GPU and MIG slice.
  std::map<std::tuple<std::string, std::string, std::string>, std::map<std::string, Gpu>> owners;
  for (const MetricSample& sample : exposition.samples) {
    const auto rule =
        std::find_if(kRules.begin(), kRules.end(), [&](const auto& each) { return each.name == sample.name; });
    if (rule == kRules.end() || !(sample.value >= 0.0 && sample.value <= rule->max)) continue;
    const std::string gpu = label_of(sample, {"UUID", "gpu"}) + "/" + label_of(sample, {"GPU_I_ID"});
    // A Prometheus server without honor_labels calls the exporter's own pod `pod`.
    std::string pod = label_of(sample, {"exported_pod", "pod"});
    std::string in_namespace = pod.empty() ? pod : label_of(sample, {"exported_namespace", "namespace"});
    std::tuple owner{std::move(pod), std::move(in_namespace), label_of(sample, {"Hostname"})};
    owners[std::move(owner)][gpu][rule->series] = sample.value;
  }
  std::vector<GpuFigures> all;
  for (const auto& [owner, gpus] : owners) {
    const auto& [pod, in_namespace, host] = owner;
    GpuFigures figures{pod, in_namespace, host, {}, {}, {}};
    Mean utilisation, bandwidth;
    for (const auto& [name, gpu] : gpus) {
      utilisation.add(utilisation_of(gpu));
      bandwidth.add(gpu[kDramActive]);
      if (const auto usage = memory_usage_of(gpu))
        figures.memory_usage = std::max(*usage, figures.memory_usage.value_or(0.0));
    }
    figures.utilisation = utilisation.value();
    figures.bandwidth = bandwidth.value();
    all.push_back(std::move(figures));
  }
  return all;
}

}  // namespace penstock::telemetry
