#include "signals/request_meter.h"

#include <algorithm>

namespace penstock::signals {
namespace {

void add(std::uint64_t& total, std::uint64_t& over, std::uint64_t more) {
  const std::uint64_t covered = std::min(over, more);
  over -= covered;
  total += more - covered;
}

}  // namespace

void RequestMeter::arrived(core::Instant at, std::uint32_t input_tokens) {
  Slice& slice = slices_.at(at);
  ++slice.arrivals;
  slice.input_tokens += input_tokens;
  add(arrivals_, arrivals_over_, 1);
  add(input_tokens_, input_tokens_over_, input_tokens);
}

void RequestMeter::withdrawn(core::Instant arrived_at, std::uint32_t input_tokens) {
  Slice& slice = slices_.at(arrived_at);
  slice.arrivals -= std::min<std::uint64_t>(slice.arrivals, 1);
  slice.input_tokens -= std::min<std::uint64_t>(slice.input_tokens, input_tokens);
  ++arrivals_over_;
  input_tokens_over_ += input_tokens;
}

void RequestMeter::first_token(core::Instant at, double ttft_ms, const RequestTraits& request,
                               const FirstTokenTimes& times) {
  slices_.at(at).ttft_ms.add(ttft_ms);
  if (segments_) segments_->first_token(at, request, times);
}

void RequestMeter::completed(core::Instant at, const RequestTraits& request, std::uint32_t output_tokens,
                             const CompletionTimes& times) {
  Slice& slice = slices_.at(at);
  ++slice.completed;
  slice.completed_output_tokens += output_tokens;
  slice.slow_clients += times.slow_client ? 1 : 0;
  if (times.e2e_ms) {
    ++slice.timed;
    slice.timed_ms += *times.e2e_ms;
  }
  if (output_tokens > 1 && times.itl_ms) slice.itl_ms.add(*times.itl_ms);
  if (!times.ttft_ms && times.e2e_ms && output_tokens > 0) {
    slice.e2e_ms.add(*times.e2e_ms);
    slice.tpot_ms.add(*times.e2e_ms / output_tokens);
  }
  ++completed_;
  if (segments_) segments_->completed(at, request, output_tokens, times);
}

void RequestMeter::failed(core::Instant at) {
  ++slices_.at(at).failed;
  ++failed_;
}

TrafficWindow RequestMeter::window(core::Instant now) const {
  TrafficWindow window;
  core::QuantileSketch ttft, itl, e2e, tpot;
  window.length = slices_.each(now, [&](const Slice& slice) {
    window.arrivals += slice.arrivals;
    window.input_tokens += slice.input_tokens;
    window.completed += slice.completed;
    window.completed_output_tokens += slice.completed_output_tokens;
    window.failed += slice.failed;
    window.slow_clients += slice.slow_clients;
    window.timed += slice.timed;
    window.timed_ms += slice.timed_ms;
    ttft.merge(slice.ttft_ms);
    itl.merge(slice.itl_ms);
    e2e.merge(slice.e2e_ms);
    tpot.merge(slice.tpot_ms);
  });
  window.ttft = latency_window(ttft);
  window.itl = latency_window(itl);
  window.e2e = latency_window(e2e);
  window.tpot = latency_window(tpot);
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
