// The text form of a roofline.
#include <fmt/format.h>

#include <charconv>
#include <string>

#include "engine/roofline.h"

namespace penstock::engine {
namespace {

using core::invalid_input;

constexpr const char* kWhere = "roofline";
constexpr const char* kForm = "write roofline:MODEL,GPU,tp=N,precision=P,backend=B";

template <class Cards>
std::string names_of(const Cards& cards) {
  std::string names;
  for (const auto& card : cards) names += fmt::format("{}{}", names.empty() ? "" : " ", card.name);
  return names;
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
  if (key == "tp" || key == "attention_ranks") {
    std::uint32_t& count = key == "tp" ? spec.tensor_parallel : spec.attention_ranks;
    if (!parse_number(value, count) || count < 1 || count > 256)
      return invalid_input(where, fmt::format("must be from 1 to 256, is '{}'", value));
  } else if (key == "precision") {
    if (!parse_precision(value, spec.precision))
      return invalid_input(where, fmt::format("'{}' is unknown", value), "use bf16, fp8, fp4 or int4");
  } else if (key == "backend") {
    if (!parse_backend(value, spec.backend))
      return invalid_input(where, fmt::format("'{}' is unknown", value), "use vllm, sglang or trtllm");
  } else {
    return invalid_input(
        where, "unknown setting",
        "use tp, attention_ranks, precision, backend, bandwidth, compute, layer_us, sequence_us or interconnect");
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

core::Result<Roofline> parse_roofline(std::string_view text) {
  const auto first = text.find(',');
  if (first == std::string_view::npos) return invalid_input(kWhere, "needs a model and a GPU", kForm);
  const auto second = std::min(text.find(',', first + 1), text.size());
  const std::string_view model = text.substr(0, first), gpu = text.substr(first + 1, second - first - 1);
  RooflineSpec spec;
  spec.model = find_model(model);
  if (spec.model == nullptr)
    return invalid_input(kWhere, fmt::format("model '{}' is not in the catalogue", model),
                         "known: " + names_of(model_catalogue()));
  spec.gpu = find_gpu(gpu);
  if (spec.gpu == nullptr)
    return invalid_input(kWhere, fmt::format("GPU '{}' is not in the catalogue", gpu),
                         "known: " + names_of(gpu_catalogue()));

  const auto settings = settings_of(text.substr(std::min(second + 1, text.size())));
  if (!settings) return tl::make_unexpected(settings.error());
  for (const Setting& setting : *settings)
    if (override_of(setting.key) == nullptr)
      if (auto applied = apply(spec, setting); !applied) return tl::make_unexpected(applied.error());
  RooflineEfficiency efficiency = calibrated_efficiency(spec.backend, spec.gpu->name, spec.precision, *spec.model);
  for (const Setting& setting : *settings)
    if (const Override* each = override_of(setting.key))
      if (auto applied = apply(efficiency, *each, setting.value); !applied) return tl::make_unexpected(applied.error());

  const Roofline roofline{spec, efficiency};
  if (roofline.kv_capacity_tokens() < 1.0)
    return invalid_input(
        kWhere,
        fmt::format("the weights of {} in {} do not fit {} x {} ({} GB each)", spec.model->name,
                    name_of(spec.precision), spec.tensor_parallel, spec.gpu->name, spec.gpu->memory_gb),
        "raise tp or lower the precision");
  return roofline;
}

}  // namespace penstock::engine
