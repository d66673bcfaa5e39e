// The ledger entries of requests: opened when a request is admitted, closed with what came of it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "admission/admission_controller.h"
#include "core/time.h"
#include "dispatch/active_requests.h"
#include "dispatch/options.h"
#include "dispatch/output_estimator.h"
#include "dispatch/replica_set.h"
#include "ledger/balance.h"

namespace penstock::dispatch {

// Not thread-safe.
class RequestLedger {
 public:
  // `unix_now` is the Unix time at `now`. No sink: entries are only summed.
  RequestLedger(const ReplicaSet& replicas, std::unique_ptr<LedgerSink> sink, core::Instant now,
                core::Duration unix_now);

  // Returns the uses of budgets that the sink knows of, from `since` to `now`, in the order of their times. Uses of
  // tenants that are not in `options` are left out.
  [[nodiscard]] std::vector<admission::PastCharge> past_charges(const DispatchOptions& options, core::Instant since,
                                                                core::Instant now) const;
  // The request was admitted: from here on it is in the ledger.
  void open(ActiveRequest& request, core::Instant now);
  // Its tokens, times and cost, by what the engine reported or else by what was estimated and counted.
  void close(ActiveRequest& request, const RequestOutcome& outcome, core::Instant now);
  // The tokens that an open stream has delivered, so that they are known if the process ends.
  void grow(ActiveRequest& request, const Progress& progress);
  void refuse(ledger::Entry& entry);  // never admitted
  // The process ends: open entries keep the prompt and the cost that they were opened with.
  void lose_open(const ActiveRequests& requests);

  // The sink is told of requests that are still open some time after they were admitted: most have ended by then, and
  // are written once.
  void write_open(ActiveRequests& requests, core::Instant now);
  [[nodiscard]] core::Instant next_write() const {
    return unwritten_.empty() ? core::kNever : unwritten_.front().first + kWrittenAfter;
  }

  [[nodiscard]] const ledger::Balance& balance() const { return balance_; }

 private:
  static constexpr core::Duration kWrittenAfter = std::chrono::milliseconds{50};

  struct Count {
    std::uint64_t tokens = 0;
    bool reported = false;  // By the engine; false: estimated or counted by the gateway.
  };

  [[nodiscard]] std::int64_t unix_ms(core::Instant now) const;
  [[nodiscard]] std::uint64_t output_limit(const ActiveRequest& request) const;
  // The count of the engine if it can be true; otherwise the most that the prompt can have, or the gateway's own.
  [[nodiscard]] static Count prompt_of(const ActiveRequest& request, const std::optional<TokenUsage>& usage);
  [[nodiscard]] Count output_of(const ActiveRequest& request, const std::optional<TokenUsage>& usage,
                                const SeenOutput& seen);
  void count_tokens(ActiveRequest& request, const RequestOutcome& outcome, core::Instant now);
  [[nodiscard]] OutputEstimator& estimator(const ActiveRequest& request);

  const ReplicaSet& replicas_;
  std::unique_ptr<LedgerSink> sink_;
  ledger::Balance balance_;
  core::Duration unix_at_start_;  // the Unix time of core::kStart
  std::uint64_t next_entry_;
  std::deque<std::pair<core::Instant, Ticket>> unwritten_;
  std::vector<OutputEstimator> estimators_;  // By model.
};

}  // namespace penstock::dispatch
