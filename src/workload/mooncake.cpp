#include "workload/mooncake.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include <array>
#include <charconv>

#include "workload/line_reader.h"

namespace penstock::workload {
namespace {

namespace ondemand = simdjson::ondemand;

static_assert(LineReader::kPaddingBytes >= simdjson::SIMDJSON_PADDING);

constexpr std::uint32_t kBlockTokens = 512;

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
  kFieldCount
};
struct Key {
  std::string_view name;
  FieldIndex field;
};
// The keys of Mooncake's traces, and those that Penstock adds under the names of its ledger.
constexpr Key kKeys[] = {{"timestamp", kTimestamp},   {"input_length", kInputLength}, {"output_length", kOutputLength},
                         {"hash_ids", kHashIds},      {"tenant", kTenantKey},         {"session", kSessionKey},
                         {"session_id", kSessionKey}, {"class", kClassKey},           {"traffic_class", kClassKey},
                         {"priority", kPriorityKey},  {"streamed", kStreamedKey},     {"stream", kStreamedKey}};

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
  constexpr std::size_t kIdsMax = 2 * (kTokensMax / kBlockTokens + 1);
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

class MooncakeRowParser final : public RowParser {
 public:
  MooncakeRowParser(Wanted wanted, TimeFormat time_format)
      : wanted_{wanted}, time_format_{time_format == TimeFormat::kAuto ? TimeFormat::kMilliseconds : time_format} {}

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
  [[nodiscard]] Format format() const override { return Format::kMooncake; }
  [[nodiscard]] std::uint32_t block_tokens() const override { return kBlockTokens; }

 private:
  [[nodiscard]] Parsed<void> read_field(std::string_view key, ondemand::value& value, TraceRow& row) {
    const auto* const found =
        std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& known) { return known.name == key; });
    if (found == std::end(kKeys)) return {};
    if (std::exchange(seen_[found->field], true)) return wrong(fmt::format("names {} twice", key));
    if (found->field == kHashIds) return read_hash_ids(value, row.hash_ids);
    if (found->field > kHashIds) return read_service(found->field, key, value, row);
    const std::string_view text = text_of(value);
    if (found->field == kTimestamp) {
      if (wanted_ == Wanted::kLengths) return {};
      row.time_text = text;
      return parse_trace_time(key, text, time_format_).map([&](core::Duration time) { row.time = time; });
    }
    std::uint32_t& tokens = found->field == kInputLength ? row.input_tokens : row.output_tokens;
    return parse_tokens(key, text).map([&](std::uint32_t count) { tokens = count; });
  }

  [[nodiscard]] static Parsed<void> read_service(FieldIndex field, std::string_view key, ondemand::value& value,
                                                 TraceRow& row) {
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
      (field == kTenantKey ? row.tenant : row.session) = name;
    });
  }

  [[nodiscard]] Parsed<void> check(const TraceRow& row) const {
    std::vector<std::string_view> missing;
    for (const auto index : {kTimestamp, kInputLength, kOutputLength})
      if (!seen_[index] && !(index == kTimestamp && wanted_ == Wanted::kLengths)) missing.push_back(kKeys[index].name);
    if (!missing.empty()) return wrong(fmt::format("has no {}", fmt::join(missing, ", no ")));
    const std::uint64_t tokens = std::uint64_t{row.input_tokens} + row.output_tokens;
    const std::uint64_t most = (tokens + kBlockTokens - 1) / kBlockTokens;
    if (row.hash_ids.size() > most)
      return wrong(fmt::format("hash_ids holds {} ids for {} tokens, must be at most {} (one for each {} tokens)",
                               row.hash_ids.size(), tokens, most, kBlockTokens));
    return {};
  }

  ondemand::parser parser_;
  std::array<bool, kFieldCount> seen_{};
  Wanted wanted_;
  TimeFormat time_format_;
};

}  // namespace

std::unique_ptr<RowParser> mooncake_row_parser(Wanted wanted, TimeFormat time_format) {
  return std::make_unique<MooncakeRowParser>(wanted, time_format);
}

bool is_whole_session(std::string_view line) {
  ondemand::parser parser;
  ondemand::document document;
  ondemand::array requests;
  return parser.iterate(padded(line)).get(document) == simdjson::SUCCESS &&
         document.find_field_unordered("requests").get_array().get(requests) == simdjson::SUCCESS;
}

}  // namespace penstock::workload
