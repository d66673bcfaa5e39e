// What the engines say of themselves: scraped once a second, and iteration by iteration where they publish that.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "connect/zmq/subscriber.h"
#include "core/time.h"
#include "net/client.h"
#include "net/loop.h"
#include "signals/observation.h"
#include "signals/telemetry/adapters.h"
#include "signals/telemetry/forward_pass.h"

namespace penstock::live {

struct WatchedEngine {
  std::uint32_t replica = 0;
  std::string url;           // "http://127.0.0.1:9001"
  std::string fpm_endpoint;  // "tcp://127.0.0.1:9002"; empty: none is known

  friend bool operator==(const WatchedEngine&, const WatchedEngine&) = default;
};

// On one loop; messages come from a thread of their own and are posted there.
class EngineWatch {
 public:
  EngineWatch(net::Loop& loop, net::Client& client, core::Duration interval);
  ~EngineWatch();

  void watch(const std::vector<WatchedEngine>& engines);  // all there are
  // None: nothing was ever heard of it.
  [[nodiscard]] std::optional<signals::EngineSample> sample_of(std::uint32_t replica) const;
  [[nodiscard]] std::uint64_t lost_messages() const;
  [[nodiscard]] std::uint64_t messages() const { return messages_; }

 private:
  struct Engine {
    WatchedEngine what;
    std::optional<signals::EngineSample> scraped;
    std::map<std::uint32_t, signals::ForwardPassTotals> ranks;
    bool under_way = false;
  };
  void scrape();
  void scrape(Engine& engine);
  void message(const std::string& endpoint, const signals::ForwardPassMetrics& metrics);

  net::Loop& loop_;
  net::Client& client_;
  net::Loop::Timer timer_ = 0;
  std::map<std::uint32_t, Engine> engines_;  // by replica
  std::uint64_t messages_ = 0;
  std::unique_ptr<connect::Subscriber> subscriber_;  // last: it posts to the rest
};

}  // namespace penstock::live
