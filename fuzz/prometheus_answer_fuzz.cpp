// What a Prometheus server answers, damaged in whatever way: refused in one line, or figures that are possible.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "connect/prometheus/query_answer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto series = connect::parse_query_answer(200, text, "up");
  if (!series) {
    if (series.error().message().find('\n') != std::string::npos) std::abort();
    return 0;
  }
  for (const connect::QueriedSeries& each : *series)
    if (!std::isfinite(each.value) || !std::isfinite(each.at_s)) std::abort();
  connect::QueriedReplicas replicas = connect::read_preset(*series, "instance");
  for (const std::string_view signal : connect::queried_signals())
    connect::add_signal(replicas, signal, *series, "instance");
  for (const auto& [name, replica] : replicas) {
    if (name.empty()) std::abort();
    if (replica.scrape.kv_usage && !(*replica.scrape.kv_usage >= 0.0 && *replica.scrape.kv_usage <= 1.0)) std::abort();
  }
  return 0;
}
