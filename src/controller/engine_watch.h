// Telemetry of the engines: their metrics once a second, and a message per iteration if they publish them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "connect/prometheus/source.h"
#include "controller/fleet_events.h"
#include "controller/fpm_channels.h"
#include "controller/gpu_watch.h"
#include "core/result.h"
#include "core/time.h"
#include "net/address.h"
#include "net/client.h"
#include "net/credentials.h"
#include "net/fetch.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "signals/observation.h"
#include "telemetry/adapters.h"
#include "telemetry/dynamo_kv.h"
#include "telemetry/forward_pass.h"
#include "telemetry/message_metrics.h"
#include "telemetry/queue_age.h"
#include "telemetry/token_metrics.h"
#include "telemetry/usage_trend.h"

namespace penstock::controller {

struct WatchedEngine {
  std::uint32_t replica = 0;
  std::string url;  // "http://127.0.0.1:9001", "https://engine.example/prefix"
  // Of its forward pass metrics, "tcp://127.0.0.1:9002". Empty: none is known; an engine of Penstock names its own.
  std::vector<std::string> fpm;
  std::string name{};             // For events.
  bool is_stopping = false;       // A failure to read its metrics is expected and not reported.
  std::vector<std::string> kv{};  // Of the KV caches of Dynamo's workers, on its event plane.

  friend bool operator==(const WatchedEngine&, const WatchedEngine&) = default;
};

struct EngineWatchOptions {
  core::Duration interval = std::chrono::seconds{1};
  // API keys and certificates by URL; empty: none, and no https.
  std::function<std::shared_ptr<const net::Credentials>(const std::string& url)> credentials;
  // An idle engine sends a heartbeat each second. A worker that is silent for longer than this is gone if its replica
  // has been scraped since, or if other workers of its replica send.
  core::Duration worker_silence = std::chrono::seconds{30};
  // Engines are not scraped if a Prometheus server is the source. Null: there is none.
  std::shared_ptr<connect::PrometheusSource> prometheus;
  std::vector<std::string> gpu_exporters;  // URLs of DCGM exporters.
  std::string in_namespace;                // Of the pods that are replicas; empty: unknown.
  NatsServerOptions nats;
  net::Resolver::Lookup resolve = net::Address::resolve;  // For names in URLs.
};

// Lives on one loop. Messages and addresses of names come from threads of their own and are posted to the loop. A name
// is resolved again once its address does not answer. An event tells why an engine's metrics cannot be read, once until
// they can be read again. A single failure between two answers is not reported.
class EngineWatch {
 public:
  EngineWatch(net::Loop& loop, net::Client& client, FleetEvents& events, EngineWatchOptions options = {});
  ~EngineWatch();

  void watch(const std::vector<WatchedEngine>& engines);  // Replaces the list.
  // None: no telemetry of the engine has ever been read.
  [[nodiscard]] std::optional<signals::EngineSample> sample_of(std::uint32_t replica) const;
  // The forward pass metrics of each worker of a replica alone, by the worker's id. They end as those in sample_of():
  // with their endpoint, and after worker_silence.
  [[nodiscard]] std::map<std::string, signals::EngineSample> workers_of(std::uint32_t replica) const;
  // What a worker of Dynamo reported of its KV cache; none: nothing.
  [[nodiscard]] std::optional<telemetry::WorkerCache> cache_of(std::uint32_t replica, std::uint64_t worker) const;
  // The kind of server that its metrics show; kUnknown if they have never been read.
  [[nodiscard]] telemetry::EngineKind kind_of(std::uint32_t replica) const;
  // Token figures of the last scrape, under names that are the same for engines of any make. None: its metrics cannot
  // be read now.
  [[nodiscard]] std::optional<telemetry::TokenFigures> tokens_of(std::uint32_t replica,
                                                                 std::optional<double> kv_bytes_per_token) const;
  // The last scrape; none if there is none, or its metrics cannot be read now. Valid until the next one.
  struct TimedScrape {
    const telemetry::EngineScrape& scrape;
    core::Instant at;
  };
  [[nodiscard]] std::optional<TimedScrape> scrape_of(std::uint32_t replica) const;
  // Counts of its forward pass metrics; none: it has no endpoint of them.
  [[nodiscard]] std::optional<telemetry::MessageCounts> messages_of(std::uint32_t replica) const;
  // Counts of the messages of KV caches; none: it has no endpoint of them.
  [[nodiscard]] std::optional<telemetry::MessageCounts> kv_messages_of(std::uint32_t replica) const;

