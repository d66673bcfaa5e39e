#include "load/live_view.h"

#include <fmt/format.h>

#include "load/latency_text.h"
#include "report/format.h"

namespace penstock::load {
namespace {

using report::format_count;
using report::format_quantity;

std::string clock(core::Duration time) {
  const auto seconds = time / std::chrono::seconds{1};
  return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
}

std::string counts(const Figures& all) {
  return fmt::format("{} ok, {} refused, {} errors", format_count(all.of(Outcome::kOk)),
                     format_count(all.of(Outcome::kRefused)), format_count(all.errors()));
}

}  // namespace

std::string render_live(const LiveState& state, const Tally& tally) {
  const Tally::Recent recent = tally.recent(state.elapsed);
  const std::string of = state.planned.count() > 0 ? " of " + clock(state.planned) : "";
  std::string out = fmt::format("{}{}   {} in flight   {}{}\n", clock(state.elapsed), of, format_count(state.in_flight),
                                counts(tally.all()), state.at_limit ? "   limit in flight reached" : "");
  out += fmt::format("last 10 s   {} requests/s   {} tokens/s\n", format_quantity(recent.sent_per_s),
                     format_quantity(recent.tokens_per_s));
  out += fmt::format("TTFT        p50 {:>8}   p95 {:>8}      ITL  p50 {:>8}   p95 {:>8}\n",
                     latency_text(recent.ttft_ms, 0.5), latency_text(recent.ttft_ms, 0.95),
                     latency_text(recent.gap_ms, 0.5), latency_text(recent.gap_ms, 0.95));
  out += fmt::format("generator   CPU {}   sends late by p99 {}\n", report::format_share(state.cpu_share),
                     latency_text(tally.lateness_ms(), 0.99));
  return out;
}

std::string render_progress(const LiveState& state, const Tally& tally) {
  const Tally::Recent recent = tally.recent(state.elapsed);
  return fmt::format("{}  {}, {} in flight, {} requests/s, {} tokens/s, TTFT p95 {}, ITL p95 {}{}\n",
                     clock(state.elapsed), counts(tally.all()), format_count(state.in_flight),
                     format_quantity(recent.sent_per_s), format_quantity(recent.tokens_per_s),
                     latency_text(recent.ttft_ms, 0.95), latency_text(recent.gap_ms, 0.95),
                     state.at_limit ? ", limit in flight reached" : "");
}

}  // namespace penstock::load
