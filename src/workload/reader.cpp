#include "workload/reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "core/random.h"
#include "workload/byte_source.h"
#include "workload/csv_rows.h"
#include "workload/decompress.h"
#include "workload/json_array.h"
#include "workload/json_rows.h"
#include "workload/line_reader.h"
#include "workload/row_source.h"
#include "workload/session_rows.h"
#include "workload/trace_builder.h"
#include "workload/trace_row.h"

namespace penstock::workload {
namespace {

using core::invalid_input;

constexpr std::array<std::string_view, 11> kFormatNames = {"auto",     "mooncake", "azure2023", "azure2024",
                                                           "burstgpt", "csv",      "ledger",    "recorded",
                                                           "agentic",  "weka",     "litellm"};
constexpr std::size_t kRememberedFaults = 10;
constexpr std::string_view kSkipHint = "correct the row, or skip such rows with --skip-bad-rows";

std::string known_formats() {
  return fmt::format("known are {}", fmt::join(kFormatNames.begin() + 1, kFormatNames.end(), ", "));
}

// Returns "mooncake_conversation" for "traces/mooncake_conversation.jsonl.xz".
std::string trace_name(std::string_view path) {
  path.remove_prefix(path.find_last_of('/') + 1);
  for (const std::string_view ending : {".gz", ".xz", ".zst", ".csv", ".jsonl", ".json", ".txt", ".sqlite"})
    if (path.size() > ending.size() && path.ends_with(ending)) path.remove_suffix(ending.size());
  return std::string{path};
}

constexpr std::size_t kSampleRows = 1000;
constexpr std::size_t kSampleBytes = std::size_t{1} << 20;

// The lines of a trace and the parser that its first lines select. A header is not a row.
class Trace {
 public:
  static core::Result<Trace> open(std::string name, std::unique_ptr<ByteSource> source, const TableOptions& options) {
    auto unpacked = decompress(name, std::move(source));
    if (!unpacked) return tl::make_unexpected(unpacked.error());
    auto lines = json_array_lines(name, std::move(*unpacked));
    Trace trace{LineReader{std::move(name), std::move(lines)}};
    const auto line = trace.lines_.next();
    if (!line) return tl::make_unexpected(line.error());
    if (!*line) return invalid_input(trace.name(), "holds no request", "the file is empty");
    trace.keep(**line);
    if (auto good = trace.choose_parser(options); !good) return tl::make_unexpected(good.error());
    return trace;
  }

  core::Result<std::optional<std::string_view>> next() {
    if (next_ahead_ < ahead_.size()) {
      const Line& line = ahead_[next_ahead_++];
      line_ = line.number;
      return line.view();
    }
    if (failed_) return tl::make_unexpected(*failed_);
    ahead_.clear();
    next_ahead_ = 0;
    auto line = lines_.next();
    line_ = lines_.line();
    return line;
  }
  [[nodiscard]] RowParser& parser() const { return *parser_; }  // Unless the lines are sessions.
  // The lines are whole sessions with blocks of so many tokens.
  [[nodiscard]] std::optional<std::uint32_t> session_block_tokens() const { return session_block_tokens_; }
  [[nodiscard]] std::string place() const { return fmt::format("{}:{}", name(), line_); }
  [[nodiscard]] const std::string& name() const { return lines_.name(); }

 private:
  struct Line {  // A line that was read ahead.
    std::string padded;
    std::uint64_t number = 0;
    [[nodiscard]] std::string_view view() const {
      return std::string_view{padded}.substr(0, padded.size() - LineReader::kPaddingBytes);
    }
  };

  explicit Trace(LineReader lines) : lines_{std::move(lines)}, line_{1} {}

