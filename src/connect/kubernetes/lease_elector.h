// Which of several planners may act: the protocol of leader election by a Lease, without sockets and clocks. It follows
// the leaderelection package of client-go, with a strict rule for when a holder stops.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "connect/kubernetes/lease.h"
#include "core/random.h"
#include "core/time.h"

namespace penstock::connect {

struct LeaseOptions {
  std::string identity;  // Of this process, and of no other one ever.
  core::Duration duration = std::chrono::seconds{10};

  // A holder stops acting this long after the start of the last request that renewed the Lease. The rest of the
  // duration covers writes that are on their way.
  [[nodiscard]] core::Duration renew_deadline() const { return duration * 2 / 3; }
  [[nodiscard]] core::Duration renew_interval() const { return duration / 5; }
  // Longest time of one request, so that at least two fit before the deadline.
  [[nodiscard]] core::Duration request_timeout() const { return duration / 5; }
};

enum class LeaseFailure : std::uint8_t {
  kConflict,  // The object is another version, or exists already.
  kNotFound,
  kUnknown,  // The request may or may not have been carried out.
  kRefused,  // The request was not carried out.
};

// All times are of one monotonic clock of this process. Times within the Lease are never read, so that the clocks of
// planners may differ and jump: the time of another holder ends one duration after this process saw the Lease change.
//
// Of all electors of one Lease with different identities, at most one may act at any time, whatever is lost, delayed
// or stopped, as long as their clocks run equally fast. This holds if a person deletes the Lease, too: who creates it
// acts only one duration later, when the time of a former holder is over.
class LeaseElector {
 public:
  LeaseElector(LeaseOptions options, const core::RandomStream& random);

  struct Request {
    enum class Kind : std::uint8_t { kNone, kRead, kWrite } kind = Kind::kNone;
    Lease lease{};               // To be written, without times.
    bool is_transition = false;  // The holder changes.
  };
  // The request to send now. There is one at a time: its result comes by one of the calls below.
  [[nodiscard]] Request next(core::Instant now);
  // When next() has another request, if none is in flight.
  [[nodiscard]] core::Instant due() const { return due_; }

  void on_read(core::Instant now, const Lease& lease);
  // `sent`: when next() was called for it, or earlier.
  void on_written(core::Instant sent, core::Instant now, const Lease& lease);
  void on_failed(core::Instant now, LeaseFailure failure);

  // To be called with the time at which the process acts, not with an earlier one.
  [[nodiscard]] bool may_act(core::Instant now) const {
    return holds_ && !is_ending_ && now >= acts_from_ && now < deadline();
  }
  // When a holder that created the Lease may act.
  [[nodiscard]] core::Instant acts_from() const { return acts_from_; }
  // When may_act() ends unless a renewal succeeds.
  [[nodiscard]] core::Instant deadline() const { return renewed_ + options_.renew_deadline(); }
  // Identifies the time in which this process held the Lease without a break by another holder; 0: it never held it.
  [[nodiscard]] std::uint64_t term() const { return term_; }
  // As the Lease says; empty: no planner, or unknown.
  [[nodiscard]] std::string holder() const { return lease_ ? lease_->holder : std::string{}; }

  // What the other holder of the Lease has noted, while its time is not over; empty: nothing, or there is none.
  [[nodiscard]] std::string holder_note(core::Instant now) const;
  // Whether another planner holds the Lease, and its time is not over.
  [[nodiscard]] bool follows(core::Instant now) const;
  // The holder renews now, because what it notes has changed.
  void hasten(core::Instant now) {
    if (holds_ && !is_ending_) due_ = std::min(due_, now);
  }

  [[nodiscard]] std::string uid() const { return lease_ ? lease_->uid : std::string{}; }  // Of the Lease.

  // Stops acting and gives the Lease up, so that another planner need not wait. next() has the request for it.
  void end(core::Instant now);
  // True after end(), once the Lease is given up, was not held, or must run out.
  [[nodiscard]] bool is_ended() const { return is_ending_ && (!is_mine() || must_run_out_); }

 private:
  [[nodiscard]] bool is_mine() const { return lease_ && lease_->holder == options_.identity; }
  [[nodiscard]] core::Duration jittered(core::Duration delay);
  void see(core::Instant now, std::optional<Lease> lease);

  LeaseOptions options_;
  core::RandomStream random_;
  std::optional<Lease> lease_;  // As last seen.
  core::Instant changed_{};     // When this process saw it change.
  bool is_known_ = false;       // It was read or is missing, and nothing suggests that this has changed.
  bool is_creating_ = false;    // A request to create it was sent, and perhaps carried out.
  bool must_run_out_ = false;   // A former holder may act still.
  core::Instant acts_from_{};
  bool holds_ = false;  // The last write that succeeded made or kept this process the holder.
  bool is_ending_ = false;
  core::Instant renewed_{};  // Start of that write.
  core::Instant due_{};
  std::uint64_t term_ = 0;
  bool is_new_term_ = true;  // Another holder, or none, was seen since this process was the holder.
};

}  // namespace penstock::connect
