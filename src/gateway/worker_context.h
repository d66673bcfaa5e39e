// What the request handlers of one worker thread share.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/request.h"
#include "core/random.h"
#include "gateway/keys.h"
#include "gateway/options.h"
#include "gateway/refusal.h"
#include "gateway/shared_dispatcher.h"
#include "logging/log.h"
#include "logging/throttle.h"
#include "net/client.h"
#include "net/loop.h"

namespace penstock::gateway {

class RequestHandler;

// Where a gateway reports. Both outlive it; any thread writes.
struct GatewayLogs {
  logging::Log& log;
  logging::Log* access = nullptr;  // gets a line for each request; null: no access log
};

// `scratch` and `keys` describe the request that is being read, and nothing in them outlives that call.
struct WorkerContext {
  const GatewayOptions& options;
  const KeyRing& key_ring;
  std::uint32_t anonymous_tenant;
  SharedDispatcher& dispatcher;
  dispatch::GrantListener& listener;
  net::Loop& loop;
  net::Client& client;
  GatewayLogs logs;
  core::RandomStream random;
  logging::Throttle refusals{std::chrono::seconds{10}};
  api::RequestReader reader{};
  api::InferenceRequest scratch{};
  std::vector<std::uint64_t> keys{};
  std::unordered_map<dispatch::Ticket, RequestHandler*> waiting{};
  std::vector<RequestHandler*> free{};
};

}  // namespace penstock::gateway
