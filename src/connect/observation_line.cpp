#include "connect/observation_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "connect/json_fields.h"
#include "options/scalars.h"

namespace penstock::connect {

using Json = nlohmann::json;
using signals::ReplicaState;
using signals::RequestEnd;

namespace {

constexpr double kTimeMost_s = 100.0 * 365.25 * 86'400.0;  // As in a decision log; times since 1970 fit, too.
constexpr double kLatencyMost_ms = 86'400'000.0;           // A day.
constexpr double kWindowMost_s = 86'400.0;
constexpr std::int64_t kPoolsOfLineMax = 16;
constexpr std::int64_t kRequestTokensMost = 10'000'000;       // Of one request.
constexpr std::int64_t kCounterMost = 1'000'000'000'000'000;  // Of a counter, or of tokens of a replica.
constexpr std::int64_t kWaitingMost = 100'000'000;
constexpr std::size_t kPromptBlocksMost = 65'536;
constexpr std::size_t kLineTextMost = 200;
const std::string kLineName = "observation";

using Keys = std::span<const std::string_view>;
constexpr std::string_view kLineKeys[] = {"at_s", "pools", "requests"};
constexpr std::string_view kPoolKeys[] = {"pool",    "ready",       "starting",      "draining",
                                          "asleep",  "target",      "asleep_target", "replicas",
                                          "waiting", "last_minute", "failed_total",  "actions_failed_total"};
// In the order of their values.
constexpr ReplicaState kStatedStates[] = {ReplicaState::kStarting, ReplicaState::kReady, ReplicaState::kDraining,
                                          ReplicaState::kAsleep};
constexpr std::string_view kReplicaKeys[] = {"id",
                                             "state",
                                             "since_s",
                                             "sampled_at_s",
                                             "running_requests",
                                             "queued_requests",
                                             "queued_prompt_tokens",
                                             "running_prompt_tokens",
                                             "decoding_tokens",
                                             "preempted_tokens",
                                             "oldest_queued_s",
                                             "kv_usage",
                                             "kv_used_tokens",
                                             "kv_capacity_tokens",
                                             "prompt_tokens_total",
                                             "prefix_hit_tokens_total",
                                             "output_tokens_total",
                                             "completed_total",
                                             "preemptions_total"};
constexpr std::string_view kWindowKeys[] = {"length_s",  "arrivals", "prompt_tokens", "output_tokens",
                                            "completed", "failed",   "ttft_ms",       "itl_ms"};
constexpr std::string_view kLatencyKeys[] = {"count", "mean", "p50", "p90", "p95", "p99"};
constexpr std::string_view kRequestKeys[] = {
    "id",        "arrival_s", "prompt_tokens", "output_tokens", "streamed", "ttft_ms", "itl_ms",
    "ended_s",   "outcome",   "model",         "class",         "tenant",   "blocks",  "completion_window_s",
    "deferred_s"};

// Fields of an object of a line. A key that is not in the list would be an optional figure that goes unread.
class LineFields : public JsonFields {
 public:
  LineFields(const Json& object, const std::string& path, Keys keys) : JsonFields(object, kLineName, path) {
    if (!object.is_object()) return;
    for (const auto& item : object.items()) {
      if (std::find(keys.begin(), keys.end(), item.key()) != keys.end()) continue;
      const std::string close = options::suggestion(item.key(), keys);
      fail(options::quote(item.key()), "unknown key",
           close.empty() ? "the keys are " + options::choices({keys.begin(), keys.end()}) : close);
      return;
    }
  }

