#include "connect/kubernetes/lease_election.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "connect/kubernetes/api_time.h"
#include "net/access.h"

namespace penstock::connect {
namespace {

LeaseFailure failure_of(ApiReason reason, bool is_create) {
  switch (reason) {
    case ApiReason::kConflict:
    case ApiReason::kAlreadyExists: return LeaseFailure::kConflict;
    // To create an object fails so if its namespace is missing.
    case ApiReason::kNotFound: return is_create ? LeaseFailure::kRefused : LeaseFailure::kNotFound;
    case ApiReason::kUnreachable:
    case ApiReason::kServerError:
    case ApiReason::kMalformed: return LeaseFailure::kUnknown;
    default: return LeaseFailure::kRefused;
  }
}

}  // namespace

std::string new_lease_identity() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  std::string made{host.data()};
  if (made.empty()) made = "penstock";
  return made + "_" + net::make_token().substr(0, 16);
}

LeaseElection::LeaseElection(net::Loop& loop, KubernetesClient& client, ObjectName lease, LeaseOptions options,
                             Listener listener)
    : loop_(loop),
      client_(client),
      name_(std::move(lease)),
      identity_(options.identity),
      timeout_(options.request_timeout()),
      listener_(std::move(listener)),
      elector_(std::move(options), client.random()) {
  timer_ = loop_.after(core::Duration{}, [this] { step(); });
}

LeaseElection::~LeaseElection() { loop_.cancel(timer_); }

core::Instant LeaseElection::read_clock() {
  std::timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return core::kStart + std::chrono::seconds{now.tv_sec} + std::chrono::nanoseconds{now.tv_nsec};
}

void LeaseElection::step() {
  const core::Instant now = read_clock();
  if (in_flight_ && now >= sent_ + timeout_) give_up();
  if (!in_flight_) {
    const LeaseElector::Request request = elector_.next(now);
    if (request.kind != LeaseElector::Request::Kind::kNone) send(request, now);
  }
  notify();
  wake_up_for_next();
  if (!in_flight_ && elector_.is_ended() && done_) std::exchange(done_, nullptr)();
}

void LeaseElection::send(const LeaseElector::Request& request, core::Instant now) {
  const bool is_write = request.kind == LeaseElector::Request::Kind::kWrite;
  ApiCall call = get_call(kLeases, name_.in_namespace, name_.name);
  call.is_retried = false;
  if (is_write) {
    Lease lease = request.lease;
    lease.renewed_time = api_time_now();
    if (request.is_transition) lease.acquired_time = lease.renewed_time;
    lease.note = leads() && listener_.note ? listener_.note() : std::string{};
    call = write_lease_call(name_.in_namespace, name_.name, lease);
  }
  in_flight_ = true;
  sent_ = now;
  const bool is_create = is_write && request.lease.resource_version.empty();
  client_.request(std::move(call), [this, is_write, is_create, number = ++request_,
                                    alive = std::weak_ptr<int>{alive_}](ApiAnswer answer) {
    if (!alive.expired() && in_flight_ && number == request_) take(is_write, is_create, sent_, std::move(answer));
  });
}

void LeaseElection::take(bool is_write, bool is_create, core::Instant sent, ApiAnswer answer) {
  in_flight_ = false;
  if (!answer) {
    const ApiReason reason = answer.error().reason;
    const LeaseFailure failure = failure_of(reason, is_create);
    const bool is_usual = failure == LeaseFailure::kConflict || failure == LeaseFailure::kNotFound;
    fail(failure, is_usual ? std::string{} : answer.error().message());
    return step();
  }
  const auto lease = parse_lease(*answer);
  if (!lease) {
    fail(LeaseFailure::kUnknown, lease.error().message());
    return step();
  }
  reported_.clear();
  if (is_write)
    elector_.on_written(sent, read_clock(), *lease);
  else
    elector_.on_read(read_clock(), *lease);
  step();
}

void LeaseElection::give_up() {
  in_flight_ = false;
  fail(LeaseFailure::kUnknown,
       fmt::format("{}/{}: no answer in {:g} s", name_.in_namespace, name_.name, core::to_seconds(timeout_)));
}

void LeaseElection::fail(LeaseFailure failure, const std::string& cause) {
  elector_.on_failed(read_clock(), failure);
  if (cause.empty() || std::exchange(reported_, cause) == cause) return;
  if (listener_.failed) listener_.failed(cause);
}

void LeaseElection::notify() {
  const bool leads_now = leads();
  if (std::exchange(led_, leads_now) == leads_now && known_holder_ == elector_.holder()) return;
  known_holder_ = elector_.holder();
  if (listener_.changed) listener_.changed();
}

void LeaseElection::wake_up_for_next() {
  if (!in_flight_ && elector_.is_ended()) return;
  const core::Instant now = read_clock();
  core::Instant next = in_flight_ ? sent_ + timeout_ : elector_.due();
  if (led_) next = std::min(next, elector_.deadline());
  if (elector_.acts_from() > now) next = std::min(next, elector_.acts_from());
  loop_.cancel(timer_);
  timer_ = loop_.after(std::max(next - now, core::Duration{std::chrono::milliseconds{1}}), [this] { step(); });
}

void LeaseElection::publish_note() {
  elector_.hasten(read_clock());
  wake_up_for_next();
}

void LeaseElection::end(std::function<void()> done) {
  done_ = std::move(done);
  elector_.end(read_clock());
  step();
}

}  // namespace penstock::connect
