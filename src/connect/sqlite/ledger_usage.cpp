#include "connect/sqlite/ledger_usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "connect/sqlite/ledger_store.h"

namespace penstock::connect {
namespace {

constexpr std::array kGroups{UsageGroup::kMonth, UsageGroup::kDay,   UsageGroup::kTenant,
                             UsageGroup::kKey,   UsageGroup::kModel, UsageGroup::kClass};

std::string column_of(UsageGroup group, std::int32_t utc_offset_s) {
  const auto time = [&](const char* format) {
    return fmt::format("coalesce(strftime('{}', opened_unix_ms / 1000 + {}, 'unixepoch'), '')", format, utc_offset_s);
  };
  switch (group) {
    case UsageGroup::kMonth: return time("%Y-%m");
    case UsageGroup::kDay: return time("%Y-%m-%d");
    case UsageGroup::kTenant: return "tenant";
    case UsageGroup::kKey: return "key_name";
    case UsageGroup::kModel: return "model";
    case UsageGroup::kClass: return "traffic_class";
  }
  return "''";
}

// Values of a file from elsewhere may be any.
std::uint64_t count_of(const Statement& row, int column) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, row.integer(column)));
}

Statement& bind(Statement& statement, const UsageQuery& query) {
  statement.bind(query.from_unix_ms.value_or(std::numeric_limits<std::int64_t>::min()));
  statement.bind(query.until_unix_ms.value_or(std::numeric_limits<std::int64_t>::max()));
  return query.tenant.empty() ? statement : statement.bind(query.tenant);
}

std::string where(const UsageQuery& query, const char* of_outcome) {
  return fmt::format(" from entries where opened_unix_ms >= ? and opened_unix_ms < ?{} and {}",
                     query.tenant.empty() ? "" : " and tenant = ?", of_outcome);
}

core::Result<void> read_groups(const LedgerStore& store, const UsageQuery& query, LedgerUsage& usage) {
  std::string columns, numbers;
  for (std::size_t i = 0; i < query.by.size(); ++i) {
    columns += column_of(query.by[i], query.utc_offset_s) + ", ";
    numbers += fmt::format("{}{}", i == 0 ? " group by " : ", ", i + 1);
  }
  Statement rows = store.query("select " + columns +
                               "count(*), sum(prompt_tokens), sum(cached_tokens), sum(output_tokens), sum(cost)" +
                               where(query, "outcome <> 'refused'") + numbers);
  bind(rows, query);
  const auto groups = static_cast<int>(query.by.size());
  while (true) {
    const auto more = rows.step();
    if (!more) return tl::make_unexpected(more.error());
    if (!*more) return {};
    std::vector<std::string> key;
    key.reserve(query.by.size());
    for (int column = 0; column < groups; ++column) key.push_back(rows.text(column));
    UsageSums sums;
    std::uint64_t* const counts[] = {&sums.requests, &sums.prompt_tokens, &sums.cached_tokens, &sums.output_tokens};
    int column = groups;
    for (std::uint64_t* count : counts) *count = count_of(rows, column++);
    const double cost = rows.real(column);
    sums.cost = std::isfinite(cost) ? cost : 0.0;
    if (sums.requests > 0) usage.groups[std::move(key)] += sums;  // Without groups there is a row of nothing.
  }
}

core::Result<void> read_open(const LedgerStore& store, const UsageQuery& query, LedgerUsage& usage) {
  Statement row = store.query("select count(*)" + where(query, "outcome is null"));
  const auto found = bind(row, query).step();
  if (!found) return tl::make_unexpected(found.error());
  usage.open = *found ? count_of(row, 0) : 0;
  return {};
}

core::Result<bool> has_oldest_of(const LedgerStore& store, const LedgerStore& other) {
  Statement oldest =
      other.query("select id, opened_unix_ms, request_id from entries order by opened_unix_ms, id limit 1");
  auto any = oldest.step();
  if (!any || !*any) return any;
  const std::string request_id = oldest.text(2);
  Statement same = store.query("select 1 from entries where id = ? and opened_unix_ms = ? and request_id = ?");
  return same.bind(oldest.integer(0)).bind(oldest.integer(1)).bind(request_id).step();
}

}  // namespace

const char* to_string(UsageGroup group) {
  switch (group) {
    case UsageGroup::kMonth: return "month";
    case UsageGroup::kDay: return "day";
    case UsageGroup::kTenant: return "tenant";
    case UsageGroup::kKey: return "key";
    case UsageGroup::kModel: return "model";
    case UsageGroup::kClass: return "class";
  }
  return "";
}

std::optional<UsageGroup> parse_usage_group(std::string_view name) {
  for (const UsageGroup group : kGroups)
    if (name == to_string(group)) return group;
  return std::nullopt;
}

UsageSums& UsageSums::operator+=(const UsageSums& other) {
  requests += other.requests;
  prompt_tokens += other.prompt_tokens;
  cached_tokens += other.cached_tokens;
  output_tokens += other.output_tokens;
  cost += other.cost;
  return *this;
}

LedgerUsage& LedgerUsage::operator+=(const LedgerUsage& other) {
  for (const auto& [key, sums] : other.groups) groups[key] += sums;
  open += other.open;
  return *this;
}

UsageSums LedgerUsage::all() const {
  UsageSums sum;
  for (const auto& [key, sums] : groups) sum += sums;
  return sum;
}

core::Result<LedgerUsage> read_usage(const std::string& path, const UsageQuery& query) {
  auto store = LedgerStore::open_read_only(path);
  if (!store) return tl::make_unexpected(store.error());
  LedgerUsage usage;
  if (const auto read = read_groups(*store, query, usage); !read) return tl::make_unexpected(read.error());
  if (const auto read = read_open(*store, query, usage); !read) return tl::make_unexpected(read.error());
  return usage;
}

core::Result<bool> are_copies(const std::string& path, const std::string& other) {
  const auto first = LedgerStore::open_read_only(path), second = LedgerStore::open_read_only(other);
  if (!first) return tl::make_unexpected(first.error());
  if (!second) return tl::make_unexpected(second.error());
  auto has = has_oldest_of(*first, *second);
  return !has || *has ? has : has_oldest_of(*second, *first);
}

}  // namespace penstock::connect
