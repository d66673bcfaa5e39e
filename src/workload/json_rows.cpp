#include "workload/json_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include <array>
#include <charconv>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "workload/line_reader.h"

namespace penstock::workload {
namespace {

namespace ondemand = simdjson::ondemand;

static_assert(LineReader::kPaddingBytes >= simdjson::SIMDJSON_PADDING);

enum FieldIndex : std::uint8_t {
  kTimestamp,
  kInputLength,
  kOutputLength,
  kHashIds,
  kTenantKey,
  kSessionKey,
  kClassKey,
  kPriorityKey,
  kStreamedKey,
  kModelKey,
  kModelGroupKey,  // Of LiteLLM: the name that clients use, which comes before the model behind it.
  kBlockTokensKey,
  kCacheHitKey,
  kDelayKey,
  kToolWaitKey,
  kRequestIdKey,
  kWaitForKey,
  kFieldCount
};
struct Key {
  std::string_view name;
  FieldIndex field;
};
// The keys of Mooncake's traces, those of Dynamo's, and those that Penstock adds under the names of its ledger. The
// first key of a field is its name in messages.
constexpr Key kMooncakeKeys[] = {{"timestamp", kTimestamp},        {"input_length", kInputLength},
                                 {"input_tokens", kInputLength},   {"output_length", kOutputLength},
                                 {"output_tokens", kOutputLength}, {"hash_ids", kHashIds},
                                 {"tenant", kTenantKey},           {"session", kSessionKey},
                                 {"session_id", kSessionKey},      {"class", kClassKey},
                                 {"traffic_class", kClassKey},     {"priority", kPriorityKey},
                                 {"streamed", kStreamedKey},       {"stream", kStreamedKey}};
// Dynamo's agentic traces (docs.rs/dynamo-data-gen, AgenticMooncakeRow), and the names of other tools.
constexpr Key kAgenticKeys[] = {{"timestamp", kTimestamp},
                                {"input_length", kInputLength},
                                {"input_tokens", kInputLength},
                                {"output_length", kOutputLength},
                                {"output_tokens", kOutputLength},
                                {"hash_ids", kHashIds},
                                {"tenant", kTenantKey},
                                {"session", kSessionKey},
                                {"session_id", kSessionKey},
                                {"class", kClassKey},
                                {"traffic_class", kClassKey},
                                {"priority", kPriorityKey},
                                {"streamed", kStreamedKey},
                                {"stream", kStreamedKey},
                                {"delay", kDelayKey},
                                {"delay_ms", kDelayKey},
                                {"tool_wait_ms", kToolWaitKey},
                                {"tool_delay", kToolWaitKey},
                                {"request_id", kRequestIdKey},
                                {"wait_for", kWaitForKey}};
constexpr Key kRecordedKeys[] = {{"timestamp", kTimestamp},
                                 {"input_length", kInputLength},
                                 {"output_length", kOutputLength},
                                 {"hash_ids", kHashIds},
                                 {"block_tokens", kBlockTokensKey},
                                 {"tenant", kTenantKey},
                                 {"model", kModelKey},
                                 {"class", kClassKey},
                                 {"streamed", kStreamedKey}};
constexpr Key kLiteLlmKeys[] = {
    {"startTime", kTimestamp},       {"prompt_tokens", kInputLength}, {"completion_tokens", kOutputLength},
    {"team_id", kTenantKey},         {"session_id", kSessionKey},     {"model", kModelKey},
    {"model_group", kModelGroupKey}, {"cache_hit", kCacheHitKey}};

std::span<const Key> keys_of(Format format) {
  if (format == Format::kLiteLlm) return kLiteLlmKeys;
  if (format == Format::kRecorded) return kRecordedKeys;
  if (format == Format::kAgentic) return kAgenticKeys;
  return kMooncakeKeys;
}

tl::unexpected<std::string> not_json() { return wrong("is not one JSON object"); }

simdjson::padded_string_view padded(std::string_view line) {
  return simdjson::padded_string_view{line.data(), line.size(), line.size() + simdjson::SIMDJSON_PADDING};
}

// Returns the text of a number, so that CSV and JSON share one parser.
std::string_view text_of(ondemand::value& value) {
  std::string_view text = value.raw_json_token();
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// The text of a string or of a number; null is blank. A string lasts until the parser reads the next line.
Parsed<std::string_view> name_of(std::string_view key, ondemand::value& value) {
  ondemand::json_type type{};
  std::string_view text;
  if (value.type().get(type) != simdjson::SUCCESS) return not_json();
  switch (type) {
    case ondemand::json_type::null: return text;
    case ondemand::json_type::number: return text_of(value);
    case ondemand::json_type::string:
      if (value.get_string().get(text) != simdjson::SUCCESS) return not_json();
      return trimmed(text);
    default: return wrong(fmt::format("{} is neither a string nor a number", key));
  }
}

Parsed<void> read_hash_ids(ondemand::value& value, std::vector<std::uint64_t>& ids) {
  constexpr std::size_t kIdsMax = 2 * (kTokensMax / kMooncakeBlockTokens + 1);
  ondemand::array array;
  if (value.get_array().get(array) != simdjson::SUCCESS) return wrong("hash_ids is not a list");
  for (auto element : array) {
    ondemand::value item;
    if (element.get(item) != simdjson::SUCCESS) return not_json();
    const std::string_view text = text_of(item);
    const char* const end = text.data() + text.size();
    std::uint64_t id = 0;
    auto parsed = std::from_chars(text.data(), end, id);
    if (text.starts_with('-')) {
      std::int64_t negative = 0;
      parsed = std::from_chars(text.data(), end, negative);
      id = static_cast<std::uint64_t>(negative);
    }
    if (parsed.ec != std::errc{} || parsed.ptr != end)
      return wrong(fmt::format("hash_ids holds {}, which is not a whole number of 64 bits", quoted_text(text)));
    if (ids.size() == kIdsMax) return wrong(fmt::format("hash_ids holds more than {} ids", kIdsMax));
    ids.push_back(id);
  }
  return {};
}

// The ids that a row waits for: a list of strings or numbers, or one of them. Null waits for none.
Parsed<void> read_wait_for(ondemand::value& value, std::vector<TraceRow::WaitFor>& ids) {
  constexpr std::size_t kWaitsMax = 1000;
  ondemand::json_type type{};
  if (value.type().get(type) != simdjson::SUCCESS) return not_json();
  if (type == ondemand::json_type::null) return {};
  if (type != ondemand::json_type::array)
    return name_of("wait_for", value).map([&](std::string_view id) { ids.push_back({id}); });
  ondemand::array array;
  if (value.get_array().get(array) != simdjson::SUCCESS) return not_json();
  for (auto element : array) {
    ondemand::value item;
    if (element.get(item) != simdjson::SUCCESS) return not_json();
    const auto id = name_of("wait_for", item);
    if (!id) return wrong(id.error());
    if (ids.size() == kWaitsMax) return wrong(fmt::format("wait_for holds more than {} ids", kWaitsMax));
    ids.push_back({*id});
  }
  return {};
}

TimeFormat settled(TimeFormat time_format, Format format) {
  if (time_format != TimeFormat::kAuto) return time_format;
  return format == Format::kLiteLlm ? TimeFormat::kIso : TimeFormat::kMilliseconds;
}

class JsonRowParser final : public RowParser {
 public:
  JsonRowParser(const JsonFormat& format, Wanted wanted, TimeFormat time_format)
      : format_{format},
        keys_{keys_of(format.format)},
        wanted_{wanted},
        time_format_{settled(time_format, format.format)} {}

  Parsed<void> parse(std::string_view line, TraceRow& row) override {
    row.hash_ids.clear();
    auto ids = std::move(row.hash_ids);
    row = {};
    row.hash_ids = std::move(ids);
    ondemand::document document;
    ondemand::object object;
    if (parser_.iterate(padded(line)).get(document) != simdjson::SUCCESS) return not_json();
    if (document.get_object().get(object) != simdjson::SUCCESS) return not_json();
    seen_ = {};
    for (auto entry : object) {
      std::string_view key;
      ondemand::value value;
      if (entry.unescaped_key().get(key) != simdjson::SUCCESS) return not_json();
      if (entry.value().get(value) != simdjson::SUCCESS) return not_json();
      if (auto good = read_field(key, value, row); !good) return good;
    }
    // Bytes follow the document.
    if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) return not_json();
    return check(row);
  }
  [[nodiscard]] Format format() const override { return format_.format; }
  [[nodiscard]] std::uint32_t block_tokens() const override { return format_.block_tokens; }
  // Requests are recorded when they end.
  [[nodiscard]] bool is_sorted() const override { return format_.format == Format::kMooncake; }  // Sessions alternate.

 private:
  [[nodiscard]] Parsed<void> read_field(std::string_view key, ondemand::value& value, TraceRow& row) {
    const auto found = std::find_if(keys_.begin(), keys_.end(), [&](const Key& known) { return known.name == key; });
    if (found == keys_.end()) return {};
    if (std::exchange(seen_[found->field], true)) return wrong(fmt::format("names {} twice", key));
    if (found->field == kHashIds) return read_hash_ids(value, row.hash_ids);
    if (found->field > kHashIds) return read_service(found->field, key, value, row);
    if (found->field == kTimestamp) return read_time(key, value, row);
    const std::string_view text = text_of(value);
    std::uint32_t& tokens = found->field == kInputLength ? row.input_tokens : row.output_tokens;
    const std::uint32_t least = format_.format == Format::kLiteLlm ? 0 : 1;
    return parse_tokens(key, text, least).map([&](std::uint32_t count) { tokens = count; });
  }

  [[nodiscard]] Parsed<void> read_time(std::string_view key, ondemand::value& value, TraceRow& row) {
    if (wanted_ == Wanted::kLengths) return {};
    ondemand::json_type type{};
    if (format_.format == Format::kAgentic && value.type().get(type) == simdjson::SUCCESS &&
        type == ondemand::json_type::null) {
      seen_[kTimestamp] = false;
      return {};
    }
    row.time_text = text_of(value);
    if (time_format_ >= TimeFormat::kIso) {
      const auto text = name_of(key, value);
      if (!text) return wrong(text.error());
      row.time_text = *text;
    }
    return parse_trace_time(key, row.time_text, time_format_).map([&](core::Duration time) { row.time = time; });
  }

  [[nodiscard]] Parsed<void> read_service(FieldIndex field, std::string_view key, ondemand::value& value,
                                          TraceRow& row) {
    if (field == kCacheHitKey) return read_cache_hit(value, row);
    if (field == kWaitForKey) return read_wait_for(value, row.wait_for);
    if (field == kDelayKey || field == kToolWaitKey) return read_delay(field, key, value, row);
    if (field == kBlockTokensKey) {
      const std::string_view tokens = text_of(value);
      if (tokens == std::to_string(format_.block_tokens)) return {};
      return wrong(fmt::format("{} is {} where the first row has {}", key, printable(tokens), format_.block_tokens));
    }
    if (bool streamed = true; field == kStreamedKey && value.get_bool().get(streamed) == simdjson::SUCCESS) {
      row.streamed = streamed;
      return {};
    }
    const auto text = name_of(key, value);
    if (!text) return wrong(text.error());
    if (field == kPriorityKey)
      return parse_priority(key, *text).map([&](std::int8_t priority) { row.priority = priority; });
    if (field == kStreamedKey) return parse_streamed(key, *text).map([&](bool streamed) { row.streamed = streamed; });
    if (field == kClassKey)
      return parse_traffic_class(key, *text).map([&](TrafficClass parsed) { row.traffic_class = parsed; });
    return parse_name(key, *text).map([&](std::string_view name) {
      const bool is_model = field == kModelGroupKey ? !name.empty() : field == kModelKey && !seen_group(row);
      if (is_model) row.model = name;
      if (field == kTenantKey) row.tenant = name;
      if (field == kSessionKey) row.session = name;
      if (field == kRequestIdKey) row.request_id = name;
    });
  }
  [[nodiscard]] Parsed<void> read_delay(FieldIndex field, std::string_view key, ondemand::value& value, TraceRow& row) {
    ondemand::json_type type{};
    if (value.type().get(type) != simdjson::SUCCESS) return not_json();
    if (type == ondemand::json_type::null) {
      seen_[field] = false;
      return {};
    }
    const auto delay = parse_time(key, text_of(value), TimeUnit::kMilliseconds);
    if (!delay) return wrong(delay.error());
    if (*delay > kDelayMax) return wrong(fmt::format("{} is {}, more than a year", key, text_of(value)));
    row.delay += *delay;
    return {};
  }
  // The model group may stand before or behind the model.
  [[nodiscard]] bool seen_group(const TraceRow& row) const { return seen_[kModelGroupKey] && !row.model.empty(); }

  [[nodiscard]] static Parsed<void> read_cache_hit(ondemand::value& value, TraceRow& row) {
    bool hit = false;
    if (value.get_bool().get(hit) != simdjson::SUCCESS) {
      const auto text = name_of("cache_hit", value);
      if (!text) return wrong(text.error());
      hit = normalized(text->substr(0, kNameBytesMax)) == "true";
    }
    if (hit) mark_no_request(row, "was answered from the cache of LiteLLM");
    return {};
  }
  static void mark_no_request(TraceRow& row, std::string reason) {
    row.is_request = false;
    row.fault = std::move(reason);
  }
  [[nodiscard]] std::string_view name_of_field(FieldIndex field) const {
    return std::find_if(keys_.begin(), keys_.end(), [&](const Key& key) { return key.field == field; })->name;
  }

  [[nodiscard]] Parsed<void> check(TraceRow& row) const {
    std::vector<std::string_view> missing;
    const bool agentic = format_.format == Format::kAgentic;
    for (const auto index : {kTimestamp, kInputLength, kOutputLength})
      if (!seen_[index] && !(index == kTimestamp && (agentic || wanted_ == Wanted::kLengths)))
        missing.push_back(name_of_field(index));
    if (!missing.empty()) return wrong(fmt::format("has no {}", fmt::join(missing, ", no ")));
    row.has_time = !agentic || seen_[kTimestamp];
    row.follows_session = agentic && !row.session.empty() && (!row.has_time || seen_[kDelayKey] || seen_[kToolWaitKey]);
    if (row.is_request && (row.input_tokens == 0 || row.output_tokens == 0))
      mark_no_request(row, fmt::format("{} prompt tokens and {} output tokens", row.input_tokens, row.output_tokens));
    const std::uint64_t tokens = std::uint64_t{row.input_tokens} + row.output_tokens;
    const std::uint64_t most = (tokens + format_.block_tokens - 1) / format_.block_tokens;
    if (row.hash_ids.size() > most)
      return wrong(fmt::format("hash_ids holds {} ids for {} tokens, must be at most {} (one for each {} tokens)",
                               row.hash_ids.size(), tokens, most, format_.block_tokens));
    return {};
  }

  JsonFormat format_;
  std::span<const Key> keys_;
  ondemand::parser parser_;
  std::array<bool, kFieldCount> seen_{};
  Wanted wanted_;
  TimeFormat time_format_;
};

}  // namespace

JsonFormat json_format_of(std::string_view line) {
  constexpr std::uint64_t kBlockTokensMax = 1'000'000;
  ondemand::parser parser;
  ondemand::document document;
  std::uint64_t block_tokens = 0;
  if (parser.iterate(padded(line)).get(document) == simdjson::SUCCESS &&
      document.find_field_unordered("block_tokens").get_uint64().get(block_tokens) == simdjson::SUCCESS &&
      block_tokens >= 1 && block_tokens <= kBlockTokensMax)
    return {Format::kRecorded, static_cast<std::uint32_t>(block_tokens)};
  ondemand::value value;
  if (parser.iterate(padded(line)).get(document) == simdjson::SUCCESS &&
      document.find_field_unordered("startTime").get(value) == simdjson::SUCCESS &&
      document.find_field_unordered("prompt_tokens").get(value) == simdjson::SUCCESS)
    return {Format::kLiteLlm};
  if (is_agentic_row(line)) return {Format::kAgentic};
  return {};
}

bool is_agentic_row(std::string_view line) {
  ondemand::parser parser;
  ondemand::document document;
  ondemand::object object;
  if (parser.iterate(padded(line)).get(document) != simdjson::SUCCESS) return false;
  if (document.get_object().get(object) != simdjson::SUCCESS) return false;
  for (auto entry : object) {
    std::string_view name;
    if (entry.unescaped_key().get(name) != simdjson::SUCCESS) return false;
    for (const Key& key : kAgenticKeys)
      if (key.field >= kDelayKey && key.name == name) return true;
  }
  return false;
}

std::unique_ptr<RowParser> json_row_parser(const JsonFormat& format, Wanted wanted, TimeFormat time_format) {
  return std::make_unique<JsonRowParser>(format, wanted, time_format);
}

std::string_view timestamp_of(std::string_view line) {
  ondemand::parser parser;
  ondemand::document document;
  ondemand::value value;
  if (parser.iterate(padded(line)).get(document) != simdjson::SUCCESS ||
      document.find_field_unordered("timestamp").get(value) != simdjson::SUCCESS)
    return {};
  return text_of(value);  // Within `line`, which on-demand parsing does not copy.
}

bool is_whole_session(std::string_view line) {
  ondemand::parser parser;
  ondemand::document document;
  ondemand::array requests;
  return parser.iterate(padded(line)).get(document) == simdjson::SUCCESS &&
         document.find_field_unordered("requests").get_array().get(requests) == simdjson::SUCCESS;
}

}  // namespace penstock::workload
