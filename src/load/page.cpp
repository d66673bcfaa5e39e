#include "load/page.h"

#include <fmt/format.h>

#include <array>
#include <span>

#include "load/latency_text.h"
#include "load/time_chart.h"
#include "report/format.h"

namespace penstock::load {
namespace {

using report::format_count;
using report::format_milliseconds;
using report::format_quantity;
using report::format_share;

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Penstock load</title>
<style>
:root { --paper: #faf9f6; --surface: #fff; --ink: #1b2430; --soft: #566070; --line: #e5e2da; --first: #0a5f9e;
  --second: #b4541f; --good: #0b7a5b; --bad: #b4441f; color-scheme: light; }
@media (prefers-color-scheme: dark) { :root { --paper: #11151b; --surface: #191f27; --ink: #e8ebef; --soft: #9ca7b5;
  --line: #2c343f; --first: #79b8f2; --second: #f0a36b; --good: #4cc79d; --bad: #f2875c; color-scheme: dark; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 Inter, system-ui, -apple-system, "Segoe UI",
  Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; font-variant-numeric: tabular-nums; }
main { max-width: 1380px; margin: 0 auto; padding: 28px 24px 48px; }
h1 { margin: 0; font-size: 1.5rem; } h2 { margin: 32px 0 10px; font-size: 1.1rem; }
p { margin: 4px 0; color: var(--soft); overflow-wrap: anywhere; }
.tiles, .charts { display: grid; gap: 14px; margin-top: 18px; }
.tiles { grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); }
.charts { grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); }
.card { background: var(--surface); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; }
.card b { display: block; font-size: 1.35rem; font-weight: 600; }
.card span { color: var(--soft); font-size: .86rem; }
.scroll { overflow-x: auto; } svg { width: 100%; height: auto; display: block; }
table { width: 100%; border-collapse: collapse; font-size: .88rem; }
th, td { padding: 5px 10px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 500; }
td.wide { width: 45%; } .meter { height: 10px; border-radius: 5px; background: var(--first); }
.good { color: var(--good); } .bad { color: var(--bad); } td.text { text-align: left; white-space: normal; }
</style>
</head>
<body>
<main>
)";

void add_tiles(std::string& out, const RunSummary& run, const Tally& tally) {
  const Figures& all = tally.all();
  const auto tile = [&](std::string_view name, std::string_view value, bool bad = false) {
    out +=
        fmt::format("<div class=\"card\"><span>{}</span><b{}>{}</b></div>\n", name, bad ? " class=\"bad\"" : "", value);
  };
  out += "<div class=\"tiles\">\n";
  tile("requests succeeded", format_count(all.of(Outcome::kOk)));
  tile("refused", format_count(all.of(Outcome::kRefused)));
  tile("failed", format_count(all.of(Outcome::kFailed)), all.of(Outcome::kFailed) > 0);
  tile("truncated", format_count(all.of(Outcome::kTruncated)), all.of(Outcome::kTruncated) > 0);
  tile("timed out", format_count(all.of(Outcome::kTimedOut)), all.of(Outcome::kTimedOut) > 0);
  tile("cancelled", format_count(all.of(Outcome::kCancelled)));
  tile("requests a second", format_quantity(ok_per_s(tally)));
  tile("tokens a second", format_quantity(tokens_per_s(tally)));
  tile("TTFT p95", latency_text(all.ttft_ms, 0.95));
  tile("ITL p95", latency_text(all.itl_ms, 0.95));
  tile("generator's CPU, of a core", format_share(cpu_share(run)), cpu_share(run) > kBusyShare);
  tile("sends late by, p99", latency_text(tally.lateness_ms(), 0.99), is_bottleneck(run, tally));
  out += "</div>\n";
}

void add_verdicts(std::string& out, const RunSummary& run) {
  if (run.verdicts.empty()) return;
  out +=
      "<h2>Expectations</h2>\n<div class=\"card scroll\"><table>\n"
      "<tr><th>figure</th><th>limit</th><th>measured</th><th></th></tr>\n";
  for (const Verdict& verdict : run.verdicts)
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"{}\">{}</td></tr>\n",
                       report::markup_escaped(verdict.name), report::markup_escaped(verdict.limit),
                       report::markup_escaped(verdict.measured), verdict.is_met ? "good" : "bad",
                       verdict.is_met ? "met" : "missed");
  out += "</table></div>\n";
}

