// The gateway's figures under the names of llm-d's endpoint picker, so that autoscalers made for llm-d can read them.
#pragma once

#include <string>

#include "gateway/latency_histograms.h"
#include "gateway/shared_dispatcher.h"
#include "telemetry/exposition_format.h"

namespace penstock::gateway {

// The labels namespace and service come from the scraping Prometheus.
[[nodiscard]] std::string epp_metrics_text(const Overview& overview, const LatencyTotals& latencies,
                                           telemetry::ExpositionFormat format);

}  // namespace penstock::gateway
