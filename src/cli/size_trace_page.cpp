#include "cli/size_trace_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/time.h"
#include "report/answer.h"
#include "report/format.h"
#include "report/grid.h"
#include "report/token_cost.h"

namespace penstock::cli {
namespace {

using decision::RunResult;
using replay::RuledOut;
using replay::TraceSizing;
using report::format_count;
using report::format_goal;
using report::format_milliseconds;
using report::format_quantity;
using report::format_seconds;
using report::format_share;

constexpr std::size_t kTracePageWidth = 120;
constexpr std::size_t kLabelWidth = 44;
constexpr double kMillion = 1e6;

std::string paragraph_of(const std::string& text) { return report::wrapped(text, kTracePageWidth, 0, 2); }

std::string fleet_of(const SizedEngine& engine, std::uint32_t replicas) {
  const std::uint32_t gpus = replicas * engine.gpus_per_replica;
  return fmt::format("{} {} ({} {})", format_count(replicas), replicas == 1 ? "replica" : "replicas",
                     format_count(gpus), gpus == 1 ? "GPU" : "GPUs");
}

// USD per 1M prompt and output tokens of requests that completed; empty without them.
std::optional<double> cost_per_million(const RunResult& result) {
  const auto tokens = static_cast<double>(result.completed_tokens.input + result.completed_tokens.output);
  if (tokens <= 0.0) return std::nullopt;
  return result.cost / tokens * kMillion;
}

std::string money(const std::optional<double>& usd) { return usd ? format_quantity(*usd) : "–"; }

// A share below the goal, which does not look like the goal by rounding.
std::string missed_share(double share, double goal) {
  if (format_share(share) != format_share(goal)) return format_share(share);
  return fmt::format("{:.3f} %", std::floor(share * 1e5) / 1e3);
}

std::string head_of_trace(const TraceSizingReport& report) {
  std::string text = fmt::format(
      "{}: {} requests in {}{}, on average {} prompt and {} output tokens", report::printable(report.workload),
      format_count(report.requests), format_seconds(core::to_seconds(report.duration)),
      report.rate_scale == 1.0 ? "" : fmt::format(" at x{:.4g} the recorded rate", report.rate_scale),
      format_quantity(report.input_tokens), format_quantity(report.output_tokens));
  if (!report.peak_is_whole_trace)
    text += fmt::format("; the busiest hour begins at {} and has {} requests",
                        format_seconds(core::to_seconds(report.peak_from)), format_count(report.peak_requests));
  text += fmt::format(". SLO: {} for {} of the requests{}", report::format_limits(report.slo), format_goal(report.goal),
                      report.has_segments ? ", or the targets and goals of their segments" : "");
  text = paragraph_of(text);
  if (report.skipped_rows > 0) text += fmt::format("skipped: {} invalid rows\n", format_count(report.skipped_rows));
  return text;
}

std::string fleets_table(const TraceSizingReport& report) {
  std::vector<report::Grid::Column> columns{
      {"engine", true},      {"repli-\ncas"}, {"GPUs"},      {"GPU-\nhours"}, {"USD\nper hour"}, {"per 1M\ntokens"},
      {"SLO at-\ntainment"}, {"one\nfewer"},  {"TTFT\np95"}, {"ITL\np95"},    {"utili-\nsation"}};
  if (!report.peak_is_whole_trace) columns.push_back({"peak\nhour"});
  report::Grid grid{std::move(columns), {.width_max = kTracePageWidth}};
  bool any = false;
  for (const SizedEngine& engine : report.engines) {
    const TraceSizing& sizing = engine.sizing;
    if (!sizing.reaches_goal()) continue;
    const RunResult& result = *sizing.result;
    any = true;
    std::vector<std::string> cells{report::cut_to_width(report::printable(engine.label), kLabelWidth),
                                   format_count(result.replicas),
                                   format_count(std::uint64_t{result.replicas} * engine.gpus_per_replica),
                                   format_quantity(result.gpu_hours),
                                   format_quantity(engine.cost_per_hour(result.replicas)),
                                   money(cost_per_million(result)),
                                   format_share(result.slo_attainment),
                                   sizing.one_fewer ? missed_share(sizing.one_fewer->slo_attainment, report.goal) : "–",
                                   format_milliseconds(result.ttft_ms.p95),
                                   format_milliseconds(result.itl_ms.p95),
                                   sizing.busy ? format_share(*sizing.busy) : "–"};
    if (!report.peak_is_whole_trace)
      cells.push_back(sizing.peak_replicas ? format_count(*sizing.peak_replicas) : "none");
    grid.add(std::move(cells));
  }
  if (!any) return {};
  std::string text =
      "Each number of replicas is the smallest fixed fleet that reaches the goal in simulation; the column one fewer "
      "has "
      "the attainment with a replica less. Utilisation: share of the time in which the engines compute.";
  if (!report.peak_is_whole_trace) text += " Peak hour: replicas that the busiest hour alone needs.";
  return grid.text() + paragraph_of(text);
}

const char* words_of(RuledOut ruled_out) {
  switch (ruled_out) {
    case RuledOut::kNothing: return "";
    case RuledOut::kHeads: return "tensor parallelism";
    case RuledOut::kWeights:
    case RuledOut::kKvCache: return "memory";
    case RuledOut::kTtft: return "TTFT";
    case RuledOut::kItl: return "ITL";
    case RuledOut::kE2e: return "e2e";
    case RuledOut::kFailures: return "failures";
  }
  return "";
}

std::string ruled_out_text(const TraceSizingReport& report) {
  std::string text;
  for (const SizedEngine& engine : report.engines) {
    if (engine.sizing.reaches_goal()) continue;
    if (text.empty()) text = "\nDoes not reach the goal\n";
    text += report::wrapped(fmt::format("{}: {}: {}", report::printable(engine.label),
                                        words_of(engine.sizing.ruled_out), report::printable(engine.sizing.why)),
                            kTracePageWidth, 2, 4);
  }
  return text;
}

std::string answer_to(const TraceSizingReport& report) {
  const SizedEngine& best = report.engines.front();
  if (!best.sizing.reaches_goal()) {
    const std::string memory =
        "choose more GPUs for a replica (--tensor-parallel), a lower precision or a GPU with more memory";
    const bool lacks_memory = std::any_of(report.engines.begin(), report.engines.end(), [](const SizedEngine& each) {
      return each.sizing.ruled_out != RuledOut::kHeads;
    });
    if (!best.sizing.result)
      return fmt::format("No candidate can serve the trace: {}.",
                         lacks_memory ? memory : "choose numbers of GPUs that divide the attention heads of the model");
    return fmt::format("No candidate reaches {}. The closest is {} with {} at {}: {}.", format_goal(report.goal),
                       report::printable(best.label), fleet_of(best, best.sizing.result->replicas),
                       missed_share(best.sizing.result->slo_attainment, report.goal),
                       best.sizing.ruled_out == RuledOut::kKvCache
                           ? memory
                           : "allow more replicas (--max-replicas), choose a faster GPU, a lower precision, more GPUs "
                             "for a replica (--tensor-parallel), or a looser SLO");
  }
  const RunResult& result = *best.sizing.result;
  std::string text = fmt::format("{} with {} is the cheapest that reaches {}, at {} USD per hour", best.label,
                                 fleet_of(best, result.replicas), format_goal(report.goal),
                                 format_quantity(best.cost_per_hour(result.replicas)));
  if (report.engines.size() > 1 && report.engines[1].sizing.reaches_goal()) {
    const SizedEngine& next = report.engines[1];
    const std::string more = report::format_difference(next.sizing.result->cost, result.cost);
    text += fmt::format("; {} with {} costs {}", next.label, fleet_of(next, next.sizing.result->replicas),
                        more.starts_with('+') ? more.substr(1) + " more" : "the same");
  }
  return text + ".";
}

std::string autoscaled_text(const TraceSizingReport& report) {
  report::Grid grid{{{"policy penstock", true},
                     {"replicas", true},
                     {"GPU-\nhours"},
                     {"USD"},
                     {"against\nfixed"},
                     {"SLO at-\ntainment"},
                     {"TTFT\np95"},
                     {"ITL\np95"}}};
  bool any = false;
  for (const SizedEngine& engine : report.engines) {
    if (!engine.autoscaled) continue;
    any = true;
    const RunResult& result = *engine.autoscaled;
    grid.add({report::cut_to_width(report::printable(engine.label), kLabelWidth),
              fmt::format("{}→{} ~{}", result.replicas, result.peak_replicas, format_quantity(result.mean_replicas)),
              format_quantity(result.gpu_hours), format_quantity(result.cost),
              report::format_difference(result.cost, engine.sizing.result->cost), format_share(result.slo_attainment),
              format_milliseconds(result.ttft_ms.p95), format_milliseconds(result.itl_ms.p95)});
  }
  return any ? "\n" + grid.text() : std::string{};
}

std::string notes_text(const TraceSizingReport& report) {
  std::string text;
  const auto without = [](const SizedEngine& engine) { return !engine.has_own_price; };
  if (std::any_of(report.engines.begin(), report.engines.end(), without)) {
    const auto engine = std::find_if(report.engines.begin(), report.engines.end(), without);
    text += paragraph_of(fmt::format(
        "GPUs without a price of their own count {} USD per hour (--price); give prices with --gpu-types h100=2.5,… or "
        "--engine ENGINE@2.5",
        format_quantity(engine->price_per_gpu_hour)));
  }
  for (const SizedEngine& engine : report.engines) {
    if (engine.sizing.reaches_goal() && engine.sizing.too_long > 0)
      text += paragraph_of(fmt::format("{}: {} requests do not fit into the KV cache of {} tokens and fail",
                                       report::printable(engine.label), format_count(engine.sizing.too_long),
                                       format_count(static_cast<std::uint64_t>(engine.kv_tokens))));
    for (const std::string& note : engine.notes)
      text += paragraph_of(fmt::format("{}: {}", report::printable(engine.label), report::printable(note)));
  }
  return text.empty() ? text : "\n" + text;
}

nlohmann::ordered_json json_of_latency(const core::Summary& summary) {
  return {{"p50", summary.p50}, {"p95", summary.p95}, {"p99", summary.p99}};
}

nlohmann::ordered_json optional_json(const auto& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json{};
}

nlohmann::ordered_json json_of_run(const RunResult& result, const SizedEngine& engine) {
  const report::TokenCosts costs = report::token_costs(result);
  nlohmann::ordered_json made{{"replicas", result.replicas},
                              {"gpus", std::uint64_t{result.replicas} * engine.gpus_per_replica},
                              {"mean_replicas", result.mean_replicas},
                              {"peak_replicas", result.peak_replicas},
                              {"gpu_hours", result.gpu_hours},
                              {"cost_usd", result.cost},
                              {"slo_attainment", result.slo_attainment},
                              {"ttft_attainment", result.ttft_attainment},
                              {"itl_attainment", result.itl_attainment},
                              {"failed", result.failed}};
  made["usd_per_1m_tokens"] = optional_json(cost_per_million(result));
  made["usd_per_1m_input_tokens"] = optional_json(costs.input);
  made["usd_per_1m_output_tokens"] = optional_json(costs.output);
  made["ttft_ms"] = json_of_latency(result.ttft_ms);
  made["itl_ms"] = json_of_latency(result.itl_ms);
  return made;
}

nlohmann::ordered_json json_of_engine(const SizedEngine& engine) {
  const TraceSizing& sizing = engine.sizing;
  nlohmann::ordered_json made{
      {"label", report::printable(engine.label)},    {"engine", report::printable(engine.engine)},
      {"gpus_per_replica", engine.gpus_per_replica}, {"price_per_gpu_hour", engine.price_per_gpu_hour},
      {"has_own_price", engine.has_own_price},       {"kv_tokens", engine.kv_tokens},
      {"reaches_goal", sizing.reaches_goal()},       {"ruled_out", to_string(sizing.ruled_out)},
      {"why", report::printable(sizing.why)},        {"too_long_requests", sizing.too_long}};
  made["replicas"] = sizing.reaches_goal() ? nlohmann::ordered_json(sizing.result->replicas) : nlohmann::ordered_json{};
  made["usd_per_hour"] = sizing.reaches_goal() ? nlohmann::ordered_json(engine.cost_per_hour(sizing.result->replicas))
                                               : nlohmann::ordered_json{};
  made["peak_hour_replicas"] = optional_json(sizing.peak_replicas);
  made["utilisation"] = optional_json(sizing.busy);
  made["best"] = sizing.result ? json_of_run(*sizing.result, engine) : nlohmann::ordered_json{};
  made["one_fewer"] = sizing.one_fewer ? json_of_run(*sizing.one_fewer, engine) : nlohmann::ordered_json{};
  made["autoscaled"] = engine.autoscaled ? json_of_run(*engine.autoscaled, engine) : nlohmann::ordered_json{};
  nlohmann::ordered_json& trials = made["trials"] = nlohmann::ordered_json::array();
  for (const replay::FleetTrialResult& trial : sizing.trials)
    trials.push_back({{"replicas", trial.replicas}, {"slo_attainment", trial.attainment}});
  made["limits"] = report::printable(engine.limits);
  nlohmann::ordered_json& notes = made["notes"] = nlohmann::ordered_json::array();
  for (const std::string& note : engine.notes) notes.push_back(report::printable(note));
  return made;
}

}  // namespace

bool is_cheaper(const SizedEngine& a, const SizedEngine& b) {
  return report::is_cheaper(*a.sizing.result, *b.sizing.result);
}

void sort_by_cost(std::vector<SizedEngine>& engines) {
  const auto attainment = [](const SizedEngine& engine) {
    return engine.sizing.result ? engine.sizing.result->slo_attainment : -1.0;
  };
  std::stable_sort(engines.begin(), engines.end(), [&](const SizedEngine& a, const SizedEngine& b) {
    if (a.sizing.reaches_goal() != b.sizing.reaches_goal()) return a.sizing.reaches_goal();
    return a.sizing.reaches_goal() ? is_cheaper(a, b) : attainment(a) > attainment(b);
  });
}

std::string trace_sizing_page(const TraceSizingReport& report) {
  const std::string fleets = fleets_table(report);
  return head_of_trace(report) + (fleets.empty() ? "" : "\n" + fleets) + ruled_out_text(report) +
         autoscaled_text(report) + notes_text(report) + "\n" + paragraph_of(answer_to(report));
}

std::string trace_sizing_json(const TraceSizingReport& report) {
  nlohmann::ordered_json made;
  made["penstock"] = PENSTOCK_VERSION;
  made["command"] = report::printable(report.command);
  made["workload"] = report::printable(report.workload);
  made["requests"] = report.requests;
  made["skipped_rows"] = report.skipped_rows;
  made["duration_s"] = core::to_seconds(report.duration);
  made["rate_scale"] = report.rate_scale;
  made["mean_input_tokens"] = report.input_tokens;
  made["mean_output_tokens"] = report.output_tokens;
  made["peak_hour"] = {{"is_whole_trace", report.peak_is_whole_trace},
                       {"from_s", core::to_seconds(report.peak_from)},
                       {"requests", report.peak_requests}};
  made["ttft_ms"] = core::to_milliseconds(report.slo.ttft);
  made["itl_ms"] = core::to_milliseconds(report.slo.itl);
  made["slo_goal"] = report.goal;
  made["seed"] = report.seed;
  nlohmann::ordered_json& engines = made["engines"] = nlohmann::ordered_json::array();
  for (const SizedEngine& engine : report.engines) engines.push_back(json_of_engine(engine));
  return made.dump(1) + "\n";
}

}  // namespace penstock::cli