std::optional<double> quantile_of(const core::QuantileSketch& sketch, double quantile) {
  if (sketch.count() == 0) return std::nullopt;
  return sketch.quantile(quantile);
}

void add_charts(std::string& out, const Tally& tally) {
  const double width_s = core::to_seconds(tally.slot_width());
  const auto latency = [](double value) { return format_milliseconds(value); };
  const auto number = [](double value) { return format_quantity(value); };
  const auto per_second = [width_s](std::uint64_t count) { return static_cast<double>(count) / width_s; };
  const std::array charts = {
      TimeChart{"TTFT, by intended start",
                latency,
                {{"p50", "var(--first)", [](const TimeSlot& s) { return quantile_of(s.ttft_ms, 0.5); }},
                 {"p95", "var(--second)", [](const TimeSlot& s) { return quantile_of(s.ttft_ms, 0.95); }}}},
      TimeChart{"ITL, by intended start",
                latency,
                {{"p50", "var(--first)", [](const TimeSlot& s) { return quantile_of(s.itl_ms, 0.5); }},
                 {"p95", "var(--second)", [](const TimeSlot& s) { return quantile_of(s.itl_ms, 0.95); }}}},
      TimeChart{"requests a second, by intended start",
                number,
                {{"all", "var(--first)", [=](const TimeSlot& s) { return std::optional{per_second(s.meant)}; }},
                 {"refused", "var(--soft)", [=](const TimeSlot& s) { return std::optional{per_second(s.refused)}; }},
                 {"errors", "var(--bad)", [=](const TimeSlot& s) { return std::optional{per_second(s.errors)}; }}}},
      TimeChart{"tokens a second",
                number,
                {{"received", "var(--first)", [=](const TimeSlot& s) { return std::optional{per_second(s.tokens)}; }}}},
      TimeChart{"requests in flight, most", number, {{"in flight", "var(--first)", [](const TimeSlot& s) {
                                                        return std::optional{static_cast<double>(s.in_flight_max)};
                                                      }}}}};
  out += "<h2>Over time</h2>\n<div class=\"charts\">\n";
  for (const TimeChart& chart : charts) out += "<div class=\"card\">" + draw(chart, tally) + "</div>\n";
  out += "</div>\n";
}

void add_latencies(std::string& out, const Tally& tally) {
  out +=
      "<h2>Latencies</h2>\n<div class=\"card scroll\"><table>\n<tr><th></th><th>p50</th><th>p90</th><th>p95</th>"
      "<th>p99</th><th>max</th><th>mean</th><th>samples</th></tr>\n";
  const auto row = [&](std::string_view name, const core::QuantileSketch& sketch) {
    out += fmt::format("<tr><td>{}</td>", name);
    for (const double quantile : {0.5, 0.9, 0.95, 0.99})
      out += fmt::format("<td>{}</td>", latency_text(sketch, quantile));
    const bool any = sketch.count() > 0;
    out += fmt::format("<td>{}</td><td>{}</td><td>{}</td></tr>\n", any ? format_milliseconds(sketch.max()) : "–",
                       any ? format_milliseconds(sketch.mean()) : "–", format_count(sketch.count()));
  };
  row("TTFT, from the intended start", tally.all().ttft_ms);
  row("ITL, mean gap of a request", tally.all().itl_ms);
  row("gap between two tokens", tally.gaps_ms());
  row("longest gap of a request", tally.max_gaps_ms());
  row("first byte", tally.first_byte_ms());
  row("whole answer", tally.all().latency_ms);
  out += "</table></div>\n";
}

