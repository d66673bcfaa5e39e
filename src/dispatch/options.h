// Options of a dispatcher that are fixed at its start. Replicas can change later; see replica_set.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admission/budget.h"
#include "admission/overload.h"
#include "admission/pressure.h"
#include "admission/queue.h"
#include "admission/reservation.h"
#include "core/time.h"
#include "dispatch/pool_rules.h"
#include "ledger/entry.h"
#include "routing/endpoint_picker.h"
#include "routing/router.h"
#include "signals/slo.h"

namespace penstock::dispatch {

// What happens to a request of a tenant whose budget or concurrency limit does not allow it to go.
enum class OverBudget : std::uint8_t {
  kReject,
  kQueue,  // It waits as its class does.
  kBatch,  // It becomes a batch request, which waits as that class does.
};

[[nodiscard]] constexpr const char* to_string(OverBudget policy) {
  return policy == OverBudget::kReject ? "reject" : policy == OverBudget::kQueue ? "queue" : "batch";
}

// What happens to a prompt that exceeds the context or the cap of its model or tenant.
enum class OverContext : std::uint8_t { kReject, kTruncate };

[[nodiscard]] constexpr const char* to_string(OverContext policy) {
  return policy == OverContext::kTruncate ? "truncate" : "reject";
}

// Limits of each prompt and of each answer apart; 0: no limit.
struct TokenCaps {
  std::uint32_t prompt_tokens = 0, completion_tokens = 0;
};
// The smaller limit of each.
[[nodiscard]] TokenCaps tighter(const TokenCaps& one, const TokenCaps& other);

// Whether a prefix cache may be shared between tenants.
enum class Isolation : std::uint8_t { kNone, kTenant };

[[nodiscard]] constexpr const char* to_string(Isolation isolation) {
  return isolation == Isolation::kTenant ? "tenant" : "none";
}

struct Tenant {
  std::string name;
  double weight = 1.0;
  std::int32_t tier = 0;
  admission::BudgetLimits budget;
  OverBudget over_budget = OverBudget::kReject;
  admission::Reserve reserve = admission::Reserve::kWorst;
  std::uint32_t concurrent = 0;             // 0: no limit.
  std::uint32_t context_tokens = 0;         // 0: the model's limit applies.
  TokenCaps caps;                           // Those of the model apply, too.
  std::optional<OverContext> over_context;  // Empty: that of the model.
  std::vector<std::string> models;          // Empty: all models.
  bool removed = false;  // No request of it arrives any more; those that are open end with these limits.
  // The class of its requests. A request may name a lower one.
  admission::Class traffic_class = admission::Class::kInteractive;
  std::int32_t priority = 0;  // At engines that schedule by priority; lower numbers go first.
  std::optional<Isolation> isolation;
  bool is_operator = false;                           // May see which replica answered, and why.
  std::optional<admission::OverloadAction> overload;  // Empty: that of the class.
};

struct Model {
  std::string name;
  ledger::Price price;
  std::uint32_t context_tokens = 0;  // Of prompt and answer together; 0: what its replicas report.
  OverContext over_context = OverContext::kReject;
  TokenCaps caps{};
};

// What happens to a deferred request whose deadline is so near that it must go now.
enum class NearDeadline : std::uint8_t { kSend, kRefuse };

struct ClassOptions {
  core::Duration queue_time = std::chrono::seconds{10};  // 0: requests of the class never wait.
  core::Duration time_budget{};                          // For the complete answer; 0: none. The caller enforces it.
  admission::BudgetLimits budget;
  admission::OverloadAction overload = admission::OverloadAction::kDegrade;
  admission::DegradeLimits degrade{};
  // Instead of queue_time for a request that arrives while no replica is available, if it is longer.
  core::Duration cold_start_queue_time{};
};

// Requests of the class batch may wait for spare capacity.
struct BatchOptions : ClassOptions {
  core::Duration completion_window{};  // Time from arrival to the end of the answer; 0: requests are not deferred.
  // A replica has spare capacity below this share of the ITL objective of interactive requests and of kv_throttle.
  double defer_load = 0.7;
  NearDeadline near_deadline = NearDeadline::kSend;
  // Longest wait for spare capacity; 0: until the deadline is near. Not for configurations: a short simulation would
  // otherwise end before requests that its fleet cannot serve are sent.
  core::Duration spare_wait_most{};
};

// Tokens that each part of a prompt that is no text counts as, and the most that the template of a chat adds.
struct MediaTokens {
  std::uint32_t image_tokens = 1024, audio_tokens = 1024;
  std::uint32_t file_tokens = 4096;  // Documents and videos.
  std::uint32_t template_tokens = 256;
};

struct CircuitBreakerOptions {
  static constexpr std::uint32_t kNever = UINT32_MAX;
  std::uint32_t failures = 5;  // Consecutive failures that eject a replica; kNever: none is ejected.
  // Time until one request tries the replica again. It doubles with each further ejection, up to `open_max`.
  core::Duration open = std::chrono::seconds{20};
  core::Duration open_max = std::chrono::minutes{5};
  double ejected_max = 0.5;  // Maximum share of the replicas of a group that are ejected; one always may, one never.
  core::Duration window = std::chrono::minutes{1};  // Attempts that ended within it have a success rate.
  std::uint32_t window_requests = 20;               // Minimum number of attempts for that.
  double success_min = 0.5;                         // A lower success rate ejects.
  double deviations = 1.9;                          // Standard deviations below the peers that eject.
  // One attempt that does not reach the replica ejects it, where no other replica can take the request.
  bool ejects_unreached = false;
};

// Options that Dispatcher::reconfigure() applies.
struct ReloadableOptions {
  std::vector<Tenant> tenants;
  std::vector<Model> models;
  ClassOptions interactive;
  BatchOptions batch{{std::chrono::minutes{5}, {}, {}}};
  admission::PressureLimits pressure;
  // max_tokens of a request without one whose worst case is reserved.
  std::uint32_t max_tokens_default = 4096;
  MediaTokens media;
  std::uint32_t retries = 2;
  // Retries are at most this share of the requests that were granted within the last minute, and ten more.
  double retry_share = 0.1;
  CircuitBreakerOptions circuit_breaker;
  // How long the caller waits for a replica; 0: without limit.
  core::Duration first_byte_timeout = std::chrono::minutes{10};  // Until it begins its answer.
  core::Duration stream_idle_timeout = std::chrono::minutes{2};  // Between two pieces of an answer.
  // The same at a replica that is unresponsive.
  core::Duration unresponsive_idle_timeout = std::chrono::seconds{30};
  signals::SloPolicy slo;

