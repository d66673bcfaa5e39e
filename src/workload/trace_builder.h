// Good rows in, a Workload out: the window, the order of times, names and blocks as numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/result.h"
#include "workload/block_numbers.h"
#include "workload/reader.h"
#include "workload/request.h"
#include "workload/trace_row.h"

namespace penstock::workload {

inline constexpr std::size_t kBlockIdsMax = std::size_t{1} << 28;  // 1 GiB of them

// What is wrong with a row. A fatal fault is one that leaving the row out would not mend.
struct RowFault {
  std::string what, hint;
  bool fatal = false;
};

class TraceBuilder {
 public:
  TraceBuilder(const ReadOptions& options, const RowParser& parser);

  // Whether rows that follow can still be wanted: false once `row` lies past the window. A row with a fault changes
  // nothing.
  [[nodiscard]] tl::expected<bool, RowFault> add(const TraceRow& row);

  [[nodiscard]] bool saw_good_row() const { return first_time_.has_value(); }
  [[nodiscard]] core::Duration last_arrival() const { return last_time_ - first_time_.value_or(last_time_); }
  [[nodiscard]] Workload finish() &&;

 private:
  using Names = std::unordered_map<std::string, std::uint32_t>;

  [[nodiscard]] tl::expected<void, RowFault> check_time(const TraceRow& row) const;
  [[nodiscard]] static tl::expected<void, RowFault> check_names(const TraceRow& row);
  void append_blocks(const TraceRow& row, Request& request);
  [[nodiscard]] std::uint32_t tenant_number(std::string_view name);
  [[nodiscard]] std::uint32_t session_number(std::string_view name);

  ReadOptions options_;
  Workload workload_;
  std::string name_;  // a lookup's key, kept for its memory
  Names tenants_, sessions_;
  std::unordered_map<std::string, std::vector<std::uint32_t>> prefix_groups_;  // their blocks so far
  BlockNumbers blocks_;
  std::optional<core::Duration> first_time_;
  core::Duration last_time_{};
  std::string last_time_text_;
};

}  // namespace penstock::workload
