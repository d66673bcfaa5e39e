// Engines behind another router, shown to planners as a gateway shows its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "controller/engine_traffic.h"
#include "controller/engine_watch.h"
#include "controller/fleet_events.h"
#include "core/result.h"
#include "net/access.h"
#include "net/address.h"
#include "net/host_names.h"
#include "net/server.h"

namespace penstock::controller {

struct EngineObserverOptions {
  // URLs of engines. Each address of a name is a replica of its own, and names are looked up again every 5 s. Behind
  // https, a URL is one replica.
  std::vector<std::string> urls;
  std::string pool = "default";
  EngineWatchOptions engines{};
  std::vector<std::string> hosts{};  // Names under which this server may be called.
};

// Serves the documents of a gateway's admin address that a planner reads: the overview and the traffic
// (docs/gateway.md). The requests are those of EngineTraffic; what waits in front of the engines is unknown. A replica
// whose metrics cannot be read is not healthy. Lives on one loop.
class EngineObserver final : private net::ExchangeHandler {
 public:
  // `listening` becomes its own.
  EngineObserver(net::Loop& loop, net::Client& client, int listening, logging::Log& log, EngineObserverOptions options);
  ~EngineObserver();
  EngineObserver(const EngineObserver&) = delete;
  EngineObserver& operator=(const EngineObserver&) = delete;

  [[nodiscard]] std::string overview() const;
  // The events after this number, at most `limit`.
  [[nodiscard]] std::string traffic(std::uint64_t after, std::size_t limit) const;
  [[nodiscard]] std::size_t replicas() const { return replicas_.size(); }

 private:
  struct Replica {
    std::uint32_t number = 0;
    std::string url;
    core::Instant read_at{};  // The last scrape that was taken.
  };

  void list();
  void look();
  void on_request(net::Exchange& exchange) override;
  [[nodiscard]] std::string error_body(int status, std::string_view fault) override;

  net::Loop& loop_;
  EngineObserverOptions options_;
  FleetEvents events_;
  EngineWatch watch_;
  net::HostNames names_;
  EngineTraffic traffic_;
  std::map<std::string, Replica> replicas_;  // By id: host and port.
  std::uint32_t next_number_ = 1;
  std::deque<TrafficItem> items_;
  std::uint64_t dropped_ = 0;  // Events before items_.front().
  std::string boot_;
  net::AccessPolicy access_;
  net::Server server_;
  net::Loop::Timer timer_ = 0;
};

}  // namespace penstock::controller
