// The live data path: accepts OpenAI API requests and forwards each to one of many replicas.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "gateway/options.h"
#include "gateway/shared_dispatcher.h"
#include "gateway/worker_context.h"
#include "net/address.h"

namespace penstock::gateway {

class ControlThread;
class Worker;

// Threads: one for each worker, and one for health checks and the admin address. All functions may be called on any
// thread.
class Gateway {
 public:
  // Listens on both addresses and returns an error if a port is in use. Requests are served after start().
  [[nodiscard]] static core::Result<std::unique_ptr<Gateway>> open(GatewayOptions options, const net::Address& listen,
                                                                   const net::Address& admin,
                                                                   std::unique_ptr<dispatch::LedgerSink> sink,
                                                                   GatewayLogs logs);
  ~Gateway();  // Closes open connections.

  void start();
  [[nodiscard]] net::Address address() const { return address_; }
  [[nodiscard]] net::Address admin_address() const { return admin_address_; }

  // Applies what can change at run time: API keys, whether anonymous requests are admitted, the limits of tenants, the
  // limits of replicas (DispatchOptions::pressure) and retries. Everything else stays. Errors: an invalid API key, and
  // tenants other than those the gateway began with; nothing is applied then.
  [[nodiscard]] core::Result<void> reconfigure(GatewayOptions options);

  // Replaces the list and resolves the addresses.
  void set_replicas(std::vector<ReplicaEndpoint> specs);
  void kv_event(std::string_view replica, dispatch::KvChange change, std::span<const std::uint64_t> keys);

  [[nodiscard]] std::uint32_t open_requests() const { return dispatcher_->open_requests(); }
  // Refuses new connections and lets requests in flight end. `done` is then called once, on some thread.
  void drain(std::function<void()> done);

 private:
  explicit Gateway(std::shared_ptr<const Settings> settings);

  std::shared_ptr<const Settings> settings_;  // the first ones, which the control thread reads for as long as it runs
  net::Address address_, admin_address_;
  std::unique_ptr<SharedDispatcher> dispatcher_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<ControlThread> control_;
};

}  // namespace penstock::gateway
