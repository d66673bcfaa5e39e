#include <fmt/format.h>

#include "load/latency_text.h"
#include "load/reports.h"
#include "report/format.h"
#include "report/grid.h"

namespace penstock::load {
namespace {

using report::format_count;
using report::format_milliseconds;
using report::format_quantity;
using report::format_share;

void append_latencies(std::string& out, const Tally& tally) {
  report::Grid grid{{{"", true}, {"p50"}, {"p90"}, {"p95"}, {"p99"}, {"max"}, {"samples"}}};
  const auto row = [&](std::string_view name, const core::QuantileSketch& sketch) {
    std::vector<std::string> cells{std::string{name}};
    for (const double quantile : {0.5, 0.9, 0.95, 0.99}) cells.push_back(latency_text(sketch, quantile));
    cells.push_back(sketch.count() == 0 ? "–" : format_milliseconds(sketch.max()));
    cells.push_back(format_count(sketch.count()));
    grid.add(std::move(cells));
  };
  row("TTFT, from intended start", tally.all().ttft_ms);
  row("ITL, mean of a request", tally.all().itl_ms);
  row("gap between two tokens", tally.gaps_ms());
  row("longest gap of a request", tally.max_gaps_ms());
  row("first byte", tally.first_byte_ms());
  row("whole answer", tally.all().latency_ms);
  out += "\n" + grid.text();
}

void append_segments(std::string& out, const Tally& tally) {
  report::Grid grid{
      {{"segment", true}, {"requests"}, {"errors"}, {"refused"}, {"TTFT p50"}, {"p95"}, {"ITL p50"}, {"p95"}}};
  for (const Segment& segment : tally.segments()) {
    const Figures& figures = segment.figures;
    grid.add({fmt::format("{} {}", segment.group, segment.label), format_count(figures.ended()),
              format_count(figures.errors()), format_count(figures.of(Outcome::kRefused)),
              latency_text(figures.ttft_ms, 0.5), latency_text(figures.ttft_ms, 0.95),
              latency_text(figures.itl_ms, 0.5), latency_text(figures.itl_ms, 0.95)});
  }
  out += "\n" + grid.text();
}

void append_causes(std::string& out, const Tally& tally) {
  if (tally.causes().empty()) return;
  out += "\nrequests that did not succeed\n";
  for (const auto& [reason, cause] : tally.causes()) {
    out += fmt::format("  {:>8} {}", format_count(cause.count), report::printable(reason));
    if (!cause.example.empty()) out += fmt::format(": {}", report::printable(cause.example));
    out += "\n";
  }
}

void add_generator(std::string& out, const RunSummary& run, const Tally& tally) {
  out += fmt::format("\ngenerator: {} of a core", format_share(cpu_share(run)));
  if (tally.tokens_received() > 0)
    out +=
        fmt::format(", {} µs a token", format_quantity(run.cpu_s * 1e6 / static_cast<double>(tally.tokens_received())));
  if (tally.lateness_ms().count() > 0)
    out += fmt::format(", sends late by p99 {}", format_milliseconds(tally.lateness_ms().quantile(0.99)));
  out += "\n";
  if (tally.held_by_limit() > 0)
    out += fmt::format("{} requests waited because the limit of {} in flight was reached\n",
                       format_count(tally.held_by_limit()), format_count(run.max_in_flight));
  if (is_bottleneck(run, tally)) out += "the generator may be the bottleneck: latencies include its own delays\n";
}

}  // namespace

std::string render_table(const RunSummary& run, const Tally& tally) {
  const Figures& all = tally.all();
  std::string out = fmt::format("{}  {}\n{}\n\n", report::printable(run.target), report::printable(run.model),
                                report::printable(run.traffic));
  out += fmt::format("{} {} ok, {} refused, {} failed, {} truncated, {} timed out, {} cancelled\n",
                     run.interrupted ? "interrupted:" : "requests:", format_count(all.of(Outcome::kOk)),
                     format_count(all.of(Outcome::kRefused)), format_count(all.of(Outcome::kFailed)),
                     format_count(all.of(Outcome::kTruncated)), format_count(all.of(Outcome::kTimedOut)),
                     format_count(all.of(Outcome::kCancelled)));
  out += fmt::format("in {}: {} requests/s, {} tokens/s", report::format_seconds(core::to_seconds(run.elapsed)),
                     format_quantity(ok_per_s(tally)), format_quantity(tokens_per_s(tally)));
  if (all.tokens_wanted > 0)
    out += fmt::format(", {} of the requested tokens",
                       format_share(static_cast<double>(all.tokens_out) / static_cast<double>(all.tokens_wanted)));
  if (tally.cached_tokens() > 0)
    out += fmt::format(", {} of the prompts cached", format_share(static_cast<double>(tally.cached_tokens()) /
                                                                  static_cast<double>(tally.prompt_tokens())));
  out += "\n";
  append_latencies(out, tally);
  append_segments(out, tally);
  append_causes(out, tally);
  add_generator(out, run, tally);
  if (!run.verdicts.empty()) out += "\n";
  for (const Verdict& verdict : run.verdicts)
    out += fmt::format("{} {}={}: {}\n", verdict.is_met ? "met   " : "MISSED", verdict.name, verdict.limit,
                       verdict.measured);
  return out;
}

}  // namespace penstock::load
