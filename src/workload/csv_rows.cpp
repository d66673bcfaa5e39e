#include "workload/csv_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "workload/csv.h"

namespace penstock::workload {
namespace {

struct KnownColumn {
  std::string_view name;  // In the form of normalized().
  Column role;
};
// If several columns have the same role, the first entry is used.
constexpr KnownColumn kKnownColumns[] = {
    {"arrival_s", Column::kTime},
    {"timestamp_s", Column::kTime},
    {"t_s", Column::kTime},
    {"time_s", Column::kTime},
    {"timestamp_ms", Column::kTime},
    {"arrival_ms", Column::kTime},
    {"timestamp_us", Column::kTime},
    {"timestamp_ns", Column::kTime},
    {"timestamp", Column::kTime},
    {"input_tokens", Column::kInput},
    {"input_length", Column::kInput},
    {"prompt_tokens", Column::kInput},
    {"num_prefill_tokens", Column::kInput},
    {"contexttokens", Column::kInput},
    {"request_tokens", Column::kInput},
    {"output_tokens", Column::kOutput},
    {"output_length", Column::kOutput},
    {"completion_tokens", Column::kOutput},
    {"num_decode_tokens", Column::kOutput},
    {"generatedtokens", Column::kOutput},
    {"response_tokens", Column::kOutput},
    {"tenant", Column::kTenant},
    {"client", Column::kTenant},
    {"user", Column::kTenant},
    {"model", Column::kTenant},
    {"session", Column::kSession},
    {"session_id", Column::kSession},
    {"priority", Column::kPriority},
    {"class", Column::kClass},
    {"traffic_class", Column::kClass},
    {"prefix_group", Column::kPrefixGroup},
    {"prefix_group_id", Column::kPrefixGroup},
    {"prefix_id", Column::kPrefixGroup},
    {"prefix_tokens", Column::kPrefixTokens},
    {"streamed", Column::kStreamed},
    {"stream", Column::kStreamed},
};

// The table that LiteLLM's database exports.
constexpr KnownColumn kLiteLlmTable[] = {
    {"starttime", Column::kTime}, {"prompt_tokens", Column::kInput}, {"completion_tokens", Column::kOutput},
    {"team_id", Column::kTenant}, {"session_id", Column::kSession},  {"model_group", Column::kModel},
    {"model", Column::kModel},
};

std::span<const KnownColumn> known_columns(Format format) {
  if (format == Format::kLiteLlm) return kLiteLlmTable;
  return kKnownColumns;
}

using Names = std::vector<std::string>;  // Normalized names.
bool has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 3> kAzureColumns = {"timestamp", "contexttokens", "generatedtokens"};
constexpr std::array<std::string_view, 3> kLiteLlmColumns = {"starttime", "prompt_tokens", "completion_tokens"};
constexpr std::array<std::string_view, 3> kBurstGptColumns = {"timestamp", "request_tokens", "response_tokens"};

std::span<const std::string_view> columns_of(Format format) {
  switch (format) {
    case Format::kAzure2023:
    case Format::kAzure2024: return kAzureColumns;
    case Format::kBurstGpt: return kBurstGptColumns;
    case Format::kAuto:
    case Format::kMooncake:
    case Format::kCsv:
    case Format::kLedger:
    case Format::kRecorded:
    case Format::kAgentic:
    case Format::kWeka: break;
    case Format::kLiteLlm: return kLiteLlmColumns;
  }
  return {};
}

bool has_all(const Names& names, std::span<const std::string_view> wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](std::string_view name) { return has(names, name); });
}

Format format_of(const Names& names) {
  if (has_all(names, kAzureColumns)) return Format::kAzure2023;
  if (has_all(names, kBurstGptColumns)) return Format::kBurstGpt;
  if (has_all(names, kLiteLlmColumns)) return Format::kLiteLlm;
  return Format::kCsv;
}

struct Columns {
  static constexpr std::size_t kAbsent = SIZE_MAX;
  std::array<std::size_t, kColumns> at{};
  std::array<std::string, kColumns> names;  // As written in the header.
  TimeFormat time_format = TimeFormat::kAuto;
  std::size_t count = 0;
  std::size_t cache_hit = kAbsent;  // Of LiteLLM; `count` or more if there is none.

