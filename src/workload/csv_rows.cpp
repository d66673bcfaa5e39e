#include "workload/csv_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "workload/csv.h"

namespace penstock::workload {
namespace {

enum Role : std::uint8_t {
  kTime,
  kInput,
  kOutput,
  kTenant,
  kSession,
  kPriority,
  kClass,
  kPrefixGroup,
  kPrefixTokens,
  kStreamed,
  kRoleCount
};

struct KnownColumn {
  std::string_view name;  // In the form of normalized().
  Role role;
  TimeUnit unit = TimeUnit::kSeconds;
};
// If several columns have the same role, the first entry is used.
constexpr KnownColumn kKnownColumns[] = {
    {"arrival_s", kTime},
    {"timestamp_s", kTime},
    {"t_s", kTime},
    {"time_s", kTime},
    {"timestamp_ms", kTime, TimeUnit::kMilliseconds},
    {"arrival_ms", kTime, TimeUnit::kMilliseconds},
    {"timestamp_us", kTime, TimeUnit::kMicroseconds},
    {"timestamp", kTime},
    {"input_tokens", kInput},
    {"input_length", kInput},
    {"prompt_tokens", kInput},
    {"num_prefill_tokens", kInput},
    {"contexttokens", kInput},
    {"request_tokens", kInput},
    {"output_tokens", kOutput},
    {"output_length", kOutput},
    {"completion_tokens", kOutput},
    {"num_decode_tokens", kOutput},
    {"generatedtokens", kOutput},
    {"response_tokens", kOutput},
    {"tenant", kTenant},
    {"client", kTenant},
    {"user", kTenant},
    {"model", kTenant},
    {"session", kSession},
    {"session_id", kSession},
    {"priority", kPriority},
    {"class", kClass},
    {"traffic_class", kClass},
    {"prefix_group", kPrefixGroup},
    {"prefix_group_id", kPrefixGroup},
    {"prefix_id", kPrefixGroup},
    {"prefix_tokens", kPrefixTokens},
    {"streamed", kStreamed},
    {"stream", kStreamed},
};

std::string names_of(Role role) {
  std::vector<std::string_view> names;
  for (const auto& column : kKnownColumns)
    if (column.role == role) names.push_back(column.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

using Names = std::vector<std::string>;  // Normalized names.
bool has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 3> kAzureColumns = {"timestamp", "contexttokens", "generatedtokens"};
constexpr std::array<std::string_view, 3> kBurstGptColumns = {"timestamp", "request_tokens", "response_tokens"};

std::span<const std::string_view> columns_of(Format format) {
  switch (format) {
    case Format::kAzure2023:
    case Format::kAzure2024: return kAzureColumns;
    case Format::kBurstGpt: return kBurstGptColumns;
    case Format::kAuto:
    case Format::kMooncake:
    case Format::kCsv: break;
  }
  return {};
}

bool has_all(const Names& names, std::span<const std::string_view> wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](std::string_view name) { return has(names, name); });
}

Format format_of(const Names& names) {
  if (has_all(names, kAzureColumns)) return Format::kAzure2023;
  if (has_all(names, kBurstGptColumns)) return Format::kBurstGpt;
  return Format::kCsv;
}

struct Columns {
  static constexpr std::size_t kAbsent = SIZE_MAX;
  std::array<std::size_t, kRoleCount> at{};
  std::array<std::string, kRoleCount> names;  // As written in the header.
  TimeUnit unit = TimeUnit::kSeconds;
  bool dates = false, may_be_dates = false;
  std::size_t count = 0;

