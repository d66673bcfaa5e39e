// The text form of a roofline.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/kv_memory.h"
#include "engine/model_config.h"
#include "engine/roofline.h"

namespace penstock::engine {
namespace {

using core::invalid_input;

constexpr const char* kWhere = "roofline";
// What to do without the catalogue.
constexpr const char* kModelByHand =
    "; for others give the path of its config.json, such as ./config.json, or a measured profile FILE.json";
constexpr const char* kGpuByHand =
    "; for others give gpu_memory_gib, gpu_bandwidth_gb_s and gpu_bf16_tflops, or a measured profile FILE.json";
constexpr const char* kForm = "write roofline:MODEL,GPU,tp=N,precision=P,backend=B";

constexpr std::size_t kNearest = 3;

// Insertions, deletions and replacements that make one text the other, without regard to case.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

// The names that differ least, then all of them.
template <class Cards>
std::string names_near(std::string_view name, const Cards& cards) {
  name = name.substr(name.rfind('/') + 1).substr(0, 128);  // Without the organisation.
  std::vector<std::string_view> names;
  for (const auto& card : cards) names.push_back(card.name);
  std::vector<std::string_view> near = names;
  // Names that begin alike are of one family.
  const auto difference = [&](std::string_view other) {
    const auto alike = std::mismatch(name.begin(), name.end(), other.begin(), other.end()).first - name.begin();
    return static_cast<std::ptrdiff_t>(edit_distance(name, other)) - alike;
  };
  std::stable_sort(near.begin(), near.end(),
                   [&](std::string_view a, std::string_view b) { return difference(a) < difference(b); });
  near.resize(std::min(near.size(), kNearest));
  return fmt::format("nearest: {}; known: {}", fmt::join(near, ", "), fmt::join(names, " "));
}

template <class T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

struct Override {
  std::string_view key;
  double RooflineEfficiency::*figure;
  double low, high;
};
constexpr Override kOverrides[] = {
    {"bandwidth", &RooflineEfficiency::bandwidth, 0.01, 1.0},
    {"compute", &RooflineEfficiency::compute, 0.01, 1.0},
    {"layer_us", &RooflineEfficiency::layer_overhead_us, 0.0, 1e6},
    {"sequence_us", &RooflineEfficiency::sequence_overhead_us, 0.0, 1e6},
    {"interconnect", &RooflineEfficiency::interconnect, 0.01, 1.0},
};

struct Setting {
  std::string_view key, value;
};

tl::expected<void, core::Error> apply(RooflineSpec& spec, const Setting& setting) {
  const auto& [key, value] = setting;
  const std::string where = fmt::format("{}: {}", kWhere, key);
  if (key == "tp" || key == "pp" || key == "attention_ranks") {
    std::uint32_t& count = key == "tp"   ? spec.tensor_parallel
                           : key == "pp" ? spec.pipeline_parallel
                                         : spec.attention_ranks;
    if (!parse_number(value, count) || count < 1 || count > 256)
      return invalid_input(where, fmt::format("must be from 1 to 256, is '{}'", value));
  } else if (key == "precision") {
    if (!parse_precision(value, spec.precision))
      return invalid_input(where, fmt::format("'{}' is unknown", value), "use bf16, fp8, fp4 or int4");
  } else if (key == "backend") {
    if (!parse_backend(value, spec.backend))
      return invalid_input(where, fmt::format("'{}' is unknown", value), "use vllm, sglang or trtllm");
  } else if (key == "release") {
    spec.release = value;
  } else if (key == "kv_cache_dtype") {
    Precision precision{};
    if (!parse_precision(value, precision) || (precision != Precision::kBf16 && precision != Precision::kFp8))
      return invalid_input(where, fmt::format("must be bf16 or fp8, is '{}'", value));
    spec.kv_cache = precision;
  } else if (key == "gpu_memory_utilization") {
    if (!parse_number(value, spec.memory_utilization) ||
        !(spec.memory_utilization > 0.0 && spec.memory_utilization <= 1.0))
      return invalid_input(where, fmt::format("must be above 0 and at most 1, is '{}'", value));
  } else if (key == "overhead_gib") {
    double gib = 0.0;
    if (!parse_number(value, gib) || !(gib >= 0.0 && gib <= 1024.0))
      return invalid_input(where, fmt::format("must be from 0 to 1024, is '{}'", value));
    spec.overhead_gib = gib;
  } else {
    return invalid_input(where, "unknown setting",
                         "use tp, pp, attention_ranks, precision, backend, release, bandwidth, compute, layer_us, "
                         "sequence_us, interconnect, gpu_memory_utilization, overhead_gib, kv_cache_dtype, "
                         "gpu_memory_gib, gpu_bandwidth_gb_s, gpu_bf16_tflops, gpu_fp8_tflops, gpu_fp4_tflops or "
                         "gpu_interconnect_gb_s");
  }
  return {};
}

tl::expected<void, core::Error> apply(RooflineEfficiency& efficiency, const Override& each, std::string_view value) {
  double& figure = efficiency.*each.figure;
  if (!parse_number(value, figure) || !(figure >= each.low && figure <= each.high))
    return invalid_input(fmt::format("{}: {}", kWhere, each.key),
                         fmt::format("must be from {} to {}, is '{}'", each.low, each.high, value));
  return {};
}

struct GpuFigure {
  std::string_view key;
  double GpuCard::*figure;
  double low, high;
};
constexpr GpuFigure kGpuFigures[] = {
    {"gpu_memory_gib", &GpuCard::driver_gib, 1.0, 4096.0},
    {"gpu_bandwidth_gb_s", &GpuCard::bandwidth_gb_per_s, 1.0, 1e6},
    {"gpu_bf16_tflops", &GpuCard::bf16_tflops, 0.1, 1e6},
    {"gpu_fp8_tflops", &GpuCard::fp8_tflops, 0.1, 1e6},
    {"gpu_fp4_tflops", &GpuCard::fp4_tflops, 0.1, 1e6},
    {"gpu_interconnect_gb_s", &GpuCard::interconnect_gb_per_s, 0.1, 1e6},
};
constexpr double kPcieGbPerS = 32.0;  // Of a PCIe 4.0 x16 slot: the interconnect of a GPU without another one.

const GpuFigure* gpu_figure_of(std::string_view key) {
  for (const GpuFigure& each : kGpuFigures)
    if (each.key == key) return &each;
  return nullptr;
}

struct OwnGpu {
  std::string name;
  GpuCard card;
};

// Sets the GPU: an entry of the catalogue, whose figures the settings replace, or one of the settings alone.
core::Result<void> choose_gpu(RooflineSpec& spec, std::string_view name, const std::vector<Setting>& settings) {
  spec.gpu = find_gpu(name);
  const auto own = std::make_shared<OwnGpu>(OwnGpu{std::string{name}, spec.gpu != nullptr ? *spec.gpu : GpuCard{}});
  if (spec.gpu == nullptr) own->card.name = own->name;
  for (const Setting& setting : settings) {
    const GpuFigure* each = gpu_figure_of(setting.key);
    if (each == nullptr) continue;
    double& figure = own->card.*each->figure;
    if (!parse_number(setting.value, figure) || !(figure >= each->low && figure <= each->high))
      return invalid_input(fmt::format("{}: {}", kWhere, each->key),
                           fmt::format("must be from {} to {}, is '{}'", each->low, each->high, setting.value));
    spec.gpu_settings += fmt::format(",{}={}", setting.key, setting.value);
  }
  GpuCard& card = own->card;
  if (spec.gpu == nullptr) {
    if (card.driver_gib == 0.0 || card.bandwidth_gb_per_s == 0.0 || card.bf16_tflops == 0.0)
      return invalid_input(kWhere, fmt::format("GPU '{}' is not in the catalogue", name),
                           names_near(name, gpu_catalogue()) + kGpuByHand);
    card.memory_gb = card.driver_gib * 1.073741824;
    if (card.fp8_tflops == 0.0) card.fp8_tflops = card.bf16_tflops;
    if (card.fp4_tflops == 0.0) card.fp4_tflops = card.fp8_tflops;
    if (card.interconnect_gb_per_s == 0.0) card.interconnect_gb_per_s = kPcieGbPerS;
  }
  if (!spec.gpu_settings.empty()) {
    spec.gpu = &own->card;
    spec.own_gpu = own;
  }
  return {};
}

// Sets the model, and the precision that its config.json tells.
core::Result<void> choose_model(RooflineSpec& spec, std::string_view name) {
  if (is_model_path(name)) {
    const auto read = read_model_config(std::string{name});
    if (!read) return tl::make_unexpected(read.error());
    spec.model = &(*read)->card;
    spec.own_model = *read;
    spec.precision = (*read)->precision.value_or(spec.precision);
    return {};
  }
  spec.model = find_model(name);
  if (spec.model != nullptr) return {};
  return invalid_input(kWhere, fmt::format("model '{}' is not in the catalogue", name),
                       names_near(name, model_catalogue()) + kModelByHand);
}

core::Result<void> check(const RooflineSpec& spec) {
  if (spec.tensor_parallel % spec.attention_ranks != 0)
    return invalid_input(fmt::format("{}: attention_ranks", kWhere),
                         fmt::format("must divide tp ({}), is {}", spec.tensor_parallel, spec.attention_ranks));
  if (spec.release.empty()) return {};
  const auto known = calibrated_releases(spec.backend, *spec.model);
  if (std::find(known.begin(), known.end(), spec.release) != known.end()) return {};
  return invalid_input(
      fmt::format("{}: release", kWhere),
      fmt::format("'{}' of {} was not measured with {}", spec.release.substr(0, 64), name_of(spec.backend),
                  spec.model->is_mixture() ? "mixtures of experts" : "dense models"),
      known.empty() ? "leave it out" : fmt::format("leave it out, or use one of: {}", fmt::join(known, " ")));
}

const Override* override_of(std::string_view key) {
  for (const Override& each : kOverrides)
    if (each.key == key) return &each;
  return nullptr;
}

core::Result<std::vector<Setting>> settings_of(std::string_view text) {
  std::vector<Setting> settings;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const auto equals = part.find('=');
    if (equals == std::string_view::npos)
      return invalid_input(kWhere, fmt::format("unknown setting '{}'", part), kForm);
    const std::string_view key = part.substr(0, equals);
    for (const Setting& earlier : settings)
      if (earlier.key == key) return invalid_input(fmt::format("{}: {}", kWhere, key), "must not be repeated");
    settings.push_back({key, part.substr(equals + 1)});
  }
  return settings;
}

}  // namespace

