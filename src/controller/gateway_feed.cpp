#include "controller/gateway_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace penstock::controller {
namespace {

using Document = nlohmann::json;
constexpr std::size_t kKeysMax = 4096, kEndpointsMax = 256;

core::Result<Document> parse(std::string_view json) {
  Document parsed = Document::parse(json, nullptr, false);
  if (!parsed.is_object()) return core::invalid_input("the gateway's response", "is not a JSON object");
  return parsed;
}

// Reads members and elements, and keeps the first error.
class Reader {
 public:
  explicit Reader(std::string where) : where_(std::move(where)) {}

  std::string text(const Document& value) {
    if (value.is_string()) return value.get<std::string>();
    fail("a string");
    return {};
  }
  // Within some thirty years, so that it fits the clock.
  double seconds(const Document& value) { return number(value, 1e9); }
  double milliseconds(const Document& value) { return number(value, 1e12); }
  bool boolean(const Document& value) {
    if (value.is_boolean()) return value.get<bool>();
    fail("true or false");
    return false;
  }
  std::vector<std::string> texts(const Document& value) {
    if (!value.is_array() || value.size() > kEndpointsMax) fail("a list");
    std::vector<std::string> all;
    if (value.is_array() && value.size() <= kEndpointsMax)
      for (const Document& each : value) all.push_back(text(each));
    return all;
  }
  template <class Count>
  Count count(const Document& value) {
    if (value.is_number_unsigned()) {
      const auto read = value.get<std::uint64_t>();
      if (read <= std::numeric_limits<Count>::max()) return static_cast<Count>(read);
    }
    fail("a count");
    return 0;
  }
  const Document& member(const Document& object, const char* name) {
    static const Document kNothing;
    if (object.is_object() && object.contains(name)) return object.at(name);
    fail(name);
    return kNothing;
  }
  void fail(std::string_view what) {
    if (!error_) error_ = core::Error{core::ErrorCode::kInvalidInput, where_, fmt::format("lacks {}", what), {}};
  }
  [[nodiscard]] std::optional<core::Error>& error() { return error_; }

 private:
  double number(const Document& value, double limit) {
    if (value.is_number() && std::abs(value.get<double>()) <= limit) return value.get<double>();
    fail("a number in its range");
    return 0.0;
  }

