#include "telemetry/kv_event.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "telemetry/msgpack.h"

namespace penstock::telemetry {
namespace {

constexpr std::string_view kKvEvent = "KV events";
constexpr std::size_t kNameBytesMax = 256;
constexpr std::size_t kHashBytesMax = 64;

// Field order of events that are arrays; the tag precedes the fields.
constexpr std::array<std::string_view, 9> kStoredFields = {"block_hashes", "parent_block_hash", "token_ids",
                                                           "block_size",   "lora_id",           "medium",
                                                           "lora_name",    "extra_keys",        "group_idx"};
constexpr std::array<std::string_view, 3> kRemovedFields = {"block_hashes", "medium", "group_idx"};
constexpr std::array<std::string_view, 3> kStoredNeeded = {"block_hashes", "token_ids", "block_size"};
constexpr std::array<std::string_view, 1> kRemovedNeeded = {"block_hashes"};
constexpr std::array<std::string_view, 3> kBatchFields = {"ts", "events", "data_parallel_rank"};

bool read_hash(MsgpackReader& reader, BlockHash& hash) {
  if (const auto number = reader.read_integer()) {
    hash = number->bits;
    return true;
  }
  const auto bytes = reader.read_binary();
  if (!bytes || bytes->empty() || bytes->size() > kHashBytesMax) return false;
  hash = 0;
  for (const char byte : bytes->substr(bytes->size() - std::min<std::size_t>(8, bytes->size())))
    hash = hash << 8 | static_cast<std::uint8_t>(byte);
  return true;
}

bool read_hashes(MsgpackReader& reader, std::vector<BlockHash>& hashes) {
  const auto count = reader.read_array();
  if (!count) return false;
  hashes.resize(*count);
  for (BlockHash& hash : hashes)
    if (!read_hash(reader, hash)) return false;
  return true;
}

bool read_tokens(MsgpackReader& reader, std::vector<std::uint32_t>& tokens) {
  const auto count = reader.read_array();
  if (!count) return false;
  tokens.resize(*count);
  for (std::uint32_t& token : tokens) {
    const auto value = reader.read_unsigned();
    if (!value || *value > UINT32_MAX) return false;
    token = static_cast<std::uint32_t>(*value);
  }
  return true;
}

bool read_name(MsgpackReader& reader, std::string& name) {
  if (reader.read_nil()) return true;
  const auto text = reader.read_text();
  if (!text || text->size() > kNameBytesMax) return false;
  name = *text;
  return true;
}

bool read_small(MsgpackReader& reader, std::optional<std::uint32_t>& number) {
  if (reader.read_nil()) return true;
  const auto value = reader.read_unsigned();
  if (!value || *value > UINT32_MAX) return false;
  number = static_cast<std::uint32_t>(*value);
  return true;
}

bool read_lora_id(MsgpackReader& reader, std::optional<std::int64_t>& id) {
  if (reader.read_nil()) return true;
  const auto value = reader.read_integer();
  if (!value || (!value->negative && value->bits > INT64_MAX)) return false;
  id = static_cast<std::int64_t>(value->bits);
  return true;
}

bool read_parent(MsgpackReader& reader, std::optional<BlockHash>& parent) {
  if (reader.read_nil()) return true;
  return read_hash(reader, parent.emplace());
}

bool read_block_size(MsgpackReader& reader, std::uint32_t& size) {
  const auto value = reader.read_unsigned();
  if (!value || *value == 0 || *value > kKvBlockSizeMax) return false;
  size = static_cast<std::uint32_t>(*value);
  return true;
}

bool read_field(MsgpackReader& reader, std::string_view name, BlockStored& event) {
  if (name == "block_hashes") return read_hashes(reader, event.block_hashes);
  if (name == "parent_block_hash") return read_parent(reader, event.parent_block_hash);
  if (name == "token_ids") return read_tokens(reader, event.token_ids);
  if (name == "block_size") return read_block_size(reader, event.block_size);
  if (name == "lora_id") return read_lora_id(reader, event.lora_id);
  if (name == "medium") return read_name(reader, event.medium);
  if (name == "lora_name") return read_name(reader, event.lora_name);
  if (name == "group_idx") return read_small(reader, event.group_idx);
  return reader.skip();
}

bool read_field(MsgpackReader& reader, std::string_view name, BlockRemoved& event) {
  if (name == "block_hashes") return read_hashes(reader, event.block_hashes);
  if (name == "medium") return read_name(reader, event.medium);
  if (name == "group_idx") return read_small(reader, event.group_idx);
  return reader.skip();
}

bool read_field(MsgpackReader& reader, std::string_view, AllBlocksCleared&) { return reader.skip(); }

class BatchDecoder {
 public:
  explicit BatchDecoder(std::string_view bytes) : reader_(bytes) {}

