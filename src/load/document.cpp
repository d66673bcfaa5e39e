#include <array>
#include <nlohmann/json.hpp>
#include <span>

#include "load/assets.h"
#include "load/reports.h"
#include "report/document.h"
#include "report/format.h"
#include "report/page_template.h"

namespace penstock::load {
namespace {

using Json = nlohmann::ordered_json;

Json latencies(const core::QuantileSketch& sketch) {
  const bool any = sketch.count() > 0;
  const auto figure = [&](double value) { return any ? Json(value) : Json(nullptr); };
  return {{"count", sketch.count()},
          {"mean", figure(sketch.mean())},
          {"p50", figure(sketch.quantile(0.5))},
          {"p90", figure(sketch.quantile(0.9))},
          {"p95", figure(sketch.quantile(0.95))},
          {"p99", figure(sketch.quantile(0.99))},
          {"max", figure(sketch.max())}};
}

constexpr std::array kTtftBounds = {50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0};
constexpr std::array kGapBounds = {5.0, 10.0, 20.0, 30.0, 50.0, 100.0, 200.0, 500.0};

// Shares of the samples up to each bound and above the previous one; the last bar has no bound.
Json histogram(const core::QuantileSketch& sketch, std::span<const double> bounds_ms) {
  Json bars = Json::array();
  double below = 0.0;
  const auto add = [&](const Json& bound, double up_to) {
    bars.push_back({{"up_to_ms", bound}, {"share", std::max(up_to - below, 0.0)}});
    below = up_to;
  };
  if (sketch.count() == 0) return bars;
  for (const double bound : bounds_ms) add(bound, sketch.share_at_most(bound));
  add(nullptr, 1.0);
  return bars;
}

Json outcomes(const Figures& figures) {
  Json json;
  json["ok"] = figures.of(Outcome::kOk);
  json["refused"] = figures.of(Outcome::kRefused);
  json["failed"] = figures.of(Outcome::kFailed);
  json["truncated"] = figures.of(Outcome::kTruncated);
  json["timed_out"] = figures.of(Outcome::kTimedOut);
  json["cancelled"] = figures.of(Outcome::kCancelled);
  json["errors"] = figures.errors();
  return json;
}

Json segments(const Tally& tally) {
  Json json = Json::array();
  for (const Segment& segment : tally.segments()) {
    Json one;
    one["group"] = segment.group;
    one["label"] = report::printable(segment.label);
    one["requests"] = outcomes(segment.figures);
    one["tokens_out"] = segment.figures.tokens_out;
    one["ttft_ms"] = latencies(segment.figures.ttft_ms);
    one["itl_ms"] = latencies(segment.figures.itl_ms);
    one["latency_ms"] = latencies(segment.figures.latency_ms);
    json.push_back(std::move(one));
  }
  return json;
}

Json timeline(const Tally& tally) {
  const auto figure = [](const core::QuantileSketch& sketch, double quantile) {
    return sketch.count() == 0 ? Json(nullptr) : Json(sketch.quantile(quantile));
  };
  Json json = Json::array();
  for (std::size_t i = 0; i < tally.slots().size(); ++i) {
    const TimeSlot& slot = tally.slots()[i];
    Json one;
    one["from_s"] = core::to_seconds(tally.slot_width()) * static_cast<double>(i);
    one["meant"] = slot.meant;
    one["ok"] = slot.ok;
    one["refused"] = slot.refused;
    one["errors"] = slot.errors;
    one["tokens"] = slot.tokens;
    one["in_flight_max"] = slot.in_flight_max;
    one["ttft_p50_ms"] = figure(slot.ttft_ms, 0.5);
    one["ttft_p95_ms"] = figure(slot.ttft_ms, 0.95);
    one["itl_p50_ms"] = figure(slot.itl_ms, 0.5);
    one["itl_p95_ms"] = figure(slot.itl_ms, 0.95);
    json.push_back(std::move(one));
  }
  return json;
}

Json causes(const Tally& tally) {
  Json json = Json::array();
  for (const auto& [reason, cause] : tally.causes())
    json.push_back({{"reason", reason}, {"count", cause.count}, {"example", report::printable(cause.example)}});
  return json;
}

Json generator(const RunSummary& run, const Tally& tally) {
  Json json;
  json["cpu_s"] = run.cpu_s;
  json["cpu_share"] = cpu_share(run);
  json["cpu_us_per_token"] = tally.tokens_received() == 0
                                 ? Json(nullptr)
                                 : Json(run.cpu_s * 1e6 / static_cast<double>(tally.tokens_received()));
  json["send_lateness_ms"] = latencies(tally.lateness_ms());
  json["held_by_limit"] = tally.held_by_limit();
  json["max_in_flight"] = run.max_in_flight;
  json["bottleneck"] = is_bottleneck(run, tally);
  return json;
}

}  // namespace

std::string to_json(const RunSummary& run, const Tally& tally) {
  Json json;
  json["target"] = run.target;
  json["model"] = report::printable(run.model);
  json["traffic"] = run.traffic;
  json["command"] = report::printable(run.command);
  json["interrupted"] = run.interrupted;
  json["duration_s"] = core::to_seconds(run.elapsed);
  json["requests"] = outcomes(tally.all());
  json["requests_per_s"] = ok_per_s(tally);
  json["tokens_out"] = tally.all().tokens_out;
  json["tokens_wanted"] = tally.all().tokens_wanted;
  json["tokens_per_s"] = tokens_per_s(tally);
  json["prompt_tokens"] = tally.prompt_tokens();
  json["cached_tokens"] = tally.cached_tokens();
  json["ttft_ms"] = latencies(tally.all().ttft_ms);
  json["itl_ms"] = latencies(tally.all().itl_ms);
  json["gap_ms"] = latencies(tally.gaps_ms());
  json["max_gap_ms"] = latencies(tally.max_gaps_ms());
  json["first_byte_ms"] = latencies(tally.first_byte_ms());
  json["latency_ms"] = latencies(tally.all().latency_ms);
  json["ttft_histogram"] = histogram(tally.all().ttft_ms, kTtftBounds);
  json["gap_histogram"] = histogram(tally.gaps_ms(), kGapBounds);
  json["segments"] = segments(tally);
  json["causes"] = causes(tally);
  json["generator"] = generator(run, tally);
  json["expectations"] = Json::array();
  for (const Verdict& verdict : run.verdicts)
    json["expectations"].push_back(
        {{"name", verdict.name}, {"limit", verdict.limit}, {"seen", verdict.measured}, {"met", verdict.is_met}});
  json["timeline"] = timeline(tally);
  return report::write_json(json, {}) + "\n";
}

std::string to_page(const RunSummary& run, const Tally& tally) {
  return report::fill_page(assets::page(), {{"title", report::escape_markup(report::printable(run.target))},
                                            {"style", std::string{assets::style()}},
                                            {"table", report::escape_markup(render_table(run, tally))},
                                            {"data", report::escape_json(to_json(run, tally))},
                                            {"scripts", std::string{assets::scripts()}}});
}

}  // namespace penstock::load
