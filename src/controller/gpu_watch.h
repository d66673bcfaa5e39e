// Figures of the engines' GPUs, from NVIDIA's DCGM exporters.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/fleet_events.h"
#include "core/result.h"
#include "core/time.h"
#include "net/address.h"
#include "net/client.h"
#include "net/credentials.h"
#include "net/fetch.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "signals/observation.h"
#include "telemetry/gpu_metrics.h"
#include "telemetry/usage_trend.h"

namespace penstock::controller {

struct GpuWatchOptions {
  std::vector<std::string> urls;  // "http://node-1:9400/metrics"; a URL without path stands for its /metrics.
  std::string in_namespace;       // Of the pods that are replicas; empty: unknown.
  // Whom to trust for https, by URL; keys are not sent. Empty: no https.
  std::function<std::shared_ptr<const net::Credentials>(const std::string& url)> credentials{};
  net::Resolver::Lookup resolve = net::Address::resolve;
  core::Duration interval = std::chrono::seconds{5};
};

// Reads the exporters at an interval. Lives on one loop. An event tells why one cannot be read, once until it can.
class GpuWatch {
 public:
  static constexpr core::Duration kAgeMax = std::chrono::seconds{30};  // Older figures are unknown.

  GpuWatch(net::Loop& loop, net::Client& client, FleetEvents& events, GpuWatchOptions options);
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // Sets the GPU figures of a replica: those of the pod with its name, else, for the only replica on its host, those
  // of the exporter on this host. Where the namespace of the replica or of the pod is unknown, the pod must be the only
  // one with this name. Without figures nothing is set.
  void fill(signals::EngineSample& sample, const std::string& name, const std::string& host,
            bool is_alone_on_host) const;

 private:
  struct Exporter {
    std::string text;
    core::Result<net::Url> url;
    std::optional<net::Address> address;
    std::size_t addresses_tried = 0;
    bool in_flight = false, unavailable = false;
  };
  struct Gpus {
    telemetry::GpuFigures figures;
    telemetry::UsageTrend memory;
    core::Instant at;
  };
  // The host tells pods with an unknown namespace apart; it is empty for others.
  struct Pod {
    std::string name, in_namespace, host;
    friend auto operator<=>(const Pod&, const Pod&) = default;
  };

  void read();
  void fetch(std::size_t index);
  void take(std::size_t index, const core::Result<net::FetchAnswer>& answer);
  void report_failure(Exporter& exporter, const std::string& cause);
  template <class Key>
  void store(std::map<Key, Gpus>& all, const Key& key, const telemetry::GpuFigures& figures);
  [[nodiscard]] const Gpus* of_pod(const std::string& name) const;  // Null: none, or several may be meant.

  net::Loop& loop_;
  net::Client& client_;
  FleetEvents& events_;
  const std::string in_namespace_;
  const std::function<std::shared_ptr<const net::Credentials>(const std::string& url)> credentials_;
  std::vector<Exporter> exporters_;
  std::map<Pod, Gpus> pods_;
  std::map<std::string, Gpus> hosts_;  // GPUs without a pod, by the name of the host.
  net::Resolver resolver_;
  net::Loop::Timer timer_ = 0;
};

}  // namespace penstock::controller
