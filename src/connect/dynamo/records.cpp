#include "connect/dynamo/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "connect/json_fields.h"
#include "connect/nats/endpoint.h"
#include "connect/whole_file.h"
#include "telemetry/dynamo_kv.h"
#include "telemetry/event_envelope.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kWorkers = "v1/mdc/", kChannels = "v1/event_channels/";
constexpr std::size_t kTextBytesMax = 512;
constexpr std::uint64_t kBlockTokensMax = 1'000'000;

const Json& member(const Json& object, const char* name) {
  static const Json kNothing;
  return object.is_object() && object.contains(name) ? object.at(name) : kNothing;
}

std::string text_of(const Json& value) {
  if (!value.is_string() || value.get_ref<const std::string&>().size() > kTextBytesMax) return {};
  return value.get<std::string>();
}

// Dynamo writes 0 for a figure that it does not know.
std::optional<std::uint64_t> figure_of(const Json& value) {
  constexpr std::uint64_t kFigureMax = 1'000'000'000'000;
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto figure = value.get<std::uint64_t>();
  return figure > 0 && figure <= kFigureMax ? std::optional{figure} : std::nullopt;
}

// Version 1.3 names namespace and component in the record, 1.6 in its scope.
std::string component_of(const Json& record) {
  const Json& scope = member(record, "scope");
  const Json& place = scope.is_object() ? member(scope, text_of(member(scope, "kind")).c_str()) : record;
  const std::string space = text_of(member(place, "namespace")), component = text_of(member(place, "component"));
  return space.empty() || component.empty() ? std::string{} : space + "/" + component;
}

bool add_worker(const Json& record, DynamoRecords& records) {
  const Json &id = member(record, "instance_id"), &card = member(record, "card_json");
  DynamoWorker worker;
  worker.model = text_of(member(card, "display_name"));
  if (!id.is_number_unsigned() || worker.model.empty()) return false;
  worker.id = id.get<std::uint64_t>();
  worker.component = component_of(record);
  const Json& runtime = member(card, "runtime_config");
  const auto blocks = figure_of(member(runtime, "total_kv_blocks"));
  const auto block_tokens = figure_of(member(card, "kv_cache_block_size"));
  if (block_tokens && *block_tokens <= kBlockTokensMax) worker.block_tokens = block_tokens;
  if (blocks && worker.block_tokens) worker.kv_tokens = *blocks * *worker.block_tokens;
  worker.max_sequences = figure_of(member(runtime, "max_num_seqs"));
  worker.max_batched_tokens = figure_of(member(runtime, "max_num_batched_tokens"));
  worker.context_tokens = figure_of(member(runtime, "context_length"));
  if (!worker.context_tokens) worker.context_tokens = figure_of(member(card, "context_length"));
  const bool is_known = std::any_of(records.workers.begin(), records.workers.end(), [&](const DynamoWorker& known) {
    return known.id == worker.id && known.model == worker.model;
  });
  if (!is_known) records.workers.push_back(std::move(worker));
  return true;
}

bool add_channel(const Json& record, DynamoRecords& records) {
  const std::string topic = text_of(member(record, "topic"));
  const Json& transport = member(record, "transport");
  const std::string kind = text_of(member(transport, "kind"));
  if (topic.empty() || kind.empty()) return false;
  const bool is_kv = topic == telemetry::kKvEventsTopic || topic == telemetry::kKvMetricsTopic;
  if (topic != telemetry::kForwardPassTopic && !is_kv) return true;
  const DynamoTopic of = is_kv ? DynamoTopic::kKvCache : DynamoTopic::kForwardPass;
  if (kind == "Nats") {
    const std::string prefix = text_of(member(member(transport, "config"), "subject_prefix"));
    const std::string subject = prefix + "." + topic;
    if (!is_nats_subject(subject)) return false;
    records.channels.push_back({component_of(record), {}, subject, of});
    return true;
  }
  if (kind != "Zmq") return true;
  const std::string endpoint = text_of(member(member(transport, "config"), "endpoint"));
  if (endpoint.empty()) return false;
  records.channels.push_back({component_of(record), endpoint, {}, of});
  return true;
}

}  // namespace

std::vector<DynamoWorker> DynamoRecords::workers_of(std::string_view model) const {
  std::vector<DynamoWorker> found;
  for (const DynamoWorker& worker : workers)
    if (model.empty() || worker.model == model) found.push_back(worker);
  std::sort(found.begin(), found.end(), [](const auto& left, const auto& right) { return left.id < right.id; });
  return found;
}

std::vector<std::string> DynamoRecords::endpoints_of(std::string_view model, std::string_view nats_server,
                                                     DynamoTopic topic) const {
  std::set<std::string> components, endpoints;
  for (const DynamoWorker& worker : workers_of(model)) components.insert(worker.component);
  for (const DynamoChannel& channel : channels)
    if (channel.topic == topic && (channel.component.empty() || components.contains(channel.component)))
      endpoints.insert(channel.subject.empty() ? channel.endpoint : fmt::format("{}/{}", nats_server, channel.subject));
  return {endpoints.begin(), endpoints.end()};
}

void add_dynamo_record(std::string_view key, std::string_view json, DynamoRecords& records) {
  const bool is_worker = key.starts_with(kWorkers);
  if (!is_worker && !key.starts_with(kChannels)) return;
  if (records.workers.size() + records.channels.size() >= kDynamoRecordsMax) return;
  const auto reject = [&](const std::string& cause) {
    if (records.rejection.empty()) records.rejection = cause;
  };
  const std::string where{key.substr(0, kTextBytesMax)};
  if (json.size() > kDynamoRecordBytes)
    return reject(fmt::format("{}: has {} bytes, of at most {}", where, json.size(), kDynamoRecordBytes));
  const auto record = parse_object(json, where);
  if (!record) return reject(record.error().message());
  if (!(is_worker ? add_worker(*record, records) : add_channel(*record, records)))
    reject(fmt::format("{}: is not a record of a {}", where, is_worker ? "worker" : "publisher"));
}

core::Result<DynamoRecords> read_dynamo_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(folder, error))
    return core::environment_error(folder, "there is no such folder", "name the folder that DYN_FILE_KV names");
  DynamoRecords records;
  for (const std::string_view kind : {kWorkers, kChannels}) {
    // The files of one folder are those of keys whose slashes are written as %2F.
    const fs::path of_kind = fs::path{folder} / kind.substr(0, kind.size() - 1);
    std::vector<fs::path> files;
    for (fs::directory_iterator each{of_kind, error}; !error && each != fs::directory_iterator{};
         each.increment(error)) {
      std::error_code missing;
      if (each->is_regular_file(missing) && files.size() < kDynamoRecordsMax) files.push_back(each->path());
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {
      const auto text = read_whole_file(file.string(), kDynamoRecordBytes);
      // A worker that ends removes its files.
      if (text && *text) add_dynamo_record(std::string{kind} + file.filename().string(), **text, records);
    }
  }
  return records;
}

}  // namespace penstock::connect