  void keep(std::string_view line) {
    ahead_.push_back({std::string{line} + std::string(LineReader::kPaddingBytes, '\0'), lines_.line()});
  }
  // An error is returned when next() comes to it.
  void read_ahead() {
    for (std::size_t bytes = 0; ahead_.size() <= kSampleRows && bytes < kSampleBytes;) {
      const auto line = lines_.next();
      if (!line) failed_ = line.error();
      if (!line || !*line) return;
      bytes += (*line)->size();
      keep(**line);
    }
  }

  core::Result<void> choose_parser(const TableOptions& options) {
    const std::string_view first_line = ahead_.front().view();
    line_ = ahead_.front().number;
    if (options.format == Format::kLedger)
      return invalid_input(name(), "is no SQLite database, as a ledger is", "leave --format out");
    const bool is_json = trimmed(first_line).starts_with('{');
    const bool is_table = options.format == Format::kAuto || options.format == Format::kLiteLlm;
    if (is_table ? is_json : is_json_format(options.format)) {
      if (!options.columns.empty())
        return invalid_input(place(), "--columns maps the columns of a table, and this trace has JSON objects",
                             "rename their keys to timestamp, input_length and output_length");
      const bool is_session = is_json && is_whole_session(first_line);
      if (options.format == Format::kWeka && !is_session)
        return invalid_input(place(), "is not a session: a JSON object with a list of requests");
      if (is_session) return open_sessions(first_line);
      JsonFormat json = is_json ? json_format_of(first_line) : JsonFormat{};
      if (options.format != Format::kAuto) json.format = options.format;
      const bool is_in_ms = json.format == Format::kMooncake || json.format == Format::kAgentic;
      if (is_in_ms) read_ahead();
      // The first row of a session waits for nothing.
      if (options.format == Format::kAuto && json.format == Format::kMooncake &&
          first_line.find("\"session_id\"") != std::string_view::npos) {
        const bool agentic =
            std::any_of(ahead_.begin(), ahead_.end(), [](const Line& line) { return is_agentic_row(line.view()); });
        if (agentic) json.format = Format::kAgentic;
      }
      if (is_in_ms && options.time_format == TimeFormat::kAuto && options.wanted == Wanted::kRequests)
        if (auto good = check_milliseconds(); !good) return good;
      parser_ = json_row_parser(json, options.wanted, options.time_format);
      return {};
    }
    if (options.format == Format::kAuto && options.columns.empty() && !looks_like_header(first_line))
      return unknown_format(first_line);
    read_ahead();
    next_ahead_ = 1;
    std::vector<std::string_view> sample;
    for (std::size_t i = 1; i < ahead_.size(); ++i) sample.push_back(ahead_[i].view());
    auto parser = csv_row_parser(place(), first_line, sample, options);
    if (!parser) return tl::make_unexpected(parser.error());
    parser_ = std::move(*parser);
    return {};
  }

  core::Result<void> check_milliseconds() const {
    std::vector<std::string_view> times;
    for (const Line& line : ahead_)
      if (const std::string_view time = timestamp_of(line.view()); !time.empty()) times.push_back(time);
    const TimeGuess guess = confirm_milliseconds(times);
    if (guess.doubt.empty()) return {};
    return tl::make_unexpected(doubtful_times(place(), "timestamp", guess));
  }

  // A session that cannot be read is an error when it comes to its row.
  core::Result<void> open_sessions(std::string_view first_line) {
    const auto first = SessionParser{std::nullopt}.parse(first_line);
    session_block_tokens_ = first ? first->block_tokens : Session{}.block_tokens;
    return {};
  }

  [[nodiscard]] core::Result<void> unknown_format(std::string_view first_line) const {
    const std::vector<std::string> header = foreign_header(first_line);
    if (header.empty())
      return invalid_input(place(), fmt::format("unknown trace format: {}", quoted_text(trimmed(first_line))),
                           known_formats());
    const std::vector<std::string_view> names{header.begin(), header.end()};
    return invalid_input(place(), fmt::format("unknown columns {}", listed(names)),
                         "map them with " + suggested_mapping(names));
  }

