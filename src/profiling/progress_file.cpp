#include "profiling/progress_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

namespace penstock::profiling {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::string_view kHint = "remove it to measure from the start";

Json points_json(const std::vector<PointSamples>& points) {
  Json list = Json::array();
  for (const PointSamples& each : points)
    list.push_back({{"tokens", each.point.tokens},
                    {"sequences", each.point.sequences},
                    {"ms", each.ms},
                    {"measured_tokens", each.tokens}});
  return list;
}

std::string dump(const Json& document) { return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

std::string difference(const MeasurementId& was, const MeasurementId& now) {
  if (was.endpoint != now.endpoint) return fmt::format("of {}, not of {}", was.endpoint, now.endpoint);
  if (was.model != now.model) return fmt::format("of the model {}, not of {}", was.model, now.model);
  if (was.grid.prompt_tokens != now.grid.prompt_tokens)
    return fmt::format("with prompts up to {} tokens, not {}", was.grid.prompt_tokens, now.grid.prompt_tokens);
  return fmt::format("with {} sequences at once, not {}", was.grid.sequences, now.grid.sequences);
}

std::vector<PointSamples> read_points(const Json& list) {
  std::vector<PointSamples> points;
  for (const Json& each : list) {
    PointSamples samples;
    samples.point.tokens = each.at("tokens").get<std::uint32_t>();
    samples.point.sequences = each.at("sequences").get<std::uint32_t>();
    samples.ms = each.at("ms").get<std::vector<double>>();
    samples.tokens = each.at("measured_tokens").get<std::vector<double>>();
    if (samples.ms.empty() || samples.ms.size() != samples.tokens.size())
      throw std::invalid_argument{"a point has no samples"};
    points.push_back(std::move(samples));
  }
  return points;
}

}  // namespace

bool MeasurementId::operator==(const MeasurementId& other) const {
  return endpoint == other.endpoint && model == other.model && grid.prompt_tokens == other.grid.prompt_tokens &&
         grid.sequences == other.grid.sequences;
}

std::string progress_text(const MeasurementId& id, const ProfilerState& state) {
  return dump({{"unfinished_profile", kVersion},
               {"endpoint", id.endpoint},
               {"model", id.model},
               {"max_prompt", id.grid.prompt_tokens},
               {"max_concurrency", id.grid.sequences},
               {"sequences_max", state.sequences_max},
               {"kv_tokens_too_many", state.kv_tokens_too_many},
               {"prompt_tokens_per_step", state.prompt_tokens_per_step},
               {"points", points_json(state.points)}});
}

core::Result<ProfilerState> read_progress(std::string_view text, const std::string& file, const MeasurementId& id) {
  try {
    const Json document = Json::parse(text);
    if (document.at("unfinished_profile").get<int>() != kVersion)
      return core::invalid_input(file, "was written by another version", std::string{kHint});
    MeasurementId was;
    was.endpoint = document.at("endpoint").get<std::string>();
    was.model = document.at("model").get<std::string>();
    was.grid.prompt_tokens = document.at("max_prompt").get<std::uint32_t>();
    was.grid.sequences = document.at("max_concurrency").get<std::uint32_t>();
    if (!(was == id)) return core::invalid_input(file, "has measurements " + difference(was, id), std::string{kHint});
    ProfilerState state;
    state.sequences_max = document.at("sequences_max").get<std::uint32_t>();
    state.kv_tokens_too_many = document.at("kv_tokens_too_many").get<std::uint64_t>();
    state.prompt_tokens_per_step = document.at("prompt_tokens_per_step").get<double>();
    state.points = read_points(document.at("points"));
    if (!(state.prompt_tokens_per_step >= 1.0)) throw std::invalid_argument{"prompt_tokens_per_step is below 1"};
    return state;
  } catch (const std::exception&) {
    return core::invalid_input(file, "is not a file of unfinished measurements", std::string{kHint});
  }
}

std::string profile_document(const std::string& profile, const ProfileDocument& document, const ProfilerState& state) {
  Json made = Json::parse(profile);
  made["endpoint"] = document.id.endpoint;
  made["model"] = document.id.model;
  made["max_sequences"] = document.sequences_max;
  made["max_sequences_from"] = document.sequences_from;
  made["max_kv_tokens_from"] = document.kv_tokens_from;
  made["capacity"] = {{"input_tokens", document.input_tokens},
                      {"output_tokens", document.output_tokens},
                      {"ttft_objective_ms", document.ttft_objective_ms},
                      {"itl_objective_ms", document.itl_objective_ms},
                      {"c_in_tokens_per_s", document.c_in_tokens_per_s},
                      {"c_out_tokens_per_s", document.c_out_tokens_per_s},
                      {"warnings", document.warnings}};
  made["measured"] = points_json(state.points);
  return made.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace penstock::profiling
