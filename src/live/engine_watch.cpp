#include "live/engine_watch.h"

#include <utility>

#include "net/fetch.h"

namespace penstock::live {
namespace {

constexpr core::Duration kPatience = std::chrono::seconds{2};

std::optional<net::FetchRequest> request_to(const std::string& url, std::string_view target) {
  const auto parsed = net::parse_url(url);
  if (!parsed) return std::nullopt;
  const auto address = net::Address::parse(parsed->host, parsed->port);
  if (!address) return std::nullopt;
  net::FetchRequest request;
  request.call.address = *address;
  request.call.head_time = request.call.silence = kPatience;
  request.host_field = parsed->host_field();
  request.target = parsed->path + std::string{target};
  return request;
}

}  // namespace

EngineWatch::EngineWatch(net::Loop& loop, net::Client& client, core::Duration interval) : loop_(loop), client_(client) {
  timer_ = loop_.every(interval, [this] { scrape(); });
  // Without it there are scrapes still: iterations are the better source, not the only one.
  auto started = connect::Subscriber::start({}, [this](const connect::SubscriberMessage& message) {
    auto metrics = signals::decode_forward_pass(message.payload);
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
    if (const auto known = engines_.find(what.replica); known != engines_.end()) {
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
  auto request = request_to(engine.what.url, "/metrics");
  if (!request) return;
  net::fetch(client_, *std::move(request),
             [this, replica = engine.what.replica](core::Result<net::FetchAnswer> answer) {
               const auto found = engines_.find(replica);
               if (found == engines_.end()) return;
               found->second.under_way = false;
               if (!answer || answer->status != 200) return;
               const auto parsed = signals::parse_exposition(answer->body, found->second.what.url);
               if (!parsed) return;
               if (auto sample = signals::to_sample(signals::read_scrape(*parsed), loop_.now()))
                 found->second.scraped = std::move(sample);
             });
}

void EngineWatch::message(const std::string& endpoint, const signals::ForwardPassMetrics& metrics) {
  ++messages_;
  for (auto& [replica, engine] : engines_)
    if (engine.what.fpm_endpoint == endpoint) engine.ranks[metrics.dp_rank].add(metrics, loop_.now());
}

std::optional<signals::EngineSample> EngineWatch::sample_of(std::uint32_t replica) const {
  const auto found = engines_.find(replica);
  if (found == engines_.end()) return std::nullopt;
  const Engine& engine = found->second;
  signals::EngineSample sample = engine.scraped.value_or(signals::EngineSample{});
  std::vector<signals::ForwardPassTotals> ranks;
  for (const auto& [rank, totals] : engine.ranks) ranks.push_back(totals);
  const bool heard = signals::apply_forward_pass(ranks, sample);
  if (!heard && !engine.scraped) return std::nullopt;
  return sample;
}

std::uint64_t EngineWatch::lost_messages() const {
  std::uint64_t lost = 0;
  for (const auto& [replica, engine] : engines_)
    for (const auto& [rank, totals] : engine.ranks) lost += totals.lost();
  return lost;
}

}  // namespace penstock::live