  LineReader lines_;
  std::unique_ptr<RowParser> parser_;
  std::optional<std::uint32_t> session_block_tokens_;
  std::deque<Line> ahead_;  // The first lines.
  std::size_t next_ahead_ = 0;
  std::optional<core::Error> failed_;
  std::uint64_t line_;  // Of the line that next() returned.
};

std::string in_seconds(core::Duration duration) { return fmt::format("{:.9g} s", core::to_seconds(duration)); }

core::Result<void> check_window(const std::string& name, const ReadOptions& options) {
  if (options.from < core::Duration{})
    return invalid_input(name, fmt::format("the window begins at {}, before the trace", in_seconds(options.from)));
  if (options.to && *options.to <= options.from)
    return invalid_input(
        name, fmt::format("the window from {} to {} is empty", in_seconds(options.from), in_seconds(*options.to)));
  return {};
}

void remember_fault(ReadReport& report, const std::string& place, const std::string& what) {
  ++report.skipped_rows;
  if (report.skipped.size() < kRememberedFaults) report.skipped.push_back(fmt::format("{}: {}", place, what));
}

// The lines of a file as rows.
class TraceRows final : public RowSource {
 public:
  explicit TraceRows(Trace trace) : trace_{std::move(trace)} {}

  core::Result<bool> next(TraceRow& row) override {
    const auto line = trace_.next();
    if (!line) return tl::make_unexpected(line.error());
    if (!*line) return false;
    if (auto parsed = trace_.parser().parse(**line, row); !parsed) row.fault = std::move(parsed.error());
    return true;
  }
  [[nodiscard]] std::string place() const override { return trace_.place(); }
  [[nodiscard]] Format format() const override { return trace_.parser().format(); }
  [[nodiscard]] std::uint32_t block_tokens() const override { return trace_.parser().block_tokens(); }
  [[nodiscard]] bool is_sorted() const override { return trace_.parser().is_sorted(); }

 private:
  Trace trace_;
};

// The requests of sessions that start as a Poisson process.
class SessionTraceRows final : public RowSource {
 public:
  SessionTraceRows(Trace trace, const ReadOptions& options)
      : trace_{std::move(trace)},
        parser_{options.think_time_max},
        starts_{core::RandomStream{options.seed}.fork("sessions")},
        gap_s_{1.0 / options.session_rate} {}

  core::Result<bool> next(TraceRow& row) override {
    row = {};
    while (next_ >= session_.requests.size()) {
      const auto line = trace_.next();
      if (!line) return tl::make_unexpected(line.error());
      if (!*line) return false;
      auto session = parser_.parse(**line);
      if (session && session->block_tokens != block_tokens())
        session = wrong(
            fmt::format("block_size is {} where the first session has {}", session->block_tokens, block_tokens()));
      if (!session) {
        row.fault = std::move(session.error());
        return true;
      }
      session_ = std::move(*session);
      start_ += core::from_seconds(starts_.exponential(gap_s_));
      next_ = 0;
      ++number_;
    }
    fill(session_.requests[next_], row);
    ++next_;
    return true;
  }
  [[nodiscard]] std::string place() const override { return trace_.place(); }
  [[nodiscard]] Format format() const override { return Format::kWeka; }
  [[nodiscard]] std::uint32_t block_tokens() const override { return *trace_.session_block_tokens(); }
  [[nodiscard]] bool is_sorted() const override { return false; }

 private:
  [[nodiscard]] std::string id_of(std::size_t request) const { return fmt::format("{}/{}", number_, request); }

  void fill(const SessionRequest& request, TraceRow& row) {
    row.time = start_ + request.at;
    // Requests that ended with an error have no tokens; those that wait for them need an end to wait for.
    row.input_tokens = std::max(1U, request.input_tokens);
    row.output_tokens = std::max(1U, request.output_tokens);
    row.streamed = request.streamed;
    id_ = id_of(next_);
    row.request_id = id_;
    name_ = fmt::format("{}/{}", number_, session_.id);
    row.session = name_;
    waits_.clear();
    for (const auto& wait : request.waits_for) waits_.push_back(id_of(wait.index));
    for (std::size_t i = 0; i < waits_.size(); ++i) row.wait_for.push_back({waits_[i], request.waits_for[i].after});
    for (const std::uint64_t id : request.hash_ids) row.hash_ids.push_back(number_ << 32 | id);
  }