 private:
  struct Scraped {
    telemetry::EngineScrape scrape;
    signals::EngineSample sample;  // The same scrape in Penstock's terms.
  };
  struct Engine {
    WatchedEngine watched;
    std::optional<net::Address> address;
    std::size_t addresses_tried = 0;
    telemetry::EngineKind kind = telemetry::EngineKind::kUnknown;  // Also of metrics without a sample.
    std::optional<Scraped> last;
    std::deque<Scraped> earlier;  // In intervals of kSpacing; the oldest is one minute old.
    telemetry::QueueAge queue_age;
    telemetry::UsageTrend kv_trend, gpu_memory_trend;
    // By worker and rank. A replica with a router has many workers.
    std::map<std::pair<std::string, std::uint32_t>, telemetry::ForwardPassTotals> ranks;
    telemetry::WorkerCaches caches;
    std::uint64_t messages = 0, rejected_messages = 0, lost_of_ranks_gone = 0;
    std::string rejection;                      // The last cause that was reported.
    core::Instant rejection_at = core::kStart;  // Time of that report.
    std::optional<std::string> named_fpm;       // What an engine of Penstock names as its own; empty: none.
    bool fpm_is_current = false;                // False after a failure, since it may have been restarted.
    bool fpm_in_flight = false;
    bool in_flight = false, unavailable = false;
    std::uint32_t failures = 0;  // Consecutive ones.
    double queried_at_s = 0.0;   // Time of the last values from Prometheus.
  };
  void scrape();
  void scrape(Engine& engine);
  void take(const connect::QueriedReplicas& replicas);
  void report(const connect::QueryReport& query);
  void resolve(Engine& engine, const net::Url& url);
  void fetch(Engine& engine, const net::Url& url);
  [[nodiscard]] Engine* find(const WatchedEngine& watched);  // Null if it is not watched any more.
  [[nodiscard]] core::Result<Scraped> read(Engine& engine, const net::FetchAnswer& answer) const;
  void store(Engine& engine, Scraped scraped);
  void report_failure(Engine& engine, const std::string& cause);
  void request_fpm_endpoint(Engine& engine);
  void update_subscriptions();
  void report_server(const std::string& server, const std::string& cause);
  void message(const std::string& endpoint, const ChannelMessage& message);
  void kv_message(Engine& engine, const std::string& endpoint, const ChannelMessage& message);
  void add(Engine& engine, const telemetry::ForwardPassMetrics& metrics);
  static void drop_workers_before(Engine& engine, core::Instant at);  // Those whose last message is older.
  void report_rejection(Engine& engine, const std::string& endpoint, const std::string& cause);
  [[nodiscard]] bool is_reported(Engine& engine, const std::string& cause);
  [[nodiscard]] bool is_alone_on_host(const std::string& host) const;
  // They belong to the engine.
  [[nodiscard]] static std::span<const std::string> endpoints_of(const Engine& engine);

  net::Loop& loop_;
  net::Client& client_;
  FleetEvents& events_;
  EngineWatchOptions options_;
  net::Loop::Timer timer_ = 0;
  std::map<std::uint32_t, Engine> engines_;                                  // By replica.
  std::unordered_map<std::string, std::vector<std::uint32_t>> replicas_of_;  // By endpoint of messages.
  net::Resolver resolver_;
  FpmChannels channels_;
  std::optional<GpuWatch> gpus_;
};

}  // namespace penstock::controller
