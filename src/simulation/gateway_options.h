// The dispatcher options of a simulated world, and the tenants of its requests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "admission/queue.h"
#include "dispatch/options.h"
#include "simulation/run.h"
#include "workload/request.h"

namespace penstock::simulation {

struct Gateway {
  dispatch::DispatchOptions options;
  std::string model;                   // The model of every request.
  std::vector<std::uint32_t> tenants;  // Tenant of the dispatcher, by tenant of the workload.
  bool limits = false;                 // It has limits of the gateway, which the router of a peer has not.
  bool classes = false;                // Requests keep their traffic class and their tenant.
  std::uint32_t blocks_per_key = 1;    // KV blocks per routing key.

  [[nodiscard]] admission::Class class_of(const workload::Request& request) const;
  [[nodiscard]] signals::SloTraits traits_of(const workload::Request& request) const;
  [[nodiscard]] core::Duration time_budget_of(const workload::Request& request) const;  // 0: none
  // The routing keys of its prompt, of which the first `shared_blocks` blocks may be those of other prompts. Returns
  // the number of the other keys.
  std::uint32_t keys_of(const workload::Workload& workload, const workload::Request& request,
                        std::uint32_t shared_blocks, std::vector<std::uint64_t>& keys) const;
  // The routing keys of these full blocks of a prompt.
  void keys_of(std::span<const std::uint32_t> blocks, std::vector<std::uint64_t>& keys) const;
};

// Without RunOptions::dispatch, a peer's router has no limits, and neither tenants nor classes unless there are
// several aggregated pools; the live router has the gateway's default limits and every tenant of the workload. Tenants
// of the workload that are not configured share one tenant without limits.
[[nodiscard]] Gateway make_gateway(const workload::Workload& workload, const RunOptions& options);
}  // namespace penstock::simulation
