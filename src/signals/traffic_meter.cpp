#include "signals/traffic_meter.h"

namespace penstock::signals {

void TrafficMeter::arrived(core::Instant at, std::uint32_t input_tokens) {
  Slice& slice = slices_.at(at);
  ++slice.arrivals;
  slice.input_tokens += input_tokens;
  ++arrivals_total;
  input_tokens_total += input_tokens;
}

void TrafficMeter::first_token(core::Instant at, double ttft_ms) { slices_.at(at).ttft_ms.add(ttft_ms); }

void TrafficMeter::completed(core::Instant at, std::uint32_t output_tokens, double itl_ms) {
  Slice& slice = slices_.at(at);
  ++slice.completed;
  slice.completed_output_tokens += output_tokens;
  if (output_tokens > 1) slice.itl_ms.add(itl_ms);
  ++completed_total;
}

void TrafficMeter::failed(core::Instant at) {
  ++slices_.at(at).failed;
  ++failed_total;
}

TrafficWindow TrafficMeter::window(core::Instant now) const {
  TrafficWindow window;
  core::QuantileSketch ttft, itl;
  window.length = slices_.each(now, [&](const Slice& slice) {
    window.arrivals += slice.arrivals;
    window.input_tokens += slice.input_tokens;
    window.completed += slice.completed;
    window.completed_output_tokens += slice.completed_output_tokens;
    window.failed += slice.failed;
    ttft.merge(slice.ttft_ms);
    itl.merge(slice.itl_ms);
  });
  window.ttft = latency_window(ttft);
  window.itl = latency_window(itl);
  return window;
}

}  // namespace penstock::signals
