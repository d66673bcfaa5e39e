// A gateway's state as JSON and as Prometheus' text, for planners, dashboards and people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"
#include "dispatch/traffic_log.h"
#include "gateway/lifecycle.h"
#include "gateway/shared_dispatcher.h"
#include "gateway/worker_context.h"
#include "telemetry/exposition_format.h"

namespace penstock::gateway {

// docs/gateway.md describes them. Times are in seconds, on the clock of `now_s` in the same document.
[[nodiscard]] std::string overview_document(const Overview& overview, std::string_view boot_id);
[[nodiscard]] std::string traffic_document(const dispatch::TrafficLog::Page& page, std::string_view boot_id,
                                           core::Instant now);

[[nodiscard]] std::string prefixes_document(std::span<const HotPrefix> prefixes, std::string_view boot_id,
                                            core::Instant now);

// A replica whose name has gone to another one has no series.
[[nodiscard]] std::string metrics_text(Overview overview, const WorkerTotals& totals, const Lifecycle& lifecycle,
                                       telemetry::ExpositionFormat format = telemetry::ExpositionFormat::kText);

// An entry of an answer to /v1/models.
struct ListedModel {
  std::string id;
  std::string parent;                // The base model of an adapter; empty for a base model.
  std::string root;                  // What vLLM loaded: names with the same root are aliases.
  std::uint32_t context_tokens = 0;  // vLLM's max_model_len; 0 if it is missing.
};
inline constexpr std::size_t kListedModelsMax = 1000;  // Further entries are ignored.
// Empty if there are none, or if the answer is malformed.
[[nodiscard]] std::vector<ListedModel> models_in(std::string_view models_answer);

// Number of tokens in an answer to POST /tokenize; empty if the answer is malformed.
[[nodiscard]] std::optional<std::uint32_t> prompt_tokens_in(std::string_view tokenize_answer);

}  // namespace penstock::gateway
