#include "simulation/traffic_view.h"

#include <algorithm>

namespace penstock::simulation {

TrafficView::TrafficView(const workload::Workload& workload, const RunOptions& options, const Timeline& timeline,
                         Fleet& fleet, const Recorder& recorder, core::Duration memory, bool segments)
    : workload_(workload),
      timeline_(timeline),
      fleet_(fleet),
      recorder_(recorder),
      memory_(memory),
      visible_(workload.requests.size()),
      may_defer_(workload.requests.size()) {
  for (std::uint32_t i = 0; i < options.pools.size(); ++i) {
    if (options.pools[i].role == signals::Role::kDecode) decode_pool_ = i;
    if (options.pools[i].role != signals::Role::kDecode) entry_pool_ = i;
  }
  if (fleet.has_pool_rules()) own_pools_.assign(workload.requests.size(), static_cast<std::uint8_t>(entry_pool_));
  if (memory > core::Duration{}) {
    recent_numbers_.resize(workload.requests.size());
    expected_.resize(workload.requests.size());
  }
  if (segments) {
    for (Pool& pool : fleet.pools()) pool.meter = signals::RequestMeter{options.slo.ttft};
    passages_.resize(workload.requests.size());
    ttft_limits_.push_back(options.slo.ttft);
    for (const signals::SegmentSlo& segment : options.slo_segments) ttft_limits_.push_back(segment.target.ttft);
  }
}

// ---- the life of a request ------------------------------------------------------------------------------------------

void TrafficView::received(std::uint32_t request, const dispatch::ArrivalResult& result) {
  if (!own_pools_.empty()) own_pools_[request] = static_cast<std::uint8_t>(std::min(result.pool, entry_pool_));
  if (!expected_.empty()) expected_[request] = result.expected_output_tokens;
  if (result.is_work) arrived(request, result.completion_window);
}

std::uint32_t TrafficView::count_at(std::uint32_t pool, std::span<const std::uint32_t> requests) const {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      requests, [&](std::uint32_t request) { return own_pools_.empty() || own_pools_[request] == pool; }));
}

void TrafficView::arrived(std::uint32_t request, core::Duration completion_window) {
  const workload::Request& shape = workload_.requests[request];
  ++arrivals_;
  visible_[request] = true;
  may_defer_[request] = completion_window > core::Duration{};
  if (timeline_.now != shape.arrival) later_[request] = timeline_.now;
  const std::uint32_t pool = entry_pool(request);
  fleet_.pools()[pool].meter.arrived(timeline_.now, shape.input_tokens);
  if (recent_numbers_.empty()) return;
  recent_.push_back({timeline_.now, shape.input_tokens, 0, -1.0F, -1.0F, workload_.blocks_of(shape),
                     recorder_.target(request), shape.streamed});
  recent_.back().pool = static_cast<std::uint8_t>(decode_pool_ ? 0 : pool);
  recent_.back().expected_output_tokens = expected_[request];
  recent_.back().completion_window = completion_window;
  recent_.back().tenant = shape.tenant;
  recent_numbers_[request] = static_cast<std::uint32_t>(recent_.size());
}

bool TrafficView::granted(std::uint32_t request, core::Instant from) {
  if (!may_defer_[request]) return true;
  later_[request] = from;
  signals::RecentRequest* recent = recent_of(request);
  if (recent != nullptr) recent->deferred_ms = static_cast<float>(core::to_milliseconds(from - recent->arrival));
  return false;
}

void TrafficView::submitted(std::uint32_t request) {
  if (!passages_.empty()) passages_[request].submitted = timeline_.now;
}

void TrafficView::prefilled(std::uint32_t request, const engine::EngineEvent& event) {
  if (passages_.empty()) return;
  passages_[request].admitted = event.admitted_at;
  passages_[request].prefilled = event.at;
}

void TrafficView::first_token(std::uint32_t request) {
  if (!workload_.requests[request].streamed) return;  // No client sees it.
  const double ttft = ttft_ms(request);
  if (signals::RecentRequest* recent = recent_of(request)) recent->ttft_ms = static_cast<float>(ttft);
  fleet_.pools()[entry_pool(request)].meter.first_token(timeline_.now, ttft, traits_of(request), times_of(request));
}

