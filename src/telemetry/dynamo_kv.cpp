#include "telemetry/dynamo_kv.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "telemetry/msgpack.h"

namespace penstock::telemetry {
namespace {

constexpr std::string_view kDevice = "device";
constexpr std::uint64_t kBlocksMax = std::uint64_t{1} << 48;

tl::unexpected<core::Error> fault(std::string_view what) {
  return core::invalid_input("KV events of Dynamo", std::string{what});
}

bool read_number(MsgpackReader& reader, std::uint64_t& number) {
  const auto value = reader.read_unsigned();
  number = value.value_or(0);
  return value.has_value();
}

bool read_rank(MsgpackReader& reader, std::uint32_t& rank) {
  const auto value = reader.read_unsigned();
  if (!value || *value > UINT32_MAX) return false;
  rank = static_cast<std::uint32_t>(*value);
  return true;
}

class RouterEventReader {
 public:
  explicit RouterEventReader(MsgpackReader& reader) : reader_(reader) {}

  core::Result<KvChanges> read() {
    bool has_worker = false, has_event = false;
    const bool whole = each_key([&](std::string_view key) {
      if (key == "worker_id") return (has_worker = read_number(reader_, changes_.of.worker));
      if (key == "storage_tier") return read_tier();
      if (key == "event") return (has_event = read_event());
      return reader_.skip();
    });
    if (!whole)
      return fault(wrong_.empty() ? "has no map of a router event" : fmt::format("{}: has another type", wrong_));
    if (!has_worker || !has_event) return fault(has_worker ? "event: is missing" : "worker_id: is missing");
    if (!on_device_) changes_ = {changes_.of};
    return changes_;
  }

 private:
  // Calls `read` at each value of a map. An error names the innermost key.
  template <class Read>
  bool each_key(Read read) {
    const auto pairs = reader_.read_map();
    for (std::uint32_t i = 0; pairs && i < *pairs; ++i) {
      const auto key = reader_.read_text();
      if (!key && !reader_.skip()) return false;
      if (read(key.value_or(""))) continue;
      if (wrong_.empty()) wrong_ = key.value_or("");
      return false;
    }
    return pairs.has_value();
  }

  bool read_tier() {
    if (reader_.read_nil()) return true;
    const auto tier = reader_.read_text();
    on_device_ = tier == kDevice;
    return tier.has_value();
  }

  bool read_event() {
    bool has_data = false;
    return each_key([&](std::string_view key) {
             if (key == "dp_rank") return read_rank(reader_, changes_.of.rank);
             if (key == "data") return (has_data = read_data());
             return reader_.skip();
           }) &&
           has_data;
  }

  bool read_data() {
    // A kind without content is its name alone.
    if (reader_.read_text()) return true;
    return each_key([&](std::string_view kind) {
      if (kind == "stored") return read_blocks("blocks", changes_.stored_blocks);
      if (kind == "removed") return read_blocks("block_hashes", changes_.removed_blocks);
      return reader_.skip();
    });
  }

  bool read_blocks(std::string_view list, std::uint64_t& blocks) {
    bool has_list = false;
    return each_key([&](std::string_view key) {
             if (key != list) return reader_.skip();
             MsgpackReader ahead = reader_;
             const auto elements = ahead.read_array();
             blocks = elements.value_or(0);
             has_list = elements.has_value();
             return has_list && reader_.skip();
           }) &&
           has_list;
  }

