#include "gateway/steward.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <utility>

#include "gateway/documents.h"
#include "net/fetch.h"
#include "routing/prefix_pings.h"
#include "signals/telemetry/adapters.h"

namespace penstock::gateway {
namespace {

constexpr core::Duration kTick = std::chrono::milliseconds{50};
constexpr core::Duration kPatience = std::chrono::seconds{2};
constexpr std::uint32_t kFailuresMax = 2;  // in a row, until a replica counts as unhealthy

routing::Heard heard_in(const signals::EngineScrape& scrape, core::Instant now) {
  routing::Heard heard;
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

Steward::Steward(const GatewayOptions& options, Desk& desk, int listening, ServerCounts counts)
    : options_(options), desk_(desk), counts_(std::move(counts)), client_(loop_), server_(loop_, listening, *this) {
  boot_id_ = fmt::format(
      "{:x}", core::mix64(static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count())));
  loop_.every(kTick, [this] { desk_.tick(loop_.now()); });
  loop_.every(options_.health_interval, [this] { check_health(); });
  loop_.every(options_.scrape_interval, [this] { scrape(); });
  if (options_.prefix_pings) loop_.every(options_.ping_interval, [this] { ping(); });
}

Steward::~Steward() {
  loop_.stop();
  if (thread_.joinable()) thread_.join();
}

void Steward::start() {
  thread_ = std::thread{[this] { loop_.run(); }};
}

void Steward::set_replicas(std::vector<ReplicaSpec> specs) {
  loop_.post([this, specs = std::move(specs)]() mutable { replace(std::move(specs)); });
}

void Steward::replace(std::vector<ReplicaSpec> specs) {
  std::map<std::string, Patient> kept;
  for (ReplicaSpec& spec : specs) {
    Patient patient;
    if (const auto known = patients_.find(spec.id); known != patients_.end() && known->second.spec.url == spec.url) {
      patient = std::move(known->second);
      // A model that was asked for stays known.
      if (spec.model.empty()) spec.model = patient.spec.model;
    }
    patient.spec = std::move(spec);
    const std::string id = patient.spec.id;
    kept.insert_or_assign(id, std::move(patient));
  }
  patients_ = std::move(kept);
  tell_desk();
  for (auto& [id, patient] : patients_)
    if (patient.spec.model.empty()) ask_model(patient);
}

void Steward::tell_desk() {
  std::vector<ReplicaSpec> specs;
  for (const auto& [id, patient] : patients_)
    if (!patient.spec.model.empty()) specs.push_back(patient.spec);
  desk_.set_replicas(specs, loop_.now());
  for (const auto& [id, patient] : patients_)
    if (!patient.healthy) desk_.set_health(id, false, loop_.now());
}

void Steward::get(const Patient& patient, const std::string& target, core::Duration patience, Done done) {
  send(patient, target, {}, patience, std::move(done));
}

void Steward::send(const Patient& patient, const std::string& target, std::string body, core::Duration patience,
                   Done done) {
  const ReplicaSpec& spec = patient.spec;
  const net::Address& address = spec.addresses[patient.unreached % spec.addresses.size()];
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

void Steward::ask_model(Patient& patient) {
  if (std::exchange(patient.asked_model, true)) return;
  get(patient, "/v1/models", kPatience, [this](Patient& asked, int status, const std::string& body) {
    asked.asked_model = false;
    if (status != 200) return;
    asked.spec.model = first_model_in(body);
    if (!asked.spec.model.empty()) tell_desk();
  });
}

void Steward::check_health() {
  for (auto& [id, patient] : patients_) {
    if (patient.spec.model.empty()) ask_model(patient);
    if (std::exchange(patient.health_under_way, true)) continue;
    get(patient, "/health", kPatience, [this](Patient& asked, int status, const std::string&) {
      asked.health_under_way = false;
      // Whoever has no such path may still serve.
      const bool good = status == 200 || status == 404;
      asked.failures = good ? 0 : asked.failures + 1;
      const bool healthy = good || asked.failures < kFailuresMax;
      if (healthy == std::exchange(asked.healthy, healthy)) return;
      desk_.set_health(asked.spec.id, healthy, loop_.now());
    });
  }
}

void Steward::scrape() {
  for (auto& [id, patient] : patients_) {
    if (!patient.healthy || std::exchange(patient.scrape_under_way, true)) continue;
    get(patient, "/metrics", kPatience, [this](Patient& asked, int status, const std::string& body) {
      asked.scrape_under_way = false;
      if (status != 200) return;
      const auto parsed = signals::parse_exposition(body, asked.spec.id);
      if (!parsed) return;
      const signals::EngineScrape scrape = signals::read_scrape(*parsed);
      // A counter that goes back is an engine that began anew, with an empty cache.
      const std::uint64_t prompt_tokens = scrape.prompt_tokens_total.value_or(asked.prompt_tokens_total);
      if (prompt_tokens < std::exchange(asked.prompt_tokens_total, prompt_tokens))
        desk_.kv_event(asked.spec.id, Desk::KvChange::kCleared, {});
      asked.queued_requests = scrape.queued_requests.value_or(0);
      if (scrape.running_requests) desk_.heard(asked.spec.id, heard_in(scrape, loop_.now()));
    });
  }
}

// Hot prefixes go again where they are believed to be held and nobody asked for them in a while; never in anybody's way.
void Steward::ping() {
  const core::Instant now = loop_.now();
  const PrefixShelf* shelf = desk_.hot_prefixes();
  if (shelf == nullptr) return;
  const std::vector<HotPrefix> prefixes = shelf->hot({}, now);
  std::vector<routing::PrefixUse> uses;
  std::map<std::uint32_t, Patient*> replicas;  // by slot
  for (std::uint64_t number = 0; number < prefixes.size(); ++number) {
    const HotPrefix& prefix = prefixes[number];
    for (const PrefixHolder& holder : desk_.idle_holders(*prefix.text, now)) {
      const auto found = patients_.find(holder.replica);
      if (found == patients_.end() || found->second.queued_requests > 0 || found->second.pings_under_way > 0) continue;
      replicas[holder.slot] = &found->second;
      uses.push_back({holder.slot, number, prefix.hits, prefix.text->tokens, prefix.used_at, holder.sent_at});
    }
  }
  for (const routing::Ping& due : routing::pings_due(uses, *options_.prefix_pings, now)) {
    const PrefixText& text = *prefixes[due.prefix].text;
    Patient& patient = *replicas.at(due.replica);
    ++patient.pings_under_way;
    desk_.pinged(due.replica, text, now);
    send(patient, std::string{api::path_of(text.endpoint)}, text.body, options_.first_byte_time,
         [](Patient& asked, int, const std::string&) {
           // One that went away and came back in the meantime has none.
           if (asked.pings_under_way > 0) --asked.pings_under_way;
         });
  }
}

void Steward::on_request(net::Exchange& exchange) {
  const std::string_view path = exchange.head().path();
  if (exchange.head().method != "GET" && exchange.head().method != "HEAD")
    return answer(exchange, 405, "application/json", error_body(405, "this address takes GET and HEAD only"));
  if (path == "/health") return answer(exchange, 200, "text/plain", "ok\n");
  if (path == "/ready") {
    const bool ready = is_ready(desk_.replicas(loop_.now()));
    return answer(exchange, ready ? 200 : 503, "text/plain", ready ? "ready\n" : "no replica may be chosen\n");
  }
  if (path == "/metrics")
    return answer(exchange, 200, "text/plain; version=0.0.4; charset=utf-8",
                  metrics_text(desk_.overview(loop_.now()), counts_()));
  if (path == "/penstock/v1/overview")
    return answer(exchange, 200, "application/json", overview_document(desk_.overview(loop_.now()), boot_id_));
  if (path == "/penstock/v1/traffic") return answer_traffic(exchange);
  if (path == "/penstock/v1/prefixes") return answer_prefixes(exchange);
  answer(exchange, 404, "application/json", error_body(404, "there is nothing at this path"));
}

void Steward::answer_traffic(net::Exchange& exchange) {
  constexpr std::uint64_t kEventsMax = 20'000;
  const std::uint64_t after = number_in(exchange.head().parameter("after"), 0);
  const std::uint64_t limit = std::min(number_in(exchange.head().parameter("limit"), kEventsMax), kEventsMax);
  answer(exchange, 200, "application/json",
         traffic_document(desk_.traffic(after, limit), boot_id_, net::Loop::read_clock()));
}

void Steward::answer_prefixes(net::Exchange& exchange) {
  const core::Instant now = net::Loop::read_clock();
  std::vector<HotPrefix> prefixes;
  if (const PrefixShelf* shelf = desk_.hot_prefixes())
    prefixes = shelf->hot(exchange.head().decoded_parameter("model"), now);
  answer(exchange, 200, "application/json", prefixes_document(prefixes, boot_id_, now));
}

std::string Steward::error_body(int status, std::string_view fault) {
  api::ApiError error;
  error.status = status;
  error.message = fault;
  return api::error_body(error);
}

}  // namespace penstock::gateway
