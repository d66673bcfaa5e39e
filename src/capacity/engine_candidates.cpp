#include "capacity/engine_candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace penstock::capacity {
namespace {

constexpr std::string_view kRooflineEngine = "roofline:";
constexpr std::uint32_t kReplicaGpusMax = 8;

// A roofline in its parts: "MODEL,GPU[,SETTING=VALUE]…".
struct RooflineText {
  std::string model, gpu;
  std::vector<std::string> settings;

  [[nodiscard]] bool has(std::string_view key) const {
    return std::any_of(settings.begin(), settings.end(), [&](const std::string& setting) {
      return std::string_view{setting}.substr(0, setting.find('=')) == key;
    });
  }
  void set(std::string_view key, std::string_view value) {
    std::erase_if(settings, [&](const std::string& setting) {
      return std::string_view{setting}.substr(0, setting.find('=')) == key;
    });
    settings.push_back(fmt::format("{}={}", key, value));
  }
  [[nodiscard]] std::string text() const {
    std::string made = model + "," + gpu;
    for (const std::string& setting : settings) made += "," + setting;
    return made;
  }
};

RooflineText parts_of(std::string_view text) {
  RooflineText parts;
  for (std::size_t index = 0; !text.empty(); ++index) {
    const std::string part{text.substr(0, text.find(','))};
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    if (index == 0)
      parts.model = part;
    else if (index == 1 && part.find('=') == std::string::npos)
      parts.gpu = part;
    else
      parts.settings.push_back(part);
  }
  return parts;
}

// Figures of a GPU that would be wrong for another one.
std::string own_gpu_figure(const RooflineText& parts) {
  for (const std::string& setting : parts.settings) {
    const std::string key = setting.substr(0, setting.find('='));
    if (key.starts_with("gpu_") && key != "gpu_memory_utilization") return key;
  }
  return {};
}

std::string label_of(const engine::RooflineSpec& spec) {
  std::string label = fmt::format("{} tp={}", spec.gpu->name, spec.tensor_parallel);
  if (spec.pipeline_parallel > 1) label += fmt::format(" pp={}", spec.pipeline_parallel);
  return fmt::format("{} {}", label, engine::name_of(spec.precision));
}

core::Result<void> add_sizes(RooflineText parts, const EngineGrid& grid, std::vector<EngineCandidate>& made) {
  const auto parse = [&] { return engine::parse_roofline_of_any_memory(parts.text()); };
  if (!grid.tensor_parallel.empty())
    std::erase_if(parts.settings, [](const auto& set) { return set.starts_with("tp="); });
  const auto model = parse();
  if (!model) return tl::make_unexpected(model.error());
  std::vector<std::uint32_t> sizes = grid.tensor_parallel;
  const bool is_given = parts.has("tp") || parts.has("pp") || parts.has("attention_ranks");
  if (sizes.empty())
    sizes = is_given ? std::vector{model->spec().tensor_parallel} : tensor_parallel_sizes(model->spec());
  for (const std::uint32_t size : sizes) {
    if (!parts.has("attention_ranks") || !grid.tensor_parallel.empty()) parts.set("tp", std::to_string(size));
    const auto sized = parse();
    if (!sized) return tl::make_unexpected(sized.error());
    made.push_back({std::string{kRooflineEngine} + parts.text(), grid.gpus.empty() ? std::string{} : parts.gpu,
                    label_of(sized->spec())});
  }
  return {};
}

}  // namespace

std::vector<std::uint32_t> tensor_parallel_sizes(const engine::RooflineSpec& spec) {
  std::vector<std::uint32_t> sizes;
  const std::uint32_t node = std::min(spec.gpu->node_gpus, kReplicaGpusMax);
  for (std::uint32_t gpus = 1; gpus <= node && spec.model->heads % gpus == 0; gpus *= 2) sizes.push_back(gpus);
  return sizes;
}

core::Result<std::vector<EngineCandidate>> engine_candidates(std::string_view engine, const EngineGrid& grid) {
  if (!engine.starts_with(kRooflineEngine)) {
    if (!grid.is_empty())
      return core::invalid_input(std::string{engine},
                                 "is no roofline, whose GPU, precision and parallelism can be varied",
                                 "write roofline:MODEL,GPU, or leave the other engines and these lists out");
    return std::vector{EngineCandidate{std::string{engine}, {}, std::string{engine}}};
  }
  RooflineText parts = parts_of(engine.substr(kRooflineEngine.size()));
  if (parts.gpu.empty() && grid.gpus.empty())
    return core::invalid_input("roofline", "needs a model and a GPU", "write roofline:MODEL,GPU");
  if (const std::string figure = own_gpu_figure(parts); !figure.empty() && !grid.gpus.empty())
    return core::invalid_input("roofline: " + figure, "is of one GPU, and several GPU types are compared",
                               "name each engine with its GPU instead");
  const std::vector<std::string> gpus = grid.gpus.empty() ? std::vector{parts.gpu} : grid.gpus;
  std::vector<EngineCandidate> made;
  for (const std::string& gpu : gpus) {
    parts.gpu = gpu;
    if (grid.precisions.empty()) {
      if (auto added = add_sizes(parts, grid, made); !added) return tl::make_unexpected(added.error());
    }
    for (const std::string& precision : grid.precisions) {
      parts.set("precision", precision);
      if (auto added = add_sizes(parts, grid, made); !added) return tl::make_unexpected(added.error());
    }
  }
  return made;
}

}  // namespace penstock::capacity
