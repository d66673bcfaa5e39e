#include "gateway/epp_metrics.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

#include "core/traffic_class.h"
#include "net/address.h"
#include "telemetry/exposition_writer.h"

namespace penstock::gateway {
namespace {

constexpr std::string_view kProducer = "inflight-load-producer";  // The name that llm-d's manifests select.

// The endpoint's host and port, as the picker names endpoints without pods.
std::string endpoint_name(const Overview& overview, std::size_t index) {
  const auto url = index < overview.urls.size() ? net::parse_url(overview.urls[index])
                                                : net::parse_url(overview.replicas[index].spec.id);
  return url ? url->host_field() : overview.replicas[index].spec.id;
}

void add_epp_endpoints(telemetry::ExpositionWriter& text, const Overview& overview) {
  const auto labels = [&](std::size_t index) {
    return telemetry::format_labels({{"endpoint_name", endpoint_name(overview, index)}, {"producer_name", kProducer}});
  };
  text.family("llm_d_epp_inflight_requests", "gauge", "requests that were sent to the endpoint and have not ended");
  for (std::size_t i = 0; i < overview.replicas.size(); ++i)
    text.sample(labels(i), overview.replicas[i].load.open_requests);
  text.family("llm_d_epp_inflight_tokens", "gauge",
              "uncached prompt tokens of requests at the endpoint without a first token");
  for (std::size_t i = 0; i < overview.replicas.size(); ++i)
    text.sample(labels(i), static_cast<double>(overview.replicas[i].load.prefill_tokens));
}

void add_epp_models(telemetry::ExpositionWriter& text, const Overview& overview) {
  std::map<std::string_view, std::uint64_t> running, ready;
  for (const dispatch::ReplicaStatus& replica : overview.replicas) {
    running[replica.spec.model] += replica.load.open_requests;
    ready[replica.spec.pool] += replica.load.eligible ? 1 : 0;
  }
  text.family("llm_d_epp_request_running", "gauge", "requests at the engines");
  for (const auto& [model, count] : running) text.add(static_cast<double>(count), {{"model_name", model}});
  text.family("llm_d_epp_flow_control_queue_size", "gauge", "requests that wait for a replica");
  for (const dispatch::ModelStatus& model : overview.models)
    text.add(model.waiting_for_room, {{"model_name", model.model}});
  text.family("llm_d_epp_ready_endpoints", "gauge", "replicas that may be chosen");
  for (const auto& [pool, count] : ready) text.add(static_cast<double>(count), {{"name", pool}});
}

void add_epp_latencies(telemetry::ExpositionWriter& text, const LatencyTotals& latencies) {
  constexpr LatencyFamily kEppFamilies[] = {
      {Latency::kTtft, "llm_d_epp_request_ttft_seconds", "TTFT: from the arrival of a stream to its first token"},
      {Latency::kTpot, "llm_d_epp_request_streaming_tpot_seconds", "TPOT: mean time of each further token of a stream"},
      {Latency::kItl, "llm_d_epp_request_streaming_itl_seconds", "ITL: gaps between tokens of streams"},
      {Latency::kE2e, "llm_d_epp_request_duration_seconds", "from the arrival of a request to the end of its answer"}};
  // Queries made for llm-d name the classic buckets.
  add_latencies(text, latencies, kEppFamilies, Buckets::kClassic, [](const LatencyKey& key) {
    // llm-d's priorities are numbers; a higher one goes first.
    const std::string_view priority = key.second == core::kBatchClass ? "-1" : "0";
    return telemetry::format_labels(
        {{"model_name", key.first}, {"target_model_name", key.first}, {"priority", priority}});
  });
}

}  // namespace

std::string epp_metrics_text(const Overview& overview, const LatencyTotals& latencies,
                             telemetry::ExpositionFormat format) {
  std::string out;
  telemetry::ExpositionWriter text{out, format};
  add_epp_models(text, overview);
  add_epp_endpoints(text, overview);
  add_epp_latencies(text, latencies);
  text.finish();
  return out;
}

}  // namespace penstock::gateway
