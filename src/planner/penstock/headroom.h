// How many times the present load a fleet has to carry, so that what comes before the next replicas are ready is served.
#pragma once

#include <cstdint>
#include <deque>

#include "core/state_archive.h"
#include "core/time.h"
#include "signals/observation.h"

namespace penstock::planner {

struct HeadroomOptions {
  double standard = 1.5;           // as long as too little is known
  double least = 1.1, most = 2.5;  // what is ever learned
  double goal = 0.99;              // of the requests
  double budget_share = 0.9;       // of what may be missed, that rises beyond the headroom may cost
  core::Duration lag{};            // from a rise until replicas for it are ready
  core::Duration hold{};           // how long a fleet stays large after a fall
  core::Duration history = std::chrono::hours{24};
  core::Duration history_least = std::chrono::hours{1};
};

// Keeps the load of every minute, and looks at what each headroom would have done: with replicas for h times the load of
// the minutes that were known then, which minutes would have overrun the fleet, and how long until the queue was gone
// again? The least headroom under which few enough requests came in such minutes is the one to have. Load is measured in
// tokens, output tokens weighing more; only its changes matter.
class Headroom {
 public:
  explicit Headroom(const HeadroomOptions& options) : options_(options), learned_(options.standard) {}

  // Every tick, of the pool where requests enter.
  void observe(core::Instant now, const signals::PoolObservation& pool);
  [[nodiscard]] bool known() const;  // whether the history is long enough
  [[nodiscard]] double standard() const { return options_.standard; }
  [[nodiscard]] double learned() const { return learned_; }  // the standard until it is known

  void archive(core::StateArchive& state) {
    state("headroom", learned_, minutes_, minute_from_, arrivals_, input_tokens_, unlearned_);
  }

 private:
  struct Minute {
    double load = 0.0;  // tokens a second
    double requests = 0.0;
    void archive(core::StateArchive& state) { state.values_of(load, requests); }
  };
  // Share of the requests that would have come while the fleet was overrun.
  [[nodiscard]] double loss(double headroom) const;
  void learn();

  HeadroomOptions options_;
  double learned_;
  std::deque<Minute> minutes_;
  core::Instant minute_from_{};
  std::uint64_t arrivals_ = 0, input_tokens_ = 0;
  std::uint32_t unlearned_ = 0;  // minutes since it last looked
};

}  // namespace penstock::planner
