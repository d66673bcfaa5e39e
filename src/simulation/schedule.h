// Fleet sizes window by window, and the cheapest of them for a given price of a missed SLO.
#pragma once

#include <cstdint>
#include <vector>

#include "core/time.h"
#include "decision/policy.h"

namespace penstock::simulation {

struct Schedule {
  core::Duration window{};
  std::vector<std::uint32_t> replicas;  // ready in each window
};

// How many requests that arrive in a window miss the SLO, by fleet size: misses[window][size - smallest].
struct MissTable {
  core::Duration window{};
  std::uint32_t smallest = 1;
  std::vector<std::vector<double>> misses;

  [[nodiscard]] std::uint32_t largest() const {
    return smallest + static_cast<std::uint32_t>(misses.front().size()) - 1;
  }
};

struct ScheduleLimits {
  std::uint32_t initial = 1;  // ready at the start; no more can be ready before the first start-up time is over
  core::Duration start_up{};
  core::Duration lead{};  // Replicas are ready so long before the window that needs them.

  [[nodiscard]] double growth_s() const { return core::to_seconds(start_up + lead); }  // Paid for a replica more.
};

// The schedule with the least replica-seconds + (start-up + lead) · replicas added + price · misses, exactly, by
// dynamic programming in O(windows · sizes). `price_s` is in replica-seconds a miss.
[[nodiscard]] Schedule cheapest_schedule(const MissTable& table, const ScheduleLimits& limits, double price_s);

// What the table says of a schedule.
[[nodiscard]] double misses_of(const MissTable& table, const Schedule& schedule);

struct PricedSchedule : Schedule {
  double price_s = 0.0;  // Of a miss, at which it is the cheapest.
};

// The cheapest schedule whose misses are at most `allowed`, or the one with the fewest if none is so good.
[[nodiscard]] PricedSchedule cheapest_within(const MissTable& table, const ScheduleLimits& limits, double allowed);

// Follows one schedule for each pool. Replicas are requested a start-up time and `lead` before the window that needs
// them.
class FollowSchedules final : public decision::Policy {
 public:
  explicit FollowSchedules(std::vector<Schedule> schedules, core::Duration lead = {})
      : schedules_(std::move(schedules)), lead_(lead) {}

  [[nodiscard]] std::string_view name() const override { return "clairvoyant"; }
  [[nodiscard]] core::Duration interval() const override { return std::chrono::seconds{5}; }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override;

 private:
  std::vector<Schedule> schedules_;  // in the order of the pools
  core::Duration lead_;
};

}  // namespace penstock::simulation
