#include "telemetry/frontend_workers.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

namespace penstock::telemetry {
namespace {

constexpr double kFigureMax = 1e12;

// The smallest value of several models.
void keep_smallest(std::optional<double>& smallest, double value) {
  if (!(value > 0.0 && value <= kFigureMax)) return;
  if (!smallest || value < *smallest) smallest = value;
}

}  // namespace

std::optional<FrontendWorkers> read_frontend_workers(const Exposition& exposition) {
  // The front end names workers that had requests, in decimal; its components name all of them, in hexadecimal.
  std::set<std::string_view> of_front_end, of_components;
  std::optional<double> blocks, block_tokens, sequences;
  for (const MetricSample& sample : exposition.samples) {
    const std::string_view name = sample.name;
    if (!name.starts_with("dynamo_")) continue;
    if (name == "dynamo_frontend_model_total_kv_blocks") keep_smallest(blocks, sample.value);
    if (name == "dynamo_frontend_model_kv_cache_block_size") keep_smallest(block_tokens, sample.value);
    if (name == "dynamo_frontend_model_max_num_seqs") keep_smallest(sequences, sample.value);
    if (const auto worker = find_label(sample.labels, "worker_id"); worker && !worker->empty()) {
      std::set<std::string_view>& workers = name.starts_with("dynamo_frontend_") ? of_front_end : of_components;
      if (workers.size() < kFrontendWorkersMax) workers.insert(*worker);
    }
  }
  const std::size_t workers = std::max(of_front_end.size(), of_components.size());
  if (workers == 0) return std::nullopt;
  FrontendWorkers found;
  found.workers = static_cast<std::uint32_t>(workers);
  const auto of_all = [&](double figure) { return static_cast<std::uint64_t>(std::llround(figure)) * workers; };
  if (blocks && block_tokens && *blocks * *block_tokens <= kFigureMax)
    found.kv_tokens = of_all(*blocks * *block_tokens);
  if (sequences) found.max_sequences = of_all(*sequences);
  return found;
}

}  // namespace penstock::telemetry
