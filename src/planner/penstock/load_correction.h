// The factor between the fleet that a trial calls sufficient and the one that reality needs.
#pragma once

#include <cstdint>
#include <optional>

#include "core/state_archive.h"
#include "core/time.h"
#include "planner/penstock/plan_search.h"
#include "planner/penstock/trial_error.h"

namespace penstock::planner {

// A fleet of n replicas serves what n / factor replicas serve in a trial. Checks of closed slices, whose trials use the
// factor of that time, move it until both attainments agree: a check says nothing more once its difference is
// explained, so that late checks of an overload do not count twice. Below 1 it falls only after several checks, because
// a fleet that is too small costs more than one that is too large. It moves back to 1 slowly, because most of its
// causes pass.
class LoadCorrection {
 public:
  // A check whose trial ran with factor(). Returns true if the factor has grown, which it only does with `may_grow`.
  bool observe(const TrialCheck& check, core::Instant now, bool may_grow = true);
  // The SLO burns although the planned fleet is there: a larger factor, unless the latest checks explain the misses.
  // Returns true if it has grown.
  bool raise(core::Instant now);
  // Called every minute without a raise.
  void decay();

  [[nodiscard]] double factor() const { return factor_; }
  // Replicas that correct a plan for `replicas`.
  [[nodiscard]] std::uint32_t corrected(std::uint32_t replicas) const;
  // The largest plan that is corrected to at most this fleet; at least one replica per pool.
  [[nodiscard]] Fleet planned(Fleet fleet) const;

  void archive(core::StateArchive& state) {
    state("load_correction", factor_, requests_, difference_, kept_, checks_, step_, went_up_, checked_at_, explained_);
  }

 private:
  void change(double times);

  double factor_ = 1.0;
  // Sums over the checks since the last change, weighted by requests; earlier ones count less.
  double requests_ = 0.0, difference_ = 0.0, kept_ = 0.0;
  std::uint32_t checks_ = 0;
  double step_ = 0.0;     // The last step of a check; 0 before the first.
  bool went_up_ = false;  // Its direction.
  std::optional<core::Instant> checked_at_;
  bool explained_ = true;  // The checks show no difference that matters.
};

}  // namespace penstock::planner
