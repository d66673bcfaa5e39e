// A gateway's state as JSON and as Prometheus' text, for planners, dashboards and people.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/time.h"
#include "dispatch/traffic_log.h"
#include "gateway/lifecycle.h"
#include "gateway/shared_dispatcher.h"
#include "net/server.h"

namespace penstock::gateway {

// docs/gateway.md describes them. Times are in seconds, on the clock of `now_s` in the same document.
[[nodiscard]] std::string overview_document(const Overview& overview, std::string_view boot_id);
[[nodiscard]] std::string traffic_document(const dispatch::TrafficLog::Page& page, std::string_view boot_id,
                                           core::Instant now);

[[nodiscard]] std::string prefixes_document(std::span<const HotPrefix> prefixes, std::string_view boot_id,
                                            core::Instant now);

[[nodiscard]] std::string metrics_text(const Overview& overview, const net::ServerCounters& connections,
                                       const Lifecycle& lifecycle);

// Returns "data[0].id" of an answer to /v1/models; empty if it is missing.
[[nodiscard]] std::string first_model_in(std::string_view models_answer);

}  // namespace penstock::gateway
