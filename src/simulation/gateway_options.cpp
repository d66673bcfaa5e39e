#include "simulation/gateway_options.h"

#include <algorithm>

namespace penstock::simulation {
namespace {

constexpr std::uint32_t kLiveKeyTokens = 256;
constexpr const char* kOthers = "anonymous";

std::uint32_t add_tenant(dispatch::DispatchOptions& options, const std::string& name) {
  options.tenants.emplace_back().name = name;
  return static_cast<std::uint32_t>(options.tenants.size() - 1);
}

}  // namespace

admission::Class Gateway::class_of(const workload::Request& request) const {
  const bool batch = classes && request.traffic_class == workload::TrafficClass::kBatch;
  return batch ? admission::Class::kBatch : admission::Class::kInteractive;
}

signals::SloTraits Gateway::traits_of(const workload::Request& request) const {
  return {model, admission::to_string(class_of(request)), options.tenants[tenants[request.tenant]].name,
          request.input_tokens};
}

core::Duration Gateway::time_budget_of(const workload::Request& request) const {
  return (class_of(request) == admission::Class::kBatch ? options.batch : options.interactive).time_budget;
}

// A block id names a whole prefix, and so does a routing key: the last block id of those that the key stands for.
void Gateway::keys_of(std::span<const std::uint32_t> blocks, std::vector<std::uint64_t>& keys) const {
  keys.clear();
  for (std::size_t last = blocks_per_key; last <= blocks.size(); last += blocks_per_key)
    keys.push_back(blocks[last - 1]);
}

std::uint32_t Gateway::keys_of(const workload::Workload& workload, const workload::Request& request,
                               std::uint32_t shared_blocks, std::vector<std::uint64_t>& keys) const {
  const std::uint32_t full = std::min(request.block_count, request.input_tokens / workload.block_tokens);
  keys_of(workload.blocks_of(request).first(std::min(full, shared_blocks)), keys);
  return full / blocks_per_key - static_cast<std::uint32_t>(keys.size());
}

Gateway make_gateway(const workload::Workload& workload, const RunOptions& options) {
  const bool live = options.router == routing::Strategy::kLive;
  Gateway gateway;
  gateway.options = options.dispatch ? *options.dispatch
                    : live           ? dispatch::DispatchOptions{}
                                     : dispatch::unlimited_options();
  dispatch::DispatchOptions& made = gateway.options;
  gateway.model = !options.model.empty() ? options.model : made.models.empty() ? "model" : made.models.front().name;
  // A run may begin without a replica, whose model would make it known.
  if (made.models.empty()) made.models.emplace_back().name = gateway.model;
  made.strategy = options.router;
  made.pools = pool_rules(options.pools);
  made.seed = options.seed;
  made.slo = {options.slo, options.slo_goal, options.slo_segments};
  // The world has its own. Runs that check themselves compare both.
  made.traffic_log = made.latency_meters = options.check_each_event;
  const std::uint32_t block_tokens = options.pools.front().engine.block_tokens;
  if (live) gateway.blocks_per_key = std::max(1U, kLiveKeyTokens / block_tokens);
  made.key_tokens = gateway.blocks_per_key * block_tokens;
  gateway.limits = live || options.dispatch;
  gateway.classes = gateway.limits || !made.pools.empty();

  if (!gateway.classes) {
    gateway.tenants.assign(workload.tenants.size(), 0);
    return gateway;
  }
  const bool configured = gateway.limits && !made.tenants.empty();
  std::optional<std::uint32_t> others;
  for (const std::string& name : workload.tenants) {
    const auto known = std::find_if(made.tenants.begin(), made.tenants.end(),
                                    [&](const dispatch::Tenant& tenant) { return tenant.name == name; });
    if (known != made.tenants.end()) {
      gateway.tenants.push_back(static_cast<std::uint32_t>(known - made.tenants.begin()));
    } else if (configured) {
      if (!others) others = add_tenant(made, kOthers);
      gateway.tenants.push_back(*others);
    } else {
      gateway.tenants.push_back(add_tenant(made, name));
    }
  }
  return gateway;
}

}  // namespace penstock::simulation
