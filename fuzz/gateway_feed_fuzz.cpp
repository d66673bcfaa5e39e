// What a gateway answers its planner, damaged in whatever way: refused in one line, or something that can be counted.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "controller/gateway_feed.h"
#include "controller/traffic_recorder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto refused_well = [](const core::Error& error) {
    return error.message().starts_with("the gateway's ") && error.message().find('\n') == std::string::npos;
  };
  if (const auto page = controller::read_traffic(text)) {
    controller::TrafficOptions options;
    options.disaggregated = true;
    controller::TrafficRecorder book{options};
    core::Instant now = core::kStart + std::chrono::seconds{100};
    for (int i = 0; i < 2; ++i, now += std::chrono::seconds{1}) book.take(*page, now);
    std::vector<signals::PoolObservation> pools(2);
    pools.front().role = signals::Role::kPrefill;
    pools.back().role = signals::Role::kDecode;
    book.fill(pools, now);
    if (book.met() > book.judged()) std::abort();
    for (const signals::RecentRequest& request : book.recent(core::kStart))
      if (request.arrival < core::kStart || request.arrival > now || std::isnan(request.ttft_ms)) std::abort();
  } else if (!refused_well(page.error())) {
    std::abort();
  }
  if (const auto state = controller::read_overview(text)) {
    for (const auto& [model, waiting] : state->waiting_by_model)
      static_cast<void>(core::from_seconds(waiting.oldest_s));
  } else if (!refused_well(state.error())) {
    std::abort();
  }
  return 0;
}
