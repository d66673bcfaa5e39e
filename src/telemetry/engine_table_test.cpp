// The table "Which signal comes from where" of docs/engines.md, compared with what is read from real expositions.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/source_root_testing.h"
#include "telemetry/adapters.h"
#include "telemetry/dynamo_kv.h"
#include "telemetry/event_envelope.h"
#include "telemetry/forward_pass.h"
#include "telemetry/frontend_workers.h"
#include "telemetry/golden_messages_testing.h"
#include "telemetry/kv_event.h"
#include "telemetry/queue_age.h"

namespace penstock::telemetry {
namespace {

const std::filesystem::path kRoot = core::testing::source_root();
const std::vector<std::string> kColumns = {"queue", "age", "KV usage", "KV capacity", "step time", "FPM", "KV events"};
using Row = std::map<std::string, std::string>;

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream parts(line.substr(1));
  for (std::string cell; std::getline(parts, cell, '|');) {
    const std::size_t from = cell.find_first_not_of(" `"), to = cell.find_last_not_of(" `");
    cells.push_back(from == std::string::npos ? "" : cell.substr(from, to - from + 1));
  }
  return cells;
}

// Rows of the table by the name of the engine.
std::map<std::string, Row> documented() {
  std::istringstream page(content_of(kRoot / "docs/engines.md"));
  std::map<std::string, Row> rows;
  std::vector<std::string> heads;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("|")) {
      heads.clear();
      continue;
    }
    const std::vector<std::string> cells = cells_of(line);
    if (cells.front() == "engine") heads = cells;
    if (heads.empty() || cells.front() == "engine" || cells.front().starts_with("---")) continue;
    if (std::find(heads.begin(), heads.end(), kColumns.front()) == heads.end()) continue;  // Another table of engines.
    for (std::size_t i = 1; i < heads.size() && i < cells.size(); ++i) rows[cells.front()][heads[i]] = cells[i];
  }
  return rows;
}

std::string age_of(const EngineScrape& scrape) {
  if (scrape.oldest_queued_s) return "reported";
  QueueAge age;
  (void)age.observe(scrape, core::kStart);
  return age.observe(scrape, core::kStart + std::chrono::seconds{10}) ? "estimated" : "no";
}

std::string step_time_of(const EngineScrape& scrape, bool has_messages) {
  if (scrape.itl_s) return scrape.iterations_total ? "ITL and iterations" : "ITL";
  return has_messages ? "FPM" : "no";
}

// Which golden message of this format can be read; the messages were written by the engines' own classes.
std::string messages_of(const std::string& format) {
  if (format == "Dynamo") {
    const std::string frame = from_hex(kForwardPassFrame);
    const auto envelope = decode_event_frame(frame);
    return envelope && decode_forward_pass(envelope->payload) ? "yes" : "no";
  }
  return decode_forward_pass(from_hex(kForwardPass)) ? "yes" : "no";
}

bool reads(std::string_view message) {
  const std::string bytes = from_hex(message);
  if (const auto envelope = decode_event_frame(bytes)) return decode_worker_kv(*envelope).has_value();
  return decode_batch(bytes).has_value();
}

std::string events_of(const std::set<std::string_view>& messages) {
  for (const std::string_view message : messages)
    if (!reads(message)) return "no";
  return messages.empty() ? "no" : "yes";
}

Row read(const std::string& engine) {
  const std::string text = content_of(kRoot / "tests/engines/captured" / (engine + ".txt"));
  const auto exposition = parse_exposition(text, engine);
  EXPECT_TRUE(exposition) << engine;
  const EngineScrape scrape = read_scrape(*exposition);
  const auto sample = to_sample(scrape, core::kStart);
  const auto workers = read_frontend_workers(*exposition);
  const std::map<std::string, std::string> messages = {{"penstock", messages_of("Penstock")},
                                                       {"dynamo", messages_of("Dynamo")}};
  const std::map<std::string, std::set<std::string_view>> events = {{"vllm", {kArrayBatch, kMapBatch}},
                                                                    {"penstock", {kArrayBatch}},
                                                                    {"sglang", {kSglangBatch}},
                                                                    {"dynamo", {kKvStoredFrame, kKvRemovedFrame}}};
  const auto known = [&](const auto& by_engine, const auto& otherwise) {
    const auto found = by_engine.find(engine);
    return found == by_engine.end() ? otherwise : found->second;
  };
  const std::string fpm = known(messages, std::string{"no"});
  const std::string kv_events = events_of(known(events, std::set<std::string_view>{}));
  return {{"queue", sample ? "yes" : "no"},
          {"age", age_of(scrape)},
          {"KV usage", sample && sample->kv_usage()                ? "yes"
                       : engine == "dynamo" && reads(kKvUsedFrame) ? "of its workers"
                                                                   : "no"},
          {"KV capacity", scrape.kv_capacity_tokens       ? "yes"
                          : workers && workers->kv_tokens ? "of its workers"
                                                          : "no"},
          {"step time", step_time_of(scrape, fpm == "yes")},
          {"FPM", fpm},
          {"KV events", kv_events}};
}

TEST(EngineTable, TheDocumentedSignalsAreThoseThatAreRead) {
  const std::map<std::string, Row> rows = documented();
  std::set<std::string> captured;
  for (const auto& file : std::filesystem::directory_iterator(kRoot / "tests/engines/captured"))
    captured.insert(file.path().stem().string());
  std::set<std::string> named;
  for (const auto& [engine, row] : rows) named.insert(engine);
  EXPECT_EQ(named, captured);
  for (const std::string& engine : captured) {
    const Row seen = read(engine);
    const auto row = rows.find(engine);
    if (row == rows.end()) continue;
    for (const std::string& column : kColumns) {
      const auto cell = row->second.find(column);
      EXPECT_EQ(cell == row->second.end() ? "(missing)" : cell->second, seen.at(column)) << engine << ", " << column;
    }
  }
}

// Each row of the table may be wrong in one direction only if an adapter reads less: no figure is made up.
TEST(EngineTable, AnEngineWithoutTheSeriesHasNoFigure) {
  for (const std::string line : {"vllm:num_requests_running 1\nvllm:num_requests_waiting 2\n",
                                 "llamacpp:requests_processing 1\nllamacpp:requests_deferred 2\n"}) {
    const EngineScrape scrape = read_scrape(*parse_exposition(line, "test"));
    EXPECT_EQ(age_of(scrape), "no");
    EXPECT_EQ(step_time_of(scrape, false), "no");
    EXPECT_FALSE(scrape.kv_usage || scrape.kv_capacity_tokens);
  }
}

}  // namespace
}  // namespace penstock::telemetry
