#include "gateway/gateway.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/engine_controls.h"
#include "api/prompt_keys.h"
#include "gateway/control_thread.h"
#include "gateway/envoy_front.h"
#include "gateway/http_front.h"
#include "gateway/keys.h"
#include "gateway/worker.h"
#include "net/system_memory.h"

namespace penstock::gateway {
namespace {

constexpr std::string_view kAnonymous = "anonymous";
constexpr std::size_t kTenantsMax = 100'000;  // With those that were removed, whose numbers are not used again.

// The same at all gateways, so that they share the caches of a tenant.
std::string cache_salt_of(const std::string& tenant) {
  return fmt::format("{:016x}", api::key_salt_of("tenant " + tenant));
}

// Tenants by number. A tenant keeps the number that it has in `before`, and one that is not added stays as removed.
class NumberedTenants {
 public:
  explicit NumberedTenants(std::vector<dispatch::Tenant> before) : tenants_(std::move(before)) {
    for (dispatch::Tenant& tenant : tenants_) {
      tenant.removed = true;
      numbers_.emplace(tenant.name, static_cast<std::uint32_t>(numbers_.size()));
    }
  }
  std::uint32_t add(const dispatch::Tenant& tenant) {
    const auto [known, is_new] = numbers_.emplace(tenant.name, static_cast<std::uint32_t>(tenants_.size()));
    if (is_new)
      tenants_.push_back(tenant);
    else
      tenants_[known->second] = tenant;
    return known->second;
  }
  [[nodiscard]] std::vector<dispatch::Tenant> take() { return std::move(tenants_); }

