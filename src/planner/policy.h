// Policies by name, and their parameters.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "decision/policy.h"
#include "planner/policy_settings.h"
#include "signals/slo.h"

namespace penstock::planner {

using decision::Candidate;
using decision::Cause;
using decision::Decision;
using decision::Evidence;
using decision::Forecast;
using decision::Limit;
using decision::Policy;
using decision::PoolDecision;
using decision::Reason;
using decision::RolloutPhase;

// The capacity of one replica of a pool within the SLO, as determined by a load test.
struct ReplicaCapacity {
  double requests_per_s = 1.0;
  double input_tokens_per_s = 1.0;
  double output_tokens_per_s = 1.0;
  double concurrency = 1.0;  // Mean number of requests in flight at that rate.
};

// The figures of it that a policy divides by; it ignores the others.
struct CapacityNeeds {
  bool requests_per_s = false, input_tokens_per_s = false, output_tokens_per_s = false, concurrency = false;

  [[nodiscard]] bool any() const { return requests_per_s || input_tokens_per_s || output_tokens_per_s || concurrency; }
};

// One context for all pools of a policy. If prefill and decode replicas have different capacities, each pool has a
// policy with its own context, which still observes all pools.
struct PolicyContext {
  ReplicaCapacity capacity;
  signals::SloTarget slo;
  std::uint64_t max_batched_tokens = 8192;
  std::uint64_t max_sequences = 256;
  std::uint64_t context_length = 131072;  // Maximum prompt length of the model.
  // Speed of one prompt of 8,192 tokens on an idle engine; here that of llm-d's guide, Qwen3-32B on two H100.
  double idle_prompt_tokens_per_s = 15'928.0;
  PolicySettings settings;  // Set by make_policy from the name.
};

// The name may contain settings. An unknown name is an error that lists the known ones, and an unknown setting one that
// lists those of the policy.
[[nodiscard]] core::Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyContext& context);
[[nodiscard]] std::vector<std::string_view> policy_names();
// By the name of any policy, with or without settings; none for a policy that is not of the list.
[[nodiscard]] CapacityNeeds capacity_needs(std::string_view policy);
// Reads the settings of any of these policies, or of "penstock" and "clairvoyant", which have `goal`.
[[nodiscard]] core::Result<PolicySettings> settings_of(std::string_view policy);
// One line on the rule and its source, for --help and the reports.
[[nodiscard]] std::string_view policy_summary(std::string_view name);

}  // namespace penstock::planner
