// Simulated attainment of fleets of any size on recent traffic, at a bounded cost per tick.
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
  core::Duration length = std::chrono::minutes{20};  // Maximum length.
  // Length that suffices if it contains enough_requests.
  core::Duration length_least = std::chrono::minutes{5};
  // With this number of requests, a share of 99 % is known to 0.1 percentage points.
  std::size_t enough_requests = 8000;
  core::Duration slice_least = std::chrono::seconds{60};
  core::Duration slice_most = std::chrono::minutes{5};
  // Number of requests that closes a slice early, and the approximate limit of one trial including its warm-up.
  std::size_t slice_requests = 2000;
  // Warm-up before a slice, as a share of its length; its requests are served and not counted.
  double warm_up = 0.5;
  std::uint32_t replicas_least = 3;  // Minimum replicas of a scaled-down fleet.
  std::size_t tick_requests = 1500;  // Requests that trials may serve per tick; the last trial may exceed it.
};

// Time is divided into slices. Each slice is simulated once per requested fleet and stores the outcome, so that a plan
// over 20 minutes costs little more than the trials of its latest minute. If a slice has more requests than a trial may
// serve, a small fleet with its share of the traffic represents a large one.
//
// Two shortcuts follow from the fact that a larger fleet has no lower attainment: a fleet with full attainment needs no
// larger trials, and one with hardly half needs no smaller ones.
class TrafficMemory final : public FleetOutcomes {
 public:
  TrafficMemory(std::shared_ptr<FleetTrials> trials, const MemoryOptions& options)
      : trials_(std::move(trials)), options_(options) {}

  // Starts a tick with a new work budget on the current requests. Slices are unchanged.
  void begin_tick(const signals::Observation& observation);
  // Closes and drops slices so that the memory ends now; drops all slices if the clock went back.
  void advance();

  // Forgets the traffic before this time: a step has begun.
  void restart(core::Instant from);

  // Only slices that ended within this time count from now on; the others are kept.
  void look_back(core::Duration length) { look_back_ = length; }
  // Discards all outcomes because the trials have changed.
  void forget_outcomes();

  [[nodiscard]] std::optional<TrialOutcome> outcome(const Fleet& fleet) override { return outcome_at(fleet, 1.0); }
  [[nodiscard]] std::optional<TrialOutcome> outcome_at(const Fleet& fleet, double load) override;

  [[nodiscard]] std::size_t requests() const;  // Requests in the slices that count.
  [[nodiscard]] double rate() const;           // Their mean rate per second.

  void archive(core::StateArchive& state) { state("traffic_memory", closed_, open_, look_back_); }

 private:
  struct Slice {
    core::Instant from, to;
    std::size_t requests = 0;
    std::map<int, std::map<Fleet, TrialOutcome>> outcomes{};  // Keyed by load in steps of 1/20.
    void archive(core::StateArchive& state) { state.values_of(from, to, requests, outcomes); }
  };
  [[nodiscard]] std::size_t remembered() const;  // Requests in all slices.
  [[nodiscard]] bool counts(const Slice& slice) const { return open_.to - slice.to < look_back_; }
  [[nodiscard]] std::span<const signals::RecentRequest> between(core::Instant from, core::Instant to) const;
  [[nodiscard]] static const TrialOutcome* known(const std::map<Fleet, TrialOutcome>& outcomes, const Fleet& fleet);
  [[nodiscard]] TrialOutcome attempt(const Slice& slice, const Fleet& fleet, double load);

  std::shared_ptr<FleetTrials> trials_;
  MemoryOptions options_;
  std::span<const signals::RecentRequest> recent_;
  core::Instant now_{};
  std::deque<Slice> closed_;
  Slice open_{};  // From the end of the last closed slice until now; drops its outcomes when it changes.
  core::Duration look_back_ = core::Duration::max();
  std::size_t served_ = 0;  // Requests served in this tick.
};

}  // namespace penstock::planner
