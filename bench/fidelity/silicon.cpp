#include "fidelity/silicon.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace penstock::fidelity {
namespace {

using core::invalid_input;

enum Column : std::size_t {
  kBackend,
  kRelease,
  kModel,
  kSystem,
  kPrecision,
  kMode,
  kInput,
  kOutput,
  kBatch,
  kTensor,
  kPipeline,
  kRanks,
  kExpertTensor,
  kExpertParallel,
  kPrefillBatch,
  kPrefillWorkers,
  kPrefillTensor,
  kDecodeBatch,
  kDecodeWorkers,
  kDecodeTensor,
  kTtft,
  kTpot,
  kColumns
};
constexpr std::array<std::string_view, kColumns> kNames = {"backend",
                                                           "backend_version",
                                                           "model_path",
                                                           "system",
                                                           "precision",
                                                           "mode",
                                                           "isl",
                                                           "osl",
                                                           "batch_size",
                                                           "tp_size",
                                                           "pp_size",
                                                           "attention_dp_size",
                                                           "moe_tp_size",
                                                           "moe_ep_size",
                                                           "prefill_batch_size",
                                                           "prefill_num_workers",
                                                           "prefill_tp_size",
                                                           "decode_batch_size",
                                                           "decode_num_workers",
                                                           "decode_tp_size",
                                                           "silicon_ttft_ms",
                                                           "silicon_tpot_ms"};

constexpr std::uint32_t kCountMax = 10'000'000;
constexpr double kMillisecondsMax = 1e8;

// Releases that the file's authors measured themselves, with requests of equal lengths.
constexpr std::array<std::string_view, 8> kEqualLengths = {"0.12.0",   "0.5.1.post1",    "0.5.6.post2", "0.5.8.post1",
                                                           "1.0.0rc3", "1.2.0rc6.post1", "1.3.0rc1",    "1.3.0rc5"};

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t comma = std::min(line.find(',', at), line.size());
    cells.push_back(line.substr(at, comma - at));
    at = comma + 1;
  }
  return cells;
}

// One line with its column names; stores the first invalid cell as the error.
class Cells {
 public:
  Cells(std::string place, std::array<std::string_view, kColumns> cells) : place_{std::move(place)}, cells_{cells} {}

  [[nodiscard]] std::string_view text(Column column) const { return cells_[column]; }

  std::uint32_t count(Column column, std::uint32_t low) {
    std::uint32_t value = 0;
    if (!whole(cells_[column], value) || value < low || value > kCountMax)
      fail(column, fmt::format("must be a whole number from {} to {}, is '{}'", low, kCountMax, cells_[column]));
    return value;
  }
  // Returns `otherwise` for an empty or 0 cell, which tools write for settings that do not apply.
  std::uint32_t count_or(Column column, std::uint32_t otherwise) {
    if (cells_[column].empty() || cells_[column] == "0") return otherwise;
    return count(column, 1);
  }
  double milliseconds(Column column) {
    double value = 0.0;
    const std::string_view cell = cells_[column];
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc{} || end != cell.data() + cell.size() || !(value > 0.0 && value <= kMillisecondsMax))
      fail(column, fmt::format("must be above 0 and at most {} ms, is '{}'", kMillisecondsMax, cell));
    return value;
  }
  void fail(Column column, std::string what, std::string hint = {}) {
    if (!failed_)
      error_ = {core::ErrorCode::kInvalidInput, fmt::format("{}: {}", place_, kNames[column]), std::move(what),
                std::move(hint)};
    failed_ = true;
  }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] const core::Error& error() const { return error_; }

 private:
  static bool whole(std::string_view cell, std::uint32_t& value) {
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    return error == std::errc{} && end == cell.data() + cell.size();
  }

  std::string place_;
  std::array<std::string_view, kColumns> cells_;
  bool failed_ = false;
  core::Error error_;
};

void read_engine(Cells& cells, SiliconRow& row) {
  row.model = cells.text(kModel);
  row.spec.model = engine::find_model(row.model);
  row.spec.release = cells.text(kRelease);
  if (std::find(kEqualLengths.begin(), kEqualLengths.end(), row.spec.release) != kEqualLengths.end())
    row.load_test = LoadTest::kEqualLengths;
  row.spec.gpu = engine::find_gpu(cells.text(kSystem));
  if (row.spec.gpu == nullptr)
    cells.fail(kSystem, fmt::format("GPU '{}' is not in the catalogue", cells.text(kSystem)));
  if (!engine::parse_backend(cells.text(kBackend), row.spec.backend))
    cells.fail(kBackend, fmt::format("'{}' is unknown", cells.text(kBackend)), "use vllm, sglang or trtllm");
  if (const auto precision = cells.text(kPrecision);
      !precision.empty() && !engine::parse_precision(precision, row.spec.precision))
    cells.fail(kPrecision, fmt::format("'{}' is unknown", precision), "use bf16, fp8, fp4 or int4");
}

