// Possible multiples of the present load at the time at which a replica that is requested now is ready.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"

namespace penstock::planner {

// Every past minute is compared with the two minutes that followed it after the lag. Minutes at a similar level count
// most: a pause of pulsing traffic is followed by many times its load, and a pulse is not. So do minutes of a similar
// load: few requests vary more than many. Until there is a history of its own, multiples that were measured on public
// traces stand for it.
class Futures {
 public:
  static constexpr std::size_t kCount = 16;

  // Replicas are ready `lag` after their request.
  explicit Futures(core::Duration lag);

  // A minute has ended, with the largest load in it, the largest load of the traffic that plans used at its end, and
  // the largest load of a longer time. The level is the ratio of the last two.
  void observe(double peak, double base, double usual);
  // kCount equally likely multiples of the latest base, ascending.
  [[nodiscard]] const std::vector<double>& multiples() const { return multiples_; }

  void archive(core::StateArchive& state) {
    state("futures", bases_, past_, count_);
    state.elements(multiples_);
  }

 private:
  struct Base {
    double load = 0.0, level = 1.0;
    void archive(core::StateArchive& state) { state.values_of(load, level); }
  };
  struct Past {
    double multiple = 1.0;
    Base then;
    std::uint64_t minute = 0;
    void archive(core::StateArchive& state) { state.values_of(multiple, then, minute); }
  };
  void learn(const Base& now);

  std::uint64_t lag_;          // In minutes.
  std::vector<double> first_;  // Multiples of public traces.
  std::deque<Base> bases_;     // Of the last minutes whose futures are not complete.
  std::deque<Past> past_;      // Oldest first.
  std::uint64_t count_ = 0;    // Minutes so far.
  std::vector<double> multiples_;
};

}  // namespace penstock::planner
