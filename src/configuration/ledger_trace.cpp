#include "configuration/ledger_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "connect/sqlite/ledger_requests.h"
#include "workload/fields.h"
#include "workload/row_source.h"

namespace penstock::configuration {
namespace {

class LedgerRows final : public workload::RowSource {
 public:
  LedgerRows(std::string path, connect::LedgerRequests requests)
      : path_{std::move(path)}, requests_{std::move(requests)} {}

  core::Result<bool> next(workload::TraceRow& row) override {
    row = {};
    const auto more = requests_.next(request_);
    if (!more || !*more) return more;
    time_text_ = std::to_string(request_.opened_unix_ms);
    row.time =
        std::chrono::milliseconds{std::clamp<std::int64_t>(request_.opened_unix_ms, 0, workload::kTimeMaxS * 1000)};
    row.time_text = time_text_;
    row.tenant = request_.tenant;
    row.model = request_.model;
    row.input_tokens = count_of(request_.prompt_tokens);
    row.output_tokens = count_of(request_.output_tokens);
    row.reserved_tokens = count_of(request_.reserved_tokens);
    check(row);
    return true;
  }
  [[nodiscard]] std::string place() const override { return fmt::format("{}: entry {}", path_, request_.id); }
  [[nodiscard]] workload::Format format() const override { return workload::Format::kLedger; }
  [[nodiscard]] std::uint32_t block_tokens() const override { return workload::Workload{}.block_tokens; }
  [[nodiscard]] bool is_sorted() const override { return true; }

 private:
  [[nodiscard]] static std::uint32_t count_of(std::int64_t tokens) {
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(tokens, 0, UINT32_MAX));
  }

  void check(workload::TraceRow& row) const {
    const auto traffic_class = workload::parse_traffic_class("traffic_class", request_.traffic_class);
    const auto name = workload::parse_name("tenant", request_.tenant);
    if (!traffic_class) {
      row.fault = traffic_class.error();
    } else if (!name) {
      row.fault = name.error();
    } else if (request_.outcome.empty()) {
      row.is_request = false;
      row.fault = "the request is still open";
    } else if (row.input_tokens == 0 || row.output_tokens == 0) {
      row.is_request = false;
      row.fault = fmt::format("{} with {} prompt tokens and {} output tokens", workload::printable(request_.outcome),
                              row.input_tokens, row.output_tokens);
    } else if (std::max(row.input_tokens, row.output_tokens) > workload::kTokensMax) {
      row.fault = fmt::format("{} prompt tokens and {} output tokens, must be at most {}", row.input_tokens,
                              row.output_tokens, workload::kTokensMax);
    } else {
      row.traffic_class = *traffic_class;
    }
  }

  std::string path_, time_text_;
  connect::LedgerRequests requests_;
  connect::LedgerRequest request_;
};

}  // namespace

core::Result<workload::Workload> read_ledger(const std::string& path, const workload::ReadOptions& options,
                                             workload::ReadReport* report) {
  if (!options.columns.empty() || options.time_format != workload::TimeFormat::kAuto)
    return core::invalid_input(path, "is a ledger, whose columns and times are known",
                               "leave --columns and --time-format out");
  auto requests = connect::LedgerRequests::open(path);
  if (!requests) return tl::make_unexpected(requests.error());
  LedgerRows rows{path, *std::move(requests)};
  return workload::read_workload_rows(path, rows, options, report);
}

}  // namespace penstock::configuration
