// Share of requests that miss their SLO as a function of the load of a replica, as trials have found it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/state_archive.h"

namespace penstock::planner {

class LoadCurve {
 public:
  // Outcome of a trial: the largest load per replica (see LoadMinute), its requests, and those that only a larger fleet
  // would have served in time.
  void add(double load_per_replica, double requests, double missed);
  // A minute has passed: earlier outcomes count less, and the curve is drawn anew.
  void age();

  [[nodiscard]] bool known() const { return !points_.empty(); }
  // Increases with the load; all requests far above the loads that were tried, and below them as at the smallest one.
  [[nodiscard]] double missed_share(double load_per_replica) const;
  // Load of a replica at which half of the requests miss.
  [[nodiscard]] double capacity() const { return capacity_; }

  void archive(core::StateArchive& state) { state("load_curve", bins_, points_, capacity_); }

 private:
  struct Bin {
    double requests = 0.0, missed = 0.0;
    void archive(core::StateArchive& state) { state.values_of(requests, missed); }
  };
  struct Point {
    double load = 0.0, share = 0.0;
    void archive(core::StateArchive& state) { state.values_of(load, share); }
  };

  std::map<int, Bin> bins_;  // By the logarithm of the load.
  std::vector<Point> points_;
  double capacity_ = 0.0;
};

}  // namespace penstock::planner
