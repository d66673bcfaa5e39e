// Prometheus' text format: views stay within the text, labels unescape and escape to the same value, and whatever a
// server shows, the adapters and the checker take it and every sample made of it is within bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "telemetry/adapters.h"
#include "telemetry/exposition_check_testing.h"
#include "telemetry/exposition_writer.h"

namespace {

bool within(std::string_view part, std::string_view whole) {
  return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto read = telemetry::parse_exposition(text, "fuzz");
  if (!read) {
    if (!read.error().where.starts_with("fuzz")) std::abort();
    return 0;
  }
  for (const telemetry::MetricSample& sample : read->samples) {
    if (sample.name.empty() || !within(sample.name, text) || !within(sample.labels, text)) std::abort();
    if (const auto label = telemetry::find_label(sample.labels, "model_name")) {
      const std::string value = telemetry::unescape_label(*label);
      if (telemetry::unescape_label(telemetry::escape_label(value)) != value) std::abort();
    }
  }
  static_cast<void>(telemetry::check_exposition(*read));
  const telemetry::EngineScrape scrape = telemetry::read_scrape(*read);
  if (scrape.kind != telemetry::detect_engine(*read)) std::abort();
  if (scrape.kv_usage && !(*scrape.kv_usage >= 0.0 && *scrape.kv_usage <= 1.0)) std::abort();
  if (const auto sample = telemetry::to_sample(scrape, core::kStart))
    if ((sample->kv_used_tokens && sample->kv_capacity_tokens &&
         *sample->kv_used_tokens > *sample->kv_capacity_tokens) ||
        sample->oldest_queued_age.value_or(core::Duration{}) < core::Duration{})
      std::abort();
  return 0;
}
