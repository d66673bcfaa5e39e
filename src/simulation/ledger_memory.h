// The ledger of a simulated gateway, as far as a restart needs it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "dispatch/request.h"
#include "ledger/balance.h"

namespace penstock::simulation {

// What requests took from budgets, and the sums of all entries that were closed. It outlives the dispatchers of a run.
struct LedgerMemory {
  std::map<std::uint64_t, ledger::PastUse> uses;  // By entry.
  ledger::Sums closed;
  std::uint64_t completed_prompt_tokens = 0;
  std::uint64_t unbilled = 0;  // Completed entries without tokens of prompt or output.
};

class LedgerMemorySink final : public dispatch::LedgerSink {
 public:
  explicit LedgerMemorySink(LedgerMemory& memory) : memory_(memory) {}
  void opened(const ledger::Entry& entry) override { memory_.uses[entry.id] = ledger::use_of(entry); }
  void closed(const ledger::Entry& entry) override {
    memory_.uses[entry.id] = ledger::use_of(entry);
    ++memory_.closed.closed;
    memory_.closed.prompt_tokens += entry.prompt_tokens;
    memory_.closed.cached_tokens += entry.cached_tokens;
    memory_.closed.output_tokens += entry.output_tokens;
    if (entry.outcome != ledger::Outcome::kCompleted) return;
    memory_.completed_prompt_tokens += entry.prompt_tokens;
    memory_.unbilled += entry.prompt_tokens == 0 || entry.output_tokens == 0 ? 1 : 0;
  }
  std::vector<ledger::PastUse> uses_since(std::int64_t unix_ms) override {
    std::vector<ledger::PastUse> found;
    for (const auto& [id, use] : memory_.uses)
      if (use.at_unix_ms >= unix_ms) found.push_back(use);
    return found;
  }

 private:
  LedgerMemory& memory_;
};

}  // namespace penstock::simulation
