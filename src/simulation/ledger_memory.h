// The ledger of a simulated gateway, as far as a restart needs it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "dispatch/request.h"

namespace penstock::simulation {

// What requests took from budgets. It outlives the dispatchers of a run.
struct LedgerMemory {
  std::map<std::uint64_t, ledger::PastUse> uses;  // By entry.
};

class LedgerMemorySink final : public dispatch::LedgerSink {
 public:
  explicit LedgerMemorySink(LedgerMemory& memory) : memory_(memory) {}
  void opened(const ledger::Entry& entry) override { memory_.uses[entry.id] = ledger::use_of(entry); }
  void closed(const ledger::Entry& entry) override { memory_.uses[entry.id] = ledger::use_of(entry); }
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
