#include "controller/engine_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace penstock::controller {
namespace {

constexpr core::Duration kTimeout = std::chrono::seconds{2};
constexpr std::uint32_t kFailuresMax = 2;  // Consecutive failures after which metrics count as unavailable.
// Percentiles of token metrics cover kTokenWindow; scrapes that are kept for them are kSpacing apart.
constexpr std::size_t kNamesShown = 20;
constexpr core::Duration kTokenWindow = std::chrono::minutes{1}, kSpacing = std::chrono::seconds{5};
constexpr core::Duration kRejectionInterval = std::chrono::minutes{1};  // Between two reports of one engine.

constexpr std::string_view kEnableMetrics =
    "; enable the metrics of the engine, or name the Prometheus server that has them (prometheus.url)";

// The endpoint that the engine's description names. An engine that listens on all addresses has the host of its URL.
std::string fpm_endpoint_in(const std::string& info, const std::string& url) {
  const auto read = nlohmann::json::parse(info, nullptr, false);
  if (!read.is_object() || !read.contains("fpm_endpoint") || !read["fpm_endpoint"].is_string()) return {};
  const auto endpoint = read["fpm_endpoint"].get<std::string>();
  const auto parsed = net::parse_url(url);
  if (!parsed) return endpoint;
  const std::string host = parsed->host_field();
  for (const std::string_view all : {"tcp://0.0.0.0:", "tcp://*:", "tcp://[::]:"})
    if (endpoint.starts_with(all)) return "tcp://" + host.substr(0, host.rfind(':') + 1) + endpoint.substr(all.size());
  return endpoint;
}

// A replica is named by its host and port, its id or its host.
const connect::QueriedReplica* find_replica(const connect::QueriedReplicas& replicas, const WatchedEngine& watched) {
  const auto url = net::parse_url(watched.url);
  for (const std::string& name :
       {url ? url->host_field() : std::string{}, watched.name, url ? url->host : std::string{}})
    if (const auto found = replicas.find(name); found != replicas.end()) return &found->second;
  return nullptr;
}

}  // namespace

EngineWatch::EngineWatch(net::Loop& loop, net::Client& client, FleetEvents& events, EngineWatchOptions options)
    : loop_(loop),
      client_(client),
      events_(events),
      options_(std::move(options)),
      resolver_(loop, options_.resolve),
      channels_(loop,
                {[this](const std::string& endpoint, const ChannelMessage& each) { message(endpoint, each); },
                 [this](const std::string& server, const std::string& cause) { report_server(server, cause); }},
                options_.nats) {
  if (!options_.gpu_exporters.empty())
    gpus_.emplace(
        loop_, client_, events_,
        GpuWatchOptions{options_.gpu_exporters, options_.in_namespace, options_.credentials, options_.resolve});
  if (options_.prometheus)
    options_.prometheus->listen({[this](const connect::QueriedReplicas& replicas) { take(replicas); },
                                 [this](const connect::QueryReport& query) { report(query); }});
  else
    timer_ = loop_.every(options_.interval, [this] { scrape(); });
}

EngineWatch::~EngineWatch() {
  if (options_.prometheus)
    options_.prometheus->listen({});
  else
    loop_.cancel(timer_);
}

void EngineWatch::watch(const std::vector<WatchedEngine>& engines) {
  std::map<std::uint32_t, Engine> kept;
  for (const WatchedEngine& watched : engines) {
    Engine engine;
    if (const auto known = engines_.find(watched.replica);
        known != engines_.end() && known->second.watched.url == watched.url) {
      engine = std::move(known->second);
      engines_.erase(known);
    }
    engine.watched = watched;
    kept.emplace(watched.replica, std::move(engine));
  }
  engines_ = std::move(kept);
  update_subscriptions();
}

std::span<const std::string> EngineWatch::endpoints_of(const Engine& engine) {
  if (engine.watched.fpm.empty() && engine.named_fpm && !engine.named_fpm->empty()) return {&*engine.named_fpm, 1};
  return engine.watched.fpm;
}

