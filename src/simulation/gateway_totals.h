// What the dispatchers of a run counted, one after the other where the gateway restarted, and what clients counted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "core/time.h"
#include "decision/run_result.h"
#include "dispatch/dispatcher.h"
#include "simulation/gateway_options.h"
#include "simulation/ledger_memory.h"

namespace penstock::simulation {

struct ClientTotals {
  std::uint64_t sent = 0;             // Requests to the gateway; one that is sent again counts twice …
  std::uint64_t forgotten = 0;        // … and those that waited when the gateway stopped.
  std::uint64_t received_tokens = 0;  // Of requests that the gateway did not lose …
  std::uint64_t lost_tokens = 0;      // … and of those that it lost.
  std::uint64_t completed_prompt_tokens = 0;
  std::uint64_t computed_tokens = 0;   // Output of all engines …
  std::uint64_t discarded_tokens = 0;  // … and the part that no client received, except of last steps.
  std::uint64_t withdrawn = 0;         // Requests that were taken from engines, which may have computed a last step.
  bool miscounts = false;              // Engines report false counts.
  std::uint64_t first_tokens = 0;
  std::uint64_t completed = 0, refused = 0;
  std::uint64_t visible = 0;  // Arrivals at the gateway that policies saw.
};

struct GatewayTotals {
  dispatch::Counters counters;
  std::map<std::pair<std::string, std::string>, ledger::Sums> sums;  // By tenant and model.
  // Of the exported latencies and of the traffic log, where the dispatcher has them.
  std::uint64_t first_tokens = 0, arrivals = 0;

  [[nodiscard]] GatewayTotals with(const dispatch::Dispatcher& dispatcher, core::Instant now) const;
  // The figures of summarize() since `earlier`.
  [[nodiscard]] GatewayTotals since(const GatewayTotals& earlier) const;
  // Adds what the run reports of them: retries, refusals by reason, tenants.
  void summarize(const Gateway& gateway, decision::RunResult& result) const;
  // A sentence with the first figure of the gateway that is not that of the clients; empty: all are equal.
  // `ledger` is null if it was not kept.
  [[nodiscard]] std::string contradiction(const ClientTotals& clients, const dispatch::DispatchOptions& exported,
                                          const LedgerMemory* ledger) const;
};

}  // namespace penstock::simulation