  Trace trace_;
  SessionParser parser_;
  core::RandomStream starts_;
  double gap_s_;
  Session session_;
  std::size_t next_ = 0;
  std::uint64_t number_ = 0;  // Of the session, from 1.
  core::Duration start_{};
  std::string id_, name_;
  std::vector<std::string> waits_;
};

// `gap`: the longest one, where rows are in order.
core::Result<void> read_rows(RowSource& rows, TraceBuilder& builder, const ReadOptions& options, ReadReport& report,
                             LongGap& gap) {
  TraceRow row;
  while (true) {
    const auto more = rows.next(row);
    if (!more) return tl::make_unexpected(more.error());
    if (!*more) return {};
    ++report.rows;
    const auto goes_on = row.fault.empty()
                             ? builder.add(row)
                             : tl::expected<bool, RowFault>{tl::make_unexpected(RowFault{row.fault, {}, false})};
    if (goes_on && !*goes_on) return {};
    if (goes_on && builder.gap() > gap.length)
      if (const core::Duration at = builder.last_arrival() - builder.gap() - options.from; at >= core::Duration{})
        gap = {rows.place(), at, builder.gap()};
    if (goes_on) continue;
    const RowFault& fault = goes_on.error();
    if (fault.fatal || (row.is_request && !options.skip_bad_rows))
      return invalid_input(rows.place(), fault.what, fault.hint.empty() ? std::string{kSkipHint} : fault.hint);
    remember_fault(report, rows.place(), fault.what);
  }
}

// The rows of a trace without an order have no line here.
LongGap longest_gap(const std::string& name, const std::vector<Request>& requests) {
  LongGap longest{name, {}, {}};
  for (std::size_t i = 1; i < requests.size(); ++i)
    if (const core::Duration gap = requests[i].arrival - requests[i - 1].arrival; gap > longest.length)
      longest = {name, requests[i - 1].arrival.time_since_epoch(), gap};
  return longest;
}

core::Result<Workload> build(const std::string& name, RowSource& rows, const ReadOptions& options, ReadReport& report) {
  TraceBuilder builder{options, rows};
  LongGap gap;
  auto good = read_rows(rows, builder, options, report, gap);
  report.format = rows.format();
  if (good) good = builder.check_models(name);
  if (!good) return tl::make_unexpected(good.error());
  if (report.rows == 0) return invalid_input(name, "holds no request", "nothing follows the header");
  if (!builder.has_valid_row())
    return invalid_input(name, fmt::format("has no valid row: all {} are invalid, the first at {}", report.rows,
                                           report.skipped.front()));
  const core::Duration last = builder.last_arrival();
  Workload workload = std::move(builder).finish();
  if (workload.requests.empty()) {
    const std::string end = options.to ? "to " + in_seconds(*options.to) : "on";
    return invalid_input(name, fmt::format("no request arrives from {} {}", in_seconds(options.from), end),
                         fmt::format("the last one read arrives at {}", in_seconds(last)));
  }
  workload.name = trace_name(name);
  workload.skipped_rows = report.skipped_rows;
  if (!rows.is_sorted()) gap = longest_gap(name, workload.requests);
  if (gap.length > kLongGap) workload.long_gaps.push_back(std::move(gap));
  return workload;
}

core::Result<Workload> read(const std::string& name, std::unique_ptr<ByteSource> source, const ReadOptions& options,
                            ReadReport& report) {
  auto trace =
      Trace::open(name, std::move(source), {options.format, options.columns, options.time_format, Wanted::kRequests});
  if (!trace) return tl::make_unexpected(trace.error());
  if (trace->session_block_tokens()) {
    if (!(options.session_rate > 0.0))
      return invalid_input(name, "holds whole sessions, whose starts are not recorded",
                           "set --session-rate; 0.1 starts one every 10 s on average");
    SessionTraceRows rows{std::move(*trace), options};
    return build(name, rows, options, report);
  }
  TraceRows rows{std::move(*trace)};
  return build(name, rows, options, report);
}

}  // namespace

std::string_view name_of(Format format) { return kFormatNames[static_cast<std::size_t>(format)]; }

std::span<const std::string_view> format_names() { return kFormatNames; }

core::Result<Format> parse_format(std::string_view name) {
  const auto found = std::find(kFormatNames.begin(), kFormatNames.end(), name);
  if (found == kFormatNames.end())
    return invalid_input({}, fmt::format("unknown trace format {}", quoted_text(name)),
                         fmt::format("use one of {}", fmt::join(kFormatNames, ", ")));
  return static_cast<Format>(found - kFormatNames.begin());
}

core::Result<Workload> read_workload(const std::string& path, const ReadOptions& options, ReadReport* report) {
  ReadReport own;
  ReadReport& filled = report ? *report : own;
  filled = {};
  if (auto good = check_window(path, options); !good) return tl::make_unexpected(good.error());
  auto file = open_file(path);
  if (!file) return tl::make_unexpected(file.error());
  return read(path, std::move(*file), options, filled);
}

core::Result<Workload> read_workload_bytes(std::string_view name, std::span<const std::uint8_t> bytes,
                                           const ReadOptions& options, ReadReport* report) {
  ReadReport own;
  ReadReport& filled = report ? *report : own;
  filled = {};
  if (auto good = check_window(std::string{name}, options); !good) return tl::make_unexpected(good.error());
  return read(std::string{name}, bytes_in_memory(bytes), options, filled);
}

core::Result<Workload> read_workload_rows(const std::string& name, RowSource& rows, const ReadOptions& options,
                                          ReadReport* report) {
  ReadReport own;
  ReadReport& filled = report ? *report : own;
  filled = {};
  if (auto good = check_window(name, options); !good) return tl::make_unexpected(good.error());
  return build(name, rows, options, filled);
}

core::Result<void> check_session_options(const ReadOptions& options, bool has_whole_sessions) {
  const bool has_rate = options.session_rate > 0.0;
  if (has_whole_sessions || (!has_rate && !options.think_time_max)) return {};
  return invalid_input(has_rate ? "--session-rate" : "--think-time-max",
                       "has no effect, because no trace has whole sessions",
                       "requests keep their recorded times; --rate-scale changes their rate");
}

core::Result<std::vector<LengthPair>> read_lengths(const std::string& path) {
  auto file = open_file(path);
  if (!file) return tl::make_unexpected(file.error());
  auto trace = Trace::open(path, std::move(*file), {Format::kAuto, {}, TimeFormat::kAuto, Wanted::kLengths});
  if (!trace) return tl::make_unexpected(trace.error());
  if (trace->session_block_tokens())
    return invalid_input(path, "holds whole sessions", "lengths are read from traces with one request per row");
  std::vector<LengthPair> pairs;
  TraceRow row;
  while (true) {
    const auto line = trace->next();
    if (!line) return tl::make_unexpected(line.error());
    if (!*line) break;
    if (auto good = trace->parser().parse(**line, row); !good) return invalid_input(trace->place(), good.error());
    if (pairs.size() == ReadOptions{}.requests_max)
      return invalid_input(trace->place(), fmt::format("holds more than {} pairs of lengths", pairs.size()));
    if (!row.fault.empty()) continue;
    pairs.push_back({row.input_tokens, row.output_tokens});
  }
  if (pairs.empty()) return invalid_input(path, "holds no lengths", "nothing follows the header");
  return pairs;
}

}  // namespace penstock::workload
