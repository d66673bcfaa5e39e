// `penstock workload`: describes traces.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "configuration/configuration.h"
#include "configuration/traces.h"
#include "options/values.h"
#include "report/format.h"
#include "report/grid.h"
#include "report/write_file.h"
#include "workload/statistics.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;
using workload::Statistics;

struct Described {
  std::string name;   // As given by the user.
  std::string title;  // Short name.
  std::string format;
  workload::ReadReport report;
  Statistics statistics;
};

Usage workload_usage(const options::Table& table) {
  Usage usage;
  usage.command = "workload";
  usage.summary =
      "Reads traces and prints what determines the load on a fleet: rates, lengths, bursts and shared prefixes. A\n"
      "TRACE of - is standard input. Rates are those over the duration, which begins at time 0 of the trace and ends\n"
      "with the last arrival.";
  usage.operand = "TRACE";
  usage.many_operands = true;
  usage.flags = flags_of(table);
  usage.notes =
      "Examples:\n"
      "  penstock workload conversation.jsonl.xz\n"
      "  penstock workload azure.csv --from 1h --to 2h --rate-scale 4 --json -\n";
  return usage;
}

std::string lengths(const core::Summary& summary) {
  const auto whole = [](double tokens) { return report::format_count(static_cast<std::uint64_t>(tokens + 0.5)); };
  return fmt::format("{} / {} / {} / {}", whole(summary.p50), whole(summary.p95), whole(summary.p99),
                     whole(summary.max));
}

struct Row {
  const char* name;
  std::function<std::string(const Described&)> cell;
};

std::vector<Row> rows() {
  using report::format_count;
  using report::format_quantity;
  using report::format_share;
  // All requests at one time have no rate.
  const auto rate = [](double Statistics::*per_s) {
    return [per_s](const Described& d) {
      return d.statistics.span > core::Duration{} ? format_quantity(d.statistics.*per_s) : std::string{"–"};
    };
  };
  return {
      {"", [](const Described& d) { return d.title; }},
      {"format", [](const Described& d) { return d.format; }},
      {"requests", [](const Described& d) { return format_count(d.statistics.requests); }},
      {"duration", [](const Described& d) { return report::format_seconds(core::to_seconds(d.statistics.span)); }},
      {"requests per second", rate(&Statistics::requests_per_s)},
      {"coefficient of variation of inter-arrival times",
       [](const Described& d) { return format_quantity(d.statistics.gap_cv); }},
      {"peak-to-mean ratio (10 s)", [](const Described& d) { return format_quantity(d.statistics.peak_10s); }},
      {"peak-to-mean ratio (1 min)", [](const Described& d) { return format_quantity(d.statistics.peak_60s); }},
      {"prompt tokens p50/p95/p99/max", [](const Described& d) { return lengths(d.statistics.input_tokens); }},
      {"output tokens p50/p95/p99/max", [](const Described& d) { return lengths(d.statistics.output_tokens); }},
      {"prompt tokens per second", rate(&Statistics::input_tokens_per_s)},
      {"output tokens per second", rate(&Statistics::output_tokens_per_s)},
      {"prefix reuse (prompt tokens)", [](const Described& d) { return format_share(d.statistics.prefix_reuse); }},
      {"tenants", [](const Described& d) { return format_count(d.statistics.tenants); }},
      {"share of the largest tenant", [](const Described& d) { return format_share(d.statistics.largest_tenant); }},
      {"invalid rows skipped", [](const Described& d) { return format_count(d.report.skipped_rows); }},
  };
}

std::string table(const std::vector<Described>& all) {
  std::vector<std::vector<std::string>> lines;
  for (const Row& row : rows()) {
    lines.push_back({row.name});
    for (const Described& described : all) lines.back().push_back(row.cell(described));
  }
  std::string text = report::aligned(lines);
  for (const Described& described : all) {
    for (const std::string& skipped : described.report.skipped) text += "skipped: " + report::printable(skipped) + "\n";
    if (described.report.skipped_rows > described.report.skipped.size())
      text += fmt::format("skipped: {} more\n", described.report.skipped_rows - described.report.skipped.size());
  }
  return text;
}

Json summary(const core::Summary& s) {
  return {{"mean", s.mean}, {"p50", s.p50}, {"p90", s.p90}, {"p95", s.p95}, {"p99", s.p99}, {"max", s.max}};
}

Json document(const Described& d) {
  const Statistics& s = d.statistics;
  const auto rate = [&](double per_s) { return s.span > core::Duration{} ? Json(per_s) : Json(); };
  return {{"name", d.name},
          {"format", d.format},
          {"requests", s.requests},
          {"span_s", core::to_seconds(s.span)},
          {"requests_per_s", rate(s.requests_per_s)},
          {"gap_cv", s.gap_cv},
          {"peak_10s", s.peak_10s},
          {"peak_60s", s.peak_60s},
          {"input_tokens", summary(s.input_tokens)},
          {"output_tokens", summary(s.output_tokens)},
          {"input_tokens_per_s", rate(s.input_tokens_per_s)},
          {"output_tokens_per_s", rate(s.output_tokens_per_s)},
          {"prefix_reuse", s.prefix_reuse},
          {"tenants", s.tenants},
          {"largest_tenant", s.largest_tenant},
          {"skipped_rows", d.report.skipped_rows},
          {"skipped", d.report.skipped}};
}

std::string json_of(const std::vector<Described>& all) {
  Json list = Json::array();
  for (const Described& described : all) list.push_back(document(described));
  // A file name may contain bytes that are not valid in JSON.
  return Json{{"penstock", PENSTOCK_VERSION}, {"workloads", list}}.dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace

int show_workload(const Arguments& arguments) {
  configuration::TraceOptions options;
  std::uint64_t seed = 1;
  std::string json;
  options::Table rows;
  configuration::add_traces(rows, options);
  configuration::add_seed(rows, seed);
  rows.group("Output");
  rows.add({"", "--json", "write the figures to this file; - is standard output, and the table goes to standard error"},
           options::text(json))
      .placeholder("FILE");
  const auto parsed = parse_arguments(workload_usage(rows), arguments);
  if (!parsed) return parsed.error();
  if (const auto read = read_flags(rows, *parsed); !read) return read.error();
  options.names = parsed->operands;
  auto traces = configuration::load_traces(options, seed);
  if (!traces) return report_input_error(traces.error());
  if (const auto good = configuration::check_session_options(*traces, options); !good)
    return report_input_error(good.error());

  std::vector<Described> all;
  for (std::size_t i = 0; i < traces->size(); ++i) {
    const configuration::Trace& trace = (*traces)[i];
    print_warnings(configuration::gap_warnings(trace.workload, "--to"));
    all.push_back(
        {options.names[i], trace.workload.name, trace.format, trace.report, workload::describe(trace.workload)});
  }
  if (traces->size() > 1) {
    const std::uint32_t block_tokens = traces->front().workload.block_tokens;
    const auto together = configuration::join_traces(*std::move(traces), block_tokens);
    if (!together) return report_input_error(together.error());
    all.push_back({"together", "together", "", {}, workload::describe(*together)});
  }
  core::Result<void> written;
  if (!json.empty()) written = report::write_file(json, json_of(all));
  const int printed = print_page(table(all), {json});
  return std::max(printed, report_failure(written));
}

}  // namespace penstock::cli