  [[nodiscard]] bool has(Column role) const { return at[index_of(role)] != kAbsent; }
  void set(Column role, std::size_t index, std::string_view name) {
    at[index_of(role)] = index;
    names[index_of(role)] = printable(name);
  }
  [[nodiscard]] const std::string& name(Column role) const { return names[index_of(role)]; }
  static constexpr std::size_t index_of(Column role) { return static_cast<std::size_t>(role); }
};

// The format of times that a format or the name of the column determines.
TimeFormat known_time_format(Format format, const std::string& column) {
  switch (format) {
    case Format::kAzure2023:
    case Format::kAzure2024: return TimeFormat::kIso;
    case Format::kBurstGpt: return TimeFormat::kSeconds;
    case Format::kAuto:
    case Format::kMooncake:
    case Format::kCsv:
    case Format::kLedger:
    case Format::kRecorded:
    case Format::kAgentic:
    case Format::kWeka:
    case Format::kLiteLlm: break;
  }
  return unit_in_name(column);
}

void map_columns(const Names& names, std::span<const std::string_view> written, const ColumnMapping& mapping,
                 Columns& columns) {
  for (std::size_t role = 0; role < kColumns; ++role) {
    const std::string& wanted = mapping.name(static_cast<Column>(role));
    if (wanted.empty()) continue;
    // A name as it is written comes before one that differs in case or spaces.
    const auto exact = std::find(written.begin(), written.end(), wanted);
    const auto alike = std::find(names.begin(), names.end(), normalized(wanted));
    const auto index = exact != written.end() ? exact - written.begin() : alike - names.begin();
    if (const auto at = static_cast<std::size_t>(index); at < written.size())
      columns.set(static_cast<Column>(role), at, written[at]);
  }
}

Columns find_columns(const Names& names, std::span<const std::string_view> written, const TableOptions& options) {
  Columns columns;
  columns.count = names.size();
  columns.at.fill(Columns::kAbsent);
  map_columns(names, written, options.columns, columns);
  const auto own = columns_of(options.format);
  for (const auto& known : known_columns(options.format)) {
    // A format with special columns is read from those.
    const bool is_own = own.empty() || std::find(own.begin(), own.end(), known.name) != own.end();
    if (columns.has(known.role) || (known.role <= Column::kOutput && !is_own)) continue;
    const auto found = std::find(names.begin(), names.end(), known.name);
    if (found == names.end()) continue;
    const auto index = static_cast<std::size_t>(found - names.begin());
    columns.set(known.role, index, written[index]);
  }
  columns.time_format = options.time_format;
  if (columns.time_format == TimeFormat::kAuto) {
    const bool mapped = !options.columns.name(Column::kTime).empty();
    columns.time_format = known_time_format(mapped ? Format::kCsv : options.format, columns.name(Column::kTime));
  }
  if (options.format == Format::kLiteLlm)
    columns.cache_hit = static_cast<std::size_t>(std::find(names.begin(), names.end(), "cache_hit") - names.begin());
  return columns;
}

// Sets the format of the times from the first rows.
core::Result<void> settle_times(const std::string& place, std::span<const std::string_view> sample, char separator,
                                Columns& columns) {
  CsvSplitter splitter{separator};
  std::vector<std::string> texts;
  for (const std::string_view line : sample)
    if (const auto fields = splitter.split(line); fields && fields->size() == columns.count)
      texts.emplace_back((*fields)[columns.at[Columns::index_of(Column::kTime)]]);
  const TimeGuess guess = guess_time_format(std::vector<std::string_view>{texts.begin(), texts.end()});
  columns.time_format = guess.format;
  if (guess.doubt.empty()) return {};
  return tl::make_unexpected(
      doubtful_times(place, fmt::format("column {}", quoted_text(columns.name(Column::kTime))), guess));
}

class CsvRowParser final : public RowParser {
 public:
  CsvRowParser(Columns columns, char separator, Format format, bool format_is_given, Wanted wanted)
      : columns_{std::move(columns)},
        splitter_{separator},
        format_{format},
        format_is_given_{format_is_given},
        wanted_{wanted} {}

