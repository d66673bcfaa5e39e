// One entry of a decision log: what a policy decided for one pool, and all that it decided on.
#pragma once

#include <string>
#include <vector>

#include "signals/run_result.h"

namespace penstock::signals {

struct DecisionEntry {
  std::string policy;
  DecisionNote note;               // a hold has current == target; the sentence is not kept, the evidence says it
  std::vector<std::string> pools;  // names, in the order of CandidateNote::replicas; empty where nothing was tried
  std::string would_change;        // what would change the decision, in one sentence without a full stop
};

}  // namespace penstock::signals
