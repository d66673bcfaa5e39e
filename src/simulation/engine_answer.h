// What the gateway sees of the answer of a simulated engine.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/time.h"
#include "dispatch/request.h"
#include "simulation/faults.h"
#include "simulation/recorder.h"

namespace penstock::simulation {

// The replica that answers.
struct Answerer {
  const Faults& faults;
  std::uint64_t seed = 0;  // Of the run.
  std::uint32_t replica = 0;
  std::string_view pool;
  core::Instant now;
};

// A whole stream, with the counts that the replica reports for a request whose counts are `usage`.
[[nodiscard]] dispatch::RequestOutcome completed_answer(const dispatch::TokenUsage& usage, const Answerer& answerer);
// A stream that ended after so many tokens.
[[nodiscard]] dispatch::RequestOutcome cut_answer(Outcome outcome, std::uint32_t tokens, core::Instant now);

}  // namespace penstock::simulation
