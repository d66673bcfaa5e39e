// Headroom: the multiple of the current load that a fleet must be able to serve until further replicas are ready.
#pragma once

#include <cstdint>
#include <deque>

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
// tokens; only its changes matter.
class Headroom {
 public:
  explicit Headroom(const HeadroomOptions& options) : options_(options), learned_(options.standard) {}

  // Called every tick with the pool at which requests enter.
  void observe(core::Instant now, const signals::PoolObservation& pool);
  [[nodiscard]] bool known() const;  // Returns true if the history is long enough.
  [[nodiscard]] double standard() const { return options_.standard; }
  [[nodiscard]] double learned() const { return learned_; }  // The standard value until known().

  void archive(core::StateArchive& state) {
    state("headroom", learned_, minutes_, minute_from_, arrivals_, input_tokens_, unlearned_);
  }

 private:
  struct Minute {
    double load = 0.0;  // Tokens per second.
    double requests = 0.0;
    void archive(core::StateArchive& state) { state.values_of(load, requests); }
  };
  // Share of requests that would have arrived while the fleet was overloaded.
  [[nodiscard]] double loss(double headroom) const;
  void learn();

  HeadroomOptions options_;
  double learned_;
  std::deque<Minute> minutes_;
  core::Instant minute_from_{};
  std::uint64_t arrivals_ = 0, input_tokens_ = 0;
  std::uint32_t unlearned_ = 0;  // Minutes since the last evaluation.
};

}  // namespace penstock::planner
