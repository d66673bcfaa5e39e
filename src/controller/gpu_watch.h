// Figures of the engines' GPUs, from NVIDIA's DCGM exporters.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/fleet_events.h"
#include "core/result.h"
#include "core/time.h"
#include "net/address.h"
#include "net/client.h"
#include "net/fetch.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "signals/observation.h"
#include "telemetry/gpu_metrics.h"
#include "telemetry/usage_trend.h"

namespace penstock::controller {

// Reads the exporters at an interval. Lives on one loop. An event tells why one cannot be read, once until it can.
class GpuWatch {
 public:
  static constexpr core::Duration kInterval = std::chrono::seconds{5};
  static constexpr core::Duration kAgeMax = std::chrono::seconds{30};  // Older figures are unknown.

  // "http://node-1:9400/metrics"; a URL without path stands for its /metrics.
  GpuWatch(net::Loop& loop, net::Client& client, FleetEvents& events, std::vector<std::string> urls,
           net::Resolver::Lookup resolve = net::Address::resolve, core::Duration interval = kInterval);
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // Sets the GPU figures of a replica: those of the pod with its name, else, for the only replica on its host, those
  // of the exporter on this host. Without figures nothing is set.
  void fill(signals::EngineSample& sample, const std::string& name, const std::string& host,
            bool is_alone_on_host) const;

 private:
  struct Exporter {
    std::string text;
    core::Result<net::Url> url;
    std::optional<net::Address> address;
    bool in_flight = false, unavailable = false;
  };
  struct Owner {
    telemetry::GpuFigures figures;
    telemetry::UsageTrend memory;
    core::Instant at;
  };

  void read();
  void fetch(std::size_t index);
  void take(std::size_t index, const core::Result<net::FetchAnswer>& answer);
  void report_failure(Exporter& exporter, const std::string& cause);
  void store(const std::string& key, const telemetry::GpuFigures& figures);

  net::Loop& loop_;
  net::Client& client_;
  FleetEvents& events_;
  std::vector<Exporter> exporters_;
  std::map<std::string, Owner> owners_;  // By "pod/NAME" or "host/NAME".
  net::Resolver resolver_;
  net::Loop::Timer timer_ = 0;
};

}  // namespace penstock::controller
