// Options of a Prometheus server as the source of the planner's telemetry.
#include "configuration/configuration.h"
#include "options/values.h"

namespace penstock::configuration {
namespace {

using namespace options;

constexpr std::size_t kQueriesMax = 100;

void add_query(Table& table, connect::SignalQuery& query) {
  table
      .add({"signal", "", "the figure of each replica that the query returns"},
           text_choice(query.signal, {"queued_requests", "running_requests", "kv_usage", "kv_used_tokens",
                                      "kv_capacity_tokens", "prompt_tokens_total", "generation_tokens_total",
                                      "prefix_hit_tokens_total", "preemptions_total", "oldest_queued_seconds"}))
      .required();
  table.add({"query", "", "PromQL; its result keeps the replica label"}, text(query.query)).required();
}

}  // namespace

void add_prometheus(Table& table, connect::PrometheusOptions& made) {
  table.group("Prometheus");
  table.add({"prometheus.url", "--prometheus",
             "URL of a Prometheus server that telemetry of the engines is read from; by default engines are scraped"},
            text(made.url));
  table.add({"prometheus.token_file", "", "file with a bearer token for it"}, text(made.credentials.api_key_file));
  table.add({"prometheus.token_env", "", "environment variable with that token"}, text(made.credentials.api_key_env));
  table
      .add({"prometheus.headers", "", "further header fields for it, each as \"Name: value\""},
           texts(made.credentials.headers))
      .secret();
  table.add({"prometheus.ca_file", "", "PEM file that verifies its certificate; by default those of the system"},
            text(made.credentials.ca_file));
  table.add({"prometheus.parameters", "", "parameters of each query, each as \"name=value\""}, texts(made.parameters));
  table.add({"prometheus.interval", "", "from one round of queries to the next"}, duration_above_zero(made.interval));
  table.add({"prometheus.window", "", "older values are stale and count as missing"}, duration_above_zero(made.window));
  table.add({"prometheus.preset", "--prometheus-preset", "series to read: those of this kind of engine"},
            text_choice(made.preset, {"none", "vllm", "sglang", "tensorrt_llm", "triton", "tgi", "dynamo", "llama_cpp",
                                      "llm_d_epp", "penstock"}));
  table.add({"prometheus.matchers", "", "further label matchers of the preset, as job=\"vllm\",namespace=\"prod\""},
            text(made.matchers));
  table.add({"prometheus.replica_label", "",
             "label whose value names the replica: its host and port, its host, or its id in the gateway"},
            text(made.replica_label));
  table.list<connect::SignalQuery>({"prometheus.queries", "", "queries of single signals, before those of the preset"},
                                   made.queries, kQueriesMax, add_query);
}

}  // namespace penstock::configuration
