#include "telemetry/forward_pass.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "telemetry/msgpack.h"

namespace penstock::telemetry {
namespace {

constexpr std::string_view kWhere = "forward pass metrics";
constexpr std::size_t kWorkerIdBytesMax = 256;

// One key of the two inner maps; exactly one of the members is set.
template <class Part>
struct Key {
  std::string_view name;
  std::uint32_t Part::*requests = nullptr;
  std::uint64_t Part::*tokens = nullptr;
  double Part::*variance = nullptr;
};

template <class Part>
constexpr Key<Part> requests_key(std::string_view name, std::uint32_t Part::*member) {
  return {name, member, nullptr, nullptr};
}
template <class Part>
constexpr Key<Part> tokens_key(std::string_view name, std::uint64_t Part::*member) {
  return {name, nullptr, member, nullptr};
}
template <class Part>
constexpr Key<Part> variance_key(std::string_view name, double Part::*member) {
  return {name, nullptr, nullptr, member};
}

constexpr std::array kScheduledKeys = {requests_key("num_prefill_requests", &ScheduledRequests::num_prefill_requests),
                                       tokens_key("sum_prefill_tokens", &ScheduledRequests::sum_prefill_tokens),
                                       variance_key("var_prefill_length", &ScheduledRequests::var_prefill_length),
                                       tokens_key("sum_prefill_kv_tokens", &ScheduledRequests::sum_prefill_kv_tokens),
                                       requests_key("num_decode_requests", &ScheduledRequests::num_decode_requests),
                                       tokens_key("sum_decode_kv_tokens", &ScheduledRequests::sum_decode_kv_tokens),
                                       variance_key("var_decode_kv_tokens", &ScheduledRequests::var_decode_kv_tokens)};
constexpr std::array kQueuedKeys = {requests_key("num_prefill_requests", &QueuedRequests::num_prefill_requests),
                                    tokens_key("sum_prefill_tokens", &QueuedRequests::sum_prefill_tokens),
                                    variance_key("var_prefill_length", &QueuedRequests::var_prefill_length),
                                    requests_key("num_decode_requests", &QueuedRequests::num_decode_requests),
                                    tokens_key("sum_decode_kv_tokens", &QueuedRequests::sum_decode_kv_tokens),
                                    variance_key("var_decode_kv_tokens", &QueuedRequests::var_decode_kv_tokens)};

tl::unexpected<core::Error> fault(std::string_view key, std::string_view what) {
  return core::invalid_input(std::string(kWhere), fmt::format("{}: {}", key, what));
}

template <class Part>
core::Result<void> read_value(MsgpackReader& reader, const Key<Part>& key, std::string_view part, Part& into) {
  const auto path = [&] { return fmt::format("{}.{}", part, key.name); };
  if (key.variance != nullptr) {
    const auto value = reader.read_number();
    if (!value || !(*value >= 0.0) || !std::isfinite(*value)) return fault(path(), "must be a finite number from 0");
    into.*key.variance = *value;
    return {};
  }
  const std::uint64_t last = key.requests != nullptr ? kForwardPassRequestsMax : kForwardPassTokensMax;
  const auto value = reader.read_unsigned();
  if (!value || *value > last) return fault(path(), fmt::format("must be an integer from 0 to {}", last));
  if (key.requests != nullptr)
    into.*key.requests = static_cast<std::uint32_t>(*value);
  else
    into.*key.tokens = *value;
  return {};
}

template <class Part, std::size_t N>
core::Result<void> read_part(MsgpackReader& reader, const std::array<Key<Part>, N>& keys, std::string_view part,
                             Part& into) {
  const auto pairs = reader.read_map();
  if (!pairs) return fault(part, "must be a map");
  std::array<bool, N> seen{};
  for (std::uint32_t i = 0; i < *pairs; ++i) {
    const auto name = reader.read_text();
    std::size_t at = 0;
    while (name && at < N && keys[at].name != *name) ++at;
    if (!name || at == N) {
      if ((!name && !reader.skip()) || !reader.skip()) return fault(part, "is cut off");
      continue;
    }
    if (const auto read = read_value(reader, keys[at], part, into); !read) return read;
    seen[at] = true;
  }
  for (std::size_t at = 0; at < N; ++at)
    if (!seen[at] && keys[at].variance == nullptr)
      return fault(fmt::format("{}.{}", part, keys[at].name), "is missing");
  return {};
}

template <class Part, std::size_t N>
void write_part(MsgpackWriter& writer, const std::array<Key<Part>, N>& keys, std::string_view part, const Part& from) {
  writer.text(part);
  writer.map(N);
  for (const Key<Part>& key : keys) {
    writer.text(key.name);
    if (key.variance != nullptr)
      writer.number(from.*key.variance);
    else
      writer.unsigned_integer(key.requests != nullptr ? from.*key.requests : from.*key.tokens);
  }
}

// Reads the outer map and records which required keys were present.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : reader_(bytes) {}