core::Result<Roofline> parse_roofline_of_any_memory(std::string_view text) {
  const auto first = text.find(',');
  if (first == std::string_view::npos) return invalid_input(kWhere, "needs a model and a GPU", kForm);
  const auto second = std::min(text.find(',', first + 1), text.size());
  const std::string_view model = text.substr(0, first), gpu = text.substr(first + 1, second - first - 1);
  RooflineSpec spec;
  if (const auto chosen = choose_model(spec, model); !chosen) return tl::make_unexpected(chosen.error());
  const auto settings = settings_of(text.substr(std::min(second + 1, text.size())));
  if (!settings) return tl::make_unexpected(settings.error());
  if (const auto chosen = choose_gpu(spec, gpu, *settings); !chosen) return tl::make_unexpected(chosen.error());
  for (const Setting& setting : *settings)
    if (override_of(setting.key) == nullptr && gpu_figure_of(setting.key) == nullptr)
      if (auto applied = apply(spec, setting); !applied) return tl::make_unexpected(applied.error());
  if (auto good = check(spec); !good) return tl::make_unexpected(good.error());
  RooflineEfficiency efficiency =
      calibrated_efficiency(spec.backend, spec.gpu->name, spec.precision, *spec.model, spec.release);
  for (const Setting& setting : *settings)
    if (const Override* each = override_of(setting.key))
      if (auto applied = apply(efficiency, *each, setting.value); !applied) return tl::make_unexpected(applied.error());
  return Roofline{spec, efficiency};
}

