// What other programs push to /ingest, a line each: refused in one line, or figures that Prometheus can read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "dashboard/pushed_figures.h"
#include "telemetry/exposition.h"
#include "telemetry/exposition_check_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  std::string_view rest{reinterpret_cast<const char*>(data), size};
  dashboard::PushedFigures pushed;
  core::Instant now = core::kStart + std::chrono::seconds{100};
  bool any = false;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const auto added = pushed.add(line, now);
    if (!added && added.error().message().find('\n') != std::string::npos) std::abort();
    any = any || added.has_value();
    now += std::chrono::seconds{45};
  }
  const auto figures = pushed.figures(now);
  if (any == figures.empty()) std::abort();
  for (const telemetry::TokenFigures& each : figures)
    if (each.kv_usage && !(*each.kv_usage >= 0.0 && *each.kv_usage <= 1.0)) std::abort();
  std::string gauges, metrics;
  telemetry::ExpositionWriter gauge_writer{gauges}, metric_writer{metrics};
  telemetry::append_token_gauges(gauge_writer, figures);
  telemetry::append_token_metrics(metric_writer, figures);
  for (const std::string* text : {&gauges, &metrics}) {
    const auto read = telemetry::parse_exposition(*text, "written");
    if (!read || !telemetry::check_exposition(*read).empty()) std::abort();
  }
  return 0;
}
