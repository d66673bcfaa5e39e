// Headroom: the multiple of the current load that a fleet must be able to serve until further replicas are ready.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "core/state_archive.h"
#include "core/time.h"
#include "signals/observation.h"

namespace penstock::planner {

struct HeadroomOptions {
  double standard = 1.5;           // Used until enough history is known.
  double least = 1.1, most = 2.5;  // Bounds of the learned value.
  double goal = 0.99;              // Share of requests.
  double budget_share = 0.9;       // Share of the error budget that load increases beyond the headroom may use.
  core::Duration lag{};            // Time from a load increase until replicas for it are ready.
  core::Duration hold{};           // Time for which a fleet stays large after a decrease.
  core::Duration history = std::chrono::hours{24};
  core::Duration history_least = std::chrono::hours{1};
};

// Stores the load of every minute and evaluates each headroom on it: with replicas for h times the load that was known
// at the time, which minutes would have overloaded the fleet, and how long would the queue have taken to drain? The
// result is the smallest headroom for which few enough requests fall into such minutes. Load is measured in weighted
// tokens, those of answers as engines generate them; only its changes matter.
class Headroom {
 public:
  explicit Headroom(const HeadroomOptions& options)
      : options_(options), learned_(options.standard), held_(options.standard), hold_(options.hold) {}

  // Called every tick with the pool at which requests enter, and the answer tokens that engines have generated, 0 if
  // they do not report them.
  void observe(core::Instant now, const signals::PoolObservation& pool, std::uint64_t generated_tokens = 0);
  [[nodiscard]] bool known() const;  // Returns true if the history is long enough.
  [[nodiscard]] double standard() const { return options_.standard; }
  [[nodiscard]] double learned() const { return learned_; }  // The standard value until known().

  // Time for which a fleet stays large after a decrease, with refined(): of several, the one that costs least.
  [[nodiscard]] core::Duration hold() const { return share_ ? hold_ : options_.hold; }

  // Called every minute with the burn rate of the last hour. While less than half of the error budget is used, the
  // excess over 1 falls to a share of the learned one; while more than all of it is used, it rises. `may_lower`: the
  // SLO has been met long enough.
  void refine(double burn_rate, bool may_lower);
  // The larger of the standard and the learned value until refine() has lowered it.
  [[nodiscard]] double refined() const;

  void archive(core::StateArchive& state) {
    state("headroom", learned_, minutes_, minute_from_, arrivals_, input_tokens_, generated_tokens_, unlearned_, held_,
          hold_, share_);
  }

 private:
  struct Minute {
    double load = 0.0;  // Tokens per second.
    double requests = 0.0;
    void archive(core::StateArchive& state) { state.values_of(load, requests); }
  };
  struct Course {
    double overrun = 0.0;  // Share of requests that would have arrived while the fleet was overloaded.
    double carried = 0.0;  // Mean load that the fleet could have carried.
  };
  [[nodiscard]] Course course(double headroom, std::size_t hold_minutes) const;
  // The smallest headroom for this hold, and the mean load that it carries.
  [[nodiscard]] std::pair<double, double> smallest(core::Duration hold) const;
  void learn();

  HeadroomOptions options_;
  double learned_;
  std::deque<Minute> minutes_;
  core::Instant minute_from_{};
  std::uint64_t arrivals_ = 0, input_tokens_ = 0, generated_tokens_ = 0;
  std::uint32_t unlearned_ = 0;  // Minutes since the last evaluation.
  double held_;                  // The smallest headroom for hold_.
  core::Duration hold_;
  std::optional<double> share_;  // Of the learned excess over 1; empty until it is lowered.
};

}  // namespace penstock::planner
