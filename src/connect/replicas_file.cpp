#include "connect/replicas_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "connect/json_fields.h"
#include "connect/whole_file.h"
#include "core/enum_names.h"

namespace penstock::connect {

using Json = nlohmann::json;

namespace {

constexpr std::int64_t kReplicasVersion = 1;
constexpr std::size_t kReplicaNameBytes = 200, kAddressBytes = 2000;
constexpr double kWeightMin = 1e-3, kWeightMax = 1e3;

template <class T, std::size_t N>
T choice(JsonFields& fields, const char* name, const T (&choices)[N]) {
  const std::string text = fields.text(name, kReplicaNameBytes);
  std::string names;
  for (const T one : choices) {
    if (text == to_string(one)) return one;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", to_string(one));
  }
  fields.fail(name, fmt::format("must be one of {}, is \"{}\"", names, text));
  return choices[0];
}

void check_url(JsonFields& fields, const std::string& url) {
  const bool known = url.starts_with("http://") || url.starts_with("https://");
  const std::size_t host = known ? url.find("//") + 2 : 0;
  if (!known || host >= url.size() || url[host] == '/' || url.find_first_of(" \"<>\\^`{|}#") != std::string::npos)
    fields.fail("url", fmt::format("must be like http://127.0.0.1:9001, is \"{}\"", url));
}

std::vector<std::string> read_endpoints(JsonFields& fields, const char* name) {
  std::vector<std::string> endpoints;
  const Json* const list = fields.list(name, ReplicaEntry::kEndpointsMax);
  if (list == nullptr) return endpoints;
  for (const Json& each : *list) {
    if (!each.is_string() || each.get_ref<const std::string&>().size() > kAddressBytes) {
      fields.fail(name, fmt::format("must contain texts of at most {} bytes", kAddressBytes));
      break;
    }
    endpoints.push_back(each.get<std::string>());
  }
  return endpoints;
}

ReplicaEntry read_entry(JsonFields& fields) {
  ReplicaEntry entry;
  entry.id = fields.text("id", kReplicaNameBytes);
  if (entry.id.empty()) fields.fail("id", "must not be empty");
  entry.url = fields.text("url", kAddressBytes);
  check_url(fields, entry.url);
  if (fields.has("model")) entry.model = fields.text("model", kReplicaNameBytes);
  if (fields.has("pool")) entry.pool = fields.text("pool", kReplicaNameBytes);
  if (fields.has("role"))
    entry.role = choice(fields, "role", {signals::Role::kAggregated, signals::Role::kPrefill, signals::Role::kDecode});
  if (fields.has("state"))
    entry.state =
        choice(fields, "state", {ReplicaTraffic::kWarming, ReplicaTraffic::kServing, ReplicaTraffic::kDraining});
  if (fields.has("weight")) entry.weight = fields.number("weight", kWeightMin, kWeightMax);
  if (fields.has("kv_events")) entry.kv_events = fields.text("kv_events", kAddressBytes);
  if (fields.has("kv_events_replay")) entry.kv_events_replay = fields.text("kv_events_replay", kAddressBytes);
  if (fields.has("fpm")) entry.fpm = read_endpoints(fields, "fpm");
  if (fields.has("workers"))
    entry.workers = static_cast<std::uint32_t>(fields.integer("workers", 1, ReplicaEntry::kWorkersMax));
  if (fields.has("block_tokens"))
    entry.block_tokens = static_cast<std::uint32_t>(fields.integer("block_tokens", 1, 1'000'000));
  if (fields.has("kv_blocks"))
    entry.kv_blocks =
        static_cast<std::uint64_t>(fields.integer("kv_blocks", 1, std::numeric_limits<std::int64_t>::max()));
  return entry;
}

// Duplicate replicas would be counted twice and drained once.
std::optional<core::Error> find_twins(const std::vector<ReplicaEntry>& entries, const std::string& file) {
  std::map<std::string_view, std::size_t> ids, urls;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto [id, new_id] = ids.emplace(entries[i].id, i);
    const auto [url, new_url] = urls.emplace(entries[i].url, i);
    if (new_id && new_url) continue;
    const std::size_t first = new_id ? url->second : id->second;
    return core::Error{
        core::ErrorCode::kInvalidInput, fmt::format("{}: replicas[{}].{}", file, i, new_id ? "url" : "id"),
        fmt::format("\"{}\" is that of replicas[{}] already", new_id ? entries[i].url : entries[i].id, first),
        "list each replica once"};
  }
  return std::nullopt;
}

}  // namespace

const char* to_string(ReplicaTraffic traffic) {
  return core::name_of<ReplicaTraffic::kDraining>(traffic, {"warming", "serving", "draining"});
}

core::Result<std::vector<ReplicaEntry>> read_replicas(std::string_view text, const std::string& file) {
  const auto root = parse_object(text, file);
  if (!root) return tl::make_unexpected(root.error());
  JsonFields top{*root, file, ""};
  if (const std::int64_t version = top.integer("version", 1, std::numeric_limits<std::int64_t>::max());
      version != kReplicasVersion)
    top.fail("version", fmt::format("is {}, but only {} is known", version, kReplicasVersion), "use a newer penstock");
  const Json* const list = top.list("replicas", kReplicasMax);
  if (top.error()) return tl::make_unexpected(*top.error());

  std::vector<ReplicaEntry> entries;
  entries.reserve(list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    JsonFields fields{(*list)[i], file, fmt::format("replicas[{}]", i)};
    entries.push_back(read_entry(fields));
    if (fields.error()) return tl::make_unexpected(*fields.error());
  }
  if (const auto error = find_twins(entries, file)) return tl::make_unexpected(*error);
  return entries;
}

core::Result<std::vector<ReplicaEntry>> load_replicas(const std::string& path) {
  const auto text = read_whole_file(path, kReplicasFileBytes);
  if (!text) return tl::make_unexpected(text.error());
  if (!*text) return core::environment_error(path, "there is no such file", "is the planner running?");
  return read_replicas(**text, path);
}

std::string replicas_text(std::span<const ReplicaEntry> replicas) {
  const auto dump = [](const nlohmann::ordered_json& value) {
    return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  };
  std::string text = fmt::format("{{\"version\":{},\"replicas\":[", kReplicasVersion);
  const char* separator = "\n";
  for (const ReplicaEntry& entry : replicas) {
    nlohmann::ordered_json line;
    line["id"] = entry.id;
    line["url"] = entry.url;
    line["model"] = entry.model;
    line["pool"] = entry.pool;
    line["role"] = signals::to_string(entry.role);
    line["state"] = to_string(entry.state);
    line["weight"] = entry.weight;
    if (!entry.kv_events.empty()) line["kv_events"] = entry.kv_events;
    if (!entry.kv_events_replay.empty()) line["kv_events_replay"] = entry.kv_events_replay;
    if (!entry.fpm.empty()) line["fpm"] = entry.fpm;
    if (entry.workers) line["workers"] = *entry.workers;
    if (entry.block_tokens) line["block_tokens"] = *entry.block_tokens;
    if (entry.kv_blocks) line["kv_blocks"] = *entry.kv_blocks;
    text += separator + dump(line);
    separator = ",\n";
  }
  return text + "\n]}\n";
}

core::Result<void> save_replicas(const std::string& path, std::span<const ReplicaEntry> replicas) {
  // Gateways of other users may follow the file; it has no secrets.
  return replace_file(path, replicas_text(replicas), FileReaders::kAll);
}

}  // namespace penstock::connect
