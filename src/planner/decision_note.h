// A decision as logs keep it: plain text and figures, without the planner's types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/time.h"
#include "planner/policy.h"
#include "signals/run_result.h"

namespace penstock::planner {

struct NoteSubject {
  core::Instant at;
  std::string pool;                       // its name
  std::size_t index = 0;                  // of the pool in the decision
  std::uint32_t current = 0, target = 0;  // as they came to be, which bounds of the pool may have changed
};
[[nodiscard]] signals::DecisionNote note_of(const Decision& decision, const NoteSubject& subject);
[[nodiscard]] signals::OutlookNote note_of(const Outlook& outlook);

}  // namespace penstock::planner
