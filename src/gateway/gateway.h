// The live data path in front of the engines: OpenAI's API in, one replica of many out.
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
class KeyRing;

// Threads: one for each worker, and one for health checks and the admin address. All calls from any thread.
class Gateway {
 public:
  // Listens on both addresses, so that a port that is taken is an error here; serves from start() on.
  [[nodiscard]] static core::Result<std::unique_ptr<Gateway>> open(GatewayOptions options, const net::Address& listen,
                                                                   const net::Address& admin,
                                                                   std::unique_ptr<dispatch::LedgerSink> sink,
                                                                   GatewayLogs logs);
  ~Gateway();  // cuts what is open

  void start();
  [[nodiscard]] net::Address address() const { return address_; }
  [[nodiscard]] net::Address admin_address() const { return admin_address_; }

  // Replaces the list; addresses are resolved.
  void set_replicas(std::vector<ReplicaEndpoint> specs);
  void kv_event(std::string_view replica, dispatch::KvChange change, std::span<const std::uint64_t> keys);

  [[nodiscard]] std::uint32_t open_requests() const { return dispatcher_->open_requests(); }
  // Refuses new connections and lets requests in flight end. `done` is called once, on some thread, when they have.
  void drain(std::function<void()> done);

 private:
  explicit Gateway(GatewayOptions options);

  GatewayOptions options_;
  std::unique_ptr<KeyRing> key_ring_;
  net::Address address_, admin_address_;
  std::unique_ptr<SharedDispatcher> dispatcher_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<ControlThread> control_;
};

}  // namespace penstock::gateway
