#include "controller/engine_observer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "net/number_parameter.h"

namespace penstock::controller {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kEventsMax = 400'000;  // Stored.
constexpr std::size_t kPageMax = 20'000;
constexpr core::Duration kDnsInterval = std::chrono::seconds{5};

double clock_seconds(core::Instant at) { return core::to_seconds(at - core::kStart); }

Json event_of(const TrafficItem& item) {
  switch (item.kind) {
    case TrafficItem::Kind::kArrival:
      return {"arrival",
              item.request,
              item.at_s,
              item.model,
              item.traffic_class,
              item.tenant,
              item.input_tokens,
              Json(item.keys),
              item.route,
              item.streamed,
              item.completion_window_s,
              item.expected_output_tokens};
    case TrafficItem::Kind::kFirstToken:
      return {"first_token", item.request, item.at_s, item.admission_ms, item.ttft_ms, item.cached_tokens};
    case TrafficItem::Kind::kEnd: break;
  }
  return {"end",        item.request,       item.at_s,          item.outcome,
          item.replica, item.prompt_tokens, item.output_tokens, item.itl_ms};
}

void respond(net::Exchange& exchange, int status, std::string_view type, std::string_view body) {
  std::vector<net::Field> fields{{"Content-Type", type}, {"Cache-Control", "no-store"}};
  if (status == 405) fields.push_back({"Allow", "GET, HEAD"});
  exchange.respond(status, fields, body);
}

}  // namespace

EngineObserver::EngineObserver(net::Loop& loop, net::Client& client, int listening, logging::Log& log,
                               EngineObserverOptions options)
    : loop_(loop),
      options_(std::move(options)),
      events_(log),
      watch_(loop, client, events_, options_.engines),
      names_(
          loop, kDnsInterval,
          [this](const net::HostChange& change) {
            if (!change.failure.empty())
              events_.log().write(logging::Event::kHostUnresolved, {{"host", change.host}, {"cause", change.failure}});
            if (!change.addresses.empty())
              events_.log().write(logging::Event::kHostResolved,
                                  {{"host", change.host}, {"addresses", change.addresses}});
            list();
          },
          options_.engines.resolve),
      boot_(net::make_token().substr(0, 16)),
      access_(net::local_address(listening), {options_.hosts, {}, false, true}),
      server_(loop, listening, *this) {
  list();
  timer_ = loop_.every(options_.engines.interval, [this] { look(); });
}

EngineObserver::~EngineObserver() { loop_.cancel(timer_); }

void EngineObserver::list() {
  std::map<std::string, Replica> next;
  const auto add = [&](const std::string& id, const std::string& url) {
    if (const auto known = replicas_.find(id); known != replicas_.end() && known->second.url == url)
      next.emplace(id, known->second);
    else
      next.emplace(id, Replica{next_number_++, url});
  };
  for (const std::string& text : options_.urls) {
    const auto url = net::parse_url(text);
    if (!url) continue;  // They were checked.
    const std::string id = fmt::format("{}:{}", url->host, url->port);
    if (url->tls || net::Address::parse(url->host, url->port)) {
      add(id, text);
      continue;
    }
    const net::HostNames::Entry& entry = names_.follow({url->host, url->port});
    for (const net::Address& address : entry.addresses)
      add(entry.addresses.size() == 1 ? id : address.text(), fmt::format("http://{}{}", address.text(), url->path));
  }
  names_.end_list();
  const core::Instant now = loop_.now();
  for (const auto& [id, replica] : replicas_)
    if (const auto found = next.find(id); found == next.end() || found->second.number != replica.number)
      traffic_.forget(id, now);
  replicas_ = std::move(next);
  std::vector<WatchedEngine> engines;
  for (const auto& [id, replica] : replicas_) engines.push_back({replica.number, replica.url, {}, id});
  watch_.watch(engines);
}

