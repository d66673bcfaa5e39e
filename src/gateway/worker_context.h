// What the request handlers of one worker thread share.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/request.h"
#include "core/random.h"
#include "gateway/front.h"
#include "gateway/keys.h"
#include "gateway/large_bodies.h"
#include "gateway/latency_histograms.h"
#include "gateway/options.h"
#include "gateway/refusal.h"
#include "gateway/shared_dispatcher.h"
#include "logging/log.h"
#include "logging/throttle.h"
#include "net/loop.h"
#include "net/server.h"

namespace penstock::gateway {

class RequestHandler;

// What requests are read with. A gateway that is reconfigured hands its workers a new one.
struct Settings {
  // Without the API keys. Tenants have the dispatcher's numbers, so that removed ones are among them.
  GatewayOptions options;
  KeyRing key_ring;
  KeyOwner anonymous;                    // Of requests without a key.
  std::vector<std::string> cache_salts;  // Of each tenant; empty: it shares the cache with others.
  std::uint64_t kept_controls = 0;       // See api::BodyChanges.

  // Null if the key is not known, or is missing and needed.
  [[nodiscard]] const KeyOwner* owner_of(std::string_view key) const {
    return key_ring.owner_or(key, options.anonymous ? &anonymous : nullptr);
  }
};

// Where a gateway reports. Both outlive it; any thread writes.
struct GatewayLogs {
  logging::Log& log;
  logging::Log* access = nullptr;  // gets a line for each request; null: no access log
};

// A prompt that an engine shall count.
struct PromptToCount {
  std::string model, body;                                 // Body of POST /tokenize.
  std::function<void(std::optional<std::uint32_t>)> done;  // Called on another thread, or never.
};

// `scratch` and `keys` describe the request that is being read, and nothing in them outlives that call.
struct WorkerContext {
  std::shared_ptr<const Settings> settings;  // replaced between two events of the loop
  SharedDispatcher& dispatcher;
  dispatch::GrantListener& listener;
  net::Loop& loop;
  Front& front;
  GatewayLogs logs;
  LargeBodies& large_bodies;
  core::RandomStream random;
  logging::Throttle refusals{std::chrono::seconds{10}};
  api::RequestReader reader{};
  api::InferenceRequest scratch{};
  std::vector<std::uint64_t> keys{};
  std::unordered_map<dispatch::Ticket, RequestHandler*> waiting{};
  std::vector<RequestHandler*> free{};
  std::vector<net::MemoryAccount*> accounts{};  // By tenant; those of the current settings.
  std::uint64_t memory_refusals = 0;
  RefusalCounts refusal_counts{};
  LatencyHistograms latencies{};
  std::function<void(PromptToCount)> count_prompt{};
};

// Sums over workers.
struct WorkerTotals {
  net::ServerCounters connections;
  std::map<std::string, std::uint64_t> refusals;  // By error code, without those that the dispatcher counts.
  LatencyTotals latencies;
};

}  // namespace penstock::gateway
