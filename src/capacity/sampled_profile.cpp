#include "capacity/sampled_profile.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/time.h"

namespace penstock::capacity {
namespace {

constexpr double kMsLeast = 1e-3;  // Times of a profile must be positive.

// Returns low, low·√2, low·2, … high as ascending whole numbers; empty if high < low.
std::vector<std::uint32_t> geometric(double low, double high) {
  std::vector<std::uint32_t> values;
  if (high < low) return values;
  for (double value = low; value < high; value *= std::sqrt(2.0)) {
    const auto whole = static_cast<std::uint32_t>(std::lround(value));
    if (values.empty() || whole > values.back()) values.push_back(whole);
  }
  if (const auto last = static_cast<std::uint32_t>(high); values.empty() || last > values.back())
    values.push_back(last);
  return values;
}

engine::StepShape decode_shape(const EngineLimits& limits, std::uint32_t sequences, std::uint64_t context_tokens) {
  engine::StepShape shape;
  shape.decode_sequences = sequences;
  shape.decode_context_tokens = sequences * context_tokens;
  shape.total_kv_tokens = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(limits.kv_tokens));
  shape.active_kv_tokens = std::min(shape.decode_context_tokens, shape.total_kv_tokens);
  return shape;
}

// Shape of a chunk of `tokens` prompt tokens after `computed` ones, beside sequences of the same length.
engine::StepShape chunk_shape(const EngineLimits& limits, std::uint64_t computed, std::uint64_t tokens,
                              std::uint32_t decoding) {
  engine::StepShape shape = decode_shape(limits, decoding, computed + tokens);
  shape.prefill_requests = 1;
  shape.prefill_new_tokens = tokens;
  shape.prefill_context_tokens = computed;
  const auto fresh = static_cast<double>(tokens);
  shape.prefill_attention_pairs = fresh * (static_cast<double>(computed) + (fresh + 1.0) / 2.0);
  shape.active_kv_tokens = std::min((1 + decoding) * (computed + tokens), shape.total_kv_tokens);
  return shape;
}

double ms(const engine::StepTimeModel& model, const engine::StepShape& shape) {
  return core::to_milliseconds(model.step(shape));
}

}  // namespace

double decode_step_ms(const engine::StepTimeModel& model, const EngineLimits& limits, std::uint32_t sequences,
                      std::uint32_t context_tokens) {
  return ms(model, decode_shape(limits, sequences, context_tokens));
}

double lone_ttft_ms(const engine::StepTimeModel& model, const EngineLimits& limits, std::uint32_t input_tokens) {
  const auto chunk = static_cast<std::uint64_t>(std::max(1.0, limits.max_batched_tokens));
  double total = 0.0;
  for (std::uint64_t computed = 0; computed < input_tokens;) {
    const std::uint64_t tokens = std::min<std::uint64_t>(chunk, input_tokens - computed);
    total += ms(model, chunk_shape(limits, computed, tokens, 0));
    computed += tokens;
  }
  return total;
}

engine::EngineProfile sample_profile(const engine::StepTimeModel& model, const EngineLimits& limits) {
  SampleRange range;
  range.sequences_max = 1.5 * limits.max_sequences;
  engine::EngineProfile profile = sample_profile(model, limits, range);
  profile.sequences_max = std::floor(limits.max_sequences);
  return profile;
}

engine::EngineProfile sample_profile(const engine::StepTimeModel& model, const EngineLimits& limits,
                                     const SampleRange& range) {
  engine::EngineProfile profile;
  profile.kv_tokens_max = std::floor(limits.kv_tokens);
  for (const std::uint32_t length :
       geometric(range.shortest_prompt, std::min(range.longest_prompt, limits.kv_tokens))) {
    const double alone = ms(model, chunk_shape(limits, 0, length, 0));
    const double added = ms(model, chunk_shape(limits, 0, length, 1)) - decode_step_ms(model, limits, 1, length);
    profile.prefill.push_back({static_cast<double>(length), std::max(kMsLeast, alone)});
    profile.prefill_added.push_back({static_cast<double>(length), std::max(kMsLeast, added)});
  }
  const double longest = std::min(range.longest_context, limits.kv_tokens);
  for (const std::uint32_t context : geometric(range.shortest_context, longest)) {
    engine::DecodeLine line{static_cast<double>(context), {}};
    const double most = std::min(range.sequences_max, limits.kv_tokens / context);
    for (const std::uint32_t sequences : geometric(1, most))
      line.points.push_back({static_cast<double>(sequences) * context,
                             std::max(kMsLeast, decode_step_ms(model, limits, sequences, context))});
    profile.decode.push_back(std::move(line));
  }
  return profile;
}

std::string profile_json(const engine::EngineProfile& profile, std::string_view engine) {
  using Json = nlohmann::ordered_json;
  Json lengths = Json::array(), ttft = Json::array(), added = Json::array();
  for (const engine::ProfilePoint& point : profile.prefill) {
    lengths.push_back(point.x);
    ttft.push_back(point.ms);
  }
  for (const engine::ProfilePoint& point : profile.prefill_added) added.push_back(point.ms);
  Json kv = Json::array(), contexts = Json::array(), itl = Json::array();
  for (const engine::DecodeLine& line : profile.decode) {
    for (const engine::ProfilePoint& point : line.points) {
      contexts.push_back(line.context_tokens);
      kv.push_back(point.x);
      itl.push_back(point.ms);
    }
  }
  Json document{{"engine", engine},
                {"prefill_isl", lengths},
                {"prefill_ttft_ms", ttft},
                {"prefill_added_ms", added},
                {"decode_active_kv_tokens", kv},
                {"decode_context_length", contexts},
                {"decode_itl", itl},
                {"max_kv_tokens", profile.kv_tokens_max}};
  if (profile.sequences_max > 0.0) document["max_sequences"] = profile.sequences_max;
  // A model's description may contain a file name with arbitrary bytes, which JSON does not allow.
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace penstock::capacity