void EngineWatch::update_subscriptions() {
  std::set<std::string> wanted;
  replicas_of_.clear();
  const auto want = [&](Engine& engine, std::span<const std::string> endpoints) {
    for (const std::string& endpoint : endpoints) {
      wanted.insert(endpoint);
      std::vector<std::uint32_t>& replicas = replicas_of_[endpoint];
      if (replicas.empty() || replicas.back() != engine.watched.replica) replicas.push_back(engine.watched.replica);
      if (const auto added = channels_.add(endpoint); !added)
        report_rejection(engine, endpoint, added.error().message());
    }
  };
  for (auto& [replica, engine] : engines_) {
    if (endpoints_of(engine).empty()) drop_workers_before(engine, core::kNever);
    want(engine, endpoints_of(engine));
    want(engine, engine.watched.kv);
  }
  channels_.keep_only(wanted);
}

void EngineWatch::report_server(const std::string& server, const std::string& cause) {
  if (cause.empty()) return;
  events_.add(loop_.now(), true, {}, fmt::format("forward pass metrics of {} are not received: {}", server, cause));
  events_.log().write(logging::Event::kFpmUnavailable, {{"server", server}, {"cause", cause}});
}

void EngineWatch::scrape() {
  for (auto& [replica, engine] : engines_)
    if (!std::exchange(engine.in_flight, true)) scrape(engine);
}

void EngineWatch::scrape(Engine& engine) {
  const auto url = net::parse_url(engine.watched.url);
  if (!url) {
    engine.in_flight = false;
    return report_failure(engine, url.error().message());
  }
  if (!engine.address)
    if (const auto numeric = net::Address::parse(url->host, url->port)) engine.address = *numeric;
  if (engine.address) return fetch(engine, *url);
  resolve(engine, *url);
}

// Values that did not change their time since the last round are not a new sample.
void EngineWatch::take(const connect::QueriedReplicas& replicas) {
  for (auto& [number, engine] : engines_) {
    const connect::QueriedReplica* found = find_replica(replicas, engine.watched);
    if (found == nullptr) {
      report_failure(engine,
                     "Prometheus has no fresh series of it; see prometheus.replica_label and prometheus.window");
      continue;
    }
    if (found->at_s <= engine.queried_at_s) continue;
    engine.queried_at_s = found->at_s;
    engine.kind = found->scrape.kind;
    if (auto sample = telemetry::to_sample(found->scrape, loop_.now()))
      store(engine, {found->scrape, *std::move(sample)});
    else
      report_failure(engine, "Prometheus lacks the numbers of its queued and running requests");
  }
}

void EngineWatch::report(const connect::QueryReport& query) {
  if (!query.error.empty()) {
    events_.add(loop_.now(), true, {}, query.query + ": " + query.error);
    events_.log().write(logging::Event::kPrometheusFailed, {{"query", query.query}, {"error", query.error}});
    return;
  }
  std::vector<std::string> names = query.replicas;
  if (names.size() > kNamesShown) names.resize(kNamesShown);
  events_.log().write(
      logging::Event::kPrometheusMatched,
      {{"query", query.query}, {"series", query.series}, {"replicas", fmt::format("{}", fmt::join(names, ","))}});
}

void EngineWatch::resolve(Engine& engine, const net::Url& url) {
  resolver_.resolve(url.host, url.port,
                    [this, watched = engine.watched, url](const net::Resolver::Addresses& addresses) {
                      Engine* engine_now = find(watched);
                      if (engine_now == nullptr) return;
                      if (addresses) {
                        // After a failure the next address has its turn.
                        engine_now->address = (*addresses)[engine_now->addresses_tried++ % addresses->size()];
                        return fetch(*engine_now, url);
                      }
                      engine_now->in_flight = false;
                      report_failure(*engine_now, addresses.error().message());
                    });
}

