#include "load/sources.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace penstock::load {

RequestSource mixed_source(RequestMix mix, Arrivals arrivals, std::uint64_t requests_max) {
  // Shared, because a std::function may be copied and its shapes refer to the mix.
  struct State {
    RequestMix mix;
    Arrivals arrivals;
    std::uint64_t made = 0;
  };
  auto state = std::make_shared<State>(State{std::move(mix), std::move(arrivals), 0});
  return [state, requests_max]() -> std::optional<PlannedRequest> {
    if (requests_max > 0 && state->made >= requests_max) return std::nullopt;
    const auto at = state->arrivals.next();
    if (!at) return std::nullopt;
    ++state->made;
    return PlannedRequest{*at, state->mix.next()};
  };
}

RequestSource timeless_source(RequestMix mix, std::uint64_t requests_max) {
  struct State {
    RequestMix mix;
    std::uint64_t made = 0;
  };
  auto state = std::make_shared<State>(State{std::move(mix), 0});
  return [state, requests_max]() -> std::optional<PlannedRequest> {
    if (requests_max > 0 && state->made >= requests_max) return std::nullopt;
    ++state->made;
    return PlannedRequest{core::Duration{}, state->mix.next()};
  };
}

RequestSource trace_source(const workload::Workload& workload, RequestMix mix, TraceOptions options) {
  struct State {
    RequestMix mix;
    std::uint64_t next = 0;
  };
  auto state = std::make_shared<State>(State{std::move(mix), 0});
  return [&workload, state, options = std::move(options)]() -> std::optional<PlannedRequest> {
    if (state->next >= workload.requests.size()) return std::nullopt;
    if (options.requests_max > 0 && state->next >= options.requests_max) return std::nullopt;
    const workload::Request& request = workload.requests[state->next++];
    PlannedRequest planned;
    planned.at = core::from_seconds(core::to_seconds(request.arrival) / options.speed);
    if (planned.at >= options.duration) return std::nullopt;
    planned.shape = state->mix.next();
    planned.shape.input_tokens = request.input_tokens;
    planned.shape.output_tokens = request.output_tokens;
    // A partial last block is never shared, and ids may continue over the output.
    const std::size_t full = request.input_tokens / workload.block_tokens;
    const auto blocks = workload.blocks_of(request);
    planned.shape.blocks = blocks.first(std::min(full, blocks.size()));
    planned.shape.block_tokens = workload.block_tokens;
    if (request.tenant < options.tenants.size()) planned.shape.tenant = options.tenants[request.tenant];
    if (options.own_classes) planned.shape.traffic_class = request.traffic_class;
    if (options.own_streaming) planned.shape.stream = request.streamed;
    return planned;
  };
}

}  // namespace penstock::load
