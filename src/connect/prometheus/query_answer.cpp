#include "connect/prometheus/query_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "telemetry/adapter_rules.h"
#include "telemetry/exposition.h"
#include "telemetry/exposition_writer.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

constexpr double kCountMax = 9.0e15;  // Above this limit a double does not hold every integer.
constexpr std::size_t kErrorBytesMax = 400;

tl::unexpected<core::Error> fault(std::string_view query, const std::string& what) {
  return core::environment_error("Prometheus", fmt::format("{} for the query {}", what, query));
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  if (text.size() > kErrorBytesMax) text.resize(kErrorBytesMax);
  return text;
}

const std::string* text_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : found->get_ptr<const std::string*>();
}

// Reads [time, "value"]. Empty: it is something else. NaN: the value is missing.
std::optional<std::pair<double, double>> value_in(const Json& pair) {
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number() || !pair[1].is_string()) return std::nullopt;
  const auto& text = pair[1].get_ref<const std::string&>();
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return std::pair{pair[0].get<double>(), whole ? value : std::nan("")};
}

bool read_labels(const Json& result, QueriedSeries& series) {
  const auto metric = result.find("metric");
  if (metric == result.end() || !metric->is_object()) return false;
  for (const auto& [name, value] : metric->items()) {
    const auto* text = value.get_ptr<const std::string*>();
    if (text == nullptr) return false;
    if (name == "__name__")
      series.name = *text;
    else
      series.labels.emplace(name, *text);
  }
  return true;
}

// False: the result is not one of a vector or matrix.
bool add_series(const Json& result, std::vector<QueriedSeries>& all) {
  if (!result.is_object()) return false;
  QueriedSeries series;
  if (!read_labels(result, series)) return false;
  const auto vector = result.find("value"), matrix = result.find("values");
  const Json* last = nullptr;
  if (vector != result.end())
    last = &*vector;
  else if (matrix != result.end() && matrix->is_array() && !matrix->empty())
    last = &matrix->back();
  if (last == nullptr) return true;  // A native histogram, which no engine has.
  const auto value = value_in(*last);
  if (!value) return false;
  if (!std::isfinite(value->second) || !std::isfinite(value->first)) return true;
  series.at_s = value->first;
  series.value = value->second;
  all.push_back(std::move(series));
  return true;
}

struct Signal {
  std::string_view name;
  std::optional<std::uint64_t> telemetry::EngineScrape::*count;
  std::optional<double> telemetry::EngineScrape::*number;  // Used if `count` is null.
  double max;
};

constexpr std::array kSignals = {
    Signal{"queued_requests", &telemetry::EngineScrape::queued_requests, nullptr, kCountMax},
    Signal{"running_requests", &telemetry::EngineScrape::running_requests, nullptr, kCountMax},
    Signal{"deferred_requests", &telemetry::EngineScrape::deferred_requests, nullptr, kCountMax},
    Signal{"kv_usage", nullptr, &telemetry::EngineScrape::kv_usage, 1.0},
    Signal{"kv_used_tokens", &telemetry::EngineScrape::kv_used_tokens, nullptr, kCountMax},
    Signal{"kv_capacity_tokens", &telemetry::EngineScrape::kv_capacity_tokens, nullptr, kCountMax},
    Signal{"prompt_tokens_total", &telemetry::EngineScrape::prompt_tokens_total, nullptr, kCountMax},
    Signal{"generation_tokens_total", &telemetry::EngineScrape::generation_tokens_total, nullptr, kCountMax},
    Signal{"prefix_hit_tokens_total", &telemetry::EngineScrape::prefix_hit_tokens_total, nullptr, kCountMax},
    Signal{"preemptions_total", &telemetry::EngineScrape::preemptions_total, nullptr, kCountMax},
    Signal{"gpu_utilisation", nullptr, &telemetry::EngineScrape::gpu_utilisation, 1.0},
    Signal{"gpu_memory_usage", nullptr, &telemetry::EngineScrape::gpu_memory_usage, 1.0},
    Signal{"gpu_memory_bandwidth", nullptr, &telemetry::EngineScrape::gpu_memory_bandwidth, 1.0},
    Signal{"oldest_queued_seconds", nullptr, &telemetry::EngineScrape::oldest_queued_s, 1e9},
};

// Groups series by the value of a label; null: the series does not have it.
const std::string* replica_of(const QueriedSeries& series, std::string_view label) {
  const auto found = series.labels.find(std::string{label});
  return found == series.labels.end() || found->second.empty() ? nullptr : &found->second;
}

}  // namespace

