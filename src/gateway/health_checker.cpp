#include "gateway/health_checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <utility>

#include "gateway/documents.h"
#include "net/fetch.h"
#include "routing/prefix_pings.h"
#include "telemetry/adapters.h"

namespace penstock::gateway {
namespace {

constexpr core::Duration kTick = std::chrono::milliseconds{50};
constexpr core::Duration kTimeout = std::chrono::seconds{2};
constexpr std::uint32_t kFailuresMax = 2;  // in a row, until a replica counts as unhealthy

routing::ReportedLoad heard_in(const telemetry::EngineScrape& scrape, core::Instant now) {
  routing::ReportedLoad heard;
  heard.at = now;
  heard.waiting = static_cast<std::uint32_t>(scrape.queued_requests.value_or(0));
  heard.running = static_cast<std::uint32_t>(scrape.running_requests.value_or(0));
  heard.waiting_prefill_tokens = scrape.queued_prefill_tokens;
  heard.kv_usage = scrape.kv_usage;
  return heard;
}

std::uint64_t number_in(std::string_view text, std::uint64_t fallback) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? number : fallback;
}

void answer(net::Exchange& exchange, int status, std::string_view type, std::string_view body) {
  std::vector<net::Field> fields{{"Content-Type", type}, {"Cache-Control", "no-store"}};
  if (status == 405) fields.push_back({"Allow", "GET, HEAD"});
  exchange.respond(status, fields, body);
}

}  // namespace

HealthChecker::HealthChecker(const GatewayOptions& options, SharedDispatcher& dispatcher, int listening,
                             ServerCounts counts)
    : options_(options),
      dispatcher_(dispatcher),
      counts_(std::move(counts)),
      client_(loop_),
      server_(loop_, listening, *this) {
  boot_id_ = fmt::format(
      "{:x}", core::mix64(static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count())));
  loop_.every(kTick, [this] { dispatcher_.tick(loop_.now()); });
  loop_.every(options_.health_interval, [this] { check_health(); });
  loop_.every(options_.scrape_interval, [this] { scrape(); });
  if (options_.prefix_pings) loop_.every(options_.ping_interval, [this] { ping(); });
}

HealthChecker::~HealthChecker() {
  loop_.stop();
  if (thread_.joinable()) thread_.join();
}

void HealthChecker::start() {
  thread_ = std::thread{[this] { loop_.run(); }};
}

void HealthChecker::set_replicas(std::vector<ReplicaEndpoint> specs) {
  loop_.post([this, specs = std::move(specs)]() mutable { replace(std::move(specs)); });
}

void HealthChecker::replace(std::vector<ReplicaEndpoint> specs) {
  std::map<std::string, Endpoint> kept;
  for (ReplicaEndpoint& spec : specs) {
    Endpoint endpoint;
    if (const auto known = patients_.find(spec.id); known != patients_.end() && known->second.spec.url == spec.url) {
      endpoint = std::move(known->second);
      // A model that was asked for stays known.
      if (spec.model.empty()) spec.model = endpoint.spec.model;
    }
    endpoint.spec = std::move(spec);
    const std::string id = endpoint.spec.id;
    kept.insert_or_assign(id, std::move(endpoint));
  }
  patients_ = std::move(kept);
  tell_dispatcher();
  for (auto& [id, endpoint] : patients_)
    if (endpoint.spec.model.empty()) ask_model(endpoint);
}

void HealthChecker::tell_dispatcher() {
  std::vector<ReplicaEndpoint> specs;
  for (const auto& [id, endpoint] : patients_)
    if (!endpoint.spec.model.empty()) specs.push_back(endpoint.spec);
  dispatcher_.set_replicas(specs, loop_.now());
  for (const auto& [id, endpoint] : patients_)
    if (!endpoint.healthy) dispatcher_.set_health(id, false, loop_.now());
}

void HealthChecker::get(const Endpoint& endpoint, const std::string& target, core::Duration patience, Done done) {
  send(endpoint, target, {}, patience, std::move(done));
}

void HealthChecker::send(const Endpoint& endpoint, const std::string& target, std::string body, core::Duration patience,
                         Done done) {
  const ReplicaEndpoint& spec = endpoint.spec;
  const net::Address& address = spec.addresses[endpoint.unreached % spec.addresses.size()];
  net::FetchRequest request =
      net::request_to(*net::parse_url(spec.url), address, target, patience, options_.client_tls);
  if (!body.empty()) {
    request.method = "POST";
    request.fields.push_back({"Content-Type", "application/json"});
    request.body = std::move(body);
  }
  const std::string authorization = "Bearer " + options_.replica_key;
  if (!options_.replica_key.empty()) request.fields.push_back({"Authorization", authorization});
  net::fetch(client_, std::move(request),
             [this, id = spec.id, done = std::move(done)](core::Result<net::FetchAnswer> result) {
               const auto found = patients_.find(id);
               if (found == patients_.end()) return;
               if (!result) ++found->second.unreached;
               static const std::string kNothing;
               done(found->second, result ? result->status : 0, result ? result->body : kNothing);
             });
}

void HealthChecker::ask_model(Endpoint& endpoint) {
  if (std::exchange(endpoint.asked_model, true)) return;
  get(endpoint, "/v1/models", kTimeout, [this](Endpoint& asked, int status, const std::string& body) {
    asked.asked_model = false;
    if (status != 200) return;
    asked.spec.model = first_model_in(body);
    if (!asked.spec.model.empty()) tell_dispatcher();
  });
}

