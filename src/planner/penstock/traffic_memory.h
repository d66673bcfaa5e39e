// Simulated attainment of fleets of any size on recent traffic, at a bounded cost per tick.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "planner/penstock/output_lengths.h"
#include "planner/penstock/plan_search.h"
#include "planner/penstock/trial_error.h"
#include "planner/penstock/trials.h"
#include "signals/observation.h"
#include "signals/slo.h"

namespace penstock::planner {

struct MemoryOptions {
  core::Duration length = std::chrono::minutes{20};  // Maximum length.
  // Length that suffices if it contains enough_requests.
  core::Duration length_least = std::chrono::minutes{5};
  // With this number of requests, a share of 99 % is known to 0.1 percentage points.
  std::size_t enough_requests = 8000;
  core::Duration slice_least = std::chrono::seconds{30};
  core::Duration slice_most = std::chrono::seconds{60};
  // Number of requests that closes a slice early, and the approximate limit of one trial including its warm-up.
  std::size_t slice_requests = 2000;
  // Warm-up before a slice, as a share of its length; its requests are served and not counted. It lasts at least as
  // long as 90 % of requests take, and so does the traffic that follows the slice.
  double warm_up = 0.5;
  core::Duration request_time_most = std::chrono::minutes{5};  // Limit of that time.
  // Where requests take long, a trial of the next minutes lasts this long and repeats the traffic of as long before.
  core::Duration ahead = std::chrono::seconds{150};
  core::Duration after_ahead = std::chrono::seconds{50};  // And further traffic follows for this long.
  // Beside the next minutes, only the latest slices count; see look_back().
  core::Duration before_ahead = std::chrono::seconds{60};
  std::size_t enough_before_ahead = 1000;
  // Requests that have waited longer when a trial begins are left out: they are late with any fleet.
  core::Duration waiting_most = std::chrono::seconds{2};
  std::uint32_t replicas_least = 3;  // Minimum replicas of a scaled-down fleet.
  // Requests before a trial whose prompts its caches may hold.
  std::size_t cached_requests = 2000;
  std::size_t tick_requests = 3000;  // Requests that trials may serve per tick; the last trial may exceed it.
};

// Time is divided into slices. Each slice is simulated once per requested fleet and stores the outcome, so that a plan
// over 20 minutes costs little more than the trials of its latest minute. If a slice has more requests than a trial may
// serve, a small fleet with its share of the traffic represents a large one.
//
// A trial begins with the requests that ran and waited at its start, and with the prompts that caches held. Requests
// that still run get an output length that is drawn from those of longer outputs; a closed slice is simulated again
// once three quarters of them have ended. A trial runs with later traffic until the requests of the slice have ended;
// where there is none yet, the latest is repeated.
//
// Requests that take long accumulate for minutes, in which the past does not show what a fleet will miss. Where more
// than a tenth of the requests take longer than half of slice_most, the next minutes are simulated in place of the
// latest slice, which is not closed yet. They begin with what runs and waits when the slice ends, and repeat the latest
// traffic. Prompts that arrive again find in the caches what they found the first time.
//
// Two shortcuts follow from the fact that a larger fleet has no lower attainment: a fleet with full attainment needs no
// larger trials, and one with hardly half needs no smaller ones.
class TrafficMemory final : public FleetOutcomes {
 public:
  // Memories of the same requests may share the estimate of their lengths.
  TrafficMemory(std::shared_ptr<FleetTrials> trials, const MemoryOptions& options,
                std::shared_ptr<OutputLengths> lengths = std::make_shared<OutputLengths>())
      : trials_(std::move(trials)), options_(options), lengths_(std::move(lengths)) {}

  // Called with every outcome of a trial: the slice, the fleet, the multiple of the recorded rate, and the outcome.
  using Listener =
      std::function<void(core::Instant from, core::Instant to, const Fleet&, double load, const TrialOutcome&)>;
  void listen(Listener listener) { listener_ = std::move(listener); }

  // Starts a tick with a new work budget on the current requests. Slices are unchanged.
  void begin_tick(const signals::Observation& observation);
  // Closes and drops slices so that the memory ends now; drops all slices if the clock went back.
  void advance();

  // Forgets the traffic before this time: a step has begun. A step is recognised at several ticks, each of which knows
  // more of it.
  void restart(core::Instant from);

  // From now on, only the latest slices count: those that ended within this time, and earlier ones until there are
  // `enough` requests, or back to the time at which the rate fell to less than half. Where trials look ahead, the
  // options limit both.
  void look_back(core::Duration least, std::size_t enough);
  [[nodiscard]] core::Duration length() const { return options_.length; }
  // Discards all outcomes because the trials have changed.
  void forget_outcomes();

  [[nodiscard]] std::optional<TrialOutcome> outcome(const Fleet& fleet) override { return outcome_at(fleet, 1.0); }
  [[nodiscard]] std::optional<TrialOutcome> outcome_at(const Fleet& fleet, double load) override;