  Parsed<void> parse(std::string_view line, TraceRow& row) override;
  [[nodiscard]] Format format() const override { return format_; }
  [[nodiscard]] bool is_sorted() const override { return format_ != Format::kLiteLlm; }
  [[nodiscard]] std::uint32_t block_tokens() const override {
    return columns_.has(Column::kPrefixGroup) ? kPrefixBlockTokens : Workload{}.block_tokens;
  }

 private:
  using Fields = std::span<const std::string_view>;
  [[nodiscard]] std::string_view field(Fields fields, Column role) const {
    return fields[columns_.at[Columns::index_of(role)]];
  }
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
  row.time_text = field(fields, Column::kTime);
  const auto time = parse_trace_time(columns_.name(Column::kTime), row.time_text, columns_.time_format);
  if (!time) return wrong(time.error());
  row.time = *time;
  const bool is_azure = format_ == Format::kAzure2023;
  if (is_azure && !std::exchange(format_is_given_, true) && has_zone(row.time_text)) format_ = Format::kAzure2024;
  return {};
}

Parsed<void> CsvRowParser::read_tokens(Fields fields, TraceRow& row) const {
  const std::uint32_t least = format_ == Format::kLiteLlm ? 0 : 1;
  const auto input = parse_tokens(columns_.name(Column::kInput), field(fields, Column::kInput), least);
  if (!input) return wrong(input.error());
  const auto output = parse_tokens(columns_.name(Column::kOutput), field(fields, Column::kOutput), least);
  if (!output) return wrong(output.error());
  row.input_tokens = *input;
  row.output_tokens = *output;
  if (*input == 0 || *output == 0) {
    row.is_request = false;
    row.fault = fmt::format("{} prompt tokens and {} output tokens", *input, *output);
  } else if (columns_.cache_hit < fields.size() && normalized(fields[columns_.cache_hit].substr(0, 4)) == "true") {
    row.is_request = false;
    row.fault = "was answered from the cache of LiteLLM";
  }
  return {};
}

Parsed<void> CsvRowParser::read_names(Fields fields, TraceRow& row) const {
  for (const auto& [role, to] :
       {std::pair{Column::kTenant, &row.tenant}, std::pair{Column::kSession, &row.session},
        std::pair{Column::kPrefixGroup, &row.prefix_group}, std::pair{Column::kModel, &row.model}}) {
    if (!columns_.has(role)) continue;
    const auto name = parse_name(columns_.name(role), field(fields, role));
    if (!name) return wrong(name.error());
    *to = *name;
  }
  return {};
}

Parsed<void> CsvRowParser::read_prefix(Fields fields, TraceRow& row) const {
  if (!columns_.has(Column::kPrefixGroup)) return {};
  const std::string_view text = field(fields, Column::kPrefixTokens);
  if (row.prefix_group.empty() && text.empty()) return {};
  const auto tokens = parse_tokens(columns_.name(Column::kPrefixTokens), text, 0);
  if (!tokens) return wrong(tokens.error());
  const std::uint32_t most = std::min(row.input_tokens, kPrefixTokensMax);
  if (*tokens > most) {
    return wrong(
        fmt::format("{} is {}, must be at most {} ({})", columns_.name(Column::kPrefixTokens), *tokens, most,
                    most == row.input_tokens ? columns_.name(Column::kInput) : std::string{"the longest prefix"}));
  }
  if (row.prefix_group.empty() && *tokens > 0)
    return wrong(fmt::format("{} is blank", columns_.name(Column::kPrefixGroup)));
  row.prefix_tokens = *tokens;
  return {};
}

Parsed<void> CsvRowParser::read_service(Fields fields, TraceRow& row) const {
  if (columns_.has(Column::kPriority)) {
    const auto priority = parse_priority(columns_.name(Column::kPriority), field(fields, Column::kPriority));
    if (!priority) return wrong(priority.error());
    row.priority = *priority;
  }
  if (columns_.has(Column::kClass)) {
    const auto traffic_class = parse_traffic_class(columns_.name(Column::kClass), field(fields, Column::kClass));
    if (!traffic_class) return wrong(traffic_class.error());
    row.traffic_class = *traffic_class;
  }
  if (columns_.has(Column::kStreamed)) {
    const auto streamed = parse_streamed(columns_.name(Column::kStreamed), field(fields, Column::kStreamed));
    if (!streamed) return wrong(streamed.error());
    row.streamed = *streamed;
  }
  return {};
}

