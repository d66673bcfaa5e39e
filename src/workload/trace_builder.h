// Builds a Workload from valid rows: the window, the order of times, names and block ids as numbers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/result.h"
#include "workload/block_numbers.h"
#include "workload/reader.h"
#include "workload/request.h"
#include "workload/row_source.h"
#include "workload/trace_row.h"

namespace penstock::workload {

inline constexpr std::size_t kBlockIdsMax = std::size_t{1} << 28;  // Maximum number of block ids, 1 GiB.

// The problem of a row. A fatal fault cannot be resolved by skipping the row.
struct RowFault {
  std::string what, hint;
  bool fatal = false;
};

class TraceBuilder {
 public:
  TraceBuilder(const ReadOptions& options, const RowSource& rows);

  // Returns false once `row` is past the window, so that reading can stop. A row with a fault has no effect.
  [[nodiscard]] tl::expected<bool, RowFault> add(const TraceRow& row);

  // Returns an error unless all requests are of one model, or of the one that was chosen.
  [[nodiscard]] core::Result<void> check_models(const std::string& name) const;
  [[nodiscard]] bool has_valid_row() const { return first_time_.has_value(); }
  // From the row before to the last one that was added, where rows are in order.
  [[nodiscard]] core::Duration gap() const { return gap_; }
  [[nodiscard]] core::Duration last_arrival() const { return last_time_ - first_time_.value_or(last_time_); }
  [[nodiscard]] Workload finish() &&;

 private:
  using Names = std::unordered_map<std::string, std::uint32_t>;

  // Counts the row for its model. Returns whether it is of the model that was chosen.
  [[nodiscard]] bool is_chosen(const TraceRow& row);
  // The trace begins at its first row, also where that is of another model.
  void begin_at(const TraceRow& row);
  void sort_and_crop();
  [[nodiscard]] tl::expected<void, RowFault> check_time(const TraceRow& row) const;
  [[nodiscard]] static tl::expected<void, RowFault> check_names(const TraceRow& row);
  // The requests that the row waits for.
  [[nodiscard]] tl::expected<std::vector<Wait>, RowFault> waits_of(const TraceRow& row) const;
  void append_blocks(const TraceRow& row, Request& request);
  [[nodiscard]] std::uint32_t place() const { return static_cast<std::uint32_t>(workload_.requests.size()); }
  [[nodiscard]] std::uint32_t tenant_number(std::string_view name);
  [[nodiscard]] std::uint32_t session_number(std::string_view name);

  ReadOptions options_;
  bool is_sorted_;
  std::map<std::string, std::uint64_t, std::less<>> models_;  // Number of rows of each model.
  Workload workload_;
  std::string name_;  // Key buffer of look-ups.
  Names tenants_, sessions_;
  Names request_ids_;  // The request of each id.
  Names last_turns_;   // The latest request of each session whose turns wait.
  std::unordered_map<std::string, std::vector<std::uint32_t>> prefix_groups_;  // Blocks of each group so far.
  BlockNumbers blocks_;
  std::optional<core::Duration> first_time_;
  core::Duration last_time_{}, gap_{};
  std::string last_time_text_;
};

}  // namespace penstock::workload