  std::string where_;
  std::optional<core::Error> error_;
};

void read_arrival(Reader& reader, const Document& event, TrafficItem& item) {
  item.kind = TrafficItem::Kind::kArrival;
  item.model = reader.text(event[3]);
  item.traffic_class = reader.text(event[4]);
  item.tenant = reader.text(event[5]);
  item.input_tokens = reader.count<std::uint32_t>(event[6]);
  if (!event[7].is_array() || event[7].size() > kKeysMax) return reader.fail("a list of keys");
  for (const Document& key : event[7]) item.keys.push_back(reader.count<std::uint64_t>(key));
  if (event.size() > 8) item.route = reader.text(event[8]);
  if (event.size() > 9) item.streamed = reader.boolean(event[9]);
  if (event.size() > 10) item.completion_window_s = reader.seconds(event[10]);
  if (event.size() > 11) item.expected_output_tokens = reader.count<std::uint32_t>(event[11]);
}

void read_first_token(Reader& reader, const Document& event, TrafficItem& item) {
  item.kind = TrafficItem::Kind::kFirstToken;
  item.admission_ms = reader.milliseconds(event[3]);
  item.ttft_ms = reader.milliseconds(event[4]);
  item.cached_tokens = reader.count<std::uint32_t>(event[5]);
  if (event.size() > 6) item.own_limit_ms = reader.milliseconds(event[6]);
  if (event.size() > 7) item.transfer_ms = reader.milliseconds(event[7]);
}

void read_end(Reader& reader, const Document& event, TrafficItem& item) {
  item.kind = TrafficItem::Kind::kEnd;
  item.outcome = reader.text(event[3]);
  item.replica = reader.text(event[4]);
  item.prompt_tokens = reader.count<std::uint32_t>(event[5]);
  item.output_tokens = reader.count<std::uint32_t>(event[6]);
  item.itl_ms = reader.milliseconds(event[7]);
  if (event.size() > 8) item.client_ms = reader.milliseconds(event[8]);
}

void read_event(Reader& reader, const Document& event, TrafficItem& item) {
  if (!event.is_array() || event.size() < 6 || !event[0].is_string()) return reader.fail("an event");
  const auto kind = event[0].get<std::string>();
  item.request = reader.count<std::uint64_t>(event[1]);
  item.at_s = reader.seconds(event[2]);
  if (kind == "arrival" && event.size() >= 8) return read_arrival(reader, event, item);
  if (kind == "first_token") return read_first_token(reader, event, item);
  if (kind == "end" && event.size() >= 8) return read_end(reader, event, item);
  reader.fail("a known event");
}

GatewayDeferral read_deferral(Reader& reader, const Document& object) {
  GatewayDeferral read;
  read.requests = reader.count<std::uint64_t>(reader.member(object, "requests"));
  if (const auto due = object.find("next_due_s"); due != object.end() && !due->is_null())
    read.next_due_s = reader.seconds(*due);
  read.deferred_total = reader.count<std::uint64_t>(reader.member(object, "deferred_total"));
  read.sent_spare_total = reader.count<std::uint64_t>(reader.member(object, "sent_spare_total"));
  read.sent_due_total = reader.count<std::uint64_t>(reader.member(object, "sent_due_total"));
  read.missed_total = reader.count<std::uint64_t>(reader.member(object, "missed_total"));
  return read;
}

}  // namespace

core::Result<TrafficPage> read_traffic(std::string_view json) {
  const auto parsed = parse(json);
  if (!parsed) return tl::make_unexpected(parsed.error());
  Reader reader{"the gateway's traffic"};
  TrafficPage page;
  page.boot = reader.text(reader.member(*parsed, "boot"));
  page.now_s = reader.seconds(reader.member(*parsed, "now_s"));
  page.next = reader.count<std::uint64_t>(reader.member(*parsed, "next"));
  page.lost = reader.count<std::uint64_t>(reader.member(*parsed, "lost"));
  const Document& events = reader.member(*parsed, "events");
  if (!events.is_array()) reader.fail("events");
  if (reader.error()) return tl::make_unexpected(*std::move(reader.error()));
  page.items.reserve(events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    Reader of_event{fmt::format("the gateway's traffic: events[{}]", i)};
    read_event(of_event, events[i], page.items.emplace_back());
    if (of_event.error()) return tl::make_unexpected(*std::move(of_event.error()));
  }
  return page;
}

