// What fleets of any size would have kept of the traffic of a while, at a bounded cost a tick.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "core/state_archive.h"
#include "core/time.h"
#include "planner/penstock/plan_search.h"
#include "planner/penstock/trials.h"
#include "signals/observation.h"

namespace penstock::planner {

struct MemoryOptions {
  core::Duration length = std::chrono::minutes{20};       // at most …
  core::Duration length_least = std::chrono::minutes{5};  // … and no longer than this where there are …
  std::size_t enough_requests = 8000;  // … so many: a share of 99 % is then known to a tenth of a point
  core::Duration slice_least = std::chrono::seconds{60};
  core::Duration slice_most = std::chrono::minutes{5};
  std::size_t slice_requests = 2000;  // that close a slice early, and that one trial serves, warm-up included, about
  double warm_up = 0.5;               // of a slice's length, served before it and not judged
  std::uint32_t replicas_least = 3;   // of a fleet that stands for a larger one
  std::size_t tick_requests = 1500;   // that trials may serve in a tick; the last trial may go over it
};

// Time is cut into slices. A slice is tried once with each fleet that anybody asks for, and remembers the outcome, so that
// a plan over 20 minutes costs little more than the trials of the minute that is new. Where a slice has more requests than
// a trial may serve, a small fleet stands for a large one and gets its share of the traffic.
//
// Two shortcuts, both on the ground that a larger fleet keeps no less: what keeps all need not be tried larger, and what
// keeps hardly half need not be tried smaller.
class TrafficMemory final : public FleetOutcomes {
 public:
  TrafficMemory(std::shared_ptr<FleetTrials> trials, const MemoryOptions& options)
      : trials_(std::move(trials)), options_(options) {}

  // A new tick: work may be done again, on the requests that are seen now. Slices stay what they are.
  void begin_tick(const signals::Observation& observation);
  // Closes and forgets slices, so that the memory ends now; all of them where the clock went back.
  void advance();

  // From now on only slices that end within so long count; the others are kept.
  void look_back(core::Duration length) { look_back_ = length; }
  // Trials are not what they were: everything is to be tried again.
  void forget_outcomes();

  [[nodiscard]] std::optional<TrialOutcome> outcome(const Fleet& fleet) override { return outcome_at(fleet, 1.0); }
  [[nodiscard]] std::optional<TrialOutcome> outcome_at(const Fleet& fleet, double load) override;

  [[nodiscard]] std::size_t requests() const;  // in the slices that count
  [[nodiscard]] double rate() const;           // a second, their mean

  void archive(core::StateArchive& state) { state("traffic_memory", closed_, open_, look_back_); }

 private:
  struct Slice {
    core::Instant from, to;
    std::size_t requests = 0;
    std::map<int, std::map<Fleet, TrialOutcome>> outcomes{};  // by load in twentieths
    void archive(core::StateArchive& state) { state.values_of(from, to, requests, outcomes); }
  };
  [[nodiscard]] std::size_t remembered() const;  // requests in all slices
  [[nodiscard]] bool counts(const Slice& slice) const { return open_.to - slice.to < look_back_; }
  [[nodiscard]] std::span<const signals::RecentRequest> between(core::Instant from, core::Instant to) const;
  [[nodiscard]] static const TrialOutcome* known(const std::map<Fleet, TrialOutcome>& outcomes, const Fleet& fleet);
  [[nodiscard]] TrialOutcome attempt(const Slice& slice, const Fleet& fleet, double load);

  std::shared_ptr<FleetTrials> trials_;
  MemoryOptions options_;
  std::span<const signals::RecentRequest> recent_;
  core::Instant now_{};
  std::deque<Slice> closed_;
  Slice open_{};  // from the end of the last closed one until now; forgets its outcomes when it moves
  core::Duration look_back_ = core::Duration::max();
  std::size_t served_ = 0;  // requests in this tick
};

}  // namespace penstock::planner
