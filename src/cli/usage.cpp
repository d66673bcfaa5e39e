// `penstock usage`: sums what ledgers of gateways charge.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "connect/sqlite/ledger_usage.h"
#include "options/scalars.h"
#include "options/timestamps.h"
#include "options/values.h"
#include "report/csv.h"
#include "report/format.h"
#include "report/grid.h"
#include "report/write_file.h"

namespace penstock::cli {
namespace {

using connect::LedgerUsage;
using connect::UsageGroup;
using connect::UsageSums;
using Json = nlohmann::ordered_json;

struct UsageOptions {
  std::vector<std::string> by{"tenant", "model"};
  std::string month, from, until, tenant, csv, json;
  core::Duration utc_offset{};
};

options::Table usage_flags(UsageOptions& made) {
  using namespace options;
  Table table;
  table.group("Which requests");
  table.add({"", "--month", "admitted in this month: last, this, or one like 2026-11"}, text(made.month))
      .placeholder("MONTH");
  table.add({"", "--from", "admitted from this time on, as 2026-11-01T00:00:00Z"}, text(made.from)).placeholder("TIME");
  table.add({"", "--until", "admitted before this time"}, text(made.until)).placeholder("TIME");
  table.add({"", "--tenant", "of this tenant"}, text(made.tenant)).placeholder("NAME");
  table.group("Output");
  table
      .add({"", "--by", "one row for each month, day, tenant, key, model or class, or for each combination of several"},
           names(made.by))
      .placeholder("GROUP,…");
  table.add({"", "--utc-offset", "offset of the local time of days and months, as +02:00"},
            utc_offset(made.utc_offset));
  for (const auto& [flag, file, help] :
       {std::tuple{"--csv", &made.csv, "write the rows to this file; - is standard output"},
        {"--json", &made.json, "write the rows and their sum to this file; - is standard output"}})
    table.add({"", flag, help}, text(*file)).placeholder("FILE");
  return table;
}

Usage usage_page(const options::Table& table) {
  Usage usage;
  usage.command = "usage";
  usage.summary =
      "Sums what the ledgers of gateways charge: requests, tokens, and their cost at the prices of the time. Several\n"
      "ledgers are added. Requests that were refused cost nothing and are left out; a request counts at the time of\n"
      "its admission, once its end is known. Gateways may write meanwhile.";
  usage.operand = "LEDGER";
  usage.many_operands = true;
  usage.flags = flags_of(table);
  usage.notes =
      "Examples:\n"
      "  penstock usage usage.sqlite --month last\n"
      "  penstock usage ledgers/*.sqlite --by month,tenant --csv bill.csv\n\n"
      "Exit codes: 0 success, 1 the output failed, 2 invalid input.\n";
  return usage;
}

core::Error error_of(const char* flag, core::Error error) {
  error.where = flag;
  return error;
}

std::int64_t milliseconds(core::Duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

// The first moments of the month and of the next one.
core::Result<void> set_month(const std::string& text, core::Duration utc_offset, connect::UsageQuery& query) {
  using std::chrono::months;
  const auto local_now = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now() + utc_offset);
  const std::chrono::year_month_day today{local_now};
  std::chrono::year_month month{today.year(), today.month()};
  if (text == "last") {
    month -= months{1};
  } else if (text != "this") {
    const auto first = text.size() == 7 ? options::parse_timestamp(text + "-01T00:00:00Z")
                                        : core::Result<core::Duration>{tl::make_unexpected(core::Error{})};
    if (!first)
      return core::invalid_input("--month", options::quote(text) + " is no month", "write last, this, or 2026-11");
    const std::chrono::year_month_day day{std::chrono::sys_days{std::chrono::floor<std::chrono::days>(*first)}};
    month = {day.year(), day.month()};
  }
  const auto begin_of = [&](std::chrono::year_month of) {
    return milliseconds(std::chrono::sys_days{of / 1}.time_since_epoch()) - milliseconds(utc_offset);
  };
  query.from_unix_ms = begin_of(month);
  query.until_unix_ms = begin_of(month + months{1});
  return {};
}

core::Result<void> set_time(const char* flag, const std::string& text, std::optional<std::int64_t>& unix_ms) {
  if (text.empty()) return {};
  const auto time = options::parse_timestamp(text);
  if (!time) return tl::make_unexpected(error_of(flag, time.error()));
  unix_ms = milliseconds(*time);
  return {};
}

core::Result<connect::UsageQuery> usage_query(const UsageOptions& given) {
  connect::UsageQuery query;
  query.tenant = given.tenant;
  query.utc_offset_s = static_cast<std::int32_t>(core::to_seconds(given.utc_offset));
  for (const std::string& name : given.by) {
    const auto group = connect::parse_usage_group(name);
    if (!group)
      return core::invalid_input("--by", options::quote(name) + " is no group",
                                 "choose from month, day, tenant, key, model and class");
    if (std::ranges::find(query.by, *group) != query.by.end())
      return core::invalid_input("--by", name + " is given twice");
    query.by.push_back(*group);
  }
  if (!given.month.empty()) {
    if (!given.from.empty() || !given.until.empty())
      return core::invalid_input("--month", "contradicts --from and --until", "give one of both");
    if (const auto good = set_month(given.month, given.utc_offset, query); !good)
      return tl::make_unexpected(good.error());
  }
  for (const auto& [flag, text, time] :
       {std::tuple{"--from", &given.from, &query.from_unix_ms}, {"--until", &given.until, &query.until_unix_ms}})
    if (const auto good = set_time(flag, *text, *time); !good) return tl::make_unexpected(good.error());
  if (query.from_unix_ms && query.until_unix_ms && *query.from_unix_ms >= *query.until_unix_ms)
    return core::invalid_input("--until", "must be after --from");
  return query;
}

core::Result<LedgerUsage> read_all(const std::vector<std::string>& ledgers, const connect::UsageQuery& query) {
  LedgerUsage sum;
  for (std::size_t i = 0; i < ledgers.size(); ++i) {
    for (std::size_t earlier = 0; earlier < i; ++earlier) {
      const auto copies = connect::are_copies(ledgers[earlier], ledgers[i]);
      if (!copies) return tl::make_unexpected(copies.error());
      if (*copies)
        return core::invalid_input(ledgers[i], "has the requests of " + options::quote(ledgers[earlier]),
                                   "give each ledger once, in its latest copy");
    }
    const auto read = connect::read_usage(ledgers[i], query);
    if (!read) return tl::make_unexpected(read.error());
    sum += *read;
  }
  return sum;
}

// By time, then the dearest first.
using UsageRow = std::pair<std::vector<std::string>, UsageSums>;
std::vector<UsageRow> usage_rows(const LedgerUsage& usage, const connect::UsageQuery& query) {
  std::vector<UsageRow> rows{usage.groups.begin(), usage.groups.end()};
  const auto is_time = [](UsageGroup group) { return group == UsageGroup::kMonth || group == UsageGroup::kDay; };
  std::ranges::stable_sort(rows, [&](const UsageRow& left, const UsageRow& right) {
    for (std::size_t i = 0; i < query.by.size(); ++i)
      if (is_time(query.by[i]) && left.first[i] != right.first[i]) return left.first[i] < right.first[i];
    return left.second.cost > right.second.cost;
  });
  return rows;
}

// Cents, or enough digits where the whole sum is less than a dollar.
std::string dollars(double cost, double all) { return fmt::format("{:.{}f}", cost, all < 1.0 ? 6 : 2); }

std::string usage_text(const LedgerUsage& usage, const connect::UsageQuery& query) {
  std::vector<report::Grid::Column> columns;
  for (const UsageGroup group : query.by) columns.push_back({connect::to_string(group), true});
  if (columns.empty()) columns.push_back({"", true});
  for (const char* name : {"requests", "prompt tokens", "cached", "output tokens", "USD"}) columns.push_back({name});
  report::Grid grid{columns};
  const auto add = [&](std::vector<std::string> cells, const UsageSums& sums) {
    cells.resize(std::max<std::size_t>(1, query.by.size()));
    for (const std::uint64_t count : {sums.requests, sums.prompt_tokens, sums.cached_tokens, sums.output_tokens})
      cells.push_back(report::format_count(count));
    cells.push_back(dollars(sums.cost, usage.all().cost));
    grid.add(std::move(cells));
  };
  const std::vector<UsageRow> rows = usage_rows(usage, query);
  if (!query.by.empty())
    for (const auto& [key, sums] : rows) add(key, sums);
  add({"all"}, usage.all());
  std::string text = grid.text();
  if (usage.open > 0)
    text += fmt::format("\n{} {} still open and not counted.\n", usage.open,
                        usage.open == 1 ? "request is" : "requests are");
  return text;
}

std::string usage_csv(const LedgerUsage& usage, const connect::UsageQuery& query) {
  std::string text;
  for (const UsageGroup group : query.by) text.append(connect::to_string(group)).append(",");
  text += "requests,prompt_tokens,cached_tokens,output_tokens,usd\r\n";
  for (const auto& [key, sums] : usage_rows(usage, query)) {
    for (const std::string& cell : key) text += report::csv_cell(cell) + ",";
    text += fmt::format("{},{},{},{},{}\r\n", sums.requests, sums.prompt_tokens, sums.cached_tokens, sums.output_tokens,
                        sums.cost);
  }
  return text;
}

Json usage_sums(const UsageSums& sums) {
  return {{"requests", sums.requests},
          {"prompt_tokens", sums.prompt_tokens},
          {"cached_tokens", sums.cached_tokens},
          {"output_tokens", sums.output_tokens},
          {"usd", sums.cost}};
}

std::string usage_json(const LedgerUsage& usage, const connect::UsageQuery& query) {
  Json rows = Json::array();
  for (const auto& [key, sums] : usage_rows(usage, query)) {
    Json row;
    for (std::size_t i = 0; i < key.size(); ++i) row[connect::to_string(query.by[i])] = key[i];
    row.update(usage_sums(sums));
    rows.push_back(std::move(row));
  }
  // A name may contain bytes that are not valid in JSON.
  return Json{{"penstock", PENSTOCK_VERSION},
              {"rows", std::move(rows)},
              {"all", usage_sums(usage.all())},
              {"open_requests", usage.open}}
             .dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace

int show_usage(const Arguments& arguments) {
  UsageOptions given;
  options::Table table = usage_flags(given);
  const auto parsed = parse_arguments(usage_page(table), arguments);
  if (!parsed) return parsed.error();
  if (const auto read = read_flags(table, *parsed); !read) return read.error();
  const auto query = usage_query(given);
  if (!query) return report_error(query.error());
  const auto usage = read_all(parsed->operands, *query);
  if (!usage) return report_input_error(usage.error());
  core::Result<void> csv, json;
  if (!given.csv.empty()) csv = report::write_file(given.csv, usage_csv(*usage, *query));
  if (!given.json.empty()) json = report::write_file(given.json, usage_json(*usage, *query));
  const int printed = print_page(usage_text(*usage, *query), {given.csv, given.json});
  return std::max({printed, report_failure(csv), report_failure(json)});
}

}  // namespace penstock::cli
