// What a gateway is told, once, before it starts. Replicas come and go later; see gateway.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admission/budget.h"
#include "admission/pressure.h"
#include "admission/queue.h"
#include "core/time.h"
#include "ledger/entry.h"
#include "net/client.h"
#include "net/server.h"
#include "routing/endpoint_picker.h"
#include "routing/prefix_pings.h"
#include "signals/observation.h"
#include "signals/slo.h"

namespace penstock::gateway {

enum class OverBudget : std::uint8_t { kReject, kQueue };

struct Tenant {
  std::string name;
  std::vector<std::string> keys;  // API keys; only their digests are kept
  double weight = 1.0;
  std::int32_t tier = 0;
  admission::BudgetLimits budget;
  OverBudget over_budget = OverBudget::kReject;
  std::uint32_t concurrent = 0;      // 0: no limit
  std::uint32_t context_tokens = 0;  // 0: the model's
  std::vector<std::string> models;   // empty: all
  admission::Class traffic_class = admission::Class::kInteractive;
};

struct Model {
  std::string name;
  ledger::Price price;
  std::uint32_t context_tokens = 131'072;
};

struct ClassOptions {
  core::Duration queue_time = std::chrono::seconds{10};  // 0: never waits
  core::Duration time_budget{};                          // for the whole answer; 0: none
  admission::BudgetLimits budget;
};

struct BreakerOptions {
  std::uint32_t failures = 5;                      // in a row
  core::Duration open = std::chrono::seconds{10};  // then one request tries
};

struct GatewayOptions {
  std::uint32_t threads = 1;
  net::ServerLimits server;
  net::ClientLimits client;
  std::shared_ptr<net::TlsContext> tls;         // null: plain
  std::shared_ptr<net::TlsContext> client_tls;  // for replicas behind https

  bool anonymous = true;        // requests without a key are let in, as the tenant of that name
  std::vector<Tenant> tenants;  // the anonymous one is added
  std::vector<Model> models;    // those that are not here have no price and 131,072 tokens of context
  ClassOptions interactive;
  ClassOptions batch{std::chrono::minutes{5}, {}, {}};
  admission::QueueLimits queue;
  admission::PressureLimits pressure;

  routing::EndpointPickerOptions picker;
  std::uint32_t key_tokens = 256;                           // of a routing key
  std::optional<routing::PingOptions> prefix_pings;         // none: off
  core::Duration ping_interval = std::chrono::seconds{10};  // from one look at what is due to the next
  bool hot_prefixes = true;  // texts of prefixes that many share are kept, for new replicas
  std::uint64_t seed = 1;
  std::uint32_t retries = 2;
  double retry_share = 0.1;  // of all requests; ten are always allowed
  BreakerOptions breaker;
  core::Duration health_interval = std::chrono::seconds{2};
  core::Duration scrape_interval = std::chrono::seconds{1};
  core::Duration first_byte_time = std::chrono::minutes{10};
  core::Duration silence = std::chrono::minutes{2};
  std::string replica_key;  // sent to replicas as theirs; the client's own never is

  signals::SloPolicy slo;
};

[[nodiscard]] const Model* model_of(const GatewayOptions& options, std::string_view name);  // null: not configured
[[nodiscard]] bool may_use(const Tenant& tenant, std::string_view model);
// What a request may need, prompt and answer: the model's limit or the tenant's, the smaller one.
[[nodiscard]] std::uint32_t context_tokens_of(const GatewayOptions& options, const Tenant& tenant,
                                              std::string_view model);

enum class ReplicaPhase : std::uint8_t { kWarming, kServing, kDraining };

// A replica as discovery tells it.
struct ReplicaSpec {
  std::string id;  // unique; "http://10.0.0.7:8000" where nothing else names it
  std::string url;
  std::string model;  // empty: asked of the replica
  std::string pool;
  signals::Role role = signals::Role::kAggregated;
  ReplicaPhase phase = ReplicaPhase::kServing;
  double weight = 1.0;
  std::uint64_t kv_tokens = 0;          // of its cache; 0: not known
  std::vector<net::Address> addresses;  // of its host, resolved
  bool operator==(const ReplicaSpec&) const = default;
};

}  // namespace penstock::gateway
