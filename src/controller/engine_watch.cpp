#include "controller/engine_watch.h"

#include <fmt/format.h>

#include <utility>

namespace penstock::controller {
namespace {

constexpr core::Duration kTimeout = std::chrono::seconds{2};
// Percentiles of token metrics cover kTokenWindow; scrapes that are kept for them are kSpacing apart.
constexpr core::Duration kTokenWindow = std::chrono::minutes{1}, kSpacing = std::chrono::seconds{5};

}  // namespace

EngineWatch::EngineWatch(net::Loop& loop, net::Client& client, FleetEvents& events, EngineWatchOptions options)
    : loop_(loop), client_(client), events_(events), options_(std::move(options)), resolver_(loop, options_.resolve) {
  timer_ = loop_.every(options_.interval, [this] { scrape(); });
  // Without a subscriber the scrapes remain as the source of telemetry.
  auto started = connect::Subscriber::start({}, [this](const connect::SubscriberMessage& message) {
    auto metrics = telemetry::decode_forward_pass(message.payload);
    if (!metrics) return;
    loop_.post([this, endpoint = std::string{message.endpoint}, metrics = *std::move(metrics)] {
      this->message(endpoint, metrics);
    });
  });
  if (started) subscriber_ = *std::move(started);
}

EngineWatch::~EngineWatch() {
  subscriber_.reset();
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
    if (subscriber_ && engine.watched.fpm_endpoint != watched.fpm_endpoint && !watched.fpm_endpoint.empty())
      static_cast<void>(subscriber_->add(watched.fpm_endpoint));
    engine.watched = watched;
    kept.emplace(watched.replica, std::move(engine));
  }
  for (const auto& [replica, gone] : engines_)
    if (subscriber_ && !gone.watched.fpm_endpoint.empty()) subscriber_->remove(gone.watched.fpm_endpoint);
  engines_ = std::move(kept);
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

void EngineWatch::resolve(Engine& engine, const net::Url& url) {
  resolver_.resolve(url.host, url.port,
                    [this, watched = engine.watched, url](const net::Resolver::Addresses& addresses) {
                      Engine* engine_now = find(watched);
                      if (engine_now == nullptr) return;
                      if (addresses) {
                        engine_now->address = addresses->front();
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
        store(*engine_now, *std::move(scraped));
      });
}

EngineWatch::Engine* EngineWatch::find(const WatchedEngine& watched) {
  const auto found = engines_.find(watched.replica);
  return found != engines_.end() && found->second.watched.url == watched.url ? &found->second : nullptr;
}

core::Result<EngineWatch::Scraped> EngineWatch::read(const Engine& engine, const net::FetchAnswer& answer) const {
  const std::string where = engine.watched.url + "/metrics";
  if (answer.status != 200)
    return core::environment_error(where, fmt::format("responds with status {}", answer.status));
  const auto parsed = telemetry::parse_exposition(answer.body, engine.watched.url);
  if (!parsed) return tl::make_unexpected(parsed.error());
  telemetry::EngineScrape scrape = telemetry::read_scrape(*parsed);
  auto sample = telemetry::to_sample(scrape, loop_.now());
  if (!sample && scrape.kind != telemetry::EngineKind::kUnknown)
    return core::environment_error(where, fmt::format("lacks the numbers of queued and running requests of {}",
                                                      telemetry::to_string(scrape.kind)));
  if (!sample) return core::environment_error(where, "contains no metrics of a known engine");
  return Scraped{std::move(scrape), *std::move(sample)};
}

void EngineWatch::store(Engine& engine, Scraped scraped) {
  const auto at = [](const Scraped& each) { return each.sample.sampled_at; };
  scraped.sample.oldest_queued_age = engine.queue_age.observe(scraped.scrape, at(scraped));
  std::deque<Scraped>& earlier = engine.earlier;
  if (engine.last && (earlier.empty() || at(*engine.last) - at(earlier.back()) >= kSpacing))
    earlier.push_back(*std::move(engine.last));
  while (!earlier.empty() && at(scraped) - at(earlier.front()) > kTokenWindow) earlier.pop_front();
  engine.last = std::move(scraped);
  if (std::exchange(engine.unavailable, false))
    events_.log().write(logging::Event::kTelemetryAvailable,
                        {{"replica", engine.watched.name}, {"url", engine.watched.url}});
}

void EngineWatch::report_failure(Engine& engine, const std::string& cause) {
  if (engine.watched.is_stopping || std::exchange(engine.unavailable, true)) return;
  events_.add(loop_.now(), true, {}, fmt::format("metrics of {} cannot be read: {}", engine.watched.url, cause));
  events_.log().write(logging::Event::kTelemetryUnavailable,
                      {{"replica", engine.watched.name}, {"url", engine.watched.url}, {"cause", cause}});
}

void EngineWatch::message(const std::string& endpoint, const telemetry::ForwardPassMetrics& metrics) {
  ++messages_;
  for (auto& [replica, engine] : engines_)
    if (engine.watched.fpm_endpoint == endpoint) engine.ranks[metrics.dp_rank].add(metrics, loop_.now());
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
  return sample;
}

std::optional<telemetry::TokenFigures> EngineWatch::tokens_of(std::uint32_t replica, double kv_bytes_per_token) const {
  const auto found = engines_.find(replica);
  if (found == engines_.end() || !found->second.last || found->second.unavailable) return std::nullopt;
  const Engine& engine = found->second;
  return telemetry::token_figures(
      engine.last->scrape, engine.earlier.empty() ? nullptr : &engine.earlier.front().scrape, kv_bytes_per_token);
}

std::uint64_t EngineWatch::lost_messages() const {
  std::uint64_t lost = 0;
  for (const auto& [replica, engine] : engines_)
    for (const auto& [rank, totals] : engine.ranks) lost += totals.lost();
  return lost;
}

}  // namespace penstock::controller