  core::Result<KvEventBatch> decode() {
    Fields fields;
    if (!open(fields, kBatchFields)) return fault("must be an array or a map of msgpack");
    bool has_time = false, has_events = false;
    for (std::uint32_t i = 0; i < fields.count; ++i) {
      const std::string_view name = next_name(fields, i);
      has_time = has_time || name == "ts";
      has_events = has_events || name == "events";
      if (name.data() == nullptr || !read_batch_field(name)) return fault_in(name);
    }
    if (!has_time || !has_events) return fault(has_time ? "events: is missing" : "ts: is missing");
    if (!reader_.at_end()) return fault("goes on after its end");
    return std::move(batch_);
  }

 private:
  // A msgspec struct: an array whose elements have these names, or a map.
  struct Fields {
    std::uint32_t count = 0;
    bool is_map = false;
    std::span<const std::string_view> names;
  };

  bool open(Fields& fields, std::span<const std::string_view> names) {
    fields.names = names;
    if (const auto elements = reader_.read_array()) {
      fields.count = *elements;
      return true;
    }
    fields.is_map = true;
    const auto pairs = reader_.read_map();
    fields.count = pairs.value_or(0);
    return pairs.has_value();
  }

  // The name of the next value; empty if it has no known name, without data if a map's key is not text.
  std::string_view next_name(const Fields& fields, std::uint32_t index) {
    if (fields.is_map) return reader_.read_text().value_or(std::string_view{});
    return index < fields.names.size() ? fields.names[index] : std::string_view{""};
  }

  bool read_batch_field(std::string_view name) {
    if (name == "ts") {
      const auto time = reader_.read_number();
      batch_.ts = time.value_or(0.0);
      return time && std::isfinite(*time);
    }
    if (name == "events") return read_events();
    if (name == "data_parallel_rank" || name == "attn_dp_rank") return read_small(reader_, batch_.data_parallel_rank);
    return reader_.skip();
  }

  bool read_events() {
    const auto count = reader_.read_array();
    if (!count) return false;
    for (event_ = 0; event_ < *count; ++event_)
      if (!read_event()) return false;
    event_ = kNoEvent;
    return true;
  }

  // Returns the position of the event's tag; the reader stays at the start.
  std::optional<std::string_view> peek_tag() {
    MsgpackReader ahead = reader_;
    if (const auto elements = ahead.read_array()) return *elements > 0 ? ahead.read_text() : std::nullopt;
    const auto pairs = ahead.read_map();
    for (std::uint32_t i = 0; pairs && i < *pairs; ++i) {
      const auto name = ahead.read_text();
      if (!name || *name == "type") return name ? ahead.read_text() : std::nullopt;
      if (!ahead.skip()) return std::nullopt;
    }
    return std::nullopt;
  }

  bool read_event() {
    const auto tag = peek_tag();
    if (!tag) return false;
    if (*tag == "BlockStored") {
      BlockStored event;
      return read_fields(event, kStoredFields, kStoredNeeded) && keep(std::move(event));
    }
    if (*tag == "BlockRemoved") {
      BlockRemoved event;
      return read_fields(event, kRemovedFields, kRemovedNeeded) && keep(std::move(event));
    }
    if (*tag == "AllBlocksCleared") {
      AllBlocksCleared event;
      return read_fields(event, {}, {}) && keep(event);
    }
    ++batch_.unknown_events;
    return reader_.skip();
  }

  bool keep(KvEvent event) {
    batch_.events.push_back(std::move(event));
    return true;
  }

  template <class Event>
  bool read_fields(Event& event, std::span<const std::string_view> names, std::span<const std::string_view> needed) {
    Fields fields;
    if (!open(fields, names)) return false;
    std::array<bool, 3> found{};
    for (std::uint32_t i = 0; i < fields.count; ++i) {
      if (!fields.is_map && i == 0) {  // The tag.
        if (!reader_.skip()) return false;
        continue;
      }
      const std::string_view name = next_name(fields, fields.is_map ? i : i - 1);
      if (name.data() == nullptr) return false;
      field_ = name;
      for (std::size_t one = 0; one < needed.size(); ++one) found[one] = found[one] || needed[one] == name;
      if (!read_field(reader_, name, event)) return false;
    }
    const auto missing = std::find(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(needed.size()), false);
    const auto at = static_cast<std::size_t>(missing - found.begin());
    field_ = at < needed.size() ? needed[at] : std::string_view{};
    return at >= needed.size();
  }