void EngineWatch::fetch(Engine& engine, const net::Url& url) {
  const auto credentials = options_.credentials ? options_.credentials(engine.watched.url) : nullptr;
  net::FetchRequest request =
      net::request_to(url, *engine.address, "/metrics", kTimeout, credentials ? credentials->tls : nullptr);
  if (credentials) request.field_lines = credentials->fields;
  net::fetch(
      client_, std::move(request), [this, watched = engine.watched](const core::Result<net::FetchAnswer>& answer) {
        Engine* engine_now = find(watched);
        if (engine_now == nullptr) return;
        engine_now->in_flight = false;
        // The name may have another address by now.
        if (!answer) engine_now->address.reset();
        auto scraped = answer ? read(*engine_now, *answer) : core::Result<Scraped>{tl::make_unexpected(answer.error())};
        if (!scraped) return report_failure(*engine_now, scraped.error().message());
        const auto& before = engine_now->last;
        // Counters that decrease are those of a restarted engine.
        if (before && scraped->scrape.prompt_tokens_total < before->scrape.prompt_tokens_total)
          engine_now->fpm_is_current = false;
        store(*engine_now, *std::move(scraped));
        request_fpm_endpoint(*engine_now);
      });
}

// After each start of an engine, because the endpoint may have another port then.
void EngineWatch::request_fpm_endpoint(Engine& engine) {
  if (engine.last->scrape.kind != telemetry::EngineKind::kPenstock) return;
  if (!engine.watched.fpm.empty() || engine.fpm_is_current || engine.fpm_in_flight || !engine.address) return;
  const auto url = net::parse_url(engine.watched.url);
  const auto credentials = options_.credentials ? options_.credentials(engine.watched.url) : nullptr;
  net::FetchRequest request =
      net::request_to(*url, *engine.address, "/penstock/v1/info", kTimeout, credentials ? credentials->tls : nullptr);
  if (credentials) request.field_lines = credentials->fields;
  engine.fpm_in_flight = true;
  net::fetch(client_, std::move(request),
             [this, watched = engine.watched](const core::Result<net::FetchAnswer>& answer) {
               Engine* engine_now = find(watched);
               if (engine_now == nullptr) return;
               engine_now->fpm_in_flight = false;
               if (!answer) return;  // The endpoint that is known stays, and the next scrape asks again.
               engine_now->fpm_is_current = answer->status == 200;
               engine_now->named_fpm = fpm_endpoint_in(engine_now->fpm_is_current ? answer->body : "", watched.url);
               update_subscriptions();
             });
}

EngineWatch::Engine* EngineWatch::find(const WatchedEngine& watched) {
  const auto found = engines_.find(watched.replica);
  return found != engines_.end() && found->second.watched.url == watched.url ? &found->second : nullptr;
}

core::Result<EngineWatch::Scraped> EngineWatch::read(Engine& engine, const net::FetchAnswer& answer) const {
  const std::string where = engine.watched.url + "/metrics";
  if (answer.status != 200)
    return core::environment_error(where, fmt::format("responds with status {}{}", answer.status,
                                                      answer.status == 404 ? kEnableMetrics : std::string_view{}));
  const auto parsed = telemetry::parse_exposition(answer.body, engine.watched.url);
  if (!parsed) return tl::make_unexpected(parsed.error());
  telemetry::EngineScrape scrape = telemetry::read_scrape(*parsed);
  engine.kind = scrape.kind;
  auto sample = telemetry::to_sample(scrape, loop_.now());
  if (!sample && scrape.kind != telemetry::EngineKind::kUnknown)
    return core::environment_error(where, fmt::format("lacks the numbers of queued and running requests of {}",
                                                      telemetry::to_string(scrape.kind)));
  if (!sample)
    return core::environment_error(where, fmt::format("contains no metrics of a known engine{}", kEnableMetrics));
  return Scraped{std::move(scrape), *std::move(sample)};
}

void EngineWatch::store(Engine& engine, Scraped scraped) {
  const auto at = [](const Scraped& each) { return each.sample.sampled_at; };
  scraped.sample.oldest_queued_age = engine.queue_age.observe(scraped.scrape, at(scraped));
  engine.kv_trend.observe(at(scraped), scraped.sample.kv_usage());
  engine.gpu_memory_trend.observe(at(scraped), scraped.sample.gpu_memory_usage);
  scraped.sample.kv_full_in = engine.kv_trend.full_in();
  scraped.sample.gpu_memory_full_in = engine.gpu_memory_trend.full_in();
  std::deque<Scraped>& earlier = engine.earlier;
  if (engine.last && (earlier.empty() || at(*engine.last) - at(earlier.back()) >= kSpacing))
    earlier.push_back(*std::move(engine.last));
  while (!earlier.empty() && at(scraped) - at(earlier.front()) > kTokenWindow) earlier.pop_front();
  drop_workers_before(engine, at(scraped) - options_.worker_silence);
  engine.last = std::move(scraped);
  engine.failures = 0;
  if (std::exchange(engine.unavailable, false))
    events_.log().write(logging::Event::kTelemetryAvailable,
                        {{"replica", engine.watched.name}, {"url", engine.watched.url}});
}