void HealthChecker::check_health() {
  for (auto& [id, endpoint] : patients_) {
    if (endpoint.spec.model.empty()) ask_model(endpoint);
    if (std::exchange(endpoint.health_under_way, true)) continue;
    get(endpoint, "/health", kTimeout, [this](Endpoint& asked, int status, const std::string&) {
      asked.health_under_way = false;
      // Whoever has no such path may still serve.
      const bool good = status == 200 || status == 404;
      asked.failures = good ? 0 : asked.failures + 1;
      const bool healthy = good || asked.failures < kFailuresMax;
      if (healthy == std::exchange(asked.healthy, healthy)) return;
      dispatcher_.set_health(asked.spec.id, healthy, loop_.now());
    });
  }
}

void HealthChecker::scrape() {
  for (auto& [id, endpoint] : patients_) {
    if (!endpoint.healthy || std::exchange(endpoint.scrape_under_way, true)) continue;
    get(endpoint, "/metrics", kTimeout, [this](Endpoint& asked, int status, const std::string& body) {
      asked.scrape_under_way = false;
      if (status != 200) return;
      const auto parsed = telemetry::parse_exposition(body, asked.spec.id);
      if (!parsed) return;
      const telemetry::EngineScrape scrape = telemetry::read_scrape(*parsed);
      // A counter that goes back is an engine that began anew, with an empty cache.
      const std::uint64_t prompt_tokens = scrape.prompt_tokens_total.value_or(asked.prompt_tokens_total);
      if (prompt_tokens < std::exchange(asked.prompt_tokens_total, prompt_tokens))
        dispatcher_.kv_event(asked.spec.id, dispatch::KvChange::kCleared, {});
      asked.queued_requests = scrape.queued_requests.value_or(0);
      if (scrape.running_requests) dispatcher_.report_load(asked.spec.id, heard_in(scrape, loop_.now()));
    });
  }
}

// Hot prefixes go again where they are believed to be held and nobody asked for them in a while; never in anybody's way.
void HealthChecker::ping() {
  const core::Instant now = loop_.now();
  const HotPrefixCache* hot_prefix_cache = dispatcher_.hot_prefixes();
  if (hot_prefix_cache == nullptr) return;
  const std::vector<HotPrefix> prefixes = hot_prefix_cache->hot({}, now);
  std::vector<routing::PrefixUse> uses;
  std::map<std::uint32_t, Endpoint*> replicas;  // by slot
  for (std::uint64_t number = 0; number < prefixes.size(); ++number) {
    const HotPrefix& prefix = prefixes[number];
    for (const dispatch::PrefixHolder& holder : dispatcher_.idle_holders(*prefix.text, now)) {
      const auto found = patients_.find(holder.replica);
      if (found == patients_.end() || found->second.queued_requests > 0 || found->second.pings_under_way > 0) continue;
      replicas[holder.slot] = &found->second;
      uses.push_back({holder.slot, number, prefix.hits, prefix.text->tokens, prefix.used_at, holder.sent_at});
    }
  }
  for (const routing::Ping& due : routing::pings_due(uses, *options_.prefix_pings, now)) {
    const PrefixText& text = *prefixes[due.prefix].text;
    Endpoint& endpoint = *replicas.at(due.replica);
    ++endpoint.pings_under_way;
    dispatcher_.pinged(due.replica, text, now);
    send(endpoint, std::string{api::path_of(text.endpoint)}, text.body, options_.first_byte_time,
         [](Endpoint& asked, int, const std::string&) {
           // One that went away and came back in the meantime has none.
           if (asked.pings_under_way > 0) --asked.pings_under_way;
         });
  }
}

void HealthChecker::on_request(net::Exchange& exchange) {
  const std::string_view path = exchange.head().path();
  if (exchange.head().method != "GET" && exchange.head().method != "HEAD")
    return answer(exchange, 405, "application/json", error_body(405, "this address takes GET and HEAD only"));
  if (path == "/health") return answer(exchange, 200, "text/plain", "ok\n");
  if (path == "/ready") {
    const bool ready = dispatcher_.ready(loop_.now());
    return answer(exchange, ready ? 200 : 503, "text/plain", ready ? "ready\n" : "no replica may be chosen\n");
  }
  if (path == "/metrics")
    return answer(exchange, 200, "text/plain; version=0.0.4; charset=utf-8",
                  metrics_text(dispatcher_.overview(loop_.now()), counts_()));
  if (path == "/penstock/v1/overview")
    return answer(exchange, 200, "application/json", overview_document(dispatcher_.overview(loop_.now()), boot_id_));
  if (path == "/penstock/v1/traffic") return answer_traffic(exchange);
  if (path == "/penstock/v1/prefixes") return answer_prefixes(exchange);
  answer(exchange, 404, "application/json", error_body(404, "there is nothing at this path"));
}

void HealthChecker::answer_traffic(net::Exchange& exchange) {
  constexpr std::uint64_t kEventsMax = 20'000;
  const std::uint64_t after = number_in(exchange.head().parameter("after"), 0);
  const std::uint64_t limit = std::min(number_in(exchange.head().parameter("limit"), kEventsMax), kEventsMax);
  answer(exchange, 200, "application/json",
         traffic_document(dispatcher_.traffic(after, limit), boot_id_, net::Loop::read_clock()));
}

void HealthChecker::answer_prefixes(net::Exchange& exchange) {
  const core::Instant now = net::Loop::read_clock();
  std::vector<HotPrefix> prefixes;
  if (const HotPrefixCache* hot_prefix_cache = dispatcher_.hot_prefixes())
    prefixes = hot_prefix_cache->hot(exchange.head().decoded_parameter("model"), now);
  answer(exchange, 200, "application/json", prefixes_document(prefixes, boot_id_, now));
}

std::string HealthChecker::error_body(int status, std::string_view fault) {
  api::ApiError error;
  error.status = status;
  error.message = fault;
  return api::error_body(error);
}

}  // namespace penstock::gateway
