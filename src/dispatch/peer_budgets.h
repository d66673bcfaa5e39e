// Budgets and concurrency limits that several gateways share: what they report to each other, and what follows from it.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admission/admission_controller.h"
#include "core/time.h"
#include "dispatch/options.h"

namespace penstock::dispatch {

// What one gateway took from its budgets.
struct BudgetReport {
  std::string process;                                                // Differs between two runs of a gateway.
  std::uint64_t number = 0;                                           // Later reports of a process have higher numbers.
  core::Duration age{};                                               // Since the start of the process.
  std::vector<std::pair<std::string, admission::SharedUse>> tenants;  // By name, in any order. Others took nothing.
  std::array<admission::SharedUse, 2> classes{};                      // Indexed by admission::Class.
};

struct BudgetChanges {
  std::vector<std::pair<std::string, admission::SharedChange>> tenants;  // By name. Others are as before.
  std::array<admission::SharedChange, 2> classes{};
  std::uint32_t gateways = 1;  // Those that have reported within kForgetAfter, and this one.
  [[nodiscard]] bool empty() const {
    return tenants.empty() && std::all_of(classes.begin(), classes.end(), [](const admission::SharedChange& change) {
             return change.charged == 0 && change.missing <= 0.0;
           });
  }
};

// Without who reports. O(tenants).
[[nodiscard]] BudgetReport report_of(const admission::AdmissionController& admission, std::span<const Tenant> tenants,
                                     core::Instant now);
// Tenants that are not configured here are ignored.
void apply(const BudgetChanges& changes, admission::AdmissionController& admission, core::Instant now);

// Compares the reports of other gateways with their earlier ones, so that each token is charged here once, however
// often a report comes, in whatever order, and after a restart of either gateway:
// - Of a process that is known, what it took since its last report is charged, or returned if it is negative.
// - Of a process that began after this one, and within kForgetAfter, all is charged that it took.
// - Of all others it is not known when they took it. At least what is missing in their budgets is missing here, too.
// Pure, and not thread-safe.
class PeerBudgets {
 public:
  // A process that has not reported for so long is forgotten: none of its requests is in flight any more.
  static constexpr core::Duration kForgetAfter = std::chrono::minutes{1};
  static constexpr std::size_t kPeersMax = 128;  // Reports of further processes are ignored.

  PeerBudgets(std::string process, core::Instant started) : process_(std::move(process)), started_(started) {}

  // The changes that follow from a report. Nothing follows from this process's own, and from one that is not newer than
  // the last one of its process.
  [[nodiscard]] BudgetChanges take(const BudgetReport& report, core::Instant now);
  // The process has ended, so that none of its requests is in flight.
  [[nodiscard]] BudgetChanges ended(std::string_view process);
  [[nodiscard]] BudgetChanges forget_silent(core::Instant now);

  [[nodiscard]] const std::string& process() const { return process_; }
  [[nodiscard]] std::size_t peers() const { return peers_.size(); }
  // When the process that has been silent for longest reported last; kNever without any.
  [[nodiscard]] core::Instant oldest_report() const;

 private:
  struct Peer {
    std::uint64_t number = 0;
    core::Instant reported_at;
    std::map<std::string, admission::SharedUse, std::less<>> tenants;
    std::array<admission::SharedUse, 2> classes{};
  };

  [[nodiscard]] BudgetChanges changes() const;
  // Adds the difference to what other gateways have in flight, and returns the sum.
  std::uint32_t count_running(const std::string& tenant, std::uint32_t before, std::uint32_t after);
  void clear_running(Peer& peer, BudgetChanges& made);

  const std::string process_;
  const core::Instant started_;
  std::map<std::string, Peer, std::less<>> peers_;  // By process.
  std::map<std::string, std::uint32_t> running_;    // By tenant, of all peers.
};

}  // namespace penstock::dispatch
