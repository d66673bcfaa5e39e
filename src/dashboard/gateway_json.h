// What the live page shows of the gateways.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "controller/gateway_feed.h"
#include "core/time.h"

namespace penstock::dashboard {

// The overviews of gateways in the shape of one overview. That of one gateway stays as it is. Of several, counts are
// sums, rows of the same replica, tenant or model are one row, and percentiles of latencies, which cannot be added, are
// left out. `sum` is the state of all, which has the last word on replicas, and `read_at` becomes `now_s`.
[[nodiscard]] nlohmann::ordered_json gateway_json(const std::vector<const std::string*>& overviews,
                                                  const controller::GatewayState& sum, core::Instant read_at);

}  // namespace penstock::dashboard