  MsgpackReader& reader_;
  KvChanges changes_;
  bool on_device_ = true;
  std::string_view wrong_;
};

}  // namespace

core::Result<std::vector<KvChanges>> decode_router_events(std::string_view payload) {
  MsgpackReader reader(payload);
  const std::optional<std::uint32_t> elements = reader.read_array();
  std::vector<KvChanges> all;
  for (std::uint32_t i = 0; i < elements.value_or(1); ++i) {
    auto changes = RouterEventReader{reader}.read();
    if (!changes) return tl::make_unexpected(changes.error());
    all.push_back(*changes);
  }
  if (!reader.at_end()) return fault("goes on after its end");
  return all;
}

core::Result<std::optional<std::pair<WorkerRank, std::uint64_t>>> decode_kv_metrics(std::string_view payload) {
  MsgpackReader reader(payload);
  const auto pairs = reader.read_map();
  if (!pairs) return fault("must be a msgpack map");
  WorkerRank of;
  std::optional<std::uint64_t> blocks;
  bool has_worker = false;
  for (std::uint32_t i = 0; i < *pairs; ++i) {
    const std::string_view key = reader.read_text().value_or("");
    bool is_read = true;
    if (key == "worker_id")
      is_read = has_worker = read_number(reader, of.worker);
    else if (key == "dp_rank")
      is_read = read_rank(reader, of.rank);
    else if (key == "kv_used_blocks" && !reader.read_nil())
      is_read = read_number(reader, blocks.emplace()) && *blocks <= kBlocksMax;
    else if (key != "kv_used_blocks")
      is_read = reader.skip();
    if (!is_read) return fault(key.empty() ? "is cut off" : fmt::format("{}: has another type", key));
  }
  if (!reader.at_end()) return fault("goes on after its end");
  if (!has_worker) return fault("worker_id: is missing");
  if (!blocks) return std::nullopt;
  return std::pair{of, *blocks};
}

core::Result<WorkerKvMessage> decode_worker_kv(const EventEnvelope& envelope) {
  WorkerKvMessage message{envelope.publisher_id, envelope.sequence, {}, {}};
  if (envelope.topic == kKvEventsTopic) {
    auto changes = decode_router_events(envelope.payload);
    if (!changes) return tl::make_unexpected(changes.error());
    message.changes = *std::move(changes);
    return message;
  }
  if (envelope.topic != kKvMetricsTopic) return fault("the envelope has another topic");
  const auto used = decode_kv_metrics(envelope.payload);
  if (!used) return tl::make_unexpected(used.error());
  message.used_blocks = *used;
  return message;
}

WorkerCache& WorkerCaches::cache_of(const WorkerRank& rank) {
  if (ranks_.size() >= kWorkersMax && !ranks_.contains(rank)) ranks_.clear();
  return ranks_[rank];
}

void WorkerCaches::take_sequence(std::uint64_t publisher, std::uint64_t sequence) {
  if (sequences_.size() >= kWorkersMax && !sequences_.contains(publisher)) sequences_.clear();
  const auto [last, is_first] = sequences_.try_emplace(publisher, sequence);
  if (!is_first && sequence > last->second) counts_.lost += sequence - last->second - 1;
  last->second = sequence;
}

void WorkerCaches::add(const WorkerKvMessage& message) {
  ++counts_.received;
  take_sequence(message.publisher, message.sequence);
  if (message.used_blocks) cache_of(message.used_blocks->first).used_blocks = message.used_blocks->second;
  for (const KvChanges& changes : message.changes) {
    WorkerCache& cache = cache_of(changes.of);
    cache.stored_blocks += changes.stored_blocks;
    cache.removed_blocks += changes.removed_blocks;
    cache.has_events = true;
  }
}

std::optional<WorkerCache> WorkerCaches::of(std::uint64_t worker) const {
  std::optional<WorkerCache> found;
  for (auto each = ranks_.lower_bound({worker, 0}); each != ranks_.end() && each->first.worker == worker; ++each) {
    const WorkerCache& rank = each->second;
    if (!found) found.emplace();
    if (rank.used_blocks) found->used_blocks = found->used_blocks.value_or(0) + *rank.used_blocks;
    found->stored_blocks += rank.stored_blocks;
    found->removed_blocks += rank.removed_blocks;
    found->has_events = found->has_events || rank.has_events;
  }
  return found;
}

}  // namespace penstock::telemetry