  static tl::unexpected<core::Error> fault(std::string what) {
    return core::invalid_input(std::string(kKvEvent), std::move(what));
  }
  tl::unexpected<core::Error> fault_in(std::string_view name) const {
    if (event_ == kNoEvent) return fault(fmt::format("{}: is not what it should be", printable(name)));
    return fault(fmt::format("events[{}]{}{}: is missing or not what it should be, at byte {}", event_,
                             field_.empty() ? "" : ".", printable(field_), reader_.position()));
  }
  // Keys of maps are untrusted input.
  static std::string printable(std::string_view name) {
    std::string text;
    for (const char c : name.substr(0, 64)) text += c > 0x20 && c < 0x7f ? c : '?';
    return text;
  }

  static constexpr std::uint32_t kNoEvent = UINT32_MAX;
  MsgpackReader reader_;
  KvEventBatch batch_;
  std::uint32_t event_ = kNoEvent;
  std::string_view field_;
};

class BatchEncoder {
 public:
  BatchEncoder(std::string& bytes, KvEventLayout layout) : writer_(bytes), maps_(layout == KvEventLayout::kMaps) {}

  void write(const KvEventBatch& batch) {
    begin(batch.data_parallel_rank ? 3 : 2);
    key("ts");
    writer_.number(batch.ts);
    key("events");
    writer_.array(static_cast<std::uint32_t>(batch.events.size()));
    for (const KvEvent& event : batch.events) std::visit([&](const auto& one) { write_event(one); }, event);
    if (!batch.data_parallel_rank) return;
    key("data_parallel_rank");
    writer_.unsigned_integer(*batch.data_parallel_rank);
  }

 private:
  void begin(std::uint32_t fields) { maps_ ? writer_.map(fields) : writer_.array(fields); }
  void key(std::string_view name) {
    if (maps_) writer_.text(name);
  }
  void tag(std::string_view name) {
    key("type");
    writer_.text(name);
  }
  void name(std::string_view text) { text.empty() ? writer_.nil() : writer_.text(text); }

  void hashes(const std::vector<BlockHash>& hashes) {
    key("block_hashes");
    writer_.array(static_cast<std::uint32_t>(hashes.size()));
    for (const BlockHash hash : hashes) writer_.unsigned_integer(hash);
  }

  void write_event(const BlockStored& event) {
    // In events that are arrays, extra_keys precedes the group.
    const bool grouped = event.group_idx.has_value();
    begin(8 + (grouped ? (maps_ ? 1 : 2) : 0));
    tag("BlockStored");
    hashes(event.block_hashes);
    key("parent_block_hash");
    event.parent_block_hash ? writer_.unsigned_integer(*event.parent_block_hash) : writer_.nil();
    key("token_ids");
    writer_.array(static_cast<std::uint32_t>(event.token_ids.size()));
    for (const std::uint32_t token : event.token_ids) writer_.unsigned_integer(token);
    key("block_size");
    writer_.unsigned_integer(event.block_size);
    key("lora_id");
    event.lora_id ? writer_.integer(*event.lora_id) : writer_.nil();
    key("medium");
    name(event.medium);
    key("lora_name");
    name(event.lora_name);
    if (!grouped) return;
    if (!maps_) writer_.nil();
    key("group_idx");
    writer_.unsigned_integer(*event.group_idx);
  }

  void write_event(const BlockRemoved& event) {
    begin(event.group_idx ? 4 : 3);
    tag("BlockRemoved");
    hashes(event.block_hashes);
    key("medium");
    name(event.medium);
    if (!event.group_idx) return;
    key("group_idx");
    writer_.unsigned_integer(*event.group_idx);
  }

  void write_event(const AllBlocksCleared&) {
    begin(1);
    tag("AllBlocksCleared");
  }

  MsgpackWriter writer_;
  bool maps_;
};

}  // namespace

std::string encode_batch(const KvEventBatch& batch, KvEventLayout layout) {
  std::string bytes;
  BatchEncoder(bytes, layout).write(batch);
  return bytes;
}

core::Result<KvEventBatch> decode_batch(std::string_view bytes) {
  if (bytes.size() > kKvBatchBytesMax)
    return core::invalid_input(std::string(kKvEvent),
                               fmt::format("has {} bytes, of at most {}", bytes.size(), kKvBatchBytesMax));
  return BatchDecoder(bytes).decode();
}

}  // namespace penstock::telemetry
