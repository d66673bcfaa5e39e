#include "engine/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/npz.h"

namespace penstock::engine {
namespace {

using core::invalid_input;
using Json = nlohmann::json;

// A field of the profile with the words that name it in an error.
struct Field {
  std::string where;
  NumberArray array;
  bool is_at_least = false;  // A limit of the measurement, not of the engine.
};
using Fields = std::map<std::string, Field>;

constexpr std::string_view kKnownFields[] = {"prefill_isl",
                                             "prefill_ttft_ms",
                                             "prefill_ttft",
                                             "prefill_added_ms",
                                             "decode_active_kv_tokens",
                                             "x_kv_usage",
                                             "max_kv_tokens",
                                             "max_sequences",
                                             "decode_context_length",
                                             "y_context_length",
                                             "decode_itl",
                                             "decode_itl_ms",
                                             "z_itl",
                                             "z_itl_ms"};

core::Result<double> number(const Json& value, const std::string& where) {
  if (!value.is_number()) return invalid_input(where, fmt::format("must be a number, is {}", value.type_name()));
  return value.get<double>();
}

core::Result<NumberArray> numbers(const Json& value, const std::string& where) {
  NumberArray array;
  if (value.is_number()) return NumberArray{{1}, {value.get<double>()}};
  if (!value.is_array())
    return invalid_input(where, fmt::format("must be a list of numbers, is {}", value.type_name()));
  array.shape.push_back(value.size());
  const bool grid = !value.empty() && value[0].is_array();
  if (grid) array.shape.push_back(value[0].size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string row = fmt::format("{}[{}]", where, i);
    if (!grid) {
      const auto read = number(value[i], row);
      if (!read) return tl::make_unexpected(read.error());
      array.values.push_back(*read);
      continue;
    }
    if (!value[i].is_array() || value[i].size() != array.shape[1])
      return invalid_input(row, fmt::format("must be a list of {} numbers", array.shape[1]), "the grid has holes");
    for (std::size_t j = 0; j < value[i].size(); ++j) {
      const auto read = number(value[i][j], fmt::format("{}[{}]", row, j));
      if (!read) return tl::make_unexpected(read.error());
      array.values.push_back(*read);
    }
  }
  return array;
}

bool is_at_least(const Json& document, const std::string& name) {
  const auto from = document.find(name + "_from");
  if (from != document.end()) return from->is_string() && *from == "measurement";
  // Profiles did not say it at first.
  return name == "max_sequences" && document.contains("measured");
}

core::Result<std::map<std::string, NumberArray>> read_json(const ProfileFile& file,
                                                           std::vector<std::string>& at_least) {
  const Json document = Json::parse(file.bytes.begin(), file.bytes.end(), nullptr, false);
  if (document.is_discarded()) return invalid_input(file.name, "is not valid JSON");
  if (!document.is_object()) return invalid_input(file.name, "must be a JSON object of lists");
  std::map<std::string, NumberArray> arrays;
  for (const std::string_view name : kKnownFields) {
    const auto found = document.find(name);
    if (found == document.end()) continue;
    if (is_at_least(document, std::string{name})) at_least.emplace_back(name);
    auto read = numbers(*found, fmt::format("{}: {}", file.name, name));
    if (!read) return tl::make_unexpected(read.error());
    arrays.emplace(name, std::move(*read));
  }
  return arrays;
}

core::Result<Fields> gather(std::span<const ProfileFile> files) {
  Fields fields;
  for (const ProfileFile& file : files) {
    if (file.bytes.size() > kProfileBytesMax)
      return invalid_input(file.name,
                           fmt::format("has {} bytes, the maximum is {}", file.bytes.size(), kProfileBytesMax));
    std::vector<std::string> at_least;
    auto arrays = file.name.ends_with(".npz") ? read_npz(file.bytes, file.name) : read_json(file, at_least);
    if (!arrays) return tl::make_unexpected(arrays.error());
    for (const std::string_view name : kKnownFields) {
      const auto found = arrays->find(std::string{name});
      if (found == arrays->end()) continue;
      Field field{fmt::format("{}: {}", file.name, name), std::move(found->second),
                  std::find(at_least.begin(), at_least.end(), name) != at_least.end()};
      if (field.array.values.empty()) return invalid_input(field.where, "is empty");
      if (field.array.values.size() > kProfilePointsMax)
        return invalid_input(field.where, fmt::format("has more than {} points", kProfilePointsMax));
      for (std::size_t i = 0; i < field.array.values.size(); ++i) {
        const double value = field.array.values[i];
        if (std::isnan(value))
          return invalid_input(fmt::format("{}[{}]", field.where, i), "is a hole (NaN)", "fill or leave out the point");
        if (!(value >= 0.0 && value <= 1e12))
          return invalid_input(fmt::format("{}[{}]", field.where, i),
                               fmt::format("must be from 0 to 1e12, is {}", value));
      }
      fields.try_emplace(std::string{name}, std::move(field));
    }
  }
  return fields;
}

const Field* first_of(const Fields& fields, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto found = fields.find(name); found != fields.end()) return &found->second;
  return nullptr;
}

core::Result<const Field*> needed(const Fields& fields, std::string_view files,
                                  std::initializer_list<const char*> names) {
  if (const Field* field = first_of(fields, names)) return field;
  return invalid_input(
      std::string{files}, fmt::format("has no field {}", *names.begin()),
      "a profile needs prefill_isl, prefill_ttft_ms, decode_active_kv_tokens, decode_context_length and decode_itl");
}

std::optional<core::Error> lengths_differ(const Field& field, const Field& other) {
  const std::size_t a = field.array.values.size(), b = other.array.values.size();
  if (a == b) return std::nullopt;
  return invalid_input(field.where, fmt::format("has {} values where {} has {}", a, other.where, b)).value();
}

std::optional<core::Error> not_rising(const Field& field) {
  const auto& values = field.array.values;
  for (std::size_t i = 1; i < values.size(); ++i)
    if (!(values[i] > values[i - 1]))
      return invalid_input(fmt::format("{}[{}]", field.where, i),
                           fmt::format("must be above the one before ({}), is {}", values[i - 1], values[i]),
                           "sort the profile")
          .value();
  return std::nullopt;
}

std::optional<core::Error> not_positive(const Field& field) {
  for (std::size_t i = 0; i < field.array.values.size(); ++i)
    if (!(field.array.values[i] > 0.0))
      return invalid_input(fmt::format("{}[{}]", field.where, i), "must be above 0 ms").value();
  return std::nullopt;
}

core::Result<std::vector<ProfilePoint>> curve_of(const Field& isl, const Field& ms) {
  if (auto wrong = lengths_differ(ms, isl)) return tl::make_unexpected(*wrong);
  if (auto wrong = not_rising(isl)) return tl::make_unexpected(*wrong);
  if (auto wrong = not_positive(ms)) return tl::make_unexpected(*wrong);
  std::vector<ProfilePoint> curve;
  for (std::size_t i = 0; i < isl.array.values.size(); ++i) curve.push_back({isl.array.values[i], ms.array.values[i]});
  return curve;
}

std::optional<core::Error> read_prefill(const Fields& fields, std::string_view files, EngineProfile& profile) {
  const auto isl = needed(fields, files, {"prefill_isl"});
  if (!isl) return isl.error();
  const auto ttft = needed(fields, files, {"prefill_ttft_ms", "prefill_ttft"});
  if (!ttft) return ttft.error();
  auto curve = curve_of(**isl, **ttft);
  if (!curve) return curve.error();
  profile.prefill = *std::move(curve);
  const Field* added = first_of(fields, {"prefill_added_ms"});
  if (added == nullptr) return std::nullopt;
  curve = curve_of(**isl, *added);
  if (!curve) return curve.error();
  profile.prefill_added = *std::move(curve);
  return std::nullopt;
}

// KV tokens in flight at each point; a share of the cache where only that is given.
core::Result<Field> kv_axis(const Fields& fields, std::string_view files, double kv_tokens_max) {
  if (const Field* tokens = first_of(fields, {"decode_active_kv_tokens"})) return *tokens;
  const auto usage = needed(fields, files, {"decode_active_kv_tokens", "x_kv_usage"});
  if (!usage) return tl::make_unexpected(usage.error());
  if (kv_tokens_max <= 0.0)
    return invalid_input((*usage)->where, "needs max_kv_tokens above 0, to convert usage to tokens");
  Field tokens = **usage;
  for (double& value : tokens.array.values) value *= kv_tokens_max;
  return tokens;
}

core::Result<std::vector<DecodeLine>> grid_lines(const Field& kv, const Field& context, const Field& itl) {
  const std::size_t rows = itl.array.shape[0], columns = itl.array.shape[1];
  if (kv.array.values.size() != rows || context.array.values.size() != columns)
    return invalid_input(
        itl.where, fmt::format("is a grid of {} by {} where {} has {} values and {} has {}", rows, columns, kv.where,
                               kv.array.values.size(), context.where, context.array.values.size()));
  if (auto wrong = not_rising(kv)) return tl::make_unexpected(*wrong);
  if (auto wrong = not_rising(context)) return tl::make_unexpected(*wrong);
  std::vector<DecodeLine> lines;
  for (std::size_t j = 0; j < columns; ++j) {
    lines.push_back({context.array.values[j], {}});
    for (std::size_t i = 0; i < rows; ++i)
      lines.back().points.push_back({kv.array.values[i], itl.array.values[i * columns + j]});
  }
  return lines;
}

core::Result<std::vector<DecodeLine>> scattered_lines(const Field& kv, const Field& context, const Field& itl) {
  if (auto wrong = lengths_differ(itl, kv)) return tl::make_unexpected(*wrong);
  if (auto wrong = lengths_differ(itl, context)) return tl::make_unexpected(*wrong);
  std::map<double, std::vector<ProfilePoint>> by_context;
  for (std::size_t i = 0; i < itl.array.values.size(); ++i)
    by_context[context.array.values[i]].push_back({kv.array.values[i], itl.array.values[i]});
  std::vector<DecodeLine> lines;
  for (auto& [length, points] : by_context) {
    std::stable_sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
    for (std::size_t i = 1; i < points.size(); ++i)
      if (points[i].x == points[i - 1].x)
        return invalid_input(kv.where, fmt::format("has {} twice at context length {}", points[i].x, length));
    lines.push_back({length, std::move(points)});
  }
  return lines;
}

core::Result<std::vector<DecodeLine>> decode_lines(const Fields& fields, std::string_view files, double kv_tokens_max) {
  const auto kv = kv_axis(fields, files, kv_tokens_max);
  if (!kv) return tl::make_unexpected(kv.error());
  const auto context = needed(fields, files, {"decode_context_length", "y_context_length"});
  if (!context) return tl::make_unexpected(context.error());
  const auto itl = needed(fields, files, {"decode_itl", "decode_itl_ms", "z_itl", "z_itl_ms"});
  if (!itl) return tl::make_unexpected(itl.error());
  if (auto wrong = not_positive(**itl)) return tl::make_unexpected(*wrong);
  if ((*itl)->array.shape.size() == 2) return grid_lines(*kv, **context, **itl);
  return scattered_lines(*kv, **context, **itl);
}

}  // namespace

core::Result<EngineProfile> read_profile(std::span<const ProfileFile> files) {
  std::string names;
  for (const ProfileFile& file : files) names += (names.empty() ? "" : ",") + file.name;
  const auto fields = gather(files);
  if (!fields) return tl::make_unexpected(fields.error());
  EngineProfile profile;
  if (const Field* capacity = first_of(*fields, {"max_kv_tokens"})) {
    profile.kv_tokens_max = capacity->array.values[0];
    profile.kv_tokens_at_least = capacity->is_at_least;
  }
  if (const Field* sequences = first_of(*fields, {"max_sequences"})) {
    profile.sequences_max = sequences->array.values[0];
    profile.sequences_at_least = sequences->is_at_least;
  }
  if (auto wrong = read_prefill(*fields, names, profile)) return tl::make_unexpected(*wrong);
  auto decode = decode_lines(*fields, names, profile.kv_tokens_max);
  if (!decode) return tl::make_unexpected(decode.error());
  profile.decode = std::move(*decode);
  return profile;
}

}  // namespace penstock::engine