void EngineWatch::report_failure(Engine& engine, const std::string& cause) {
  engine.fpm_is_current = false;
  // One failure after an answer is no state: the next scrape may succeed.
  if (++engine.failures < kFailuresMax && engine.last) return;
  if (engine.watched.is_stopping || std::exchange(engine.unavailable, true)) return;
  events_.add(loop_.now(), true, {}, fmt::format("metrics of {} cannot be read: {}", engine.watched.url, cause));
  events_.log().write(logging::Event::kTelemetryUnavailable,
                      {{"replica", engine.watched.name}, {"url", engine.watched.url}, {"cause", cause}});
}

void EngineWatch::message(const std::string& endpoint, const ChannelMessage& message) {
  const auto contains = [&](std::span<const std::string> endpoints) {
    return std::find(endpoints.begin(), endpoints.end(), endpoint) != endpoints.end();
  };
  const auto replicas = replicas_of_.find(endpoint);
  if (replicas == replicas_of_.end()) return;
  for (const std::uint32_t replica : replicas->second) {
    Engine& engine = engines_.at(replica);
    if (contains(engine.watched.kv)) kv_message(engine, endpoint, message);
    const auto* metrics = std::get_if<core::Result<telemetry::ForwardPassMetrics>>(&message);
    if (metrics == nullptr || !contains(endpoints_of(engine))) continue;
    if (*metrics) {
      add(engine, **metrics);
      continue;
    }
    ++engine.rejected_messages;
    report_rejection(engine, endpoint, metrics->error().message());
  }
}

void EngineWatch::kv_message(Engine& engine, const std::string& endpoint, const ChannelMessage& message) {
  const auto* read = std::get_if<core::Result<telemetry::WorkerKvMessage>>(&message);
  if (read != nullptr && *read) return engine.caches.add(**read);
  const auto* other = std::get_if<core::Result<telemetry::ForwardPassMetrics>>(&message);
  const std::string cause = read != nullptr ? read->error().message()
                            : *other        ? std::string{"the message has another topic"}
                                            : other->error().message();
  engine.caches.reject();
  if (is_reported(engine, cause)) return;
  events_.add(loop_.now(), true, {}, fmt::format("KV events of {} are rejected: {}", engine.watched.name, cause));
  events_.log().write(logging::Event::kKvEventsRejected,
                      {{"replica", engine.watched.name}, {"endpoint", endpoint}, {"cause", cause}});
}

void EngineWatch::add(Engine& engine, const telemetry::ForwardPassMetrics& metrics) {
  ++engine.messages;
  const core::Instant now = loop_.now();
  engine.ranks[{metrics.worker_id, metrics.dp_rank}].add(metrics, now);
  drop_workers_before(engine, now - options_.worker_silence);
}

void EngineWatch::drop_workers_before(Engine& engine, core::Instant at) {
  std::erase_if(engine.ranks, [&](const auto& rank) {
    const bool is_gone = rank.second.received_at() < at;
    if (is_gone) engine.lost_of_ranks_gone += rank.second.lost();
    return is_gone;
  });
}

// At most one cause each kRejectionInterval, and none twice in a row.
bool EngineWatch::is_reported(Engine& engine, const std::string& cause) {
  const bool is_early = engine.rejection_at != core::kStart && loop_.now() - engine.rejection_at < kRejectionInterval;
  if (is_early || engine.rejection == cause) return true;
  engine.rejection = cause;
  engine.rejection_at = loop_.now();
  return false;
}

