#include "gateway/control_thread.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "core/random.h"
#include "net/unix_time.h"

namespace penstock::gateway {
namespace {

constexpr core::Duration kTick = std::chrono::milliseconds{50};
constexpr core::Duration kOverloadLook = std::chrono::seconds{1};

logging::Event event_of(dispatch::CircuitBreaker::State state) {
  switch (state) {
    case dispatch::CircuitBreaker::State::kOpen: return logging::Event::kBreakerOpen;
    case dispatch::CircuitBreaker::State::kTrying: return logging::Event::kBreakerTrying;
    case dispatch::CircuitBreaker::State::kClosed: break;
  }
  return logging::Event::kBreakerClosed;
}

// Differs between two runs of the gateway.
std::string make_boot_id() {
  return fmt::format("{:x}", core::mix64(static_cast<std::uint64_t>(net::unix_time().count())));
}

}  // namespace

ControlThread::ControlThread(const GatewayOptions& options, SharedDispatcher& dispatcher, int listening,
                             AdminServer::Totals totals, const Lifecycle& lifecycle, logging::Log& log)
    : dispatcher_(dispatcher),
      log_(log),
      client_(loop_),
      health_(loop_, options, dispatcher, client_, log),
      pinger_(loop_, options, dispatcher, health_),
      warm_up_(loop_, options, dispatcher, health_),
      budgets_(loop_, options, dispatcher, log, make_boot_id()),
      admin_(loop_, listening, dispatcher, budgets_, std::move(totals), lifecycle, options.admin_access,
             options.admin_tls) {
  loop_.every(kTick, [this] { tick(); });
  loop_.every(kOverloadLook, [this] { look_at_overload(); });
}

ControlThread::~ControlThread() {
  loop_.stop();
  if (thread_.joinable()) thread_.join();
}

void ControlThread::start() {
  thread_ = std::thread{[this] { loop_.run(); }};
}

void ControlThread::set_access(net::AccessOptions access, std::shared_ptr<net::TlsContext> tls) {
  loop_.post([this, access = std::move(access), tls = std::move(tls)]() mutable {
    budgets_.set_access(access);
    admin_.set_access(std::move(access), std::move(tls));
  });
}

void ControlThread::count_prompt(PromptToCount prompt) {
  loop_.post([this, prompt = std::move(prompt)]() mutable {
    health_.count_prompt(prompt.model, std::move(prompt.body), std::move(prompt.done));
  });
}

void ControlThread::release_admin() {
  loop_.post([this] { admin_.drain(); });
}

void ControlThread::set_replicas(std::vector<ReplicaEndpoint> replicas, bool complete) {
  loop_.post([this, complete, replicas = std::move(replicas)]() mutable {
    warm_up_.set_replicas(std::move(replicas), complete);
  });
}

void ControlThread::tick() {
  for (const std::string& id : dispatcher_.take_refused_credentials()) health_.check_credentials(id);
  for (const dispatch::BreakerChange& change : dispatcher_.tick(loop_.now())) {
    if (change.state == dispatch::CircuitBreaker::State::kOpen)
      log_.write(logging::Event::kBreakerOpen, {{"replica", change.replica},
                                                {"failures", change.failures},
                                                {"cause", to_string(change.cause)},
                                                {"time_s", core::to_seconds(change.time)}});
    else
      log_.write(event_of(change.state), {{"replica", change.replica}});
  }
}

void ControlThread::look_at_overload() {
  for (const OverloadChange& change : overload_.look(dispatcher_.overload(), loop_.now())) {
    if (change.began)
      log_.write(logging::Event::kOverloadBegan,
                 {{"class", change.traffic_class}, {"tenant", change.tenant}, {"action", change.action}});
    else
      log_.write(logging::Event::kOverloadEnded, {{"class", change.traffic_class},
                                                  {"tenant", change.tenant},
                                                  {"action", change.action},
                                                  {"requests", change.requests}});
  }
}

}  // namespace penstock::gateway