  [[nodiscard]] bool has(Role role) const { return at[role] != kAbsent; }
};

Columns find_columns(const Names& names, std::span<const std::string_view> written, Format format) {
  Columns columns;
  columns.count = names.size();
  columns.at.fill(Columns::kAbsent);
  const auto own = columns_of(format);
  for (const auto& known : kKnownColumns) {
    // A format with special columns is read from those.
    const bool is_own = own.empty() || std::find(own.begin(), own.end(), known.name) != own.end();
    if (columns.has(known.role) || (known.role <= kOutput && !is_own)) continue;
    const auto found = std::find(names.begin(), names.end(), known.name);
    if (found == names.end()) continue;
    const auto index = static_cast<std::size_t>(found - names.begin());
    columns.at[known.role] = index;
    columns.names[known.role] = printable(written[index]);
    if (known.role == kTime) columns.unit = known.unit;
    if (known.role == kTime) columns.may_be_dates = known.name == "timestamp" && format != Format::kBurstGpt;
  }
  columns.dates = format == Format::kAzure2023 || format == Format::kAzure2024;
  return columns;
}

class CsvRowParser final : public RowParser {
 public:
  CsvRowParser(Columns columns, Format format, bool format_is_given, Wanted wanted)
      : columns_{std::move(columns)}, format_{format}, format_is_given_{format_is_given}, wanted_{wanted} {}

  Parsed<void> parse(std::string_view line, TraceRow& row) override;
  [[nodiscard]] Format format() const override { return format_; }
  [[nodiscard]] std::uint32_t block_tokens() const override {
    return columns_.has(kPrefixGroup) ? kPrefixBlockTokens : Workload{}.block_tokens;
  }

 private:
  using Fields = std::span<const std::string_view>;
  [[nodiscard]] std::string_view field(Fields fields, Role role) const { return fields[columns_.at[role]]; }
  [[nodiscard]] Parsed<void> read_time(Fields fields, TraceRow& row);
  [[nodiscard]] Parsed<void> read_tokens(Fields fields, TraceRow& row) const;
  [[nodiscard]] Parsed<void> read_names(Fields fields, TraceRow& row) const;
  [[nodiscard]] Parsed<void> read_prefix(Fields fields, TraceRow& row) const;
  [[nodiscard]] Parsed<void> read_service(Fields fields, TraceRow& row) const;

  Columns columns_;
  CsvSplitter splitter_;
  Format format_;
  bool format_is_given_;
  Wanted wanted_;
};

Parsed<void> CsvRowParser::parse(std::string_view line, TraceRow& row) {
  row = {};
  const auto fields = splitter_.split(line);
  if (!fields) return wrong(fields.error());
  if (fields->size() != columns_.count)
    return wrong(fmt::format("has {} columns where the header has {}", fields->size(), columns_.count));
  if (wanted_ == Wanted::kLengths) return read_tokens(*fields, row);
  return read_time(*fields, row)
      .and_then([&] { return read_tokens(*fields, row); })
      .and_then([&] { return read_names(*fields, row); })
      .and_then([&] { return read_prefix(*fields, row); })
      .and_then([&] { return read_service(*fields, row); });
}

Parsed<void> CsvRowParser::read_time(Fields fields, TraceRow& row) {
  row.time_text = field(fields, kTime);
  const bool is_date = columns_.dates || (columns_.may_be_dates && row.time_text.find(':') != std::string_view::npos);
  const auto time = is_date ? parse_date_time(columns_.names[kTime], row.time_text)
                            : parse_time(columns_.names[kTime], row.time_text, columns_.unit);
  if (!time) return wrong(time.error());
  row.time = *time;
  if (columns_.dates && !std::exchange(format_is_given_, true) && has_zone(row.time_text)) format_ = Format::kAzure2024;
  return {};
}

Parsed<void> CsvRowParser::read_tokens(Fields fields, TraceRow& row) const {
  const auto input = parse_tokens(columns_.names[kInput], field(fields, kInput));
  if (!input) return wrong(input.error());
  const auto output = parse_tokens(columns_.names[kOutput], field(fields, kOutput));
  if (!output) return wrong(output.error());
  row.input_tokens = *input;
  row.output_tokens = *output;
  return {};
}

Parsed<void> CsvRowParser::read_names(Fields fields, TraceRow& row) const {
  for (const auto& [role, to] : {std::pair{kTenant, &row.tenant}, std::pair{kSession, &row.session},
                                 std::pair{kPrefixGroup, &row.prefix_group}}) {
    if (!columns_.has(role)) continue;
    const auto name = parse_name(columns_.names[role], field(fields, role));
    if (!name) return wrong(name.error());
    *to = *name;
  }
  return {};
}

Parsed<void> CsvRowParser::read_prefix(Fields fields, TraceRow& row) const {
  if (!columns_.has(kPrefixGroup)) return {};
  const std::string_view text = field(fields, kPrefixTokens);
  if (row.prefix_group.empty() && text.empty()) return {};
  const auto tokens = parse_tokens(columns_.names[kPrefixTokens], text, 0);
  if (!tokens) return wrong(tokens.error());
  const std::uint32_t most = std::min(row.input_tokens, kPrefixTokensMax);
  if (*tokens > most) {
    return wrong(fmt::format("{} is {}, must be at most {} ({})", columns_.names[kPrefixTokens], *tokens, most,
                             most == row.input_tokens ? columns_.names[kInput] : std::string{"the longest prefix"}));
  }
  if (row.prefix_group.empty() && *tokens > 0) return wrong(fmt::format("{} is blank", columns_.names[kPrefixGroup]));
  row.prefix_tokens = *tokens;
  return {};
}

Parsed<void> CsvRowParser::read_service(Fields fields, TraceRow& row) const {
  if (columns_.has(kPriority)) {
    const auto priority = parse_priority(columns_.names[kPriority], field(fields, kPriority));
    if (!priority) return wrong(priority.error());
    row.priority = *priority;
  }
  if (columns_.has(kClass)) {
    const auto traffic_class = parse_traffic_class(columns_.names[kClass], field(fields, kClass));
    if (!traffic_class) return wrong(traffic_class.error());
    row.traffic_class = *traffic_class;
  }
  if (columns_.has(kStreamed)) {
    const auto streamed = parse_streamed(columns_.names[kStreamed], field(fields, kStreamed));
    if (!streamed) return wrong(streamed.error());
    row.streamed = *streamed;
  }
  return {};
}

core::Result<void> check_header(const std::string& place, const Names& names, const Columns& columns, Format format,
                                Wanted wanted) {
  std::vector<std::string_view> sorted(names.begin(), names.end());
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i] == sorted[i - 1] && !sorted[i].empty())
      return core::invalid_input(place, fmt::format("names the column {} twice", quoted_text(sorted[i])));