 private:
  std::vector<dispatch::Tenant> tenants_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

// `before`: null for the first settings.
core::Result<std::shared_ptr<const Settings>> make_settings(GatewayOptions given, const Settings* before) {
  auto made = std::make_shared<Settings>(Settings{std::move(given), {}, {}, {}, 0});
  GatewayOptions& options = made->options;
  // Envoy sends a request once.
  options.dispatch.circuit_breaker.ejects_unreached = options.endpoint_picker.has_value();
  NumberedTenants numbered{before == nullptr ? std::vector<dispatch::Tenant>{} : before->options.dispatch.tenants};
  std::vector<std::uint32_t> numbers;
  for (const dispatch::Tenant& tenant : options.dispatch.tenants) numbers.push_back(numbered.add(tenant));
  dispatch::Tenant anonymous;
  anonymous.name = kAnonymous;
  made->anonymous.tenant = numbered.add(anonymous);
  for (ApiKey& key : options.api_keys) {
    if (auto added = made->key_ring.add(key.key, {numbers[key.tenant], std::move(key.name)}); !added) {
      core::Error error = added.error();
      error.where = "tenant " + options.dispatch.tenants[key.tenant].name;
      return tl::make_unexpected(std::move(error));
    }
    // Only the digests are needed from here on.
    key.key.assign(key.key.size(), '\0');
  }
  options.api_keys.clear();
  options.dispatch.tenants = numbered.take();
  if (options.dispatch.tenants.size() > kTenantsMax)
    return core::invalid_input("tenants",
                               fmt::format("{} tenants were added and removed since the start, at most {} may be",
                                           options.dispatch.tenants.size(), kTenantsMax),
                               "restart the gateway");
  for (const dispatch::Tenant& tenant : options.dispatch.tenants) {
    const bool isolated = tenant.isolation.value_or(options.isolation) == dispatch::Isolation::kTenant;
    made->cache_salts.push_back(isolated ? cache_salt_of(tenant.name) : std::string{});
  }
  for (const std::string& name : options.forward.fields) made->kept_controls |= 1ULL << api::engine_control_named(name);
  return made;
}

std::shared_ptr<net::MemoryBudget> make_memory_budget(const GatewayOptions& options) {
  const std::uint64_t limit = options.memory_max.value_or(net::usable_memory() / 2);
  const auto share = static_cast<std::uint64_t>(static_cast<double>(limit) * options.tenant_memory_share);
  return std::make_shared<net::MemoryBudget>(limit, share);
}

}  // namespace

Gateway::Gateway(std::shared_ptr<const Settings> settings) : first_(settings), settings_(std::move(settings)) {}

core::Result<std::unique_ptr<Gateway>> Gateway::open(GatewayOptions options, const net::Address& listen,
                                                     const net::Address& admin,
                                                     std::unique_ptr<dispatch::LedgerSink> sink, GatewayLogs logs,
                                                     Listening listening) {
  if (!options.server.memory) options.server.memory = make_memory_budget(options);
  auto settings = make_settings(std::move(options), nullptr);
  if (!settings) return tl::make_unexpected(settings.error());
  std::unique_ptr<Gateway> gateway{new Gateway{*std::move(settings)}};
  const GatewayOptions& own = gateway->first_->options;
  gateway->dispatcher_ = std::make_unique<SharedDispatcher>(own, std::move(sink));
  gateway->large_bodies_ = std::make_unique<LargeBodies>(own.large_body_threads);

  std::vector<net::Address> shared{admin};
  if (own.serves_http) shared.push_back(listen);
  if (own.endpoint_picker) shared.push_back(own.endpoint_picker->listen);
  if (listening == Listening::kAlone) {
    // Sockets that share a port would also share it with another gateway's sockets, without an error.
    for (const net::Address& address : shared) {
      auto alone = net::listen_on(address, false);
      if (!alone) return tl::make_unexpected(alone.error());
      ::close(*alone);
    }
  }
  if (own.endpoint_picker) {
    auto opened = gateway->open_pickers(logs);
    if (!opened) return tl::make_unexpected(opened.error());
    gateway->address_ = *(gateway->picker_address_ = *opened);
  }
  if (own.serves_http) {
    auto opened =
        gateway->open_workers(listen, logs, [&own](net::Loop& loop, net::ExchangeHandler& handler, int socket) {
          return std::make_unique<HttpFront>(loop, socket, handler, own);
        });
    if (!opened) return tl::make_unexpected(opened.error());
    gateway->address_ = *opened;
  }
  auto socket = net::listen_on(admin, true);
  if (!socket) return tl::make_unexpected(socket.error());
  gateway->admin_address_ = net::local_address(*socket);
  const auto totals = [workers = &gateway->workers_] {
    WorkerTotals sum;
    for (const auto& worker : *workers) worker->add_to(sum);
    return sum;
  };
  gateway->control_ =
      std::make_unique<ControlThread>(own, *gateway->dispatcher_, *socket, totals, gateway->lifecycle_, logs.log);
  for (const auto& worker : gateway->workers_)
    worker->set_prompt_counter(
        [control = gateway->control_.get()](PromptToCount prompt) { control->count_prompt(std::move(prompt)); });
  return gateway;
}

core::Result<net::Address> Gateway::open_workers(const net::Address& listen, GatewayLogs logs,
                                                 const MakeFront& make_front) {
  net::Address shared = listen;
  for (std::uint32_t index = 0; index < std::max(1U, first_->options.threads); ++index) {
    auto socket = net::listen_on(shared, true);
    if (!socket) return tl::make_unexpected(socket.error());
    // For port 0, the other sockets use the port that the first one got.
    shared = net::local_address(*socket);
    const auto front = [&](net::Loop& loop, net::ExchangeHandler& handler) {
      return make_front(loop, handler, *socket);
    };
    workers_.push_back(std::make_unique<Worker>(settings_, *dispatcher_, logs, front, *large_bodies_, workers_.size()));
  }
  return shared;
}

core::Result<net::Address> Gateway::open_pickers(GatewayLogs logs) {
  const GatewayOptions& own = first_->options;
  int health = -1;
  if (own.endpoint_picker->health_listen) {
    auto socket = net::listen_on(*own.endpoint_picker->health_listen, true);
    if (!socket) return tl::make_unexpected(socket.error());
    health = *socket;
  }
  const auto is_ready = [this] { return ready() && !lifecycle_.draining; };
  return open_workers(
      own.endpoint_picker->listen, logs, [&](net::Loop& loop, net::ExchangeHandler& handler, int socket) {
        return std::make_unique<EnvoyFront>(loop, socket, handler, own, is_ready, std::exchange(health, -1));
      });
}

Gateway::~Gateway() {
  // The end of a request at one worker may admit one that waits at another. Therefore all stop before any is destroyed.
  for (const auto& worker : workers_) worker->stop();
  control_.reset();
  // Its tasks use the handlers of the workers.
  large_bodies_.reset();
  workers_.clear();
}

void Gateway::start_control() {
  if (!std::exchange(control_runs_, true)) control_->start();
}

void Gateway::start() {
  start_control();
  for (const auto& worker : workers_) worker->start();
}

core::Result<void> Gateway::reconfigure(GatewayOptions options) {
  auto settings = make_settings(std::move(options), settings_.get());
  if (!settings) return tl::make_unexpected(settings.error());
  // Only what takes effect at once differs from the first settings.
  auto made = std::make_shared<Settings>(**settings);
  const GatewayOptions next = std::exchange(made->options, first_->options);
  static_cast<ReloadableOptions&>(made->options) = next;
  static_cast<dispatch::ReloadableOptions&>(made->options.dispatch) = next.dispatch;
  control_->set_access(next.admin_access, next.admin_tls);
  dispatcher_->reconfigure(made->options.dispatch);
  for (const auto& worker : workers_) worker->reconfigure(made);
  settings_ = std::move(made);
  return {};
}

void Gateway::set_replicas(std::vector<ReplicaEndpoint> specs, bool complete) {
  control_->set_replicas(std::move(specs), complete);
}

void Gateway::kv_event(std::string_view replica, dispatch::KvChange change, std::span<const std::uint64_t> keys) {
  dispatcher_->kv_event(replica, change, keys);
}

void Gateway::count_kv_messages(std::string_view replica, const telemetry::MessageCounts& added) {
  dispatcher_->count_kv_messages(replica, added);
}

void Gateway::announce_drain() {
  lifecycle_.draining = true;
  for (const auto& worker : workers_) worker->announce_drain();
}

void Gateway::release_admin() { control_->release_admin(); }

void Gateway::cut() {
  for (const auto& worker : workers_) worker->cut();
}

void Gateway::drain(std::function<void()> done) {
  lifecycle_.draining = true;
  auto left = std::make_shared<std::atomic<std::size_t>>(workers_.size());
  auto notify = std::make_shared<std::function<void()>>(std::move(done));
  for (const auto& worker : workers_)
    worker->drain([left, notify] {
      if (left->fetch_sub(1) == 1) (*notify)();
    });
}

}  // namespace penstock::gateway
