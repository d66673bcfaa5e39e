#include "gateway/gateway.h"

#include <unistd.h>

#include <atomic>
#include <utility>

#include "gateway/health_checker.h"
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
    // Digests are enough from here on.
    key.key.assign(key.key.size(), '\0');
  }
  options.api_keys.clear();
  return ring;
}

}  // namespace

Gateway::Gateway(GatewayOptions options) : options_(std::move(options)) {}

core::Result<std::unique_ptr<Gateway>> Gateway::open(GatewayOptions options, const net::Address& listen,
                                                     const net::Address& admin,
                                                     std::unique_ptr<dispatch::LedgerSink> sink) {
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
    // Sockets that share a port would share it with another gateway's, too, and nobody would notice.
    auto alone = net::listen_on(listen, false);
    if (!alone) return tl::make_unexpected(alone.error());
    ::close(*alone);
  }
  for (std::uint32_t index = 0; index < std::max(1U, own.threads); ++index) {
    auto socket = net::listen_on(shared, own.threads > 1);
    if (!socket) return tl::make_unexpected(socket.error());
    // Port 0 means the one that the first of them got.
    shared = net::local_address(*socket);
    gateway->workers_.push_back(
        std::make_unique<Worker>(own, *gateway->key_ring_, anonymous, *gateway->dispatcher_, *socket, index));
  }
  gateway->address_ = shared;
  auto socket = net::listen_on(admin, false);
  if (!socket) return tl::make_unexpected(socket.error());
  gateway->admin_address_ = net::local_address(*socket);
  gateway->steward_ =
      std::make_unique<HealthChecker>(own, *gateway->dispatcher_, *socket, [workers = &gateway->workers_] {
        net::ServerCounters sum;
        for (const auto& worker : *workers) {
          const net::ServerCounters counters = worker->counters();
          sum.accepted += counters.accepted;
          sum.refused += counters.refused;
          sum.requests += counters.requests;
          sum.malformed += counters.malformed;
          sum.timed_out += counters.timed_out;
          sum.clients_gone += counters.clients_gone;
          sum.open += counters.open;
          sum.busy += counters.busy;
        }
        return sum;
      });
  return gateway;
}

Gateway::~Gateway() {
  steward_.reset();
  // What one worker ends may let in what waits at another: none goes before all are still.
  for (const auto& worker : workers_) worker->stop();
  workers_.clear();
}

void Gateway::start() {
  for (const auto& worker : workers_) worker->start();
  steward_->start();
}

void Gateway::set_replicas(std::vector<ReplicaEndpoint> specs) { steward_->set_replicas(std::move(specs)); }

void Gateway::kv_event(std::string_view replica, dispatch::KvChange change, std::span<const std::uint64_t> keys) {
  dispatcher_->kv_event(replica, change, keys);
}

void Gateway::drain(std::function<void()> done) {
  auto left = std::make_shared<std::atomic<std::size_t>>(workers_.size());
  auto told = std::make_shared<std::function<void()>>(std::move(done));
  for (const auto& worker : workers_)
    worker->drain([left, told] {
      if (left->fetch_sub(1) == 1) (*told)();
    });
}

}  // namespace penstock::gateway