  std::vector<std::string> missing, hints;
  constexpr std::array<std::string_view, 3> kNeeded = {"arrival times", "input tokens", "output tokens"};
  for (const Role role : {kTime, kInput, kOutput}) {
    if (columns.has(role) || (role == kTime && wanted == Wanted::kLengths)) continue;
    missing.push_back(fmt::format("no column of {}", kNeeded[role]));
    const auto own = columns_of(format);
    hints.push_back(own.empty() ? fmt::format("{} may be called {}", kNeeded[role], names_of(role))
                                : fmt::format("{} calls it {}", name_of(format), own[role]));
  }
  if (!missing.empty())
    return core::invalid_input(place, fmt::format("the header has {}", fmt::join(missing, ", ")),
                               fmt::format("{}", fmt::join(hints, "; ")));
  if (columns.has(kPrefixGroup) != columns.has(kPrefixTokens))
    return core::invalid_input(place, "the header has only one of prefix_group and prefix_tokens",
                               "a shared prefix needs both");
  return {};
}

Names normalized_names(std::span<const std::string_view> header) {
  Names names;
  for (const auto name : header) names.push_back(normalized(name));
  return names;
}

}  // namespace

bool looks_like_header(std::string_view line) {
  CsvSplitter splitter;
  const auto fields = splitter.split(line);
  if (!fields) return false;
  const Names names = normalized_names(*fields);
  return std::any_of(std::begin(kKnownColumns), std::end(kKnownColumns),
                     [&](const KnownColumn& column) { return column.role <= kOutput && has(names, column.name); });
}

core::Result<std::unique_ptr<RowParser>> csv_row_parser(const std::string& place, std::string_view header,
                                                        Format format, Wanted wanted) {
  CsvSplitter splitter;
  const auto fields = splitter.split(header);
  if (!fields) return core::invalid_input(place, fields.error());
  const Names names = normalized_names(*fields);
  const bool is_given = format != Format::kAuto;
  if (!is_given) format = format_of(names);
  Columns columns = find_columns(names, *fields, format);
  if (auto good = check_header(place, names, columns, format, wanted); !good) return tl::make_unexpected(good.error());
  return std::make_unique<CsvRowParser>(std::move(columns), format, is_given, wanted);
}

}  // namespace penstock::workload
