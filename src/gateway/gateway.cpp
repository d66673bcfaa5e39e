#include "gateway/gateway.h"

#include <unistd.h>

#include <atomic>
#include <utility>

#include "gateway/control_thread.h"
#include "gateway/keys.h"
#include "gateway/worker.h"

namespace penstock::gateway {
namespace {

constexpr std::string_view kAnonymous = "anonymous";

core::Result<std::unique_ptr<KeyRing>> ring_of(GatewayOptions& options) {
  auto ring = std::make_unique<KeyRing>();
  for (ApiKey& key : options.api_keys) {
    if (auto added = ring->add(key.key, key.tenant); !added) {
      core::Error error = added.error();
      error.where = "tenant " + options.dispatch.tenants[key.tenant].name;
      return tl::make_unexpected(std::move(error));
    }
    // Only the digests are needed from here on.
    key.key.assign(key.key.size(), '\0');
  }
  options.api_keys.clear();
  return ring;
}

void add(net::ServerCounters& sum, const net::ServerCounters& counters) {
  sum.accepted += counters.accepted;
  sum.refused += counters.refused;
  sum.requests += counters.requests;
  sum.malformed += counters.malformed;
  sum.timed_out += counters.timed_out;
  sum.clients_gone += counters.clients_gone;
  sum.open += counters.open;
  sum.busy += counters.busy;
}

}  // namespace

Gateway::Gateway(GatewayOptions options) : options_(std::move(options)) {}

core::Result<std::unique_ptr<Gateway>> Gateway::open(GatewayOptions options, const net::Address& listen,
                                                     const net::Address& admin,
                                                     std::unique_ptr<dispatch::LedgerSink> sink, GatewayLogs logs) {
  std::unique_ptr<Gateway> gateway{new Gateway{std::move(options)}};
  GatewayOptions& own = gateway->options_;
  auto ring = ring_of(own);
  if (!ring) return tl::make_unexpected(ring.error());
  gateway->key_ring_ = *std::move(ring);
  const auto anonymous = static_cast<std::uint32_t>(own.dispatch.tenants.size());
  own.dispatch.tenants.emplace_back().name = kAnonymous;
  gateway->dispatcher_ = std::make_unique<SharedDispatcher>(own, std::move(sink));

  net::Address shared = listen;
  if (own.threads > 1) {
    // Sockets that share a port would also share it with another gateway's sockets, without an error.
    auto alone = net::listen_on(listen, false);
    if (!alone) return tl::make_unexpected(alone.error());
    ::close(*alone);
  }
  for (std::uint32_t index = 0; index < std::max(1U, own.threads); ++index) {
    auto socket = net::listen_on(shared, own.threads > 1);
    if (!socket) return tl::make_unexpected(socket.error());
    // For port 0, the other sockets use the port that the first one got.
    shared = net::local_address(*socket);
    gateway->workers_.push_back(
        std::make_unique<Worker>(own, *gateway->key_ring_, anonymous, *gateway->dispatcher_, logs, *socket, index));
  }
  gateway->address_ = shared;
  auto socket = net::listen_on(admin, false);
  if (!socket) return tl::make_unexpected(socket.error());
  gateway->admin_address_ = net::local_address(*socket);
  const auto counts = [workers = &gateway->workers_] {
    net::ServerCounters sum;
    for (const auto& worker : *workers) add(sum, worker->counters());
    return sum;
  };
  gateway->control_ = std::make_unique<ControlThread>(own, *gateway->dispatcher_, *socket, counts, logs.log);
  return gateway;
}

Gateway::~Gateway() {
  control_.reset();
  // The end of a request at one worker may admit one that waits at another. Therefore all stop before any is destroyed.
  for (const auto& worker : workers_) worker->stop();
  workers_.clear();
}

void Gateway::start() {
  for (const auto& worker : workers_) worker->start();
  control_->start();
}

void Gateway::set_replicas(std::vector<ReplicaEndpoint> specs) { control_->set_replicas(std::move(specs)); }

void Gateway::kv_event(std::string_view replica, dispatch::KvChange change, std::span<const std::uint64_t> keys) {
  dispatcher_->kv_event(replica, change, keys);
}

void Gateway::drain(std::function<void()> done) {
  auto left = std::make_shared<std::atomic<std::size_t>>(workers_.size());
  auto notify = std::make_shared<std::function<void()>>(std::move(done));
  for (const auto& worker : workers_)
    worker->drain([left, notify] {
      if (left->fetch_sub(1) == 1) (*notify)();
    });
}

}  // namespace penstock::gateway
