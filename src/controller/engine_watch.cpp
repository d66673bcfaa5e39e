#include "controller/engine_watch.h"

#include <fmt/format.h>

#include <utility>

namespace penstock::controller {
namespace {

constexpr core::Duration kWatchPatience = std::chrono::seconds{2};
// Percentiles of token metrics are of so long, to be had so often.
constexpr core::Duration kTokenWindow = std::chrono::minutes{1}, kApart = std::chrono::seconds{5};

}  // namespace

EngineWatch::EngineWatch(net::Loop& loop, net::Client& client, EngineWatchOptions options)
    : loop_(loop), client_(client), options_(std::move(options)), resolver_(loop, options_.ask) {
  timer_ = loop_.every(options_.interval, [this] { scrape(); });
  // Without it there are scrapes still: iterations are the better source, not the only one.
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
  for (const WatchedEngine& what : engines) {
    Engine engine;
    if (const auto known = engines_.find(what.replica); known != engines_.end() && known->second.what.url == what.url) {
      engine = std::move(known->second);
      engines_.erase(known);
    }
    if (subscriber_ && engine.what.fpm_endpoint != what.fpm_endpoint && !what.fpm_endpoint.empty())
      static_cast<void>(subscriber_->add(what.fpm_endpoint));
    engine.what = what;
    kept.emplace(what.replica, std::move(engine));
  }
  for (const auto& [replica, gone] : engines_)
    if (subscriber_ && !gone.what.fpm_endpoint.empty()) subscriber_->remove(gone.what.fpm_endpoint);
  engines_ = std::move(kept);
}

void EngineWatch::scrape() {
  for (auto& [replica, engine] : engines_)
    if (!std::exchange(engine.under_way, true)) scrape(engine);
}

void EngineWatch::scrape(Engine& engine) {
  const auto url = net::parse_url(engine.what.url);
  if (!url) {
    engine.under_way = false;
    return not_heard(engine, url.error().message());
  }
  if (!engine.address)
    if (const auto numeric = net::Address::parse(url->host, url->port)) engine.address = *numeric;
  if (engine.address) return fetch(engine, *url);
  resolve(engine, *url);
}

void EngineWatch::resolve(Engine& engine, const net::Url& url) {
  resolver_.resolve(url.host, url.port, [this, what = engine.what, url](const net::Resolver::Addresses& addresses) {
    Engine* asked = still(what);
    if (asked == nullptr) return;
    if (addresses) {
      asked->address = addresses->front();
      return fetch(*asked, url);
    }
    asked->under_way = false;
    not_heard(*asked, addresses.error().message());
  });
}

void EngineWatch::fetch(Engine& engine, const net::Url& url) {
  net::fetch(client_, net::request_to(url, *engine.address, "/metrics", kWatchPatience, options_.tls),
             [this, what = engine.what](const core::Result<net::FetchAnswer>& answer) {
               Engine* asked = still(what);
               if (asked == nullptr) return;
               asked->under_way = false;
               // Its name may stand for another address by now.
               if (!answer) asked->address.reset();
               auto scraped =
                   answer ? read(*asked, *answer) : core::Result<Scraped>{tl::make_unexpected(answer.error())};
               if (!scraped) return not_heard(*asked, scraped.error().message());
               heard(*asked, *std::move(scraped));
             });
}

EngineWatch::Engine* EngineWatch::still(const WatchedEngine& what) {
  const auto found = engines_.find(what.replica);
  return found != engines_.end() && found->second.what.url == what.url ? &found->second : nullptr;
}

core::Result<EngineWatch::Scraped> EngineWatch::read(const Engine& engine, const net::FetchAnswer& answer) const {
  const std::string where = engine.what.url + "/metrics";
  if (answer.status != 200) return core::environment_error(where, fmt::format("answers with {}", answer.status));
  const auto parsed = telemetry::parse_exposition(answer.body, engine.what.url);
  if (!parsed) return tl::make_unexpected(parsed.error());
  telemetry::EngineScrape scrape = telemetry::read_scrape(*parsed);
  auto sample = telemetry::to_sample(scrape, loop_.now());
  if (!sample) return core::environment_error(where, "has no figures of an engine");
  return Scraped{std::move(scrape), *std::move(sample)};
}

void EngineWatch::heard(Engine& engine, Scraped scraped) {
  const auto at = [](const Scraped& each) { return each.sample.sampled_at; };
  std::deque<Scraped>& earlier = engine.earlier;
  if (engine.last && (earlier.empty() || at(*engine.last) - at(earlier.back()) >= kApart))
    earlier.push_back(*std::move(engine.last));
  while (!earlier.empty() && at(scraped) - at(earlier.front()) > kTokenWindow) earlier.pop_front();
  engine.last = std::move(scraped);
  engine.silent = false;
}

void EngineWatch::not_heard(Engine& engine, const std::string& why) {
  if (std::exchange(engine.silent, true) || !options_.say) return;
  options_.say(engine.what.url + " is not heard: " + why);
}

void EngineWatch::message(const std::string& endpoint, const telemetry::ForwardPassMetrics& metrics) {
  ++messages_;
  for (auto& [replica, engine] : engines_)
    if (engine.what.fpm_endpoint == endpoint) engine.ranks[metrics.dp_rank].add(metrics, loop_.now());
}

std::optional<signals::EngineSample> EngineWatch::sample_of(std::uint32_t replica) const {
  const auto found = engines_.find(replica);
  if (found == engines_.end()) return std::nullopt;
  const Engine& engine = found->second;
  signals::EngineSample sample = engine.last ? engine.last->sample : signals::EngineSample{};
  std::vector<telemetry::ForwardPassTotals> ranks;
  for (const auto& [rank, totals] : engine.ranks) ranks.push_back(totals);
  const bool heard = telemetry::apply_forward_pass(ranks, sample);
  if (!heard && !engine.last) return std::nullopt;
  return sample;
}

std::optional<telemetry::TokenFigures> EngineWatch::tokens_of(std::uint32_t replica, double kv_bytes_per_token) const {
  const auto found = engines_.find(replica);
  if (found == engines_.end() || !found->second.last || found->second.silent) return std::nullopt;
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