  [[nodiscard]] std::uint64_t count(const char* name, std::int64_t most, std::uint64_t missing = 0) {
    return has(name) ? static_cast<std::uint64_t>(integer(name, 0, most)) : missing;
  }
  [[nodiscard]] std::optional<std::uint64_t> counter(const char* name) {
    return has(name) ? std::optional{count(name, kCounterMost)} : std::nullopt;
  }
  [[nodiscard]] std::uint32_t small(const char* name, std::int64_t most) {
    return static_cast<std::uint32_t>(count(name, most));
  }
  [[nodiscard]] core::Instant time(const char* name) {
    return core::kStart + core::from_seconds(number(name, 0.0, kTimeMost_s));
  }
  // A time that has passed.
  [[nodiscard]] core::Instant past(const char* name, core::Instant now) {
    const core::Instant at = time(name);
    if (at > now) fail(name, "must not be later than at_s");
    return at;
  }
  [[nodiscard]] std::optional<double> latency(const char* name) {
    return has(name) ? std::optional{number(name, 0.0, kLatencyMost_ms)} : std::nullopt;
  }
};

template <class Value>
core::Result<Value> done(const LineFields& fields, Value value) {
  if (fields.error()) return tl::make_unexpected(*fields.error());
  return value;
}

// ---- pools ----------------------------------------------------------------------------------------------------------

// Empty if the replica reports nothing.
std::optional<signals::EngineSample> read_sample(LineFields& fields, core::Instant now) {
  const auto reports = [&](std::string_view key) {
    return key != "id" && key != "state" && key != "since_s" && fields.has(key.data());
  };
  if (std::none_of(std::begin(kReplicaKeys), std::end(kReplicaKeys), reports)) return std::nullopt;
  signals::EngineSample sample;
  sample.sampled_at = fields.has("sampled_at_s") ? fields.past("sampled_at_s", now) : now;
  sample.running_requests = static_cast<std::uint32_t>(fields.integer("running_requests", 0, kWaitingMost));
  sample.queued_requests = static_cast<std::uint32_t>(fields.integer("queued_requests", 0, kWaitingMost));
  sample.queued_prefill_tokens = fields.counter("queued_prompt_tokens");
  sample.inflight_prefill_tokens = fields.counter("running_prompt_tokens");
  sample.scheduled_kv_tokens = fields.counter("decoding_tokens");
  sample.queued_kv_tokens = fields.counter("preempted_tokens");
  if (fields.has("oldest_queued_s"))
    sample.oldest_queued_age = core::from_seconds(fields.number("oldest_queued_s", 0.0, kTimeMost_s));
  if (fields.has("kv_usage")) sample.kv_share = fields.number("kv_usage", 0.0, 1.0);
  sample.kv_used_tokens = fields.counter("kv_used_tokens");
  sample.kv_capacity_tokens = fields.counter("kv_capacity_tokens");
  sample.prompt_tokens_total = fields.counter("prompt_tokens_total");
  sample.prefix_hit_tokens_total = fields.counter("prefix_hit_tokens_total");
  sample.generation_tokens_total = fields.counter("output_tokens_total");
  sample.completed_total = fields.counter("completed_total");
  sample.preemptions_total = fields.counter("preemptions_total");
  if (sample.kv_used_tokens && sample.kv_capacity_tokens && *sample.kv_used_tokens > *sample.kv_capacity_tokens)
    fields.fail("kv_used_tokens", fmt::format("must be at most kv_capacity_tokens ({}), is {}",
                                              *sample.kv_capacity_tokens, *sample.kv_used_tokens));
  return sample;
}

// A whole number from 0 up to the largest of the type, also written as 2.0.
std::optional<std::uint64_t> count_of(const Json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  const std::optional<std::int64_t> number = whole_number(value);
  return number && *number >= 0 ? std::optional{static_cast<std::uint64_t>(*number)} : std::nullopt;
}

// A name, or a number that serves as one.
std::string read_id(LineFields& fields, const Json& object) {
  const auto found = object.find("id");
  if (found != object.end())
    if (const auto number = count_of(*found)) return fmt::format("{}", *number);
  std::string id = fields.text("id", kLineTextMost);
  if (id.empty()) fields.fail("id", "must not be empty");
  return id;
}

core::Result<ObservedReplica> read_replica(const Json& object, const std::string& path, core::Instant now) {
  LineFields fields{object, path, kReplicaKeys};
  if (fields.error()) return tl::make_unexpected(*fields.error());
  ObservedReplica replica;
  replica.id = read_id(fields, object);
  if (fields.has("state")) {
    const std::string state = fields.text("state", kLineTextMost);
    bool known = false;
    for (const ReplicaState each : kStatedStates)
      if (state == to_string(each)) {
        replica.state = each;
        known = true;
      }
    if (!known) fields.fail("state", "must be one of starting, ready, draining, asleep, is " + options::quote(state));
  }
  if (fields.has("since_s")) replica.since = fields.past("since_s", now);
  replica.sample = read_sample(fields, now);
  return done(fields, std::move(replica));
}

core::Result<signals::LatencyWindow> read_latencies(const Json& object, const std::string& path) {
  LineFields fields{object, path, kLatencyKeys};
  signals::LatencyWindow window;
  window.count = static_cast<std::uint64_t>(fields.integer("count", 0, kCounterMost));
  if (window.count == 0 || fields.error()) return done(fields, window);
  window.mean_ms = fields.number("mean", 0.0, kLatencyMost_ms);
  // A percentile that is missing takes the value of the one below it, the first one the mean, which may be above any.
  double last = window.mean_ms;
  const char* lower = nullptr;
  for (const auto& [key, figure] : {std::pair{"p50", &window.p50_ms}, std::pair{"p90", &window.p90_ms},
                                    std::pair{"p95", &window.p95_ms}, std::pair{"p99", &window.p99_ms}}) {
    *figure = fields.has(key) ? fields.number(key, 0.0, kLatencyMost_ms) : last;
    if (lower != nullptr && *figure < last)
      fields.fail(key, fmt::format("must be at least {} ({}), is {}", lower, last, *figure));
    if (fields.has(key)) lower = key;
    last = *figure;
  }
  return done(fields, window);
}

core::Result<signals::TrafficWindow> read_window(const Json& object, const std::string& path) {
  LineFields fields{object, path, kWindowKeys};
  signals::TrafficWindow window;
  window.length = core::kMinute;
  if (fields.has("length_s")) window.length = core::from_seconds(fields.number("length_s", 1.0, 60.0));
  window.arrivals = static_cast<std::uint64_t>(fields.integer("arrivals", 0, kCounterMost));
  window.input_tokens = static_cast<std::uint64_t>(fields.integer("prompt_tokens", 0, kCounterMost));
  window.output_tokens = static_cast<std::uint64_t>(fields.integer("output_tokens", 0, kCounterMost));
  window.completed = fields.count("completed", kCounterMost);
  window.completed_output_tokens = window.completed > 0 ? window.output_tokens : 0;
  window.failed = fields.count("failed", kCounterMost);
  for (const auto& [key, latencies] : {std::pair{"ttft_ms", &window.ttft}, std::pair{"itl_ms", &window.itl}}) {
    if (!fields.has(key) || fields.error()) continue;
    const auto read = read_latencies(object.at(key), fields.path_of(key));
    if (!read) return tl::make_unexpected(read.error());
    *latencies = *read;
  }
  return done(fields, window);
}

core::Result<void> read_replicas(LineFields& fields, ObservedPool& pool, core::Instant now) {
  const Json* const list = fields.list("replicas", kObservedReplicasMax);
  if (list == nullptr) return {};
  std::set<std::string> ids;
  std::uint32_t counts[std::size(kStatedStates)]{};
  for (const Json& each : *list) {
    const std::string path = fields.path_of(fmt::format("replicas[{}]", pool.replicas.size()));
    auto replica = read_replica(each, path, now);
    if (!replica) return tl::make_unexpected(replica.error());
    if (!ids.insert(replica->id).second)
      return core::invalid_input(fmt::format("{}: {}.id", kLineName, path),
                                 "is in the list twice: " + options::quote(replica->id));
    ++counts[static_cast<std::size_t>(replica->state)];
    pool.replicas.push_back(*std::move(replica));
  }
  const std::pair<const char*, std::uint32_t*> given[] = {
      {"starting", &pool.starting}, {"ready", &pool.ready}, {"draining", &pool.draining}, {"asleep", &pool.asleep}};
  for (std::size_t i = 0; i < std::size(given); ++i) {
    if (fields.has(given[i].first) && *given[i].second != counts[i])
      fields.fail(given[i].first,
                  fmt::format("must be the number in replicas ({}), is {}", counts[i], *given[i].second));
    *given[i].second = counts[i];
  }
  return {};
}

core::Result<ObservedPool> read_pool(const Json& object, const std::string& path, core::Instant now) {
  LineFields fields{object, path, kPoolKeys};
  if (fields.error()) return tl::make_unexpected(*fields.error());
  constexpr auto kMost = static_cast<std::int64_t>(kObservedReplicasMax);
  ObservedPool pool;
  if (fields.has("pool")) pool.name = fields.text("pool", kLineTextMost);
  if (!fields.has("replicas") || fields.has("ready"))
    pool.ready = static_cast<std::uint32_t>(fields.integer("ready", 0, kMost));
  pool.starting = fields.small("starting", kMost);
  pool.draining = fields.small("draining", kMost);
  pool.asleep = fields.small("asleep", kMost);
  if (fields.has("target")) pool.target = fields.small("target", kMost);
  if (fields.has("asleep_target")) pool.asleep_target = fields.small("asleep_target", kMost);
  pool.waiting = fields.small("waiting", kWaitingMost);
  pool.failed_total = fields.count("failed_total", kCounterMost);
  pool.actions_failed_total = fields.count("actions_failed_total", kCounterMost);
  if (fields.has("replicas"))
    if (auto read = read_replicas(fields, pool, now); !read) return tl::make_unexpected(read.error());
  if (fields.has("last_minute")) {
    auto window = read_window(object.at("last_minute"), fields.path_of("last_minute"));
    if (!window) return tl::make_unexpected(window.error());
    pool.last_minute = *window;
  }
  return done(fields, std::move(pool));
}

// ---- requests -------------------------------------------------------------------------------------------------------

void read_blocks(LineFields& fields, ObservedRequest& request) {
  const Json* const list = fields.list("blocks", kPromptBlocksMost);
  if (list == nullptr) return;
  for (const Json& each : *list) {
    const std::optional<std::uint64_t> number = count_of(each);
    if (!number) return fields.fail("blocks", "must be whole numbers from 0");
    request.blocks.push_back(*number);
  }
}

void read_end(LineFields& fields, ObservedRequest& request, core::Instant now) {
  request.ended = fields.past("ended_s", now);
  if (*request.ended < request.arrival) fields.fail("ended_s", "must not be earlier than arrival_s");
  if (fields.has("outcome")) {
    const std::string outcome = fields.text("outcome", kLineTextMost);
    if (outcome == "failed")
      request.end = RequestEnd::kFailed;
    else if (outcome == "cancelled")
      request.end = RequestEnd::kCancelled;
    else if (outcome != "completed")
      fields.fail("outcome", "must be one of completed, failed, cancelled, is " + options::quote(outcome));
  }
  const bool completed = request.end == RequestEnd::kNone;
  if (completed || fields.has("output_tokens"))
    request.output_tokens =
        static_cast<std::uint32_t>(fields.integer("output_tokens", completed ? 1 : 0, kRequestTokensMost));
  const double total_ms = core::to_milliseconds(*request.ended - request.arrival);
  const double first_ms = request.ttft_ms.value_or(0.0) + 1'000.0 * request.deferred_s;
  if (request.ttft_ms && first_ms > total_ms + 1.0)
    fields.fail("ttft_ms", "must not be longer than from arrival_s to ended_s");
  // The gap between the tokens follows from the times and the length.
  if (completed && !request.itl_ms && request.ttft_ms && request.output_tokens > 1)
    request.itl_ms = std::max(0.0, total_ms - first_ms) / (request.output_tokens - 1.0);
}

core::Result<ObservedRequest> read_request(const Json& object, const std::string& path, core::Instant now) {
  LineFields fields{object, path, kRequestKeys};
  if (fields.error()) return tl::make_unexpected(*fields.error());
  ObservedRequest request;
  if (fields.has("id")) request.id = read_id(fields, object);
  request.arrival = fields.past("arrival_s", now);
  request.prompt_tokens = static_cast<std::uint32_t>(fields.integer("prompt_tokens", 1, kRequestTokensMost));
  if (fields.has("streamed")) request.streamed = fields.flag("streamed");
  request.ttft_ms = fields.latency("ttft_ms");
  request.itl_ms = fields.latency("itl_ms");
  if (fields.has("completion_window_s"))
    request.completion_window_s = fields.number("completion_window_s", 0.0, kWindowMost_s);
  if (fields.has("deferred_s")) request.deferred_s = fields.number("deferred_s", 0.0, kWindowMost_s);
  if (request.deferred_s > 0.0 && request.completion_window_s <= 0.0)
    fields.fail("deferred_s", "is of a request that may wait for spare capacity", "give completion_window_s, too");
  const core::Instant routed = request.arrival + core::from_seconds(request.deferred_s);
  if (request.ttft_ms && !fields.error() && routed + core::from_milliseconds(*request.ttft_ms - 1.0) > now)
    fields.fail("ttft_ms", "must not be longer than from arrival_s to at_s");
  for (const auto& [key, text] : {std::pair{"model", &request.model}, std::pair{"class", &request.traffic_class},
                                  std::pair{"tenant", &request.tenant}})
    if (fields.has(key)) *text = fields.text(key, kLineTextMost);
  if (fields.has("blocks")) read_blocks(fields, request);
  if (fields.has("ended_s"))
    read_end(fields, request, now);
  else
    for (const char* key : {"outcome", "itl_ms", "output_tokens"})
      if (fields.has(key)) fields.fail(key, "is of a request that has ended", "give ended_s, too");
  return done(fields, std::move(request));
}

}  // namespace

core::Result<ObservationLine> read_observation(std::string_view json) {
  const auto root = parse_object(json, kLineName);
  if (!root) return tl::make_unexpected(root.error());
  LineFields fields{*root, {}, kLineKeys};
  ObservationLine line;
  line.at = fields.time("at_s");
  const Json* const pools = fields.list("pools", kPoolsOfLineMax);
  if (pools != nullptr && pools->empty()) fields.fail("pools", "must not be empty");
  const Json* const requests = fields.has("requests") ? fields.list("requests", kObservedRequestsMax) : nullptr;
  if (fields.error()) return tl::make_unexpected(*fields.error());
  for (const Json& each : *pools) {
    auto pool = read_pool(each, fmt::format("pools[{}]", line.pools.size()), line.at);
    if (!pool) return tl::make_unexpected(pool.error());
    line.pools.push_back(*std::move(pool));
  }
  if (requests == nullptr) return line;
  line.requests.emplace();
  std::map<std::string, bool> has_ended;  // By id.
  for (const Json& each : *requests) {
    const std::string path = fmt::format("requests[{}]", line.requests->size());
    auto request = read_request(each, path, line.at);
    if (!request) return tl::make_unexpected(request.error());
    const bool ends = request->ended.has_value();
    // A request may arrive and end in one observation.
    if (const auto [at, is_new] = has_ended.try_emplace(request->id, ends); !request->id.empty() && !is_new)
      if (std::exchange(at->second, true) || !ends)
        return core::invalid_input(fmt::format("{}: {}.id", kLineName, path),
                                   "is in the observation twice: " + options::quote(request->id));
    line.requests->push_back(*std::move(request));
  }
  return line;
}

}  // namespace penstock::connect