void EngineObserver::look() {
  for (auto& [id, replica] : replicas_) {
    const auto latest = watch_.scrape_of(replica.number);
    if (!latest || latest->at <= replica.read_at) continue;
    replica.read_at = latest->at;
    traffic_.observe(id, latest->scrape, latest->at);
  }
  for (TrafficItem& item : traffic_.take()) items_.push_back(std::move(item));
  while (items_.size() > kEventsMax) {
    items_.pop_front();
    ++dropped_;
  }
}

std::string EngineObserver::overview() const {
  Json made;
  made["boot"] = boot_;
  made["now_s"] = clock_seconds(loop_.now());
  made["observes"] = "engines";
  Json& replicas = made["replicas"] = Json::array();
  for (const auto& [id, replica] : replicas_) {
    const auto latest = watch_.scrape_of(replica.number);
    std::uint64_t open = 0;
    if (latest) open = latest->scrape.queued_requests.value_or(0) + latest->scrape.running_requests.value_or(0);
    const bool asleep = latest && latest->scrape.asleep.value_or(false);
    replicas.push_back({{"id", id},
                        {"url", replica.url},
                        {"model", latest ? latest->scrape.model : std::string{}},
                        {"pool", options_.pool},
                        {"role", "aggregated"},
                        {"phase", latest && !asleep ? "serving" : "warming"},
                        {"open_requests", static_cast<std::uint32_t>(std::min<std::uint64_t>(open, UINT32_MAX))},
                        {"eligible", latest.has_value() && !asleep},
                        {"healthy", latest.has_value()}});
  }
  made["queue"] = {{"models", Json::array()}};
  made["refused_total"] = 0U;
  return made.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string EngineObserver::traffic(std::uint64_t after, std::size_t limit) const {
  const std::uint64_t last = dropped_ + items_.size();
  const std::uint64_t first = std::min(std::max(after, dropped_), last);
  const std::uint64_t end = std::min<std::uint64_t>(last, first + limit);
  Json made;
  made["boot"] = boot_;
  made["now_s"] = clock_seconds(loop_.now());
  made["next"] = end;
  made["lost"] = dropped_ > after ? dropped_ - after : 0;
  Json& events = made["events"] = Json::array();
  for (std::uint64_t i = first; i < end; ++i)
    events.push_back(event_of(items_[static_cast<std::size_t>(i - dropped_)]));
  return made.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void EngineObserver::on_request(net::Exchange& exchange) {
  const std::string_view path = exchange.head().path();
  constexpr std::string_view kJson = "application/json";
  if (exchange.head().method != "GET" && exchange.head().method != "HEAD")
    return respond(exchange, 405, kJson, error_body(405, "the method is not allowed at this address; use GET or HEAD"));
  if (path == "/health") return respond(exchange, 200, "text/plain", "ok\n");
  if (path == "/ready") {
    const bool ready = std::any_of(replicas_.begin(), replicas_.end(), [this](const auto& each) {
      return watch_.scrape_of(each.second.number).has_value();
    });
    return respond(exchange, ready ? 200 : 503, "text/plain", ready ? "ready\n" : "no engine can be read\n");
  }
  if (const int refused = access_.refusal(exchange); refused != 0)
    return respond(exchange, refused, kJson, error_body(refused, net::AccessPolicy::explain(refused)));
  if (path == "/penstock/v1/overview") return respond(exchange, 200, kJson, overview());
  if (path == "/penstock/v1/traffic") {
    const net::RequestHead& head = exchange.head();
    const std::uint64_t limit = std::min<std::uint64_t>(net::number_parameter(head, "limit", kPageMax), kPageMax);
    return respond(exchange, 200, kJson,
                   traffic(net::number_parameter(head, "after", 0), static_cast<std::size_t>(limit)));
  }
  if (path == "/penstock/v1/prefixes") return respond(exchange, 200, kJson, R"({"prefixes":[]})");
  respond(exchange, 404, kJson, error_body(404, "there is nothing at this path"));
}

std::string EngineObserver::error_body(int status, std::string_view fault) {
  return Json{{"error", {{"message", fault}, {"code", status}}}}.dump();
}

}  // namespace penstock::controller
