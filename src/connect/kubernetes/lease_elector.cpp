#include "connect/kubernetes/lease_elector.h"

#include <algorithm>
#include <utility>

namespace penstock::connect {

LeaseElector::LeaseElector(LeaseOptions options, const core::RandomStream& random)
    : options_(std::move(options)), random_(random.fork("lease")) {}

core::Duration LeaseElector::jittered(core::Duration delay) {
  return delay / 2 +
         core::Duration{static_cast<std::int64_t>(random_.uniform() * static_cast<double>(delay.count()) / 2)};
}

LeaseElector::Request LeaseElector::next(core::Instant now) {
  Request request;
  if (now < due_ || is_ended()) return request;
  due_ = now + options_.renew_interval();
  request.kind = Request::Kind::kRead;
  if (!is_known_) return request;
  const bool is_free = !lease_ || lease_->holder.empty() || is_mine();
  if (!is_free && now < changed_ + lease_->duration.value_or(options_.duration)) return request;
  request.kind = Request::Kind::kWrite;
  request.is_transition = !is_mine();
  is_creating_ = is_creating_ || !lease_;
  if (lease_) request.lease = *lease_;
  request.lease.duration = options_.duration;
  request.lease.holder = is_ending_ ? std::string{} : options_.identity;
  if (request.is_transition && lease_) ++request.lease.transitions;
  return request;
}

void LeaseElector::see(core::Instant now, std::optional<Lease> lease) {
  if (lease && !(lease_ && lease->resource_version == lease_->resource_version)) changed_ = now;
  lease_ = std::move(lease);
  is_known_ = true;
  is_new_term_ = is_new_term_ || !is_mine();
  // A holder whose Lease was deleted does not know it yet.
  if (is_creating_ && is_mine()) acts_from_ = now + options_.duration;
  if (lease_) is_creating_ = false;
  // The next request is made once the holder's time is over, or earlier to see whether it goes on.
  const bool is_free = !lease_ || lease_->holder.empty() || is_mine();
  due_ = is_free ? now
                 : std::min(now + jittered(options_.renew_interval()),
                            std::max(now, changed_ + lease_->duration.value_or(options_.duration)));
}

void LeaseElector::on_read(core::Instant now, const Lease& lease) {
  see(now, lease);
  holds_ = holds_ && is_mine();
}

void LeaseElector::on_written(core::Instant sent, core::Instant now, const Lease& lease) {
  see(now, lease);
  // After end() the holder is empty.
  holds_ = is_mine();
  if (!holds_) return;
  if (std::exchange(is_new_term_, false)) ++term_;
  renewed_ = sent;
  due_ = is_ending_ ? now : sent + options_.renew_interval();
}

void LeaseElector::on_failed(core::Instant now, LeaseFailure failure) {
  is_known_ = failure == LeaseFailure::kRefused && is_known_;
  const bool is_urgent = holds_ || failure != LeaseFailure::kRefused;
  const core::Instant retry = now + jittered(is_urgent ? options_.renew_interval() / 4 : options_.renew_interval());
  due_ = retry;
  if (failure == LeaseFailure::kUnknown || failure == LeaseFailure::kRefused) return;
  // Another process wrote it: what this one held may be over.
  holds_ = false;
  if (failure == LeaseFailure::kConflict) {
    due_ = now;
  } else {
    see(now, std::nullopt);
    due_ = std::max(due_, retry);
  }
}

bool LeaseElector::follows(core::Instant now) const {
  return lease_ && !lease_->holder.empty() && !is_mine() &&
         now < changed_ + lease_->duration.value_or(options_.duration);
}

std::string LeaseElector::holder_note(core::Instant now) const { return follows(now) ? lease_->note : std::string{}; }

void LeaseElector::end(core::Instant now) {
  is_ending_ = true;
  must_run_out_ = is_creating_ || now < acts_from_;
  due_ = now;
}

}  // namespace penstock::connect