void TrafficView::transferred(std::uint32_t request) {
  fleet_.pools()[*decode_pool_].meter.arrived(timeline_.now, workload_.requests[request].input_tokens);
}

void TrafficView::completed(std::uint32_t request, std::uint32_t pool, std::uint32_t output_tokens) {
  const bool streamed = workload_.requests[request].streamed;
  const double e2e_ms = core::to_milliseconds(timeline_.now - arrival_of(request));
  if (signals::RecentRequest* recent = recent_of(request)) {
    recent->output_tokens = output_tokens;
    if (streamed) recent->itl_ms = static_cast<float>(recorder_.itl_ms(request));
    recent->e2e_ms = static_cast<float>(e2e_ms);
  }
  signals::CompletionTimes times;
  if (streamed)
    times = {.ttft_ms = ttft_ms(request), .itl_ms = recorder_.itl_ms(request)};
  else
    times = {.e2e_ms = e2e_ms};
  const std::uint32_t entry = entry_pool(request);
  fleet_.pools()[entry].meter.completed(timeline_.now, traits_of(request), output_tokens, times);
  if (decode_pool_ && pool != entry)
    fleet_.pools()[pool].meter.completed(timeline_.now, traits_of(request), output_tokens, times);
  later_.erase(request);
}

void TrafficView::failed(std::uint32_t request, std::uint32_t pool) {
  if (visible_[request]) fleet_.pools()[decode_pool_ ? pool : entry_pool(request)].meter.failed(timeline_.now);
  if (signals::RecentRequest* recent = recent_of(request)) recent->end = signals::RequestEnd::kFailed;
  later_.erase(request);
}

void TrafficView::forget(std::uint32_t request) {
  visible_[request] = false;
  if (signals::RecentRequest* recent = recent_of(request);
      recent != nullptr && recent->end == signals::RequestEnd::kNone)
    recent->end = signals::RequestEnd::kCancelled;
  later_.erase(request);
}

core::Instant TrafficView::arrival_of(std::uint32_t request) const {
  const auto later = later_.find(request);
  return later == later_.end() ? workload_.requests[request].arrival : later->second;
}

double TrafficView::ttft_ms(std::uint32_t request) const {
  return recorder_.ttft_ms(request) - core::to_milliseconds(arrival_of(request) - workload_.requests[request].arrival);
}

signals::RecentRequest* TrafficView::recent_of(std::uint32_t request) {
  if (recent_numbers_.empty() || recent_numbers_[request] == 0) return nullptr;
  return &recent_[recent_numbers_[request] - 1];
}

// ---- what the policy reads ------------------------------------------------------------------------------------------

std::span<const signals::RecentRequest> TrafficView::recent() {
  while (recent_from_ < recent_.size() && recent_[recent_from_].arrival <= timeline_.now - memory_) ++recent_from_;
  return std::span{recent_}.subspan(recent_from_);
}

signals::RequestTraits TrafficView::traits_of(std::uint32_t request) const {
  const workload::Request& shape = workload_.requests[request];
  return {shape.input_tokens, shape.tenant, shape.traffic_class == workload::TrafficClass::kBatch,
          recorder_.cache_hit(request)};
}

signals::FirstTokenTimes TrafficView::times_of(std::uint32_t request) const {
  if (passages_.empty()) return {};
  const Passage& passage = passages_[request];
  signals::FirstTokenTimes times;
  if (!may_defer_[request]) times.admission = arrival_of(request) - workload_.requests[request].arrival;
  times.replica_wait = passage.submitted - arrival_of(request);
  times.queue = passage.admitted - passage.submitted;
  times.prefill = passage.prefilled - passage.admitted;
  times.transfer = timeline_.now - passage.prefilled;
  times.limit = ttft_limits_.at(recorder_.target(request));
  return times;
}

}  // namespace penstock::simulation
