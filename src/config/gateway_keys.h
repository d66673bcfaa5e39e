// The tables of what a gateway can be told. YAML keys, flags, help and the reference page come from them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/gateway.h"
#include "config/planner_options.h"

namespace penstock::config {

// One scalar of GatewaySettings.
struct GatewayKey {
  std::string_view group, key, flag, type, help;  // flag: "" has none
  std::function<core::Result<void>(GatewaySettings&, std::string_view)> put;
  std::function<std::string(const GatewaySettings&)> show;
};
[[nodiscard]] const std::vector<GatewayKey>& gateway_keys();

// Lists of sections; a list within a section is text with commas, or a list.
[[nodiscard]] const std::vector<ItemKey<ReplicaSettings>>& replica_keys();  // of gateway.replicas
[[nodiscard]] const std::vector<ItemKey<TenantSettings>>& tenant_keys();    // of tenants
[[nodiscard]] const std::vector<ItemKey<ModelSettings>>& model_keys();      // of models

// All names that a gateway reads of a file, those of lists, too; the planner's reader leaves them alone.
[[nodiscard]] std::vector<std::string_view> gateway_names();

// The reference page, docs/reference/gateway-options.md.
[[nodiscard]] std::string gateway_options_markdown();

}  // namespace penstock::config
