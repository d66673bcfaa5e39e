#include "controller/gateway_observation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace penstock::controller {
namespace {

constexpr core::Duration kAnswerTimeout = std::chrono::seconds{2};

// Empty for a response that can be read.
std::string failure_of(const core::Result<net::FetchAnswer>& answer) {
  if (!answer) return answer.error().message();
  return answer->status == 200 ? std::string{} : fmt::format("status {}", answer->status);
}

}  // namespace

net::FetchRequest GatewayObservation::request_for(std::string path) const {
  net::FetchRequest request = net::request_to(address_, std::move(path), kAnswerTimeout);
  if (!access_.authorization.empty()) request.fields.push_back({"Authorization", access_.authorization});
  if (access_.tls != nullptr) {
    request.call.tls = access_.tls;
    request.call.host = host_;
  }
  return request;
}

void GatewayObservation::send(net::FetchRequest request, std::function<void(core::Result<net::FetchAnswer>)> done) {
  net::fetch(client_, std::move(request),
             [alive = std::weak_ptr<int>{alive_}, done = std::move(done)](core::Result<net::FetchAnswer> answer) {
               if (!alive.expired()) done(std::move(answer));
             });
}

// The two requests follow each other on one connection, so that overview and traffic are those of one gateway.
void GatewayObservation::poll() {
  if (traffic_in_flight_ || std::exchange(overview_in_flight_, true)) return;
  const core::Instant requested_at = loop_.now();
  send(request_for("/penstock/v1/overview"), [this, requested_at](core::Result<net::FetchAnswer> answer) {
    overview_in_flight_ = false;
    refuses_ = !answer && answer.error().code == core::ErrorCode::kRefused;
    const std::string failure = failure_of(answer);
    auto state = failure.empty() ? read_overview(answer->body) : core::invalid_input({}, failure);
    report(overview_failure_, state ? std::string{} : state.error().message());
    const bool is_good = state.has_value();
    if (is_good) {
      if (shared_.answered(state->boot, loop_.now())) listener_.several_answered(*this);
      state_ = *std::move(state);
      // The document describes a moment after the request.
      requested_at_ = requested_at;
      overview_at_ = loop_.now();
    }
    request_traffic();
    listener_.overview_read(is_good);
  });
}

void GatewayObservation::request_traffic() {
  traffic_in_flight_ = true;
  const std::uint64_t after = state_ ? cursors_.after(state_->boot) : 0;
  net::FetchRequest request = request_for(fmt::format("/penstock/v1/traffic?after={}", after));
  request.answer_bytes_max = 256 * 1024 * 1024;
  send(std::move(request), [this, after](core::Result<net::FetchAnswer> answer) {
    traffic_in_flight_ = false;
    const std::string failure = failure_of(answer);
    const auto page = failure.empty() ? read_traffic(answer->body) : core::invalid_input({}, failure);
    report(traffic_failure_, page ? std::string{} : page.error().message());
    if (!page) return;
    traffic_at_ = loop_.now();
    if (shared_.answered(page->boot, loop_.now())) listener_.several_answered(*this);
    // A page that does not continue its gateway's is requested again with the next poll.
    listener_.traffic_read(cursors_.take(page->boot, after, page->next) ? &*page : nullptr);
  });
}

void GatewayObservation::request_prefixes() {
  if (std::exchange(prefixes_in_flight_, true)) return;
  net::FetchRequest request = request_for("/penstock/v1/prefixes");
  request.answer_bytes_max = 64 * 1024 * 1024;
  send(std::move(request), [this](core::Result<net::FetchAnswer> answer) {
    prefixes_in_flight_ = false;
    if (!answer || answer->status != 200) return;
    auto prefixes = read_prefixes(answer->body);
    if (!prefixes) return;
    prefixes_ = *std::move(prefixes);
    listener_.prefixes_read();
  });
}

void GatewayObservation::probe() {
  net::FetchRequest request = request_for("/penstock/v1/overview");
  request.fields.push_back({"Connection", "close"});
  send(std::move(request), [this](core::Result<net::FetchAnswer> answer) {
    if (!answer || answer->status != 200) return;
    if (const auto state = read_overview(answer->body)) shared_.answered_apart(state->boot);
  });
}

void GatewayObservation::report(std::string& kept, const std::string& failure) {
  kept = failure;
  const bool is_reachable = this->failure().empty();
  if (reachable_ == is_reachable) return;
  reachable_ = is_reachable;
  listener_.reachable_changed(*this);
}

const std::string& GatewayObservation::failure() const {
  return overview_failure_.empty() ? traffic_failure_ : overview_failure_;
}

std::optional<core::Instant> GatewayObservation::read_at() const {
  if (!state_ || !traffic_at_) return std::nullopt;
  return std::min(overview_at_, *traffic_at_);
}

bool GatewayObservation::is_drained() const {
  if (!state_ || !traffic_at_ || *traffic_at_ < overview_at_ || traffic_in_flight_) return false;
  const bool waits = !state_->waiting_by_model.empty() || (state_->deferral && state_->deferral->requests > 0);
  return !waits && std::all_of(state_->replicas.begin(), state_->replicas.end(),
                               [](const auto& each) { return each.second.open_work() == 0; });
}

}  // namespace penstock::controller
