// What the engines say of themselves: scraped once a second, and iteration by iteration where they publish that.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "connect/zmq/subscriber.h"
#include "core/result.h"
#include "core/time.h"
#include "net/address.h"
#include "net/client.h"
#include "net/fetch.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "signals/observation.h"
#include "telemetry/adapters.h"
#include "telemetry/forward_pass.h"
#include "telemetry/token_metrics.h"

namespace penstock::controller {

struct WatchedEngine {
  std::uint32_t replica = 0;
  std::string url;           // "http://127.0.0.1:9001", "https://engine.example/prefix"
  std::string fpm_endpoint;  // "tcp://127.0.0.1:9002"; empty: none is known

  friend bool operator==(const WatchedEngine&, const WatchedEngine&) = default;
};

struct EngineWatchOptions {
  core::Duration interval = std::chrono::seconds{1};
  std::shared_ptr<net::TlsContext> tls;  // for engines behind https
  // Why an engine is not heard, once until it is heard again. Empty: nobody listens.
  std::function<void(const std::string&)> say;
  net::Resolver::Ask ask = net::Address::resolve;  // of names in URLs
};

// On one loop; messages come from a thread of their own and are posted there, and so do addresses of names. A name is
// asked for again once nobody answers at its address.
class EngineWatch {
 public:
  EngineWatch(net::Loop& loop, net::Client& client, EngineWatchOptions options = {});
  ~EngineWatch();

  void watch(const std::vector<WatchedEngine>& engines);  // all there are
  // None: nothing was ever heard of it.
  [[nodiscard]] std::optional<signals::EngineSample> sample_of(std::uint32_t replica) const;
  // What the last scrape says of tokens, under the names that are the same for engines of any make. None: the engine is not
  // heard.
  [[nodiscard]] std::optional<telemetry::TokenFigures> tokens_of(std::uint32_t replica,
                                                                 double kv_bytes_per_token) const;
  [[nodiscard]] std::uint64_t lost_messages() const;
  [[nodiscard]] std::uint64_t messages() const { return messages_; }

 private:
  struct Scraped {
    telemetry::EngineScrape scrape;
    signals::EngineSample sample;  // made of it
  };
  struct Engine {
    WatchedEngine what;
    std::optional<net::Address> address;
    std::optional<Scraped> last;
    std::deque<Scraped> earlier;  // some seconds apart, the oldest a minute ago
    std::map<std::uint32_t, telemetry::ForwardPassTotals> ranks;
    bool under_way = false, silent = false;
  };
  void scrape();
  void scrape(Engine& engine);
  void resolve(Engine& engine, const net::Url& url);
  void fetch(Engine& engine, const net::Url& url);
  [[nodiscard]] Engine* still(const WatchedEngine& what);  // none: what was asked for is gone
  [[nodiscard]] core::Result<Scraped> read(const Engine& engine, const net::FetchAnswer& answer) const;
  static void heard(Engine& engine, Scraped scraped);
  void not_heard(Engine& engine, const std::string& why);
  void message(const std::string& endpoint, const telemetry::ForwardPassMetrics& metrics);

  net::Loop& loop_;
  net::Client& client_;
  EngineWatchOptions options_;
  net::Loop::Timer timer_ = 0;
  std::map<std::uint32_t, Engine> engines_;  // by replica
  std::uint64_t messages_ = 0;
  net::Resolver resolver_;
  std::unique_ptr<connect::Subscriber> subscriber_;  // last: it posts to the rest
};

}  // namespace penstock::controller
