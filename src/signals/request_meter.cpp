#include "signals/request_meter.h"

namespace penstock::signals {

void RequestMeter::arrived(core::Instant at, std::uint32_t input_tokens) {
  Slice& slice = slices_.at(at);
  ++slice.arrivals;
  slice.input_tokens += input_tokens;
  ++arrivals_;
  input_tokens_ += input_tokens;
}

void RequestMeter::first_token(core::Instant at, double ttft_ms, const RequestTraits& request,
                               const FirstTokenTimes& times) {
  slices_.at(at).ttft_ms.add(ttft_ms);
  if (segments_) segments_->first_token(at, request, times);
}

void RequestMeter::completed(core::Instant at, const RequestTraits& request, std::uint32_t output_tokens,
                             std::optional<double> ttft_ms, double itl_ms) {
  Slice& slice = slices_.at(at);
  ++slice.completed;
  slice.completed_output_tokens += output_tokens;
  if (output_tokens > 1) slice.itl_ms.add(itl_ms);
  ++completed_;
  if (segments_ && ttft_ms) segments_->completed(at, request, output_tokens, *ttft_ms, itl_ms);
}

void RequestMeter::failed(core::Instant at) {
  ++slices_.at(at).failed;
  ++failed_;
}

TrafficWindow RequestMeter::window(core::Instant now) const {
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

void RequestMeter::read(PoolObservation& pool, core::Instant now, std::span<const std::string> tenants) const {
  pool.arrivals_total = arrivals_;
  pool.input_tokens_total = input_tokens_;
  pool.completed_total = completed_;
  pool.failed_total = failed_;
  pool.last_minute = window(now);
  if (segments_) pool.detail = segments_->read(now, tenants);
}

}  // namespace penstock::signals
