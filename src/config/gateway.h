// What a gateway is told, as plain values that know nothing of the rooms they are for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/reader.h"
#include "config/replay.h"
#include "core/time.h"

namespace penstock::config {

struct ReplicaSettings {  // gateway.replicas[]
  std::string url;        // "http://10.0.0.7:8000"
  std::string model;      // empty: asked of the replica (/v1/models)
  std::string role = "aggregated";
  double weight = 1.0;
  std::string kv_events;  // ZeroMQ endpoint; empty: none
};

struct TenantSettings {  // tenants[]
  std::string name;
  std::vector<std::string> keys;       // API keys as they are, or …
  std::vector<std::string> key_files;  // … files that hold one each
  std::vector<std::string> key_envs;   // … or environment variables
  double weight = 1.0;                 // share while others wait, too
  std::int32_t tier = 0;               // higher goes first
  double tokens_per_minute = 0.0;      // 0: no limit
  double burst_tokens = 0.0;           // 0: a minute's
  std::string over_budget = "reject";  // "reject" or "queue"
  std::uint32_t concurrent = 0;        // requests at once; 0: no limit
  std::uint32_t context_tokens = 0;    // longest prompt with its output; 0: the model's
  std::vector<std::string> models;     // that it may use; empty: all
  std::string traffic_class;           // that it gets without saying; empty: interactive
};

struct ModelSettings {  // models[]
  std::string name;
  double input_price = 0.0, cached_input_price = 0.0, output_price = 0.0;  // of a million tokens
  std::uint32_t context_tokens = 131'072;
};

struct ClassSettings {                                   // classes.interactive, classes.batch
  core::Duration queue_time = std::chrono::seconds{10};  // that it may wait at most
  core::Duration time_budget{};                          // for the whole answer; 0: none
  double tokens_per_minute = 0.0;                        // of the class; 0: no limit
};

struct GatewaySettings {
  std::string listen = "127.0.0.1:8000";
  std::string admin_listen = "127.0.0.1:8081";  // /metrics and what the planner asks; never for users
  std::uint32_t threads = 0;                    // 0: one for each core
  std::string tls_certificate, tls_key;         // files; empty: plain HTTP
  std::vector<ReplicaSettings> replicas;
  std::vector<std::string> replicas_files;  // followed as they change
  std::string replicas_dns;                 // "name:port", asked every few seconds; empty: none
  core::Duration dns_interval = std::chrono::seconds{10};
  std::string ledger;  // SQLite file; empty: none is kept
  std::uint64_t body_bytes_max = 64ULL * 1024 * 1024;
  std::uint32_t connections_max = 20'000;

  bool anonymous =
      true;  // requests without a key are let in, as tenant "anonymous"; false as soon as there are tenants
  std::vector<TenantSettings> tenants;
  std::vector<ModelSettings> models;
  ClassSettings interactive;
  ClassSettings batch{std::chrono::minutes{5}, {}, 0.0};
  std::uint32_t queue_requests = 2048;

  double kv_throttle = 0.85, kv_reject = 0.90;
  std::uint64_t prefill_tokens_per_replica = 32'768;
  std::uint64_t clamp_above_queue_tokens = 131'072;
  std::uint32_t clamp_max_tokens = 512;

  std::uint32_t block_tokens = 256;  // of a routing key
  bool prefix_pings = false;         // they are sent again to replicas where they grow cold
  bool hot_prefixes = true;          // their texts are kept in memory, for new replicas
  core::Duration slow_start = std::chrono::seconds{20};
  std::uint32_t retries = 2;                               // before the first byte, on other replicas
  double retry_budget = 0.1;                               // share of requests that may be retried
  std::uint32_t breaker_failures = 5;                      // in a row, that take a replica out …
  core::Duration breaker_time = std::chrono::seconds{10};  // … for so long, then one request tries
  core::Duration health_interval = std::chrono::seconds{2};
  core::Duration scrape_interval = std::chrono::seconds{1};  // of the replicas' /metrics
  core::Duration first_byte_time = std::chrono::minutes{10};
  core::Duration silence = std::chrono::minutes{2};  // of a replica in the midst of an answer

  core::Duration slo_ttft = std::chrono::seconds{2};
  core::Duration slo_itl = std::chrono::milliseconds{50};
  double slo_goal = 0.99;
  std::vector<SegmentSettings> slo_segments;
};

struct GatewaySources {
  std::string file, yaml;             // as in ReplaySources
  std::vector<std::string> replicas;  // named on the command line; if any, those of the file are left out
  std::vector<FlagValue> flags;
};

// Reads and checks everything, and reports every fault with its place. Sections that are a planner's (pools, planner,
// engine, …) are left to the planner's reader, so that both can share one file.
[[nodiscard]] tl::expected<GatewaySettings, Problems> load_gateway(const GatewaySources& sources);

}  // namespace penstock::config
