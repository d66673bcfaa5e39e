// The cost of admission per request: budgets, a long queue, the whole admission controller, the token estimate.
#include <benchmark/benchmark.h>

#include "admission/admission_controller.h"
#include "core/random.h"

namespace {

using namespace penstock;

void reserve_and_settle(benchmark::State& state) {
  core::Instant now = core::kStart;
  admission::TokenBudget budget{{6e9, 0.0}, now};
  for (auto _ : state) {
    now += std::chrono::microseconds{10};
    benchmark::DoNotOptimize(budget.reserve(1000, now));
    budget.settle(1000, 700, now);
  }
}
BENCHMARK(reserve_and_settle);

void push_and_pop(benchmark::State& state) {
  const auto waiting = static_cast<std::uint64_t>(state.range(0)), tenants = static_cast<std::uint64_t>(state.range(1));
  core::RandomStream random{1};
  admission::FairQueue queue{{100'000, 1ULL << 50, 100'000}};
  std::uint64_t ticket = 0;
  const auto push = [&] {
    const core::Instant now = core::kStart + std::chrono::microseconds{ticket};
    benchmark::DoNotOptimize(
        queue.push({ticket++, static_cast<std::uint32_t>(random.below(tenants)),
                    random.below(4) == 0 ? admission::Class::kBatch : admission::Class::kInteractive,
                    100 + random.below(4000), 0, now, now + std::chrono::minutes{5}}));
  };
  while (queue.size() < waiting) push();
  for (auto _ : state) {
    push();
    benchmark::DoNotOptimize(queue.pop([](const admission::Waiting&) { return true; }));
  }
}
BENCHMARK(push_and_pop)->Args({10'000, 1'000})->Args({100, 10})->ArgNames({"waiting", "tenants"});

// A request that is let in at once, and one that waits behind others for a replica.
void gate(benchmark::State& state) {
  const auto waiting = static_cast<std::uint64_t>(state.range(0));
  constexpr std::uint32_t kTenants = 1000;
  admission::AdmissionLimits limits;
  limits.classes[0].queue_time = limits.classes[1].queue_time = std::chrono::hours{24};
  limits.queue.requests = 100'000;
  core::Instant now = core::kStart;
  admission::AdmissionController gate{limits, now};
  for (std::uint32_t i = 0; i < kTenants; ++i) gate.set_tenant(i, {"tenant", 1.0, 0, {1e12, 0.0}, true, 0}, now);
  std::uint64_t ticket = 0;
  const auto arrive = [&](admission::Verdict pressure) {
    now += std::chrono::microseconds{10};
    return gate
        .arrive({ticket,
                 static_cast<std::uint32_t>(core::mix64(ticket) % kTenants),
                 0,
                 admission::Class::kInteractive,
                 {1000, 200},
                 now},
                [&](std::uint64_t) { return pressure; })
        .decision;
  };
  for (; ticket < waiting; ++ticket) benchmark::DoNotOptimize(arrive(admission::Verdict::kWait));
  for (auto _ : state) {
    const bool admitted = arrive(admission::Verdict::kAdmit) == admission::Decision::kAdmit;
    std::uint64_t ended = ticket++;
    if (!admitted) {
      bool asked = false;
      const auto next = gate.next(now, [&](std::uint64_t) {
        return std::exchange(asked, true) ? admission::Verdict::kReject : admission::Verdict::kAdmit;
      });
      ended = next.admitted.front().ticket;
    }
    gate.ended(ended, 900, now);
  }
}
BENCHMARK(gate)->Arg(0)->Arg(10'000)->ArgName("waiting");

void estimate_and_learn(benchmark::State& state) {
  admission::TokenEstimator estimator;
  std::uint32_t bytes = 0;
  for (auto _ : state) {
    const admission::TokenEstimator::Request request{"llama-3-70b",         "acme", "interactive",
                                                     1000 + bytes++ % 4000, 0,      512};
    benchmark::DoNotOptimize(estimator.estimate(request));
    estimator.learn(request, 700, 128);
  }
}
BENCHMARK(estimate_and_learn);

}  // namespace