  // Compares a closed slice with a trial of the fleet that served it, divided by `factor`, once nearly all of its
  // requests have ended. Each slice is compared once; slices in which the fleet changed are left out. At most one
  // comparison per call.
  [[nodiscard]] std::optional<TrialCheck> check(const signals::SloPolicy& slo, double factor = 1.0);

  [[nodiscard]] std::size_t requests() const;  // Requests in the slices that count.
  [[nodiscard]] double rate() const;           // Their mean rate per second.
  [[nodiscard]] core::Duration used() const;   // From the begin of the oldest of them until now.

  void archive(core::StateArchive& state) {
    state("traffic_memory", closed_, open_, counted_from_, restarted_, unchecked_, fleets_);
  }

 private:
  struct Slice {
    core::Instant from, to;
    std::size_t requests = 0;
    std::size_t unknown = 0;  // Requests that were open when outcomes were last discarded.
    std::map<int, std::map<Fleet, TrialOutcome>> outcomes{};  // Keyed by load in steps of 1/20.
    void archive(core::StateArchive& state) { state.values_of(from, to, requests, unknown, outcomes); }
  };
  struct Span {
    core::Instant from, to;
    void archive(core::StateArchive& state) { state.values_of(from, to); }
  };
  struct ReadyFleet {
    core::Instant since;
    Fleet ready;  // Empty while replicas drain, because those serve requests, too.
    void archive(core::StateArchive& state) { state.values_of(since, ready); }
  };
  // A fleet and its traffic. Where the traffic has too many requests for a trial, a part of the fleet with its share.
  struct Part {
    Fleet fleet;
    TrialTraffic traffic;
  };
  // Forgets slices whose requests are not remembered any more, such as after a restart: no fleet can be tried on them.
  void forget_lost();
  [[nodiscard]] std::size_t remembered() const;  // Requests in all slices.
  [[nodiscard]] bool counts(const Slice& slice) const { return slice.to > counted_from_; }
  [[nodiscard]] bool has_fallen(const Slice& slice, std::size_t requests, core::Duration since) const;
  [[nodiscard]] std::span<const signals::RecentRequest> between(core::Instant from, core::Instant to) const;
  [[nodiscard]] static const TrialOutcome* known(const std::map<Fleet, TrialOutcome>& outcomes, const Fleet& fleet);
  [[nodiscard]] std::size_t open_in(const Span& slice) const;
  [[nodiscard]] core::Duration request_time() const;
  [[nodiscard]] core::Duration slice_most() const;
  [[nodiscard]] bool looks_ahead() const { return slice_most() > options_.slice_most; }
  [[nodiscard]] Span latest() const;                // The traffic that is repeated if trials look ahead.
  [[nodiscard]] std::size_t next_requests() const;  // Of the next minutes.
  void observe_fleet(const signals::Observation& observation);
  [[nodiscard]] std::optional<Fleet> steady_fleet(core::Instant from, core::Instant to) const;
  // Without the traffic itself. `requests`: those of the trial at the recorded rate.
  [[nodiscard]] Part part_of(const Fleet& fleet, double load, std::size_t requests) const;
  [[nodiscard]] double most_requests(const Part& part) const;  // Of the recorded traffic in one trial.
  // Serves the traffic that was collected.
  [[nodiscard]] TrialOutcome serve(Part& part);
  [[nodiscard]] TrialOutcome attempt(const Span& slice, const Fleet& fleet, double load, core::Duration waiting_most);
  [[nodiscard]] TrialOutcome attempt_next(const Fleet& fleet, double load);
  [[nodiscard]] double attainment_of_part(const Span& slice, const Fleet& fleet, double factor);
  [[nodiscard]] std::size_t following(core::Instant from, core::Duration time) const;
  // Fills earlier_, arriving_ and running_ for a trial from `from` until `tail` after `to`.
  void collect(core::Instant from, core::Instant to, core::Duration tail, core::Duration waiting_most);
  // The part of it that has arrived by then; caches hold what was computed for arrivals until `cached_until`.
  void collect_begun(core::Instant from, core::Instant cached_until, core::Duration waiting_most);
  void add_later(core::Instant from, core::Instant to, core::Duration later);
  // Adds the traffic once more after its end, and again, until that time.
  void repeat(const Span& traffic, core::Instant until);

  std::shared_ptr<FleetTrials> trials_;
  MemoryOptions options_;
  std::span<const signals::RecentRequest> recent_;
  core::Instant now_{};
  std::deque<Slice> closed_;
  Slice open_{};  // From the end of the last closed slice until now; drops its outcomes when it changes.
  core::Instant counted_from_ = core::Instant::min();  // Slices that ended by then do not count.
  core::Instant restarted_ = core::Instant::min();     // Begin of the last step.
  std::size_t served_ = 0;                             // Requests served in this tick.
  std::shared_ptr<OutputLengths> lengths_;
  std::deque<Span> unchecked_;                    // Closed slices without a comparison, oldest first.
  std::deque<ReadyFleet> fleets_;                 // One entry per change, oldest first.
  std::vector<signals::RecentRequest> arriving_;  // Of the current trial.
  std::vector<RunningRequest> running_;
  std::vector<signals::RecentRequest> earlier_;
  Listener listener_;
};

}  // namespace penstock::planner