void read_aggregated(Cells& cells, SiliconRow& row) {
  const std::uint32_t tensor = cells.count(kTensor, 1), ranks = cells.count_or(kRanks, 1);
  const std::uint32_t expert_tensor = cells.count_or(kExpertTensor, 1),
                      expert_parallel = cells.count_or(kExpertParallel, 1);
  const std::uint64_t gpus = std::uint64_t{tensor} * ranks * cells.count_or(kPipeline, 1);
  const auto root = static_cast<std::uint32_t>(std::lround(std::sqrt(static_cast<double>(gpus))));
  const bool twice = root > 1 && std::uint64_t{root} * root == gpus &&
                     ((expert_tensor == root && expert_parallel == root) || (tensor == root && ranks == root));
  row.spec.tensor_parallel = twice ? root : static_cast<std::uint32_t>(std::min<std::uint64_t>(gpus, kCountMax));
  row.spec.attention_ranks = std::min(ranks, row.spec.tensor_parallel);
  const std::uint64_t concurrency = std::uint64_t{cells.count(kBatch, 1)} * ranks;
  row.concurrency = static_cast<std::uint32_t>(std::min<std::uint64_t>(concurrency, kCountMax));
}

void read_disaggregated(Cells& cells, SiliconRow& row) {
  row.prefill = {cells.count_or(kPrefillBatch, 0), cells.count_or(kPrefillWorkers, 0),
                 cells.count_or(kPrefillTensor, 0)};
  row.decode = {cells.count_or(kDecodeBatch, 0), cells.count_or(kDecodeWorkers, 0), cells.count_or(kDecodeTensor, 0)};
  row.spec.tensor_parallel = std::max(row.decode.tensor_parallel, 1U);
  row.concurrency = row.decode.batch;
}

core::Result<SiliconRow> read_row(Cells& cells, std::size_t line) {
  SiliconRow row;
  row.line = line;
  read_engine(cells, row);
  row.input_tokens = cells.count(kInput, 1);
  row.output_tokens = cells.count(kOutput, 1);
  row.ttft_ms = cells.milliseconds(kTtft);
  row.tpot_ms = cells.milliseconds(kTpot);
  if (cells.text(kMode) == "agg") {
    read_aggregated(cells, row);
  } else if (cells.text(kMode) == "disagg") {
    row.mode = ServingMode::kDisaggregated;
    read_disaggregated(cells, row);
  } else {
    cells.fail(kMode, fmt::format("'{}' is unknown", cells.text(kMode)), "use agg or disagg");
  }
  if (cells.failed()) return tl::make_unexpected(cells.error());
  return row;
}

core::Result<std::array<std::size_t, kColumns>> columns_of(std::string_view header, std::string_view where) {
  const auto names = cells_of(header);
  std::array<std::size_t, kColumns> at{};
  for (std::size_t i = 0; i < kColumns; ++i) {
    const auto found = std::find(names.begin(), names.end(), kNames[i]);
    if (found == names.end())
      return invalid_input(fmt::format("{}:1", where), fmt::format("has no column {}", kNames[i]));
    at[i] = static_cast<std::size_t>(found - names.begin());
  }
  return at;
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

std::string SiliconRow::key() const {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}", name_of(spec.backend), spec.gpu->name, name_of(spec.precision),
                     spec.model == nullptr ? std::string_view{model} : spec.model->name, spec.tensor_parallel,
                     spec.attention_ranks, input_tokens, output_tokens, concurrency);
}

core::Result<std::vector<SiliconRow>> read_silicon(std::string_view text, std::string_view where) {
  if (text.size() > kSiliconBytesMax)
    return invalid_input(std::string{where},
                         fmt::format("has {} bytes, the maximum is {}", text.size(), kSiliconBytesMax));
  const std::string_view header = take_line(text);
  const std::size_t width = cells_of(header).size();
  const auto columns = columns_of(header, where);
  if (!columns) return tl::make_unexpected(columns.error());

  std::vector<SiliconRow> rows;
  for (std::size_t line = 2; !text.empty(); ++line) {
    const std::string_view content = take_line(text);
    if (content.empty()) continue;
    const std::string place = fmt::format("{}:{}", where, line);
    if (rows.size() == kSiliconRowsMax)
      return invalid_input(place, fmt::format("has more than {} rows", kSiliconRowsMax));
    const auto split = cells_of(content);
    if (split.size() != width)
      return invalid_input(place, fmt::format("has {} cells where the header has {}", split.size(), width));
    std::array<std::string_view, kColumns> named;
    for (std::size_t i = 0; i < kColumns; ++i) named[i] = split[(*columns)[i]];
    Cells cells{place, named};
    auto row = read_row(cells, line);
    if (!row) return tl::make_unexpected(row.error());
    rows.push_back(std::move(*row));
  }
  return rows;
}

}  // namespace penstock::fidelity
