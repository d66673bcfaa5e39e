// What ledgers of gateways charge, summed by tenant, model and time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace penstock::connect {

enum class UsageGroup : std::uint8_t { kMonth, kDay, kTenant, kKey, kModel, kClass };
[[nodiscard]] const char* to_string(UsageGroup group);  // "month", "day", "tenant", "key", "model", "class".
[[nodiscard]] std::optional<UsageGroup> parse_usage_group(std::string_view name);

struct UsageQuery {
  std::vector<UsageGroup> by;
  // Requests that were admitted from the first time until before the second one; Unix time in milliseconds.
  std::optional<std::int64_t> from_unix_ms, until_unix_ms;
  std::string tenant;             // Only this one; empty: all.
  std::int32_t utc_offset_s = 0;  // Of days and months.
};

// Of requests whose end is known, without those that were refused.
struct UsageSums {
  std::uint64_t requests = 0;
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;  // Cached tokens are a part of the prompt.
  double cost = 0.0;  // USD, at the prices of the time of each request.

  UsageSums& operator+=(const UsageSums& other);
};

struct LedgerUsage {
  std::map<std::vector<std::string>, UsageSums> groups;  // By the values of UsageQuery::by.
  std::uint64_t open = 0;  // Requests of the time whose end is not known yet. They are in no group.

  LedgerUsage& operator+=(const LedgerUsage& other);
  [[nodiscard]] UsageSums all() const;
};

// Reads a ledger; a gateway may write meanwhile. Times that are no times of a calendar have an empty name.
[[nodiscard]] core::Result<LedgerUsage> read_usage(const std::string& path, const UsageQuery& query);

// Returns true if the two files are copies of one ledger: the oldest request of one is in the other, too.
[[nodiscard]] core::Result<bool> are_copies(const std::string& path, const std::string& other);

}  // namespace penstock::connect