core::Result<GatewayState> read_overview(std::string_view json) {
  const auto parsed = parse(json);
  if (!parsed) return tl::make_unexpected(parsed.error());
  Reader reader{"the gateway's overview"};
  GatewayState state;
  state.boot = reader.text(reader.member(*parsed, "boot"));
  state.now_s = reader.seconds(reader.member(*parsed, "now_s"));
  const Document& replicas = reader.member(*parsed, "replicas");
  if (!replicas.is_array()) reader.fail("replicas");
  if (reader.error()) return tl::make_unexpected(*std::move(reader.error()));
  for (const Document& replica : replicas) {
    GatewayReplica read;
    read.id = reader.text(reader.member(replica, "id"));
    read.url = reader.text(reader.member(replica, "url"));
    read.model = reader.text(reader.member(replica, "model"));
    read.pool = reader.text(reader.member(replica, "pool"));
    read.role = reader.text(reader.member(replica, "role"));
    read.phase = reader.text(reader.member(replica, "phase"));
    read.open_requests = reader.count<std::uint32_t>(reader.member(replica, "open_requests"));
    read.eligible = reader.boolean(reader.member(replica, "eligible"));
    read.healthy = reader.boolean(reader.member(replica, "healthy"));
    // A gateway of an earlier version has none of these.
    if (replica.contains("open_transfers"))
      read.open_transfers = reader.count<std::uint32_t>(reader.member(replica, "open_transfers"));
    if (replica.contains("workers"))
      read.workers = std::max(1U, reader.count<std::uint32_t>(reader.member(replica, "workers")));
    if (replica.contains("fpm")) read.fpm = reader.texts(reader.member(replica, "fpm"));
    state.replicas[read.id] = std::move(read);
  }
  const Document& queue = reader.member(*parsed, "queue");
  const Document& models = reader.member(queue, "models");
  if (!models.is_array()) reader.fail("a list of models");
  const auto waiting = [&](const Document& of) {
    return GatewayWaiting{reader.count<std::uint32_t>(reader.member(of, "waiting_for_room")),
                          reader.seconds(reader.member(of, "oldest_s"))};
  };
  for (const Document& model : models) {
    const std::string name = reader.text(reader.member(model, "model"));
    state.waiting_by_model[name] = waiting(model);
    if (!model.contains("pools")) continue;
    const Document& pools = reader.member(model, "pools");
    if (!pools.is_array()) reader.fail("a list of pools");
    for (const Document& pool : pools)
      state.waiting_by_pool[{name, reader.text(reader.member(pool, "pool"))}] = waiting(pool);
  }
  state.refused_total = reader.count<std::uint64_t>(reader.member(*parsed, "refused_total"));
  if (parsed->contains("draining")) state.draining = reader.boolean(reader.member(*parsed, "draining"));
  if (parsed->contains("deferred")) state.deferral = read_deferral(reader, reader.member(*parsed, "deferred"));
  if (reader.error()) return tl::make_unexpected(*std::move(reader.error()));
  state.json = json;
  return state;
}

core::Result<std::vector<GatewayPrefix>> read_prefixes(std::string_view json) {
  const auto parsed = parse(json);
  if (!parsed) return tl::make_unexpected(parsed.error());
  Reader reader{"the gateway's prefixes"};
  const Document& prefixes = reader.member(*parsed, "prefixes");
  if (!prefixes.is_array()) reader.fail("prefixes");
  std::vector<GatewayPrefix> all;
  for (const Document& prefix : prefixes) {
    GatewayPrefix& read = all.emplace_back();
    read.model = reader.text(reader.member(prefix, "model"));
    read.path = reader.text(reader.member(prefix, "path"));
    read.body = reader.text(reader.member(prefix, "body"));
    read.tokens = reader.count<std::uint32_t>(reader.member(prefix, "tokens"));
    read.hits = reader.count<std::uint64_t>(reader.member(prefix, "hits"));
    // The path becomes part of the first line of a request.
    const auto is_plain = [](char c) { return c > ' ' && c < '\x7f'; };
    if (!read.path.starts_with("/v1/") || !std::all_of(read.path.begin(), read.path.end(), is_plain))
      reader.fail("a path");
  }
  if (reader.error()) return tl::make_unexpected(*std::move(reader.error()));
  return all;
}

GatewayWaiting GatewayState::waiting_for(std::string_view model, std::string_view pool) const {
  GatewayWaiting sum;
  const auto add = [&](std::string_view name, const GatewayWaiting& waiting) {
    if (!model.empty() && name != model) return;
    sum.requests += waiting.requests;
    sum.oldest_s = std::max(sum.oldest_s, waiting.oldest_s);
  };
  if (pool.empty())
    for (const auto& [name, waiting] : waiting_by_model) add(name, waiting);
  else
    for (const auto& [of, waiting] : waiting_by_pool)
      if (of.second == pool) add(of.first, waiting);
  return sum;
}

}  // namespace penstock::controller
