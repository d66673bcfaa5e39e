// The live data path: accepts OpenAI API requests and forwards each to one of many replicas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "gateway/lifecycle.h"
#include "gateway/options.h"
#include "gateway/shared_dispatcher.h"
#include "gateway/worker_context.h"
#include "net/address.h"
#include "net/loop.h"

namespace penstock::gateway {

class ControlThread;
class Worker;

// Threads: one for each worker, and one for health checks and the admin address. All functions may be called on any
// thread.
class Gateway {
 public:
  // kBesideOthers: on the ports of another process of this user that allows it; see net/takeover.h.
  enum class Listening : std::uint8_t { kAlone, kBesideOthers };
  // Listens on the addresses, also those of an endpoint picker, and returns an error if a port is in use. Requests are
  // served after start(); clients that connect before wait.
  [[nodiscard]] static core::Result<std::unique_ptr<Gateway>> open(GatewayOptions options, const net::Address& listen,
                                                                   const net::Address& admin,
                                                                   std::unique_ptr<dispatch::LedgerSink> sink,
                                                                   GatewayLogs logs,
                                                                   Listening listening = Listening::kAlone);
  ~Gateway();  // Closes open connections.

  void start_control();  // Starts with the health of replicas and the admin address.
  void start();          // Serves requests; calls start_control() unless that was done.
  // Returns true if a replica may be chosen, once the models of all replicas that answer are known.
  [[nodiscard]] bool ready() const { return dispatcher_->ready(net::Loop::read_clock()); }
  // Of clients, or of the endpoint picker where there is no other.
  [[nodiscard]] net::Address address() const { return address_; }
  [[nodiscard]] std::optional<net::Address> endpoint_picker_address() const { return picker_address_; }
  [[nodiscard]] net::Address admin_address() const { return admin_address_; }

  // Applies what can change at run time: API keys, access to the admin address, and both structs ReloadableOptions; a
  // TLS certificate is that of later connections. Everything else stays. A tenant that was removed keeps its open
  // requests. An invalid API key is an error; nothing is applied then. One thread calls it.
  [[nodiscard]] core::Result<void> reconfigure(GatewayOptions options);

  // Replaces the list. `complete`: every source of replicas has been read.
  void set_replicas(std::vector<ReplicaEndpoint> specs, bool complete = true);
  void kv_event(std::string_view replica, dispatch::KvChange change, std::span<const std::uint64_t> keys);
  void count_kv_messages(std::string_view replica, const telemetry::MessageCounts& added);

  // Events of requests, for a TrafficRecorder; see dispatch::TrafficLog.
  [[nodiscard]] dispatch::TrafficLog::Page traffic(std::uint64_t after, std::size_t events_max) const {
    return dispatcher_->traffic(after, events_max);
  }
  [[nodiscard]] std::uint32_t open_requests() const { return dispatcher_->open_requests(); }
  // Reports "not ready", and asks clients to close their connections after the next answer. New connections and
  // requests are still accepted.
  void announce_drain();
  // Refuses new connections and lets requests in flight end. `done` is then called once, on some thread.
  void drain(std::function<void()> done);
  void release_admin();  // Stops listening on the admin address.
  // Cuts all requests in flight. They are settled with what was delivered so far.
  void cut();
  [[nodiscard]] Lifecycle& lifecycle() { return lifecycle_; }

 private:
  explicit Gateway(std::shared_ptr<const Settings> settings);
  using MakeFront = std::function<std::unique_ptr<Front>(net::Loop&, net::ExchangeHandler&, int listening)>;
  // Opens a worker for each thread on sockets that share the address. Returns the address.
  [[nodiscard]] core::Result<net::Address> open_workers(const net::Address& listen, GatewayLogs logs,
                                                        const MakeFront& make_front);
  [[nodiscard]] core::Result<net::Address> open_pickers(GatewayLogs logs);

  std::shared_ptr<const Settings> first_;     // The control thread reads them for as long as it runs.
  std::shared_ptr<const Settings> settings_;  // The latest ones.
  Lifecycle lifecycle_;
  bool control_runs_ = false;
  net::Address address_, admin_address_;
  std::optional<net::Address> picker_address_;
  std::unique_ptr<SharedDispatcher> dispatcher_;
  std::unique_ptr<LargeBodies> large_bodies_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<ControlThread> control_;
};

}  // namespace penstock::gateway