void add_histogram(std::string& out, std::string_view title, const core::QuantileSketch& sketch,
                   std::span<const double> bounds_ms) {
  if (sketch.count() == 0) return;
  out += fmt::format("<div class=\"card\"><table>\n<tr><th>{}</th><th>share</th><th></th></tr>\n", title);
  double before = 0.0;
  const auto row = [&](const std::string& name, double up_to) {
    const double share = std::max(up_to - before, 0.0);
    out += fmt::format(
        "<tr><td>{}</td><td>{}</td><td class=\"wide\"><div class=\"meter\" style=\"width:{:.1f}%\"></div>"
        "</td></tr>\n",
        name, format_share(share), share * 100.0);
    before = up_to;
  };
  for (const double bound : bounds_ms) row("up to " + format_milliseconds(bound), sketch.share_at_most(bound));
  row("longer", 1.0);
  out += "</table></div>\n";
}

void add_segments(std::string& out, const Tally& tally) {
  out +=
      "<h2>Segments</h2>\n<div class=\"card scroll\"><table>\n<tr><th>segment</th><th>requests</th><th>errors</th>"
      "<th>refused</th><th>TTFT p50</th><th>p95</th><th>p99</th><th>ITL p50</th><th>p95</th><th>p99</th></tr>\n";
  for (const Segment& segment : tally.segments()) {
    const Figures& figures = segment.figures;
    out += fmt::format("<tr><td>{} {}</td><td>{}</td><td>{}</td><td>{}</td>", segment.group,
                       report::markup_escaped(segment.label), format_count(figures.ended()),
                       format_count(figures.errors()), format_count(figures.of(Outcome::kRefused)));
    for (const auto* sketch : {&figures.ttft_ms, &figures.itl_ms})
      for (const double quantile : {0.5, 0.95, 0.99})
        out += fmt::format("<td>{}</td>", latency_text(*sketch, quantile));
    out += "</tr>\n";
  }
  out += "</table></div>\n";
}

void add_causes(std::string& out, const Tally& tally) {
  if (tally.causes().empty()) return;
  out +=
      "<h2>What did not end well</h2>\n<div class=\"card scroll\"><table>\n"
      "<tr><th>cause</th><th>requests</th><th>an example</th></tr>\n";
  for (const auto& [reason, cause] : tally.causes())
    out += fmt::format("<tr><td>{}</td><td>{}</td><td class=\"text\">{}</td></tr>\n", report::markup_escaped(reason),
                       format_count(cause.count), report::markup_escaped(cause.example));
  out += "</table></div>\n";
}

}  // namespace

std::string to_page(const RunSummary& run, const Tally& tally) {
  constexpr std::array kTtftBounds = {50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0};
  constexpr std::array kGapBounds = {5.0, 10.0, 20.0, 30.0, 50.0, 100.0, 200.0, 500.0};
  std::string out{kHead};
  out += fmt::format("<h1>Penstock load: {}</h1>\n<p>{}{}, {}</p>\n<p>{}</p>\n", report::markup_escaped(run.target),
                     run.interrupted ? "Interrupted. " : "", report::markup_escaped(run.model),
                     report::markup_escaped(run.traffic), report::markup_escaped(run.command));
  if (is_bottleneck(run, tally))
    out += "<p class=\"bad\">The generator may be the bottleneck: latencies include its own delays.</p>\n";
  add_tiles(out, run, tally);
  add_verdicts(out, run);
  add_charts(out, tally);
  add_latencies(out, tally);
  out += "<div class=\"charts\">\n";
  add_histogram(out, "TTFT", tally.all().ttft_ms, kTtftBounds);
  add_histogram(out, "gap between two tokens", tally.gaps_ms(), kGapBounds);
  out += "</div>\n";
  add_segments(out, tally);
  add_causes(out, tally);
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace penstock::load
