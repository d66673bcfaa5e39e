#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "load/live_view.h"
#include "load/reports.h"

namespace penstock::load {
namespace {

using namespace std::chrono_literals;

const std::string kHostile = "<script>alert(1)</script>\x1b[31m\xff";

Tally sample() {
  Tally tally{{kHostile}};
  for (int i = 0; i < 30; ++i) {
    RequestRecord record;
    record.intended = i * 1s;
    tally.record_sent({record.intended, record.intended + 1ms, false});
    record.first_byte = record.first_token = i * 1s + 200ms;
    record.last_token = record.end = i * 1s + 400ms;
    record.tokens = record.text_events = 11;
    record.max_gap = 40ms;
    tally.record_first_token(200ms, *record.first_token);
    tally.record_tokens({.count = 1}, *record.first_token);
    tally.record_tokens({.count = 10, .gap = 20ms}, record.end);
    tally.record_end(record, {.output_tokens = 11}, {});
  }
  RequestRecord failed;
  failed.outcome = Outcome::kFailed;
  failed.reason = "status 500";
  failed.end = 2s;
  tally.record_end(failed, {}, kHostile);
  return tally;
}

RunSummary summary() {
  RunSummary run;
  run.target = "http://127.0.0.1:1";
  run.model = kHostile;
  run.traffic = "open loop, 1 requests/s, poisson";
  run.command = "penstock load http://127.0.0.1:1 --rate 1";
  run.elapsed = 30s;
  run.cpu_s = 0.3;
  run.max_in_flight = 64;
  run.verdicts = {{"ttft_p95", "2s", "200 ms", true}, {"errors", "0", "1", false}};
  return run;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(LoadTable, ShowsFiguresCausesAndVerdicts) {
  const std::string table = render_table(summary(), sample());
  for (const char* part : {"30 ok", "1 failed", "TTFT", "200 ms", "20.0 ms", "status 500", "met    ttft_p95=2s: 200 ms",
                           "MISSED errors=0: 1", "µs a token", "sends late by p99 0.99 ms"})
    EXPECT_TRUE(has(table, part)) << part << "\n" << table;
  EXPECT_FALSE(has(table, "bottleneck"));
  EXPECT_FALSE(has(table, "\x1b"));
}

TEST(LoadTable, SaysWhenTheGeneratorIsTheBottleneckOrTheLimitWasReached) {
  RunSummary busy = summary();
  busy.cpu_s = 29.0;
  EXPECT_TRUE(has(render_table(busy, sample()), "bottleneck"));
  Tally late = sample();
  for (int i = 0; i < 5; ++i) late.record_sent({1s, 2s, false});
  EXPECT_TRUE(has(render_table(summary(), late), "bottleneck"));
  Tally held = sample();
  held.record_sent({1s, 20s, true});
  EXPECT_TRUE(has(render_table(summary(), held), "limit of 64 in flight was reached"));
}

TEST(LoadTable, OfNothingHasNoFigures) {
  const std::string table = render_table(summary(), Tally{{"default"}});
  EXPECT_FALSE(has(table, "nan"));
  EXPECT_TRUE(has(table, "–"));
}

TEST(LoadDocument, ReadsBackWithNullForWhatWasNotMeasured) {
  const auto json = nlohmann::json::parse(to_json(summary(), sample()));
  EXPECT_EQ(json["requests"]["ok"], 30);
  EXPECT_EQ(json["requests"]["errors"], 1);
  EXPECT_NEAR(json["ttft_ms"]["p95"].get<double>(), 200.0, 3.0);
  EXPECT_NEAR(json["itl_ms"]["p50"].get<double>(), 20.0, 0.3);
  EXPECT_EQ(json["gap_ms"]["count"], 300);
  EXPECT_NEAR(json["generator"]["cpu_share"].get<double>(), 0.01, 1e-9);
  EXPECT_EQ(json["timeline"].size(), 30U);
  EXPECT_EQ(json["expectations"][1]["met"], false);
  EXPECT_EQ(json["causes"][0]["reason"], "status 500");
  const auto nothing = nlohmann::json::parse(to_json(summary(), Tally{{"default"}}));
  EXPECT_TRUE(nothing["ttft_ms"]["p95"].is_null());
  EXPECT_TRUE(nothing["generator"]["cpu_us_per_token"].is_null());
}

TEST(LoadPage, IsSelfContainedAndEscapesMarkup) {
  const std::string page = to_page(summary(), sample());
  EXPECT_FALSE(has(page, "<script>"));  // the page's own scripts have attributes
  EXPECT_FALSE(has(page, "\x1b"));
  EXPECT_FALSE(has(page, "{{"));
  std::string without_names = page;
  for (std::size_t at = 0; (at = without_names.find("http://www.w3.org/2000/svg")) != std::string::npos;)
    without_names.erase(at, 26);
  EXPECT_FALSE(has(without_names, "src="));
  EXPECT_FALSE(has(without_names, "href="));
  for (const char* part : {"prefers-color-scheme: dark", "TTFT, by intended start", "&lt;script&gt;",
                           "MISSED errors=0: 1", "status 500", "default-src 'none'; script-src 'nonce-penstock'"})
    EXPECT_TRUE(has(page, part)) << part;
  EXPECT_LT(page.size(), 200'000U);
}

TEST(LoadPage, CarriesTheDocument) {
  const std::string page = to_page(summary(), sample());
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  const std::string data = page.substr(begin, page.find("</script>", begin) - begin);
  EXPECT_EQ(nlohmann::json::parse(data), nlohmann::json::parse(to_json(summary(), sample())));
}

TEST(LoadDocument, HistogramsAddUpToAllSamples) {
  const auto json = nlohmann::json::parse(to_json(summary(), sample()));
  double all = 0.0;
  for (const auto& bar : json["ttft_histogram"]) all += bar["share"].get<double>();
  EXPECT_NEAR(all, 1.0, 1e-9);
  // All samples are of 200 ms, give or take the error of the sketch.
  EXPECT_DOUBLE_EQ(json["ttft_histogram"][2]["up_to_ms"], 200.0);
  EXPECT_NEAR(json["ttft_histogram"][2]["share"].get<double>() + json["ttft_histogram"][3]["share"].get<double>(), 1.0,
              1e-9);
  EXPECT_TRUE(json["ttft_histogram"].back()["up_to_ms"].is_null());
  const auto nothing = nlohmann::json::parse(to_json(summary(), Tally{{"default"}}));
  EXPECT_TRUE(nothing["gap_histogram"].empty());
}

TEST(LiveView, FitsItsLinesAndShowsTheLastSeconds) {
  const LiveState state{.elapsed = 30s, .planned = 60s, .in_flight = 7, .at_limit = true, .cpu_share = 0.12};
  const std::string view = render_live(state, sample());
  EXPECT_EQ(std::count(view.begin(), view.end(), '\n'), kLiveLines);
  for (const char* part : {"0:30 of 1:00", "7 in flight", "30 ok", "1 errors", "limit in flight", "12.0 %", "198 ms"})
    EXPECT_TRUE(has(view, part)) << part << "\n" << view;
  const std::string line = render_progress(state, sample());
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
}

}  // namespace
}  // namespace penstock::load
