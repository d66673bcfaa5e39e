// Prometheus' text format: views stay within the text, labels unescape and escape to the same value, and whatever a server
// shows, the adapters and the checker take it and every sample made of it is within bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "signals/telemetry/adapters.h"
#include "signals/telemetry/exposition_check.h"

namespace {

bool within(std::string_view part, std::string_view whole) {
  return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto read = signals::parse_exposition(text, "fuzz");
  if (!read) {
    if (!read.error().where.starts_with("fuzz")) std::abort();
    return 0;
  }
  for (const signals::MetricSample& sample : read->samples) {
    if (sample.name.empty() || !within(sample.name, text) || !within(sample.labels, text)) std::abort();
    if (const auto label = signals::find_label(sample.labels, "model_name")) {
      const std::string value = signals::unescape_label(*label);
      if (signals::unescape_label(signals::escape_label(value)) != value) std::abort();
    }
  }
  static_cast<void>(signals::check_exposition(*read));
  const signals::EngineScrape scrape = signals::read_scrape(*read);
  if (scrape.kind != signals::detect_engine(*read)) std::abort();
  if (scrape.kv_usage && !(*scrape.kv_usage >= 0.0 && *scrape.kv_usage <= 1.0)) std::abort();
  if (const auto sample = signals::to_sample(scrape, core::kStart))
    if (sample->kv_used_tokens > sample->kv_capacity_tokens || sample->oldest_queued_age < core::Duration{})
      std::abort();
  const signals::ScrapeLatencies none = signals::latencies_between(scrape, scrape);
  if (none.ttft && none.ttft->count != 0) std::abort();
  return 0;
}
