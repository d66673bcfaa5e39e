// Checks in a simulated run that no tenant uses more than its budget.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/time.h"
#include "dispatch/dispatcher.h"

namespace penstock::simulation {

// Follows the dispatchers of a run, one after the other where the gateway restarts.
class BudgetCheck {
 public:
  // A sentence with the first tenant that exceeds its budget by more than one request; empty: none does. What is
  // reserved counts as used. Tenants whose expected tokens are reserved have another bound and are left out.
  [[nodiscard]] std::string violation(const dispatch::Dispatcher& dispatcher, core::Instant now) const;
  // The dispatcher ends, and what its open requests reserved counts as used.
  void ended(const dispatch::Dispatcher& dispatcher, core::Instant now);

 private:
  struct Past {
    std::uint64_t used = 0, largest_claim = 0;
  };
  std::vector<Past> past_;  // By tenant.
};

}  // namespace penstock::simulation
