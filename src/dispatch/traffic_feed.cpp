#include "dispatch/traffic_feed.h"

#include <algorithm>
#include <utility>

namespace penstock::dispatch {

std::uint32_t TrafficFeed::meters_of(std::uint32_t model_number, std::string_view model) {
  if (model_number >= meter_numbers_.size()) meter_numbers_.resize(model_number + 1, UINT32_MAX);
  std::uint32_t& meters = meter_numbers_[model_number];
  if (meters != UINT32_MAX) return meters;
  if (meters_.size() == kMetersMax) return meters = kMetersMax - 1;
  meters = static_cast<std::uint32_t>(meters_.size());
  meters_.push_back(std::make_unique<ModelMeters>(
      ModelMeters{std::string{model}, signals::SegmentMeter{options_.slo.target.ttft}, {}, {}}));
  return meters;
}

void TrafficFeed::options_changed() {
  for (const auto& meters : meters_) meters->segments.set_ttft_limit(options_.slo.target.ttft);
}

void TrafficFeed::arrived(ActiveRequest& request, core::Instant at) {
  if (request.wanted_at) return;
  request.wanted_at = at;
  if (!options_.traffic_log) return;
  TrafficEvent event;
  event.kind = TrafficEvent::Kind::kArrival;
  event.request = request.ticket;
  event.at = at;
  event.model = request.entry.model;
  event.route = request.route;
  event.traffic_class = request.entry.traffic_class;
  event.tenant = request.entry.tenant;
  event.input_tokens = request.estimate.prompt_tokens;
  event.expected_output_tokens = request.estimate.output_tokens;
  event.keys = request.keys;
  event.streamed = request.stream;
  event.completion_window_s = core::to_seconds(request.completion_window);
  log_.add(std::move(event));
}

void TrafficFeed::first_token(const ActiveRequest& request, core::Instant now) {
  if (options_.latency_meters) {
    ModelMeters& meters = *meters_[request.meters];
    const core::Instant wanted_at = request.wanted_at.value_or(request.received_at);
    // A wait for spare capacity is no latency that a fleet could shorten.
    const core::Instant from = request.completion_window > core::Duration{} ? wanted_at : request.received_at;
    meters.ttft_ms.add(core::to_milliseconds(now - from));
    signals::FirstTokenTimes times;
    times.admission = std::max(core::Duration{}, wanted_at - from);
    times.replica_wait = std::max(core::Duration{}, request.granted_at - wanted_at);
    times.prefill = now - from - times.admission - times.replica_wait;
    meters.segments.first_token(now, request.traits(), times);
  }
  if (!options_.traffic_log) return;
  TrafficEvent event;
  event.kind = TrafficEvent::Kind::kFirstToken;
  event.request = request.ticket;
  event.at = now;
  const core::Instant wanted_at = request.wanted_at.value_or(request.received_at);
  event.admission_ms = core::to_milliseconds(std::max(core::Duration{}, request.granted_at - wanted_at));
  event.ttft_ms = core::to_milliseconds(now - wanted_at);
  if (request.prefilled_at) event.transfer_ms = core::to_milliseconds(now - *request.prefilled_at);
  event.own_limit_ms = core::to_milliseconds(std::max(core::Duration{}, wanted_at - request.received_at));
  event.cached_tokens = request.cached_tokens;
  log_.add(std::move(event));
}

void TrafficFeed::ended(const ActiveRequest& request, ledger::Outcome outcome, core::Instant now,
                        core::Duration client_wait) {
  const ledger::Entry& entry = request.entry;
  if (options_.latency_meters && request.granted) {
    ModelMeters& meters = *meters_[request.meters];
    if (entry.itl_ms >= 0.0) meters.itl_ms.add(entry.itl_ms);
    if (outcome == ledger::Outcome::kCompleted && request.answered) {
      signals::CompletionTimes times{.ttft_ms = entry.ttft_ms};
      if (request.completion_window > core::Duration{} && request.wanted_at)
        times.ttft_ms = core::to_milliseconds(request.answered_at - *request.wanted_at);
      if (entry.itl_ms >= 0.0) times.itl_ms = entry.itl_ms;
      meters.segments.completed(now, request.traits(), static_cast<std::uint32_t>(entry.output_tokens), times);
    }
  }
  if (!options_.traffic_log || !request.wanted_at) return;
  TrafficEvent event;
  event.kind = TrafficEvent::Kind::kEnd;
  event.request = request.ticket;
  event.at = now;
  event.outcome = outcome;
  event.replica = entry.replica;
  event.prompt_tokens = static_cast<std::uint32_t>(entry.prompt_tokens);
  event.output_tokens = static_cast<std::uint32_t>(entry.output_tokens);
  event.itl_ms = entry.itl_ms;
  event.client_ms = core::to_milliseconds(client_wait);
  log_.add(std::move(event));
}

}  // namespace penstock::dispatch