void EngineWatch::report_rejection(Engine& engine, const std::string& endpoint, const std::string& cause) {
  if (is_reported(engine, cause)) return;
  events_.add(loop_.now(), true, {},
              fmt::format("forward pass metrics of {} are rejected: {}", engine.watched.name, cause));
  // A user and a password in a URL are not logged.
  const std::string public_endpoint = endpoint.substr(endpoint.rfind('@') + 1);
  events_.log().write(logging::Event::kFpmRejected,
                      {{"replica", engine.watched.name}, {"endpoint", public_endpoint}, {"cause", cause}});
}

std::optional<signals::EngineSample> EngineWatch::sample_of(std::uint32_t replica) const {
  const auto found = engines_.find(replica);
  if (found == engines_.end()) return std::nullopt;
  const Engine& engine = found->second;
  signals::EngineSample sample = engine.last ? engine.last->sample : signals::EngineSample{};
  std::vector<telemetry::ForwardPassTotals> ranks;
  for (const auto& [rank, totals] : engine.ranks) ranks.push_back(totals);
  const bool has_iterations = telemetry::apply_forward_pass(ranks, sample);
  if (!has_iterations && !engine.last) return std::nullopt;
  if (gpus_) {
    const auto url = net::parse_url(engine.watched.url);
    const std::string host = url ? url->host : std::string{};
    gpus_->fill(sample, engine.watched.name, host, is_alone_on_host(host));
  }
  return sample;
}

bool EngineWatch::is_alone_on_host(const std::string& host) const {
  return std::count_if(engines_.begin(), engines_.end(), [&](const auto& each) {
           const auto url = net::parse_url(each.second.watched.url);
           return url && url->host == host;
         }) == 1;
}

std::map<std::string, signals::EngineSample> EngineWatch::workers_of(std::uint32_t replica) const {
  std::map<std::string, std::vector<telemetry::ForwardPassTotals>> ranks;
  if (const auto found = engines_.find(replica); found != engines_.end())
    for (const auto& [rank, totals] : found->second.ranks) ranks[rank.first].push_back(totals);
  std::map<std::string, signals::EngineSample> workers;
  for (const auto& [worker, totals] : ranks) telemetry::apply_forward_pass(totals, workers[worker]);
  return workers;
}

telemetry::EngineKind EngineWatch::kind_of(std::uint32_t replica) const {
  const auto found = engines_.find(replica);
  return found == engines_.end() ? telemetry::EngineKind::kUnknown : found->second.kind;
}

std::optional<EngineWatch::TimedScrape> EngineWatch::scrape_of(std::uint32_t replica) const {
  const auto found = engines_.find(replica);
  if (found == engines_.end() || !found->second.last || found->second.unavailable) return std::nullopt;
  return TimedScrape{found->second.last->scrape, found->second.last->sample.sampled_at};
}

std::optional<telemetry::TokenFigures> EngineWatch::tokens_of(std::uint32_t replica,
                                                              std::optional<double> kv_bytes_per_token) const {
  if (!scrape_of(replica)) return std::nullopt;
  const Engine& engine = engines_.at(replica);
  return telemetry::token_figures(
      engine.last->scrape, engine.earlier.empty() ? nullptr : &engine.earlier.front().scrape, kv_bytes_per_token);
}

std::optional<telemetry::MessageCounts> EngineWatch::messages_of(std::uint32_t replica) const {
  const auto found = engines_.find(replica);
  if (found == engines_.end() || endpoints_of(found->second).empty()) return std::nullopt;
  const Engine& engine = found->second;
  telemetry::MessageCounts counts{engine.messages, engine.rejected_messages, engine.lost_of_ranks_gone};
  for (const auto& [rank, totals] : engine.ranks) counts.lost += totals.lost();
  return counts;
}

std::optional<telemetry::MessageCounts> EngineWatch::kv_messages_of(std::uint32_t replica) const {
  const auto found = engines_.find(replica);
  if (found == engines_.end() || found->second.watched.kv.empty()) return std::nullopt;
  return found->second.caches.counts();
}

std::optional<telemetry::WorkerCache> EngineWatch::cache_of(std::uint32_t replica, std::uint64_t worker) const {
  const auto found = engines_.find(replica);
  return found == engines_.end() ? std::nullopt : found->second.caches.of(worker);
}

}  // namespace penstock::controller
