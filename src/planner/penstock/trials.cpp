#include "planner/penstock/trials.h"

#include <algorithm>

namespace penstock::planner {
namespace {

void add(TrialCounts& sum, const TrialCounts& more, double factor = 1.0) {
  sum.requests += more.requests * factor;
  sum.met += more.met * factor;
}

void add(TrialOutcome& sum, const TrialOutcome& more, double factor) {
  add(sum.all, more.all, factor);
  add(sum.ttft, more.ttft, factor);
  add(sum.itl, more.itl, factor);
  sum.targets.resize(std::max(sum.targets.size(), more.targets.size()));
  for (std::size_t i = 0; i < more.targets.size(); ++i) add(sum.targets[i], more.targets[i], factor);
}

}  // namespace

TrialOutcome& TrialOutcome::operator+=(const TrialOutcome& more) {
  add(*this, more, 1.0);
  return *this;
}

TrialOutcome TrialOutcome::times(double factor) const {
  TrialOutcome scaled;
  add(scaled, *this, factor);
  return scaled;
}

}  // namespace penstock::planner
