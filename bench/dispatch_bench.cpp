// What a dispatcher costs a simulated world: a request arrives, gets its first token and ends; nothing is written down.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "dispatch/dispatcher.h"

namespace {

using namespace penstock;

struct NoListener final : dispatch::GrantListener {
  void deliver(dispatch::Ticket, const dispatch::Grant&) override {}
  void deliver(dispatch::Ticket, const dispatch::Refusal&) override {}
};

void request_dispatched(benchmark::State& state) {
  dispatch::DispatchOptions options = dispatch::unlimited_options();
  options.strategy = static_cast<routing::Strategy>(state.range(0));
  options.key_tokens = 512;
  options.picker.slow_start = core::Duration{};
  options.models = {{"m", {}, UINT32_MAX}};
  dispatch::Dispatcher dispatcher{options, nullptr, core::kStart, {}};
  std::vector<dispatch::ReplicaSpec> replicas;
  for (std::int64_t i = 0; i < state.range(1); ++i)
    replicas.push_back({"r" + std::to_string(i), static_cast<std::uint64_t>(i), "m", "default"});
  core::Instant now = core::kStart;
  dispatcher.set_replicas(replicas, now);
  NoListener listener;
  std::vector<std::uint64_t> keys(static_cast<std::size_t>(state.range(2)));
  const std::size_t shared = keys.size() / 2;
  for (std::size_t i = 0; i < shared; ++i) keys[i] = i + 1;
  std::uint64_t next = 0;
  for (auto _ : state) {
    for (std::size_t i = shared; i < keys.size(); ++i) keys[i] = (next % 4096) << 20 | i;
    ++next;
    dispatch::RequestInfo info;
    info.model = "m";
    info.model_number = 0;
    info.prompt_tokens_given = static_cast<std::uint32_t>(512 * keys.size() + 1);
    info.stream = true;
    info.keys = keys;
    info.received_at = now;
    const dispatch::ArrivalResult result = dispatcher.arrive(info, listener, now);
    now += std::chrono::microseconds{50};
    dispatcher.attempt_ended(result.ticket, dispatch::Attempt::kAnswered, now);
    dispatcher.answered(result.ticket, now);
    now += std::chrono::microseconds{50};
    dispatch::RequestOutcome outcome;
    outcome.usage = dispatch::TokenUsage{info.prompt_tokens_given, 200, 0};
    outcome.last_token_at = now;
    dispatcher.ended(result.ticket, outcome, now);
    benchmark::DoNotOptimize(dispatcher.next_wake(now));
  }
}
BENCHMARK(request_dispatched)
    ->ArgsProduct({{0, 1, 2}, {8, 64}, {0, 16}})
    ->ArgNames({"strategy", "replicas", "keys"})
    ->Unit(benchmark::kNanosecond);

}  // namespace