core::Result<std::vector<QueriedSeries>> parse_query_answer(int status, std::string_view body, std::string_view query) {
  const Json answer = Json::parse(body, nullptr, false);
  if (!answer.is_object()) return fault(query, fmt::format("responds with status {} and no JSON object", status));
  const std::string* outcome = text_in(answer, "status");
  if (outcome == nullptr || *outcome != "success") {
    const std::string* error = text_in(answer, "error");
    return fault(query, fmt::format("responds with status {} and the error \"{}\"", status,
                                    error == nullptr ? "" : one_line(*error)));
  }
  const auto data = answer.find("data");
  const std::string* type = data == answer.end() || !data->is_object() ? nullptr : text_in(*data, "resultType");
  const auto result = type == nullptr ? answer.end() : data->find("result");
  if (type == nullptr || result == data->end() || !result->is_array()) return fault(query, "responds without a result");
  std::vector<QueriedSeries> all;
  if (*type == "scalar") {
    const auto value = value_in(*result);
    if (!value) return fault(query, "responds with a malformed scalar");
    if (std::isfinite(value->second)) all.push_back({{}, {}, value->second, value->first});
    return all;
  }
  if (*type != "vector" && *type != "matrix")
    return fault(query, fmt::format("responds with a {}, not with series,", one_line(*type)));
  if (result->size() > kSeriesMax) return fault(query, fmt::format("responds with more than {} series", kSeriesMax));
  for (const Json& each : *result)
    if (!add_series(each, all)) return fault(query, "responds with a malformed series");
  return all;
}

std::vector<std::string_view> queried_signals() {
  std::vector<std::string_view> names;
  for (const Signal& signal : kSignals) names.push_back(signal.name);
  return names;
}

std::string preset_query(std::string_view engine, std::string_view matchers, core::Duration window) {
  std::set<std::string> names;
  for (const telemetry::AdapterTable& table : telemetry::adapter_tables()) {
    if (telemetry::to_string(table.kind) != engine) continue;
    for (const telemetry::AdapterRule& rule : table.rules)
      names.insert(std::string{rule.name} + (rule.figure < telemetry::Figure::kScalars ? "" : "_(bucket|sum)"));
    if (!table.info.name.empty()) names.insert(std::string{table.info.name});
  }
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : "|") + name;
  return fmt::format("{{__name__=~\"{}\"{}{}}}[{}ms]", all, matchers.empty() ? "" : ",", matchers,
                     std::chrono::duration_cast<std::chrono::milliseconds>(window).count());
}

QueriedReplicas read_preset(const std::vector<QueriedSeries>& series, std::string_view replica_label) {
  std::map<std::string, std::string> texts;
  QueriedReplicas replicas;
  for (const QueriedSeries& each : series) {
    const std::string* replica = replica_of(each, replica_label);
    if (replica == nullptr || each.name.empty()) continue;
    std::string labels;
    for (const auto& [name, value] : each.labels) {
      if (!labels.empty()) labels += ',';
      labels += telemetry::format_labels({{name, value}});
    }
    texts[*replica] += fmt::format("{}{{{}}} {}\n", each.name, labels, each.value);
    QueriedReplica& made = replicas[*replica];
    made.at_s = std::max(made.at_s, each.at_s);
  }
  for (const auto& [replica, text] : texts) {
    // Names that Prometheus accepts and this format does not make the replica unreadable, never half read.
    if (const auto parsed = telemetry::parse_exposition(text, "Prometheus"))
      replicas[replica].scrape = telemetry::read_scrape(*parsed);
    else
      replicas.erase(replica);
  }
  return replicas;
}

void add_signal(QueriedReplicas& replicas, std::string_view signal, const std::vector<QueriedSeries>& series,
                std::string_view replica_label) {
  const auto* known =
      std::find_if(kSignals.begin(), kSignals.end(), [&](const Signal& each) { return each.name == signal; });
  if (known == kSignals.end()) return;
  std::map<std::string, std::pair<double, double>> sums;  // Value and time of each replica.
  for (const QueriedSeries& each : series) {
    const std::string* replica = replica_of(each, replica_label);
    if (replica == nullptr) continue;
    auto& [sum, at_s] = sums[*replica];
    sum += each.value;
    at_s = std::max(at_s, each.at_s);
  }
  for (const auto& [replica, seen] : sums) {
    const auto [value, at_s] = seen;
    if (!(value >= 0.0 && value <= known->max)) continue;
    QueriedReplica& made = replicas[replica];
    made.at_s = std::max(made.at_s, at_s);
    if (known->count != nullptr)
      made.scrape.*(known->count) = static_cast<std::uint64_t>(std::llround(value));
    else
      made.scrape.*(known->number) = value;
  }
}

}  // namespace penstock::connect