  [[nodiscard]] const ClassOptions& of_class(admission::Class traffic_class) const {
    return traffic_class == admission::Class::kBatch ? batch : interactive;
  }
  // A fleet that may have no replica starts the first one when a request waits for it.
  [[nodiscard]] bool waits_for_first_replica() const {
    return interactive.cold_start_queue_time > interactive.queue_time;
  }
};

struct DispatchOptions : ReloadableOptions {
  std::uint32_t context_tokens = 131'072;  // Of models without a limit of the options or of their replicas.
  admission::QueueLimits queue;
  std::vector<PoolRule> pools;  // Of aggregated replicas, at most kPoolsMax; empty: any replica serves any request.

  routing::Strategy strategy = routing::Strategy::kLive;
  routing::EndpointPickerOptions picker;  // For Strategy::kLive.
  std::uint32_t key_tokens = 256;         // Prompt tokens per routing key.
  std::uint64_t seed = 1;

  bool traffic_log = true;     // If false, planners get no request events.
  bool latency_meters = true;  // If false, ModelStatus has no latencies.
};

// No limits, deadlines, pressure or retry budget, and neither log nor meters: only the strategy's choice remains.
[[nodiscard]] DispatchOptions unlimited_options();

// Null if the model is not configured.
[[nodiscard]] const Model* model_of(const DispatchOptions& options, std::string_view name);
[[nodiscard]] bool may_use(const Tenant& tenant, std::string_view model);

}  // namespace penstock::dispatch
