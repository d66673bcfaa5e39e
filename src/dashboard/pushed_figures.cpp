#include "dashboard/pushed_figures.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

namespace penstock::dashboard {
namespace {

constexpr std::size_t kNameBytesMax = 256;
constexpr double kCountMax = 1e12, kMillisecondsMax = 1e8;

// Reads the number of a field, if there is one. False: it is not a number from 0 to `max`.
bool read_number(const nlohmann::json& object, const char* key, double max, std::optional<double>& into) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return true;
  if (!found->is_number()) return false;
  const double value = found->get<double>();
  if (!(value >= 0.0 && value <= max)) return false;
  into = value;
  return true;
}

std::optional<std::uint64_t> sum_of(const std::optional<std::uint64_t>& before, const std::optional<double>& more) {
  if (!more) return before;
  return before.value_or(0) + static_cast<std::uint64_t>(std::llround(*more));
}

void observe(std::optional<telemetry::Histogram>& histogram, std::span<const double> bounds, double seconds) {
  if (!histogram) histogram.emplace(bounds);
  histogram->add(seconds);
}

}  // namespace

core::Result<void> PushedFigures::add(std::string_view json, core::Instant now) {
  const auto object = nlohmann::json::parse(json, nullptr, false);
  if (!object.is_object()) return core::invalid_input({}, "the body must be a JSON object");
  const auto named = object.find("modelId");
  const auto* name = named == object.end() ? nullptr : named->get_ptr<const std::string*>();
  if (name == nullptr || name->empty() || name->size() > kNameBytesMax)
    return core::invalid_input("modelId", "must be a text of 1 to 256 bytes");
  std::optional<double> input, output, ttft_ms, tpot_ms, kv_usage, queue;
  const struct {
    const char* key;
    double max;
    std::optional<double>& into;
  } fields[] = {{"inputTokens", kCountMax, input},     {"outputTokens", kCountMax, output},
                {"ttftMs", kMillisecondsMax, ttft_ms}, {"tpotMs", kMillisecondsMax, tpot_ms},
                {"kvCacheOccupancy", 1.0, kv_usage},   {"pendingQueue", kCountMax, queue}};
  for (const auto& field : fields)
    if (!read_number(object, field.key, field.max, field.into))
      return core::invalid_input(field.key, fmt::format("must be a number from 0 to {:g}", field.max));
  const auto known = models_.find(*name);
  if (known == models_.end() && models_.size() >= kPushedModelsMax)
    return core::invalid_input("modelId", fmt::format("there are already {} models", kPushedModelsMax));
  Model& model = known == models_.end() ? models_[*name] : known->second;
  if (now - model.at > kPushedTimeMax) {
    model.kv_usage = model.ttft_s = model.tpot_s = std::nullopt;
    model.queue.reset();
  }
  model.at = now;
  model.tokens_in = sum_of(model.tokens_in, input);
  model.tokens_out = sum_of(model.tokens_out, output);
  if (queue) model.queue = static_cast<std::uint64_t>(std::llround(*queue));
  if (kv_usage) model.kv_usage = kv_usage;
  if (ttft_ms) {
    model.ttft_s = *ttft_ms / 1e3;
    observe(model.ttft, telemetry::ttft_bounds_s(), *model.ttft_s);
  }
  if (tpot_ms) {
    model.tpot_s = *tpot_ms / 1e3;
    observe(model.tpot, telemetry::itl_bounds_s(), *model.tpot_s);
  }
  return {};
}

std::vector<telemetry::TokenFigures> PushedFigures::figures(core::Instant now) const {
  std::vector<telemetry::TokenFigures> all;
  for (const auto& [name, model] : models_) {
    telemetry::TokenFigures& made = all.emplace_back();
    made.model = name;
    made.labels = "source=\"push\"";
    made.tokens_in = model.tokens_in;
    made.tokens_out = model.tokens_out;
    made.ttft_s = model.ttft;
    made.tpot_s = model.tpot;
    if (now - model.at > kPushedTimeMax) continue;
    made.prefill_queue = model.queue;
    made.kv_usage = model.kv_usage;
    made.ttft_mean_s = model.ttft_s;
    made.tpot_mean_s = model.tpot_s;
  }
  return all;
}

}  // namespace penstock::dashboard