  core::Result<ForwardPassMetrics> decode() {
    const auto pairs = reader_.read_map();
    if (!pairs) return core::invalid_input(std::string(kWhere), "must be a msgpack map");
    for (std::uint32_t i = 0; i < *pairs; ++i) {
      const auto name = reader_.read_text();
      if (!name && !reader_.skip()) return core::invalid_input(std::string(kWhere), "is cut off");
      if (const auto read = read_key(name.value_or("")); !read) return tl::make_unexpected(read.error());
    }
    if (!reader_.at_end()) return core::invalid_input(std::string(kWhere), "goes on after its end");
    for (std::size_t i = 0; i < kNeeded.size(); ++i)
      if (!seen_[i]) return fault(kNeeded[i], "is missing");
    return std::move(metrics_);
  }

 private:
  static constexpr std::array<std::string_view, 5> kNeeded = {"version", "counter_id", "wall_time",
                                                              "scheduled_requests", "queued_requests"};

  core::Result<void> read_key(std::string_view name) {
    for (std::size_t i = 0; i < kNeeded.size(); ++i) seen_[i] = seen_[i] || kNeeded[i] == name;
    if (name == "version") return read_version();
    if (name == "worker_id") return read_worker();
    if (name == "dp_rank")
      return read_integer(name, 0, UINT16_MAX,
                          [&](auto value) { metrics_.dp_rank = static_cast<std::uint32_t>(value); });
    if (name == "counter_id")
      return read_integer(name, 0, UINT64_MAX, [&](auto value) { metrics_.counter_id = value; });
    if (name == "wall_time") return read_wall_time();
    if (name == "scheduled_requests") return read_part(reader_, kScheduledKeys, name, metrics_.scheduled_requests);
    if (name == "queued_requests") return read_part(reader_, kQueuedKeys, name, metrics_.queued_requests);
    if (name == "kv_used_tokens")
      return read_integer(name, 0, kForwardPassTokensMax, [&](auto value) { metrics_.kv_used_tokens = value; });
    if (name == "kv_capacity_tokens")
      return read_integer(name, 0, kForwardPassTokensMax, [&](auto value) { metrics_.kv_capacity_tokens = value; });
    if (!reader_.skip()) return core::invalid_input(std::string(kWhere), "is cut off");
    return {};
  }

  template <class Set>
  core::Result<void> read_integer(std::string_view name, std::uint64_t first, std::uint64_t last, Set set) {
    const auto value = reader_.read_unsigned();
    if (!value || *value < first || *value > last)
      return fault(name, fmt::format("must be an integer from {} to {}", first, last));
    set(*value);
    return {};
  }

  core::Result<void> read_version() {
    const auto read = read_integer("version", 1, UINT32_MAX,
                                   [&](auto value) { metrics_.version = static_cast<std::uint32_t>(value); });
    if (!read || metrics_.version == ForwardPassMetrics::kVersion) return read;
    return core::invalid_input(
        std::string(kWhere),
        fmt::format("version: is {}, but only {} is known", metrics_.version, ForwardPassMetrics::kVersion),
        "use a version of penstock that reads it, or of the engine that writes the known one");
  }

  core::Result<void> read_worker() {
    const auto text = reader_.read_text();
    if (!text || text->size() > kWorkerIdBytesMax) return fault("worker_id", "must be a text of at most 256 bytes");
    for (const char c : *text)
      if (c < 0x20 || c > 0x7e) return fault("worker_id", "must be printable ASCII");
    metrics_.worker_id = *text;
    return {};
  }

  core::Result<void> read_wall_time() {
    const auto value = reader_.read_number();
    if (!value || !(*value >= 0.0 && *value <= kForwardPassSecondsMax))
      return fault("wall_time", fmt::format("must be a number from 0 to {}", kForwardPassSecondsMax));
    metrics_.wall_time = *value;
    return {};
  }

  MsgpackReader reader_;
  ForwardPassMetrics metrics_;
  std::array<bool, kNeeded.size()> seen_{};
};

}  // namespace

std::string encode(const ForwardPassMetrics& metrics) {
  std::string bytes;
  bytes.reserve(512);
  MsgpackWriter writer(bytes);
  writer.map(7 + (metrics.kv_used_tokens ? 1 : 0) + (metrics.kv_capacity_tokens ? 1 : 0));
  writer.text("version");
  writer.unsigned_integer(metrics.version);
  writer.text("worker_id");
  writer.text(metrics.worker_id);
  writer.text("dp_rank");
  writer.unsigned_integer(metrics.dp_rank);
  writer.text("counter_id");
  writer.unsigned_integer(metrics.counter_id);
  writer.text("wall_time");
  writer.number(metrics.wall_time);
  write_part(writer, kScheduledKeys, "scheduled_requests", metrics.scheduled_requests);
  write_part(writer, kQueuedKeys, "queued_requests", metrics.queued_requests);
  if (metrics.kv_used_tokens) {
    writer.text("kv_used_tokens");
    writer.unsigned_integer(*metrics.kv_used_tokens);
  }
  if (metrics.kv_capacity_tokens) {
    writer.text("kv_capacity_tokens");
    writer.unsigned_integer(*metrics.kv_capacity_tokens);
  }
  return bytes;
}

core::Result<ForwardPassMetrics> decode_forward_pass(std::string_view bytes) {
  if (bytes.size() > kForwardPassBytesMax)
    return core::invalid_input(std::string(kWhere),
                               fmt::format("has {} bytes, of at most {}", bytes.size(), kForwardPassBytesMax));
  return Decoder(bytes).decode();
}

}  // namespace penstock::telemetry
