// One engine: an iteration, a run of merged iterations, and requests that are cancelled while they wait.
#include <benchmark/benchmark.h>

#include "core/random.h"
#include "engine/engine_testing.h"
#include "engine/step_time_models.h"

namespace {

using namespace penstock;

engine::EngineConfig config() {
  engine::EngineConfig made;
  made.block_tokens = 64;
  made.kv_blocks = 100'000'000;  // nothing has to give way
  return made;
}

// Decoding sequences that stay for ever: what one iteration costs when nothing is merged.
void decode_iteration(benchmark::State& state) {
  const auto model = *engine::make_step_time_model("polynomial");
  engine::Engine engine{config(), *model, false};
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(state.range(0)); ++i)
    engine.submit({i, 100, 2'000'000'000, 0, {}, true}, core::kStart);
  std::vector<engine::EngineEvent> events;
  for (auto _ : state) {
    engine.advance(engine.next_event(), events);
    events.clear();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(decode_iteration)->Arg(1)->Arg(16)->Arg(128)->ArgName("sequences");

// Requests from arrival to their last token on one busy engine, iterations merged.
void serve_request(benchmark::State& state) {
  const auto model = *engine::make_step_time_model("polynomial");
  for (auto _ : state) {
    engine::Engine engine{config(), *model};
    std::vector<engine::testing::TimedRequest> requests;
    core::RandomStream random{1};
    for (std::uint32_t i = 0; i < 1000; ++i)
      requests.push_back({core::kStart + core::from_seconds(i * 0.2),
                          {i,
                           static_cast<std::uint32_t>(200 + random.below(2000)),
                           static_cast<std::uint32_t>(50 + random.below(400)),
                           0,
                           {},
                           false}});
    benchmark::DoNotOptimize(engine::testing::drive(engine, requests));
  }
  state.SetItemsProcessed(state.iterations() * 1000);
}
BENCHMARK(serve_request)->Unit(benchmark::kMillisecond);

// The oldest of many waiting requests is cancelled: the time should not depend on their number.
void cancel_waiting(benchmark::State& state) {
  const auto model = *engine::make_step_time_model("polynomial");
  engine::EngineConfig one_at_once = config();
  one_at_once.max_sequences = 1;
  engine::Engine engine{one_at_once, *model};
  const auto queued = static_cast<std::uint32_t>(state.range(0));
  std::uint32_t next = 0;
  while (next < queued) engine.submit({next++, 100, 100, 0, {}, false}, core::kStart);
  for (auto _ : state) {
    engine.submit({next, 100, 100, 0, {}, false}, core::kStart);
    benchmark::DoNotOptimize(engine.cancel(next - queued, core::kStart));
    ++next;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(cancel_waiting)->Arg(100)->Arg(100'000)->ArgName("queued");

void step_time(benchmark::State& state, const char* spec) {
  const auto model = *engine::make_step_time_model(spec);
  engine::StepShape shape;
  shape.decode_sequences = 64;
  shape.decode_context_tokens = 64'000;
  shape.active_kv_tokens = 64'000;
  shape.total_kv_tokens = 1'000'000;
  for (auto _ : state) {
    benchmark::DoNotOptimize(model->decode_run(shape, 100, core::Duration::max()));
    ++shape.decode_context_tokens;
  }
}
BENCHMARK_CAPTURE(step_time, polynomial_100_steps, "polynomial");
BENCHMARK_CAPTURE(step_time, linear_100_steps, "linear:5,0.05,0.02,0.0001");
BENCHMARK_CAPTURE(step_time, roofline_100_steps, "roofline:llama-3.1-8b,h100");

}  // namespace
