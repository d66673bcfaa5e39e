// What a planner does about conflicts with other clients that change the object it scales.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "connect/kubernetes/api_call.h"
#include "connect/kubernetes/backoff.h"
#include "connect/kubernetes/reflector.h"
#include "core/random.h"
#include "core/time.h"

namespace penstock::controller {

// Of one object. Clients that change other fields without a pause do not keep a planner from acting: a write of an
// older state meets a conflict, and the step is computed anew from what is read then.
class ScaleConflicts {
 public:
  // Writes, each of what was read right before it, until the planner pauses.
  static constexpr std::uint32_t kInRowMax = 5;
  static constexpr core::Duration kPause = std::chrono::seconds{2};
  static constexpr connect::BackoffOptions kDelays{std::chrono::milliseconds{20}, std::chrono::milliseconds{160}};
  // A client is reported again if its writes have not been in the way for this time.
  static constexpr core::Duration kOver = std::chrono::minutes{10};

  explicit ScaleConflicts(const core::RandomStream& random) : backoff_{kDelays, random} {}

  struct Retry {
    core::Duration delay{};
    bool is_pause = false;    // Nothing is written or read until then.
    bool is_reported = true;  // The conflict need not be reported, or was.
  };
  // A write met a conflict: when the scale is read again.
  [[nodiscard]] Retry conflict(core::Instant now) {
    ++count_;
    is_outdated_ = true;
    if (++in_row_ < kInRowMax) return {backoff_.next()};
    written();
    const auto before = std::exchange(paused_at_, now);
    return {kPause, true, before && now - *before < kOver};
  }
  void written() {
    in_row_ = 0;
    backoff_.reset();
  }
  void read() { is_outdated_ = false; }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] bool is_outdated() const { return is_outdated_; }  // Nothing was read since the last conflict.

  // Whether a scale may be acted on. `seen`: version of the object in its watch. `known`: the last number of replicas;
  // another one needs an object that is not older, because that names its writer. `has_read`: it was read right now.
  [[nodiscard]] bool is_current(const connect::ApiScale& scale, const std::string& seen,
                                std::optional<std::uint32_t> known, bool has_read) const {
    if (is_outdated_) return false;
    if (scale.resource_version == seen) return true;
    const bool has_new_number = known && *known != scale.replicas;
    return has_new_number ? !connect::is_older_version(seen, scale.resource_version) : has_read;
  }

 private:
  connect::Backoff backoff_;
  std::uint64_t count_ = 0;
  std::uint32_t in_row_ = 0;
  bool is_outdated_ = false;
  std::optional<core::Instant> paused_at_;
};

}  // namespace penstock::controller