core::Result<Roofline> parse_roofline(std::string_view text) {
  auto made = parse_roofline_of_any_memory(text);
  if (!made) return made;
  const RooflineSpec& spec = made->spec();
  if (!spec.divides_heads())
    return invalid_input(fmt::format("{}: tp", kWhere),
                         fmt::format("{}must divide the {} attention heads of {}, is {}",
                                     spec.attention_ranks > 1 ? "divided by attention_ranks, " : "", spec.model->heads,
                                     spec.model->name, spec.tensor_parallel / spec.attention_ranks),
                         "engines refuse to start otherwise");
  const KvMemory memory = kv_memory(spec, {});
  if (memory.tokens < 1.0) {
    const double usable = spec.memory_utilization * memory.total_gib;
    const bool weights_fit = memory.weights_gib < usable;
    return invalid_input(
        kWhere,
        fmt::format("{} in {} on {} x {}: {:.1f} GiB of weights a GPU {}{:.1f} GiB ({} of {:.2f} GiB)",
                    spec.model->name, name_of(spec.precision), spec.gpus(), spec.gpu->name, memory.weights_gib,
                    weights_fit ? fmt::format("and {:.1f} GiB of overhead leave no KV cache in ", memory.overhead_gib)
                                : "do not fit ",
                    usable, spec.memory_utilization, memory.total_gib),
        weights_fit ? "raise tp, lower the precision, raise gpu_memory_utilization, or give overhead_gib from a log"
                    : "raise tp or lower the precision");
  }
  return made;
}

}  // namespace penstock::engine