core::Result<void> check_header(const std::string& place, const Names& names, std::span<const std::string_view> written,
                                const Columns& columns, const TableOptions& options) {
  std::vector<std::string_view> sorted(names.begin(), names.end());
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i] == sorted[i - 1] && !sorted[i].empty())
      return core::invalid_input(place, fmt::format("names the column {} twice", quoted_text(sorted[i])));

  for (std::size_t role = 0; role < kColumns; ++role) {
    const std::string& mapped = options.columns.name(static_cast<Column>(role));
    if (!mapped.empty() && !columns.has(static_cast<Column>(role)))
      return core::invalid_input(place, fmt::format("the header has no column {}", quoted_text(mapped)),
                                 fmt::format("its columns are {}", listed(written)));
  }
  std::vector<std::string> missing, hints;
  constexpr std::array<std::string_view, 3> kNeeded = {"arrival times", "input tokens", "output tokens"};
  const auto own = columns_of(options.format);
  for (const Column role : {Column::kTime, Column::kInput, Column::kOutput}) {
    if (columns.has(role) || (role == Column::kTime && options.wanted == Wanted::kLengths)) continue;
    const std::size_t index = Columns::index_of(role);
    missing.push_back(fmt::format("no column of {}", kNeeded[index]));
    if (!own.empty()) hints.push_back(fmt::format("{} calls it {}", name_of(options.format), own[index]));
  }
  if (!missing.empty()) {
    const bool has_lengths_only =
        missing.size() == 1 && !columns.has(Column::kTime) && own.empty() && !may_have_times(written);
    if (has_lengths_only)
      hints.push_back(
          fmt::format("its columns are {}; for lengths with generated arrivals, use the trace "
                      "synthetic:rate=5,duration=10m,lengths=FILE",
                      listed(written)));
    else if (hints.empty())
      hints.push_back(fmt::format("its columns are {}; map them with {}", listed(written), suggested_mapping(written)));
    return core::invalid_input(place, fmt::format("the header has {}", fmt::join(missing, ", ")),
                               fmt::format("{}", fmt::join(hints, "; ")));
  }
  if (columns.has(Column::kPrefixGroup) != columns.has(Column::kPrefixTokens))
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
  CsvSplitter splitter{separator_of(line)};
  const auto fields = splitter.split(line);
  if (!fields) return false;
  const Names names = normalized_names(*fields);
  return std::any_of(std::begin(kKnownColumns), std::end(kKnownColumns), [&](const KnownColumn& column) {
    return column.role <= Column::kOutput && has(names, column.name);
  });
}

std::vector<std::string> foreign_header(std::string_view line) {
  CsvSplitter splitter{separator_of(line)};
  const auto fields = splitter.split(line);
  if (!fields || fields->size() < 2 || line.starts_with('[') || line.starts_with('{')) return {};
  const auto is_number = [](std::string_view field) {
    return !field.empty() && field.find_first_not_of("0123456789.:-+/ TZ") == std::string_view::npos;
  };
  if (std::any_of(fields->begin(), fields->end(), is_number)) return {};
  return {fields->begin(), fields->end()};
}

core::Result<std::unique_ptr<RowParser>> csv_row_parser(const std::string& place, std::string_view header,
                                                        std::span<const std::string_view> sample,
                                                        const TableOptions& options) {
  const char separator = separator_of(header);
  CsvSplitter splitter{separator};
  const auto fields = splitter.split(header);
  if (!fields) return core::invalid_input(place, fields.error());
  const Names names = normalized_names(*fields);
  TableOptions known = options;
  if (options.format == Format::kAuto) known.format = format_of(names);
  Columns columns = find_columns(names, *fields, known);
  if (auto good = check_header(place, names, *fields, columns, known); !good) return tl::make_unexpected(good.error());
  if (columns.time_format == TimeFormat::kAuto && options.wanted == Wanted::kRequests)
    if (auto good = settle_times(place, sample, separator, columns); !good) return tl::make_unexpected(good.error());
  return std::make_unique<CsvRowParser>(std::move(columns), separator, known.format, options.format != Format::kAuto,
                                        options.wanted);
}

}  // namespace penstock::workload
